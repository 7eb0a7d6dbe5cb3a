
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The events of one watch, from responses to pieces.
 *
 * etcd splits a large response into fragments, and a revision may have more
 * events than a worker should process at a time.  Events are handed on in
 * pieces of whole revisions.  A small response is handed on at once.  Events
 * are kept while fragments of their response are missing, while earlier events
 * are kept, or while the watch holds them back; kept events are handed on one
 * piece in a round of the event loop.  Kept events hold up proofs
 * (ngx_etcd_fresh.h).
 *
 * Kept events that cannot be read end the stream, and the prefix is listed
 * again.  An event of another watch makes all watches list again.
 */


#ifndef _NGX_ETCD_WATCH_EVENTS_H_INCLUDED_
#define _NGX_ETCD_WATCH_EVENTS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_watch_range.h>
#include <ngx_etcd_watch_stream.h>
#include <ngx_etcd_proto.pb-c.h>


/*
 * A piece has up to _PIECE events, and more of its last revision, up to
 * _TOGETHER, which is twice the number of operations that a Txn of etcd may
 * have by default (--max-txn-ops).
 */
#define NGX_ETCD_WATCH_PIECE     128
#define NGX_ETCD_WATCH_TOGETHER  256


typedef struct {
    /* set by the owner, the rest zeroed */

    ngx_etcd_watch_stream_t     *stream;
    ngx_etcd_watch_range_t      *range;
    int64_t                     *revision;     /* all events up to it were
                                                  handed on: older events are
                                                  dropped */

    /*
     * Events, without the namespace, and valid until this returns; none if a
     * progress notification alone has moved *revision.  The owner may drop the
     * rest.
     */
    void                       (*events)(void *data, Etcd__Event **events,
                                         size_t n);

    /* Too many bytes would be kept: the owner lists the prefix again. */
    void                       (*overflow)(void *data);

    void                        *data;

    /* to be read */

    unsigned                     split:1;      /* a part of a revision after
                                                  *revision was handed on */

    /* private */

    ngx_array_t                 *packed;       /* of ProtobufCBinaryData;
                                                  NULL: none is kept */
    ngx_pool_t                  *pool;
    size_t                       size;         /* bytes */
    ngx_uint_t                   whole;        /* events of complete
                                                  responses */
    ngx_uint_t                   handed;       /* events handed on */
    int64_t                      progress;
    ngx_event_t                  post;         /* the next piece */
    unsigned                     held:1;
} ngx_etcd_watch_events_t;


/*
 * A response with events or a fragment of one.  NGX_DONE: the response's pool
 * is kept.  NGX_ERROR: the events cannot be read or are of another watch.
 */
ngx_int_t ngx_etcd_watch_events_add(ngx_etcd_watch_events_t *events,
    Etcd__WatchResponse *response, ngx_pool_t *pool);

/* A progress notification: nothing else happened up to that revision. */
void ngx_etcd_watch_events_progress(ngx_etcd_watch_events_t *events,
    int64_t revision);

/* Events are kept from now on, until release() or drop(). */
void ngx_etcd_watch_events_hold(ngx_etcd_watch_events_t *events);
void ngx_etcd_watch_events_release(ngx_etcd_watch_events_t *events);

/* 1: events have arrived that can be handed on and were not */
ngx_uint_t ngx_etcd_watch_events_pending(ngx_etcd_watch_events_t *events);

/* Frees all kept events; no handler is called. */
void ngx_etcd_watch_events_drop(ngx_etcd_watch_events_t *events);


#endif /* _NGX_ETCD_WATCH_EVENTS_H_INCLUDED_ */
