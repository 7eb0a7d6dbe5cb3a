
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The events of one watch, from responses to pieces, and the revision from
 * which they go on.
 *
 * etcd splits a large response into fragments, and a revision may have more
 * events than a worker should process at a time.  Events are passed on in
 * pieces of whole revisions.  A small response is passed on at once.  Events
 * are buffered while fragments of their response are missing, while earlier
 * events are buffered, or while the watch holds them back; one piece of
 * buffered events is passed on per cycle of the event loop.  Buffered events
 * hold up proofs (ngx_etcd_proof.h).
 *
 * Buffered events that cannot be decoded end the stream, and the prefix is
 * listed again.  An event of another watch makes all watches list again.
 *
 * A created watch first catches up with the revision of the endpoint.  If a
 * watch starts at an older revision, a loop of etcd that runs every 100 ms
 * (syncWatchersLoop) synchronizes it, before it gets later events.  A watch
 * without a start revision is served immediately, from the revision that the
 * answer to its create names.  So a watch that must be fast, or that has missed
 * little, is created without a start revision, and the keys are read at the
 * revision of the answer.  Meanwhile events are buffered.  A watch that knows
 * most keys already reads them by one small Range on the connection of the
 * watch; an endpoint that has just accepted the watch can answer this Range
 * without other members.
 *
 * Any other watch continues at its revision.  It has caught up when it reaches
 * the revision of the answer.  etcd sends nothing if nothing happened to the
 * prefix: then the watch counts as caught up after NGX_ETCD_WATCH_RESUME_TURNS
 * of _TURN ms each (a machine that stands still uses up one turn, however long
 * it stands), unless the endpoint itself is behind the revision.  An endpoint
 * that stays behind is left.
 */


#ifndef _NGX_ETCD_WATCH_EVENTS_H_INCLUDED_
#define _NGX_ETCD_WATCH_EVENTS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_kv.h>
#include <ngx_etcd_proto.pb-c.h>
#include <ngx_etcd_watch_request.h>
#include <ngx_etcd_watch_stream.h>


/*
 * A piece has up to _PIECE events of up to _BYTES, and more of one revision, up
 * to _TOGETHER and _TOGETHER_BYTES.  The number of events is twice the maximum
 * number of operations of a Txn by etcd's default (--max-txn-ops).  An event is
 * never split.
 */
#define NGX_ETCD_WATCH_PIECE           128
#define NGX_ETCD_WATCH_BYTES           65536
#define NGX_ETCD_WATCH_TOGETHER        256
#define NGX_ETCD_WATCH_TOGETHER_BYTES  131072

#define NGX_ETCD_WATCH_RESUME_TURN    100      /* ms */
#define NGX_ETCD_WATCH_RESUME_TURNS   10

/* an endpoint is left when it was found behind a watch so many times */
#define NGX_ETCD_WATCH_RESUME_LAGS    3

/* limits of a Range on the connection of the watch */

#define NGX_ETCD_WATCH_RESUME_KEYS    1000
#define NGX_ETCD_WATCH_RESUME_VOLUME  65000    /* bytes of keys and values,
                                                  when last listed */
#define NGX_ETCD_WATCH_RESUME_BYTES   262144   /* of the answer */
#define NGX_ETCD_WATCH_RESUME_TIME    500      /* ms */


typedef struct {
    /* set by the owner, the rest zeroed */

    ngx_etcd_watch_stream_t     *stream;
    ngx_etcd_watch_range_t      *range;
    int64_t                     *revision;     /* all events up to it were
                                                  passed on: older events are
                                                  dropped */

    /*
     * Some events, without the namespace, valid until this returns.  None if
     * only a progress notification has moved *revision.  The owner may drop the
     * rest.
     */
    void                       (*events)(void *data, Etcd__Event **events,
                                         size_t n);

    /* too many bytes would be buffered: the owner lists the prefix again */
    void                       (*overflow)(void *data);

    /*
     * Called once after ngx_etcd_watch_events_read(), with all keys at that
     * revision, valid until this returns; NULL: the keys could not be read, or
     * are too many.
     */
    void                       (*read)(void *data,
                                       Etcd__RangeResponse *response,
                                       int64_t revision);

    void                        *data;

    /* read-only for the owner */

    unsigned                     split:1;      /* a part of a revision after
                                                  *revision was passed on */

    /* private */

    ngx_queue_t                  messages;     /* buffered */
    size_t                       taken;        /* events of the first message
                                                  that were passed on */
    size_t                       kept;         /* events to be passed on */
    size_t                       whole;        /* of these, events of complete
                                                  responses */
    int64_t                      progress;
    ngx_event_t                  post;         /* the next piece */

    ngx_etcd_stream_range_t      reader;
    int64_t                      at;           /* revision of the read */
    ngx_event_t                  timer;        /* catching up */
    int64_t                      target;       /* revision at which the watch
                                                  has caught up */
    ngx_uint_t                   turns;        /* turns left */
    ngx_uint_t                   lags;         /* times the endpoint was found
                                                  behind */

    unsigned                     buffering:1;
    unsigned                     held:1;
    unsigned                     behind:1;
} ngx_etcd_watch_events_t;


/*
 * A response with events, or a fragment of it.  NGX_DONE: takes over the pool
 * of the response.  NGX_ERROR: the events cannot be decoded, or belong to
 * another watch.
 */
ngx_int_t ngx_etcd_watch_events_add(ngx_etcd_watch_events_t *events,
    Etcd__WatchResponse *response, ngx_pool_t *pool);

/* a progress notification: no other events exist up to that revision */
void ngx_etcd_watch_events_progress(ngx_etcd_watch_events_t *events,
    int64_t revision);

/* a watch that is behind holds up proofs (ngx_etcd_proof.h) */
void ngx_etcd_watch_events_behind(ngx_etcd_watch_events_t *events,
    ngx_uint_t behind);

/* the watch continues at *revision; its create was answered with that header */
void ngx_etcd_watch_events_follow(ngx_etcd_watch_events_t *events,
    Etcd__ResponseHeader *header);

/*
 * Reads all keys at that revision from the endpoint of the watch; calls read()
 * later.  NGX_DECLINED: not possible now.
 */
ngx_int_t ngx_etcd_watch_events_read(ngx_etcd_watch_events_t *events,
    int64_t revision);

/*
 * 1: the watch is behind, and its events are buffered from now on, until a 0 or
 * drop().
 */
void ngx_etcd_watch_events_hold(ngx_etcd_watch_events_t *events,
    ngx_uint_t held);

/*
 * The watch has left the stream: frees all buffered events.  No handler is
 * called any more.
 */
void ngx_etcd_watch_events_drop(ngx_etcd_watch_events_t *events);


#endif /* _NGX_ETCD_WATCH_EVENTS_H_INCLUDED_ */
