
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Verification that a watch has reported everything that etcd has.
 *
 * An endpoint that cannot apply, because its disk stands still or it is
 * partitioned, keeps its connections, and answers PINGs, requests for progress
 * and renewals of leases for a long time.  It does not answer a linearizable
 * Range.  So a watch whose owner depends on it is verified by such a Range of
 * exactly the watched keys, over the connection of the watch.  The Range asks
 * for the newest key later than the watch's revision; etcd adds the number of
 * all keys in the range.  If there is no later key, and the number is that of
 * the keys that the watch knows, then the watch had reported everything that
 * etcd had when the Range was SENT.
 *
 * Otherwise the watch is behind, which is usual for a moment after a change:
 * the same is proved when the watch reaches the revision of the answer.
 * Meanwhile the Range is repeated, and the prefix is listed again if the watch
 * stays behind.  An endpoint that does not answer in time is left for another
 * one.
 *
 * Verification does not depend on progress notifications, finds events that
 * etcd has lost, and works through "etcd grpc-proxy", which asks etcd for each
 * linearizable Range.
 */


#ifndef _NGX_ETCD_VERIFY_H_INCLUDED_
#define _NGX_ETCD_VERIFY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_kv.h>
#include <ngx_etcd_watch_request.h>
#include <ngx_etcd_watch_stream.h>


/*
 * ms until the Range is repeated, after a failure or while the watch is behind
 */

#define NGX_ETCD_VERIFY_AGAIN   100

/*
 * the prefix is listed again after so many answers in a row that the watch is
 * behind
 */

#define NGX_ETCD_VERIFY_BEHIND  10

/*
 * ms; a shorter verify_interval does not make the client leave an endpoint
 * sooner
 */

#define NGX_ETCD_VERIFY_MIN     500


typedef struct {
    /* set by the owner, the rest zeroed; objects must stay */

    ngx_etcd_watch_stream_t     *stream;
    ngx_etcd_watch_range_t      *range;
    int64_t                     *revision;     /* all events up to it were
                                                  reported by the watch */
    ngx_msec_t                   interval;     /* ms; 0: no verification */

    /* returns 1 if events have arrived that the watch has not reported yet */
    ngx_uint_t                 (*pending)(void *data);

    /*
     * at that ngx_etcd_clock() the watch had reported everything that etcd had
     */
    void                       (*verified)(void *data, uint64_t time);

    /* the watch lacks events: its owner lists the prefix again */
    void                       (*differs)(void *data);

    /* the user may not read the range any more */
    void                       (*refused)(void *data,
                                          ngx_etcd_grpc_status_e status,
                                          ngx_str_t *text);

    void                        *data;

    int64_t                      nkeys;        /* in the range, at *revision:
                                                  the owner counts the keys of a
                                                  list */

    /* private */

    ngx_etcd_stream_range_t      read;
    ngx_event_t                  timer;        /* of the next Range */
    uint64_t                     sent;         /* ngx_etcd_clock(); 0: no Range
                                                  is running */
    uint64_t                     failing;      /* when the first Range that
                                                  failed since the last answer
                                                  was sent; 0: none */
    ngx_uint_t                   behind;       /* answers in a row that the
                                                  watch is behind */
    int64_t                      known;        /* *revision, at "sent" */
    int64_t                      awaited;      /* *revision at which the
                                                  watch will have caught up;
                                                  0: none */
    uint64_t                     asked;        /* when the Range for "awaited"
                                                  was sent */
} ngx_etcd_verify_t;


/* The watch is in force.  Does nothing if the interval is 0. */
void ngx_etcd_verify_start(ngx_etcd_verify_t *verify);

/* The watch is not in force any more: no handler is called. */
void ngx_etcd_verify_stop(ngx_etcd_verify_t *verify);

/* The watch has reported all events up to *revision. */
void ngx_etcd_verify_reached(ngx_etcd_verify_t *verify);

/* More events are about to be reported: the watch is not behind. */
void ngx_etcd_verify_arriving(ngx_etcd_verify_t *verify);

/* The event may change the number of keys. */
void ngx_etcd_verify_event(ngx_etcd_verify_t *verify, Etcd__Event *event);


#endif /* _NGX_ETCD_VERIFY_H_INCLUDED_ */
