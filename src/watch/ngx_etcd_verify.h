
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Verification of a watch: that the watch has reported all that etcd has.
 *
 * An endpoint that cannot apply, since its disk stands still or since it is
 * cut off, keeps its connections and answers PINGs, requests for progress and
 * renewals of leases for long.  It does not answer a linearizable Range.  So a
 * watch whose owner depends on it is verified by such a Range, over the
 * connection of the watch itself, of exactly the watched keys.  The Range asks
 * for the newest key later than the watch's revision; etcd adds the number of
 * all keys in the range.  If there is no later key, and the number is that of
 * the keys the watch knows, then what the watch has reported was all that etcd
 * had when the Range was SENT.
 *
 * Otherwise the watch is behind, which is usual for a moment after a change:
 * the same is proved when the watch comes to the revision of the answer.  Etcd
 * is asked again meanwhile, and the prefix is listed again when the watch stays
 * behind.  An endpoint that does not answer in time is left for another one.
 *
 * This relies on no progress notification, finds events that etcd has lost,
 * and holds through "etcd grpc-proxy", which asks etcd for each linearizable
 * Range.
 */


#ifndef _NGX_ETCD_VERIFY_H_INCLUDED_
#define _NGX_ETCD_VERIFY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_stream_range.h>


/* ms until etcd is asked again, after a failure or while the watch is behind */

#define NGX_ETCD_VERIFY_AGAIN   100

/* so many answers in a row that the watch is behind: it is listed again */

#define NGX_ETCD_VERIFY_BEHIND  10

/* ms that an endpoint has at least before it is left */

#define NGX_ETCD_VERIFY_MIN     500


typedef struct ngx_etcd_watch_s  ngx_etcd_watch_t;


/* a part of a watch, zeroed at first */

typedef struct {
    ngx_etcd_stream_range_t      range;
    ngx_event_t                  timer;        /* the next Range is due */
    uint64_t                     sent;         /* ngx_etcd_clock(); 0: no Range
                                                  is under way */
    uint64_t                     failing;      /* when the first Range was sent
                                                  of those that failed since the
                                                  last answer; 0: none */
    ngx_uint_t                   behind;       /* answers in a row that say
                                                  that the watch is behind */
    int64_t                      revision;     /* of the watch, at "sent" */
    int64_t                      awaited;      /* revision of an answer that the
                                                  watch is behind; 0: none */
    uint64_t                     asked;        /* when its Range was sent */
} ngx_etcd_verify_t;


/* the watch is in force; does nothing for a watch that wants no verification */
void ngx_etcd_verify_start(ngx_etcd_watch_t *watch);

/* the watch is in force no more */
void ngx_etcd_verify_stop(ngx_etcd_watch_t *watch);

/* the watch has reported all up to its revision */
void ngx_etcd_verify_reached(ngx_etcd_watch_t *watch);

/* the watch reports the event: keeps the number of its keys */
void ngx_etcd_verify_count(ngx_etcd_watch_t *watch, Etcd__Event *event);


#endif /* _NGX_ETCD_VERIFY_H_INCLUDED_ */
