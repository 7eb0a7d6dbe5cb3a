
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


/* how many times max_message_size the events may have that are kept */
#define NGX_ETCD_WATCH_KEPT  4

/* what a message takes beside its events */
#define NGX_ETCD_WATCH_MESSAGE  4096


static ngx_int_t ngx_etcd_watch_fragment(ngx_etcd_watch_t *watch,
    Etcd__WatchResponse *response, ngx_pool_t *pool);
static ngx_uint_t ngx_etcd_watch_kept(ngx_etcd_watch_t *watch,
    Etcd__WatchResponse *response);
static ngx_int_t ngx_etcd_watch_fragments(ngx_etcd_watch_t *watch);
static void ngx_etcd_watch_turn_handler(ngx_event_t *ev);
static size_t ngx_etcd_watch_piece(Etcd__Event **events, size_t n,
    int64_t *revision);
static int64_t ngx_etcd_watch_event_revision(Etcd__Event *event);
static int64_t ngx_etcd_watch_newest(Etcd__Event **events, size_t n);
static void ngx_etcd_watch_deliver(ngx_etcd_watch_t *watch,
    Etcd__Event **events, size_t n, int64_t revision);


ngx_int_t
ngx_etcd_watch_arrived(ngx_etcd_watch_t *watch, Etcd__WatchResponse *response,
    ngx_pool_t *pool)
{
    if (response->fragment
        || watch->fragments != NULL
        || watch->gap.revision != 0
        || response->n_events > NGX_ETCD_WATCH_PIECE)
    {
        return ngx_etcd_watch_fragment(watch, response, pool);
    }

    ngx_etcd_watch_deliver(watch, response->events, response->n_events,
                           ngx_etcd_watch_newest(response->events,
                                                 response->n_events));

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
    Etcd__Event         **event;
    ngx_array_t          *events;
    ngx_pool_cleanup_t   *cln;

    if (watch->fragments == NULL && ngx_etcd_watch_fragments(watch) != NGX_OK) {
        return NGX_ERROR;
    }

    if (!ngx_etcd_watch_kept(watch, response)) {
        return NGX_OK;
    }

    /* the rest may follow slowly, but must follow */

    watch->verify.behind = 0;

    events = watch->fragments;
    n = response->n_events;

    if (n > 0) {
        event = ngx_array_push_n(events, n);
        if (event == NULL) {
            return NGX_ERROR;
        }

        ngx_memcpy(event, response->events, n * sizeof(Etcd__Event *));
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
                                        sizeof(Etcd__Event *));
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
    Etcd__KeyValue      *kv;
    ngx_etcd_cluster_t  *cluster;

    for (i = 0; i < response->n_events; i++) {
        kv = response->events[i]->kv;

        watch->kept += sizeof(Etcd__Event);

        if (kv != NULL) {
            watch->kept += sizeof(Etcd__KeyValue) + kv->key.len
                           + kv->value.len;
        }
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


/* one piece at once, the others when all other events had their turn */

void
ngx_etcd_watch_assembled(ngx_etcd_watch_t *watch)
{
    size_t         n;
    int64_t        revision;
    Etcd__Event  **events;

    if (watch->gap.revision != 0 || watch->pieces.posted) {
        return;
    }

    events = (Etcd__Event **) watch->fragments->elts + watch->handed;

    n = ngx_etcd_watch_piece(events, watch->whole - watch->handed, &revision);
    watch->handed += n;
    watch->split = (revision < ngx_etcd_watch_newest(events, n));

    ngx_log_debug3(NGX_LOG_DEBUG_EVENT, watch->watcher->cluster->log, 0,
                   "etcd watch \"%V\": %uz events are handed on, %uz are left",
                   &watch->prefix, n, (size_t) (watch->whole - watch->handed));

    if (watch->handed < watch->whole) {
        ngx_post_event(&watch->pieces, &ngx_posted_next_events);
    }

    ngx_etcd_watch_deliver(watch, events, n, revision);

    /* whoever got them may have ended all this */

    if (watch->fragments == NULL || watch->handed < watch->fragments->nelts) {
        return;
    }

    revision = watch->progress;

    ngx_etcd_watch_drop_fragments(watch);
    ngx_etcd_watch_progress(watch, revision);
    ngx_etcd_fresh_ask(&watch->watcher->fresh);
}


static void
ngx_etcd_watch_turn_handler(ngx_event_t *ev)
{
    ngx_etcd_watch_assembled(ev->data);
}


/*
 * How many of the events are handed on together: whole revisions, unless one
 * has too many.  *revision: what is complete with them.
 */

static size_t
ngx_etcd_watch_piece(Etcd__Event **events, size_t n, int64_t *revision)
{
    size_t   i;
    int64_t  last;

    *revision = 0;

    for (i = 0; i < n; i++) {
        last = ngx_etcd_watch_event_revision(events[i]);

        if (i >= NGX_ETCD_WATCH_PIECE && last > *revision) {
            return i;
        }

        *revision = ngx_max(*revision, last);

        if (i == NGX_ETCD_WATCH_TOGETHER) {
            *revision -= 1;
            return i;
        }
    }

    return n;
}


static int64_t
ngx_etcd_watch_event_revision(Etcd__Event *event)
{
    return (event->kv != NULL) ? event->kv->mod_revision : 0;
}


static int64_t
ngx_etcd_watch_newest(Etcd__Event **events, size_t n)
{
    size_t   i;
    int64_t  revision;

    revision = 0;

    for (i = 0; i < n; i++) {
        revision = ngx_max(revision, ngx_etcd_watch_event_revision(events[i]));
    }

    return revision;
}


static void
ngx_etcd_watch_deliver(ngx_etcd_watch_t *watch, Etcd__Event **events, size_t n,
    int64_t revision)
{
    size_t  i, used;

    used = 0;

    for (i = 0; i < n; i++) {

        if (events[i]->kv == NULL
            || events[i]->kv->mod_revision <= watch->revision)
        {
            continue;
        }

        ngx_etcd_verify_count(watch, events[i]);
        ngx_etcd_watch_strip(watch, events[i]->kv);

        events[used++] = events[i];
    }

    if (used == 0) {
        return;
    }

    watch->revision = ngx_max(watch->revision, revision);
    ngx_etcd_watch_reached(watch);
    watch->events(watch, events, used, watch->revision);
    ngx_etcd_verify_reached(watch);
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
    ngx_etcd_verify_reached(watch);
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
