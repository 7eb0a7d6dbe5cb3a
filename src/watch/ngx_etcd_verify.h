
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
#include <ngx_etcd_watch_range.h>
#include <ngx_etcd_watch_stream.h>


/* ms until etcd is asked again, after a failure or while the watch is behind */

#define NGX_ETCD_VERIFY_AGAIN   100

/* so many answers in a row that the watch is behind: it is listed again */

#define NGX_ETCD_VERIFY_BEHIND  10

/* ms that an endpoint has at least before it is left */

#define NGX_ETCD_VERIFY_MIN     500


/* a part of a watch */

typedef struct {
    /* set by the owner, the rest zeroed; what is pointed to must stay */

    ngx_etcd_watch_stream_t     *stream;
    ngx_etcd_watch_range_t      *range;
    int64_t                     *revision;     /* the watch has reported all
                                                  events up to it */
    ngx_msec_t                   interval;     /* 0: the watch is not
                                                  verified */

    /* 1: events have arrived that the watch has not reported yet */
    ngx_uint_t                 (*pending)(void *data);

    /* at that ngx_etcd_clock() the watch had reported all that etcd had */
    void                       (*verified)(void *data, uint64_t time);

    /* the watch lacks events: its owner lists the prefix again */
    void                       (*differs)(void *data);

    /* the user may not read the range any more */
    void                       (*refused)(void *data,
                                          ngx_etcd_grpc_status_e status,
                                          ngx_str_t *text);

    void                        *data;

    /* private */

    int64_t                      nkeys;        /* in the range, at *revision */
    ngx_etcd_stream_range_t      read;
    ngx_event_t                  timer;        /* the next Range is due */
    uint64_t                     sent;         /* ngx_etcd_clock(); 0: no Range
                                                  is under way */
    uint64_t                     failing;      /* when the first Range was sent
                                                  of those that failed since the
                                                  last answer; 0: none */
    ngx_uint_t                   behind;       /* answers in a row that say
                                                  that the watch is behind */
    int64_t                      known;        /* *revision, at "sent" */
    int64_t                      awaited;      /* revision of an answer that the
                                                  watch is behind; 0: none */
    uint64_t                     asked;        /* when its Range was sent */
} ngx_etcd_verify_t;


/* The watch is in force.  Does nothing if the interval is 0. */
void ngx_etcd_verify_start(ngx_etcd_verify_t *verify);

/* The watch is not in force any more: no handler is called. */
void ngx_etcd_verify_stop(ngx_etcd_verify_t *verify);

/* The watch has reported all events up to *revision. */
void ngx_etcd_verify_reached(ngx_etcd_verify_t *verify);

/* More events are about to be reported: the watch is not behind. */
void ngx_etcd_verify_arriving(ngx_etcd_verify_t *verify);

/* Keep the number of keys: a list begins, has n more keys; an event. */
void ngx_etcd_verify_list(ngx_etcd_verify_t *verify);
void ngx_etcd_verify_keys(ngx_etcd_verify_t *verify, size_t n);
void ngx_etcd_verify_event(ngx_etcd_verify_t *verify, Etcd__Event *event);


#endif /* _NGX_ETCD_VERIFY_H_INCLUDED_ */
