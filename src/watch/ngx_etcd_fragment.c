
/*
 * Copyright (C) nginx-etcd contributors
 *
 * How a watch's events are handed on: at once, or kept until all that belongs
 * before or to them is there (fragments of one response, and what was missed,
 * ngx_etcd_gap.h), and in pieces where they are many.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_watcher.h>
#include <ngx_etcd_message.h>


/* how many times max_message_size the events may have that are kept */
#define NGX_ETCD_WATCH_KEPT  4

/* what a message takes beside its events */
#define NGX_ETCD_WATCH_MESSAGE  4096


/* events that are handed on together */

typedef struct {
    Etcd__Event  *events[NGX_ETCD_WATCH_TOGETHER];
    size_t        n;
    int64_t       revision;          /* complete with them */
    int64_t       newest;            /* of any of them */
} ngx_etcd_watch_piece_t;


static ngx_int_t ngx_etcd_watch_fragment(ngx_etcd_watch_t *watch,
    Etcd__WatchResponse *response, ngx_pool_t *pool);
static ngx_uint_t ngx_etcd_watch_kept(ngx_etcd_watch_t *watch,
    Etcd__WatchResponse *response);
static ngx_int_t ngx_etcd_watch_fragments(ngx_etcd_watch_t *watch);
static void ngx_etcd_watch_turn_handler(ngx_event_t *ev);
static ngx_int_t ngx_etcd_watch_hand_on(ngx_etcd_watch_t *watch,
    ngx_pool_t *pool);
static ngx_int_t ngx_etcd_watch_piece(ngx_etcd_watch_t *watch,
    ProtobufCBinaryData *packed, size_t n, ngx_pool_t *pool,
    ngx_etcd_watch_piece_t *piece);
static ngx_int_t ngx_etcd_watch_event(ngx_etcd_watch_t *watch,
    ProtobufCBinaryData *packed, ngx_pool_t *pool, Etcd__Event **event);
static ngx_uint_t ngx_etcd_watch_owns(ngx_etcd_watch_t *watch,
    Etcd__Event *event);
static void ngx_etcd_watch_deliver(ngx_etcd_watch_t *watch,
    ngx_etcd_watch_piece_t *piece);


/* what cannot be read, or is of other keys, is listed instead */

ngx_int_t
ngx_etcd_watch_arrived(ngx_etcd_watch_t *watch, Etcd__WatchResponse *response,
    ngx_pool_t *pool)
{
    ngx_etcd_watch_piece_t  piece;

    if (response->fragment
        || watch->fragments != NULL
        || watch->gap.revision != 0
        || response->n_events > NGX_ETCD_WATCH_PIECE)
    {
        return ngx_etcd_watch_fragment(watch, response, pool);
    }

    if (ngx_etcd_watch_piece(watch, response->events, response->n_events, pool,
                             &piece)
        != NGX_OK)
    {
        watch->revision = 0;
        return NGX_ERROR;
    }

    ngx_etcd_watch_deliver(watch, &piece);

    return NGX_OK;
}


/*
 * The messages are kept by making their pools part of one that is destroyed
 * with the last.
 */

static ngx_int_t
ngx_etcd_watch_fragment(ngx_etcd_watch_t *watch, Etcd__WatchResponse *response,
    ngx_pool_t *pool)
{
    size_t                n;
    ngx_array_t          *events;
    ngx_pool_cleanup_t   *cln;
    ProtobufCBinaryData  *packed;

    if (watch->fragments == NULL && ngx_etcd_watch_fragments(watch) != NGX_OK) {
        return NGX_ERROR;
    }

    if (!ngx_etcd_watch_kept(watch, response)) {
        return NGX_OK;
    }

    /* the rest may follow slowly, but must follow */

    ngx_etcd_verify_arriving(&watch->verify);

    events = watch->fragments;
    n = response->n_events;

    if (n > 0) {
        packed = ngx_array_push_n(events, n);
        if (packed == NULL) {
            return NGX_ERROR;
        }

        ngx_memcpy(packed, response->events, n * sizeof(ProtobufCBinaryData));
    }

    cln = ngx_pool_cleanup_add(watch->fragment_pool, 0);
    if (cln == NULL) {
        return NGX_ERROR;
    }

    cln->handler = (ngx_pool_cleanup_pt) ngx_destroy_pool;
    cln->data = pool;

    if (!response->fragment) {
        watch->whole = events->nelts;
        ngx_etcd_watch_assembled(watch);
    }

    return NGX_DONE;
}


static ngx_int_t
ngx_etcd_watch_fragments(ngx_etcd_watch_t *watch)
{
    ngx_log_t  *log;

    log = watch->watcher->cluster->log;

    watch->fragment_pool = ngx_create_pool(4096, log);
    if (watch->fragment_pool == NULL) {
        return NGX_ERROR;
    }

    ngx_etcd_fresh_count(&watch->watcher->fresh, 0, 1);

    watch->kept = 0;
    watch->whole = 0;
    watch->handed = 0;
    watch->progress = 0;

    watch->pieces.handler = ngx_etcd_watch_turn_handler;
    watch->pieces.data = watch;
    watch->pieces.log = log;

    watch->fragments = ngx_array_create(watch->fragment_pool, 64,
                                        sizeof(ProtobufCBinaryData));
    if (watch->fragments == NULL) {
        ngx_etcd_watch_drop_fragments(watch);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* 0: there are too many, and the prefix is to be listed anew */

static ngx_uint_t
ngx_etcd_watch_kept(ngx_etcd_watch_t *watch, Etcd__WatchResponse *response)
{
    size_t               i;
    ngx_etcd_cluster_t  *cluster;

    for (i = 0; i < response->n_events; i++) {
        watch->kept += sizeof(ProtobufCBinaryData) + response->events[i].len;
    }

    watch->kept += NGX_ETCD_WATCH_MESSAGE;

    cluster = watch->watcher->cluster;

    if (watch->kept
        <= cluster->conf->max_message_size * NGX_ETCD_WATCH_KEPT)
    {
        return 1;
    }

    cluster->resyncs++;

    ngx_log_error(NGX_LOG_NOTICE, cluster->log, 0,
                  "etcd cluster \"%V\": prefix \"%V\": changes that belong "
                  "together take %uz bytes, which is more than %d times "
                  "\"max_message_size\", listing again",
                  &cluster->conf->name, &watch->prefix, watch->kept,
                  NGX_ETCD_WATCH_KEPT);

    ngx_etcd_watch_detach(watch);
    watch->revision = 0;
    watch->state = NGX_ETCD_WATCH_NEW;

    return 0;
}


void
ngx_etcd_watch_assembled(ngx_etcd_watch_t *watch)
{
    if (watch->gap.revision == 0 && !watch->pieces.posted) {
        ngx_post_event(&watch->pieces, &ngx_posted_next_events);
    }
}


static void
ngx_etcd_watch_turn_handler(ngx_event_t *ev)
{
    ngx_str_t          reason;
    ngx_pool_t        *pool;
    ngx_etcd_watch_t  *watch;

    watch = ev->data;

    pool = ngx_create_pool(4096, watch->watcher->cluster->log);

    if (pool == NULL || ngx_etcd_watch_hand_on(watch, pool) != NGX_OK) {
        watch->revision = 0;

        ngx_str_set(&reason, "events could not be read");
        ngx_etcd_watcher_leave(watch->watcher, &reason);
    }

    if (pool != NULL) {
        ngx_destroy_pool(pool);
    }
}


static ngx_int_t
ngx_etcd_watch_hand_on(ngx_etcd_watch_t *watch, ngx_pool_t *pool)
{
    int64_t                  revision;
    ProtobufCBinaryData     *packed;
    ngx_etcd_watch_piece_t   piece;

    packed = (ProtobufCBinaryData *) watch->fragments->elts + watch->handed;

    if (ngx_etcd_watch_piece(watch, packed, watch->whole - watch->handed, pool,
                             &piece)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    watch->handed += piece.n;
    watch->split = (piece.revision < piece.newest);

    ngx_log_debug3(NGX_LOG_DEBUG_EVENT, watch->watcher->cluster->log, 0,
                   "etcd watch \"%V\": %uz events are handed on, %uz are left",
                   &watch->prefix, piece.n,
                   (size_t) (watch->whole - watch->handed));

    if (watch->handed < watch->whole) {
        ngx_etcd_watch_assembled(watch);
    }

    ngx_etcd_watch_deliver(watch, &piece);

    /* whoever got them may have ended all this */

    if (watch->fragments == NULL || watch->handed < watch->fragments->nelts) {
        return NGX_OK;
    }

    revision = watch->progress;

    ngx_etcd_watch_drop_fragments(watch);
    ngx_etcd_watch_progress(watch, revision);
    ngx_etcd_fresh_ask(&watch->watcher->fresh);

    return NGX_OK;
}


/* whole revisions, unless one has too many */

static ngx_int_t
ngx_etcd_watch_piece(ngx_etcd_watch_t *watch, ProtobufCBinaryData *packed,
    size_t n, ngx_pool_t *pool, ngx_etcd_watch_piece_t *piece)
{
    int64_t       revision;
    Etcd__Event  *event;

    piece->revision = 0;

    for (piece->n = 0; piece->n < n; piece->n++) {

        if (ngx_etcd_watch_event(watch, &packed[piece->n], pool, &event)
            != NGX_OK)
        {
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


static ngx_int_t
ngx_etcd_watch_event(ngx_etcd_watch_t *watch, ProtobufCBinaryData *packed,
    ngx_pool_t *pool, Etcd__Event **event)
{
    ngx_uint_t  exceeded;

    *event = (Etcd__Event *) ngx_etcd_message_unpack(&etcd__event__descriptor,
                                                     pool, packed->data,
                                                     packed->len, &exceeded);
    if (*event == NULL) {
        return NGX_ERROR;
    }

    if (!ngx_etcd_watch_owns(watch, *event)) {
        ngx_etcd_watcher_mixed(watch->watcher);
        return NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_uint_t
ngx_etcd_watch_owns(ngx_etcd_watch_t *watch, Etcd__Event *event)
{
    ProtobufCBinaryData  *key;

    if (event->kv == NULL) {
        return 1;
    }

    key = &event->kv->key;

    return key->len >= watch->key.len
           && (!watch->exact || key->len == watch->key.len)
           && ngx_memcmp(key->data, watch->key.data, watch->key.len) == 0;
}


static void
ngx_etcd_watch_deliver(ngx_etcd_watch_t *watch, ngx_etcd_watch_piece_t *piece)
{
    size_t         i, used;
    Etcd__Event  **events;

    used = 0;
    events = piece->events;

    for (i = 0; i < piece->n; i++) {

        if (events[i]->kv == NULL
            || events[i]->kv->mod_revision <= watch->revision)
        {
            continue;
        }

        ngx_etcd_verify_event(&watch->verify, events[i]);
        ngx_etcd_watch_strip(watch, events[i]->kv);

        events[used++] = events[i];
    }

    if (used == 0) {
        return;
    }

    watch->revision = ngx_max(watch->revision, piece->revision);
    ngx_etcd_watch_reached(watch);
    watch->events(watch, events, used, watch->revision);
    ngx_etcd_verify_reached(&watch->verify);
}


void
ngx_etcd_watch_progress(ngx_etcd_watch_t *watch, int64_t revision)
{
    if (revision <= watch->revision) {
        return;
    }

    watch->revision = revision;
    ngx_etcd_watch_reached(watch);
    watch->events(watch, NULL, 0, revision);
    ngx_etcd_verify_reached(&watch->verify);
}


void
ngx_etcd_watch_drop_fragments(ngx_etcd_watch_t *watch)
{
    if (watch->fragment_pool != NULL) {
        ngx_etcd_fresh_count(&watch->watcher->fresh, 0, -1);

        if (watch->pieces.posted) {
            ngx_delete_posted_event(&watch->pieces);
        }

        ngx_destroy_pool(watch->fragment_pool);
        watch->fragment_pool = NULL;
        watch->fragments = NULL;
    }
}
