
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_watch_events.h>
#include <ngx_etcd_message.h>


/* buffered events take up to so many times max_message_size */
#define NGX_ETCD_WATCH_EVENTS_MAX  4

/* bytes of a message beside its events, roughly */
#define NGX_ETCD_WATCH_EVENTS_MESSAGE  4096


typedef struct {
    Etcd__Event  *events[NGX_ETCD_WATCH_TOGETHER];
    size_t        n;
    int64_t       revision;          /* all its events are in the piece, or
                                        before */
    int64_t       newest;            /* highest mod_revision of an event */
} ngx_etcd_watch_piece_t;


static ngx_int_t ngx_etcd_watch_events_keep(ngx_etcd_watch_events_t *events,
    Etcd__WatchResponse *response, ngx_pool_t *pool);
static ngx_int_t ngx_etcd_watch_events_begin(ngx_etcd_watch_events_t *events);
static ngx_uint_t ngx_etcd_watch_events_fit(ngx_etcd_watch_events_t *events,
    Etcd__WatchResponse *response);
static void ngx_etcd_watch_events_post(ngx_etcd_watch_events_t *events);
static void ngx_etcd_watch_events_handler(ngx_event_t *ev);
static ngx_int_t ngx_etcd_watch_events_next(ngx_etcd_watch_events_t *events,
    ngx_pool_t *pool);
static ngx_int_t ngx_etcd_watch_events_piece(ngx_etcd_watch_events_t *events,
    ProtobufCBinaryData *packed, size_t n, ngx_pool_t *pool,
    ngx_etcd_watch_piece_t *piece);
static Etcd__Event *ngx_etcd_watch_events_unpack(
    ngx_etcd_watch_events_t *events, ProtobufCBinaryData *packed,
    ngx_pool_t *pool);
static void ngx_etcd_watch_events_deliver(ngx_etcd_watch_events_t *events,
    ngx_etcd_watch_piece_t *piece);


ngx_int_t
ngx_etcd_watch_events_add(ngx_etcd_watch_events_t *events,
    Etcd__WatchResponse *response, ngx_pool_t *pool)
{
    ngx_etcd_watch_piece_t  piece;

    if (response->fragment
        || events->packed != NULL
        || events->held
        || response->n_events > NGX_ETCD_WATCH_PIECE)
    {
        return ngx_etcd_watch_events_keep(events, response, pool);
    }

    if (ngx_etcd_watch_events_piece(events, response->events,
                                    response->n_events, pool, &piece)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_etcd_watch_events_deliver(events, &piece);

    return NGX_OK;
}


/*
 * A cleanup of events->pool destroys the pools of the messages, together with
 * the last event.
 */

static ngx_int_t
ngx_etcd_watch_events_keep(ngx_etcd_watch_events_t *events,
    Etcd__WatchResponse *response, ngx_pool_t *pool)
{
    size_t                n;
    ngx_pool_cleanup_t   *cln;
    ProtobufCBinaryData  *packed;

    if (events->packed == NULL
        && ngx_etcd_watch_events_begin(events) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (!ngx_etcd_watch_events_fit(events, response)) {
        events->overflow(events->data);
        return NGX_OK;
    }

    n = response->n_events;

    if (n > 0) {
        packed = ngx_array_push_n(events->packed, n);
        if (packed == NULL) {
            return NGX_ERROR;
        }

        ngx_memcpy(packed, response->events, n * sizeof(ProtobufCBinaryData));
    }

    cln = ngx_pool_cleanup_add(events->pool, 0);
    if (cln == NULL) {
        return NGX_ERROR;
    }

    cln->handler = (ngx_pool_cleanup_pt) ngx_destroy_pool;
    cln->data = pool;

    if (!response->fragment) {
        events->whole = events->packed->nelts;
        ngx_etcd_watch_events_post(events);
    }

    return NGX_DONE;
}


static ngx_int_t
ngx_etcd_watch_events_begin(ngx_etcd_watch_events_t *events)
{
    ngx_log_t  *log;

    log = events->stream->cluster->log;

    events->pool = ngx_create_pool(4096, log);
    if (events->pool == NULL) {
        return NGX_ERROR;
    }

    ngx_etcd_fresh_count(&events->stream->fresh, 0, 1);

    events->size = 0;
    events->whole = 0;
    events->handed = 0;
    events->progress = 0;

    events->post.handler = ngx_etcd_watch_events_handler;
    events->post.data = events;
    events->post.log = log;

    events->packed = ngx_array_create(events->pool, 64,
                                      sizeof(ProtobufCBinaryData));
    if (events->packed == NULL) {
        ngx_etcd_watch_events_drop(events);
        return NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_uint_t
ngx_etcd_watch_events_fit(ngx_etcd_watch_events_t *events,
    Etcd__WatchResponse *response)
{
    size_t               i;
    ngx_etcd_cluster_t  *cluster;

    for (i = 0; i < response->n_events; i++) {
        events->size += sizeof(ProtobufCBinaryData) + response->events[i].len;
    }

    events->size += NGX_ETCD_WATCH_EVENTS_MESSAGE;

    cluster = events->stream->cluster;

    if (events->size
        <= cluster->conf->max_message_size * NGX_ETCD_WATCH_EVENTS_MAX)
    {
        return 1;
    }

    cluster->resyncs++;

    ngx_log_error(NGX_LOG_NOTICE, cluster->log, 0,
                  "etcd cluster \"%V\": prefix \"%V\": buffered events take "
                  "%uz bytes, more than %d times \"max_message_size\", "
                  "listing again",
                  &cluster->conf->name, &events->range->prefix, events->size,
                  NGX_ETCD_WATCH_EVENTS_MAX);

    return 0;
}


void
ngx_etcd_watch_events_progress(ngx_etcd_watch_events_t *events,
    int64_t revision)
{
    if (events->packed != NULL) {
        events->progress = revision;
        return;
    }

    if (!events->held && revision > *events->revision) {
        *events->revision = revision;
        events->events(events->data, NULL, 0);
    }
}


void
ngx_etcd_watch_events_hold(ngx_etcd_watch_events_t *events)
{
    events->held = 1;
}


void
ngx_etcd_watch_events_release(ngx_etcd_watch_events_t *events)
{
    events->held = 0;

    if (events->packed != NULL) {
        ngx_etcd_watch_events_post(events);
    }
}


ngx_uint_t
ngx_etcd_watch_events_pending(ngx_etcd_watch_events_t *events)
{
    return events->packed != NULL && events->handed < events->whole;
}


static void
ngx_etcd_watch_events_post(ngx_etcd_watch_events_t *events)
{
    if (!events->held && !events->post.posted) {
        ngx_post_event(&events->post, &ngx_posted_next_events);
    }
}


static void
ngx_etcd_watch_events_handler(ngx_event_t *ev)
{
    ngx_etcd_watch_events_t  *events = ev->data;

    ngx_str_t    reason;
    ngx_pool_t  *pool;

    pool = ngx_create_pool(4096, events->stream->cluster->log);

    if (pool == NULL || ngx_etcd_watch_events_next(events, pool) != NGX_OK) {
        *events->revision = 0;

        ngx_str_set(&reason, "events could not be read");
        ngx_etcd_watch_stream_leave(events->stream, &reason);
    }

    if (pool != NULL) {
        ngx_destroy_pool(pool);
    }
}


static ngx_int_t
ngx_etcd_watch_events_next(ngx_etcd_watch_events_t *events, ngx_pool_t *pool)
{
    int64_t                  revision;
    ProtobufCBinaryData     *packed;
    ngx_etcd_watch_piece_t   piece;

    packed = (ProtobufCBinaryData *) events->packed->elts + events->handed;

    if (ngx_etcd_watch_events_piece(events, packed,
                                    events->whole - events->handed, pool,
                                    &piece)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    events->handed += piece.n;

    ngx_log_debug3(NGX_LOG_DEBUG_EVENT, events->stream->cluster->log, 0,
                   "etcd watch \"%V\": %uz events are handed on, %uz are left",
                   &events->range->prefix, piece.n,
                   (size_t) (events->whole - events->handed));

    if (events->handed < events->whole) {
        ngx_etcd_watch_events_post(events);
    }

    ngx_etcd_watch_events_deliver(events, &piece);

    /* the handler may have dropped all events */

    if (events->packed == NULL || events->handed < events->packed->nelts) {
        return NGX_OK;
    }

    revision = events->progress;

    ngx_etcd_watch_events_drop(events);
    ngx_etcd_watch_events_progress(events, revision);
    ngx_etcd_fresh_ask(&events->stream->fresh);

    return NGX_OK;
}


/*
 * fills the piece with whole revisions, unless one revision has too many events
 */

static ngx_int_t
ngx_etcd_watch_events_piece(ngx_etcd_watch_events_t *events,
    ProtobufCBinaryData *packed, size_t n, ngx_pool_t *pool,
    ngx_etcd_watch_piece_t *piece)
{
    int64_t       revision;
    Etcd__Event  *event;

    piece->revision = 0;

    for (piece->n = 0; piece->n < n; piece->n++) {

        event = ngx_etcd_watch_events_unpack(events, &packed[piece->n], pool);
        if (event == NULL) {
            return NGX_ERROR;
        }

        revision = (event->kv != NULL) ? event->kv->mod_revision : 0;

        if (piece->n >= NGX_ETCD_WATCH_PIECE && revision > piece->revision) {
            break;
        }

        piece->revision = ngx_max(piece->revision, revision);

        if (piece->n == NGX_ETCD_WATCH_TOGETHER) {
            piece->newest = piece->revision--;
            return NGX_OK;
        }

        piece->events[piece->n] = event;
    }

    piece->newest = piece->revision;

    return NGX_OK;
}


static Etcd__Event *
ngx_etcd_watch_events_unpack(ngx_etcd_watch_events_t *events,
    ProtobufCBinaryData *packed, ngx_pool_t *pool)
{
    ngx_uint_t    exceeded;
    Etcd__Event  *event;

    event = (Etcd__Event *) ngx_etcd_message_unpack(&etcd__event__descriptor,
                                                    pool, packed->data,
                                                    packed->len, &exceeded);

    if (event != NULL
        && event->kv != NULL
        && !ngx_etcd_watch_range_contains(events->range, &event->kv->key))
    {
        ngx_etcd_watch_stream_mixed(events->stream);
        return NULL;
    }

    return event;
}


static void
ngx_etcd_watch_events_deliver(ngx_etcd_watch_events_t *events,
    ngx_etcd_watch_piece_t *piece)
{
    size_t        i, n;
    Etcd__Event  *event;

    events->split = (piece->revision < piece->newest);

    n = 0;

    for (i = 0; i < piece->n; i++) {
        event = piece->events[i];

        if (event->kv == NULL || event->kv->mod_revision <= *events->revision)
        {
            continue;
        }

        ngx_etcd_watch_range_strip(events->range, &event->kv->key);

        piece->events[n++] = event;
    }

    if (n != 0) {
        *events->revision = ngx_max(*events->revision, piece->revision);
        events->events(events->data, piece->events, n);
    }
}


void
ngx_etcd_watch_events_drop(ngx_etcd_watch_events_t *events)
{
    events->held = 0;

    if (events->pool == NULL) {
        return;
    }

    ngx_etcd_fresh_count(&events->stream->fresh, 0, -1);

    if (events->post.posted) {
        ngx_delete_posted_event(&events->post);
    }

    ngx_destroy_pool(events->pool);
    events->pool = NULL;
    events->packed = NULL;
}
