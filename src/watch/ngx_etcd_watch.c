
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_escape.h>
#include <ngx_etcd_watcher.h>
#include <ngx_etcd_auth.h>


#define NGX_ETCD_WATCH_REASON  512     /* bytes of etcd's text in the log */


static ngx_int_t ngx_etcd_watch_range(ngx_etcd_watch_t *watch,
    ngx_etcd_cluster_t *cluster);
static ngx_etcd_watch_t *ngx_etcd_watch_answered(ngx_etcd_watcher_t *watcher,
    int64_t id);
static void ngx_etcd_watch_canceled(ngx_etcd_watch_t *watch,
    Etcd__WatchResponse *response);
static void ngx_etcd_watch_established(ngx_etcd_watch_t *watch,
    Etcd__WatchResponse *response);
static void ngx_etcd_watch_declined(ngx_etcd_watch_t *watch,
    Etcd__WatchResponse *response);
static void ngx_etcd_watch_timer(ngx_event_t *ev);
static void ngx_etcd_watch_init_verify(ngx_etcd_watch_t *watch);
static ngx_uint_t ngx_etcd_watch_pending(void *data);
static void ngx_etcd_watch_verified(void *data, uint64_t time);
static void ngx_etcd_watch_differs(void *data);
static void ngx_etcd_watch_denied(void *data, ngx_etcd_grpc_status_e status,
    ngx_str_t *text);
static void ngx_etcd_watch_silent(void *data, ngx_str_t *reason);

static void ngx_etcd_watch_list_beside(ngx_etcd_watch_t *watch);
static void ngx_etcd_watch_list_begin(ngx_etcd_list_t *list);
static ngx_int_t ngx_etcd_watch_list_keys(ngx_etcd_list_t *list,
    Etcd__KeyValue **kvs, size_t n);
static void ngx_etcd_watch_list_done(ngx_etcd_list_t *list,
    ngx_etcd_grpc_status_e status, ngx_str_t *text, int64_t revision);
static void ngx_etcd_watch_list_prompt(ngx_etcd_watch_t *watch,
    ngx_etcd_grpc_status_e status, ngx_str_t *text, int64_t revision);


ngx_int_t
ngx_etcd_watch_add(ngx_etcd_watcher_t *watcher, ngx_etcd_watch_t *watch)
{
    ngx_etcd_cluster_t  *cluster;

    cluster = watcher->cluster;

    if (ngx_etcd_watch_range(watch, cluster) != NGX_OK) {
        return NGX_ERROR;
    }

    watch->watcher = watcher;
    ngx_etcd_watch_set_list(watch, &watch->reader);
    watch->reader.begin = ngx_etcd_watch_list_begin;
    watch->reader.keys = ngx_etcd_watch_list_keys;
    watch->reader.done = ngx_etcd_watch_list_done;
    watch->reader.data = watch;

    watch->timer.handler = ngx_etcd_watch_timer;
    watch->timer.data = watch;
    watch->timer.log = cluster->log;
    watch->timer.cancelable = 1;

    ngx_etcd_watch_init_verify(watch);

    ngx_etcd_watch_rest(watch);
    ngx_etcd_watch_behind(watch, 1);

    ngx_queue_insert_tail(&watcher->watches, &watch->queue);

    ngx_etcd_watcher_advance(watcher);

    return NGX_OK;
}


ngx_int_t
ngx_etcd_watch_remove(ngx_etcd_watch_t *watch)
{
    if (watch->state == NGX_ETCD_WATCH_CREATING) {

        /* its place among the answers is kept */

        return NGX_AGAIN;
    }

    ngx_etcd_watch_detach(watch);
    ngx_etcd_watch_behind(watch, 0);

    ngx_queue_remove(&watch->queue);

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_watch_range(ngx_etcd_watch_t *watch, ngx_etcd_cluster_t *cluster)
{
    u_char      *p;
    ngx_str_t   *ns;
    ngx_pool_t  *pool;

    ns = &cluster->conf->key_namespace;
    pool = (watch->pool != NULL) ? watch->pool : cluster->pool;

    watch->key.len = ns->len + watch->prefix.len;
    watch->key.data = ngx_pnalloc(pool, watch->key.len + 1);
    if (watch->key.data == NULL) {
        return NGX_ERROR;
    }

    p = ngx_cpymem(watch->key.data, ns->data, ns->len);
    p = ngx_cpymem(p, watch->prefix.data, watch->prefix.len);

    if (watch->exact) {

        /* nothing is between a key and that key with one more zero byte */

        *p = '\0';
        watch->range_end.data = watch->key.data;
        watch->range_end.len = watch->key.len + 1;

        return NGX_OK;
    }

    watch->range_end = ngx_etcd_prefix_end(pool, &watch->key);

    return (watch->range_end.data != NULL) ? NGX_OK : NGX_ERROR;
}


void
ngx_etcd_watch_again(ngx_etcd_watch_t *watch, ngx_msec_t delay)
{
    watch->revision = 0;

    if (watch->state == NGX_ETCD_WATCH_CREATING) {

        /* its place among the answers is kept: it lists when it gets its */

        return;
    }

    ngx_etcd_watch_detach(watch);

    if (delay != 0) {
        watch->state = NGX_ETCD_WATCH_WAITING;
        ngx_add_timer(&watch->timer, delay);
        return;
    }

    watch->state = NGX_ETCD_WATCH_NEW;
    ngx_etcd_watcher_advance(watch->watcher);
}


void
ngx_etcd_watch_create(ngx_etcd_watch_t *watch)
{
    Etcd__WatchRequest         request;
    ngx_etcd_watcher_t        *watcher;
    Etcd__WatchCreateRequest   create;

    watcher = watch->watcher;

    watch->jumped = (watch->revision != 0
                     && watch->missed
                     && watch->volume <= NGX_ETCD_GAP_VOLUME);

    etcd__watch_request__init(&request);
    etcd__watch_create_request__init(&create);

    create.key.data = watch->key.data;
    create.key.len = watch->key.len;
    create.range_end.data = watch->range_end.data;
    create.range_end.len = watch->range_end.len;

    /*
     * Events of the watch's own revision are dropped.  While a start revision
     * is in the future, later releases of etcd (3.4.38, 3.5.22, 3.6.2) answer
     * no request for progress on the stream.
     */

    create.start_revision = watch->jumped ? 0 : watch->revision;
    create.progress_notify = 1;
    create.fragment = 1;

    request.request_union_case =
                             ETCD__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
    request.create_request = &create;

    if (ngx_etcd_grpc_send(&watcher->call, &request.base) != NGX_OK) {
        return;
    }

    watch->state = NGX_ETCD_WATCH_CREATING;
    watch->number = watcher->numbers++;

    ngx_queue_insert_tail(&watcher->creating, &watch->creating);
    watcher->ncreating++;

    if (!watcher->overdue.timer_set) {
        ngx_etcd_watcher_expect(watcher);
    }
}


/*
 * Answers come in the order of the creates, and ids are counted from 0, but
 * for those that are refused: these have none.  A proxy counts like that, and
 * answers in any order.
 */

static ngx_etcd_watch_t *
ngx_etcd_watch_answered(ngx_etcd_watcher_t *watcher, int64_t id)
{
    ngx_queue_t       *q;
    ngx_etcd_watch_t  *watch, *first;

    q = ngx_queue_head(&watcher->creating);
    first = ngx_queue_data(q, ngx_etcd_watch_t, creating);

    for ( /* void */ ;
         q != ngx_queue_sentinel(&watcher->creating);
         q = ngx_queue_next(q))
    {
        watch = ngx_queue_data(q, ngx_etcd_watch_t, creating);

        if (id == -1) {
            watch->number--;

        } else if (watch->number == id) {
            return watch;
        }
    }

    if (id == -1) {
        watcher->numbers--;
    }

    return first;
}


void
ngx_etcd_watch_created(ngx_etcd_watcher_t *watcher,
    Etcd__WatchResponse *response)
{
    ngx_etcd_watch_t  *watch;

    if (ngx_queue_empty(&watcher->creating)) {
        return;
    }

    watch = ngx_etcd_watch_answered(watcher, response->watch_id);

    ngx_queue_remove(&watch->creating);
    watcher->ncreating--;

    ngx_etcd_watcher_expect(watcher);

    if (response->canceled && response->compact_revision == 0) {
        watch->state = NGX_ETCD_WATCH_LISTED;
        ngx_etcd_watch_declined(watch, response);
        return;
    }

    if (watch->revision == 0 && (!watch->prompt || response->header == NULL)) {

        /* everything is to be read again since it was asked for */

        ngx_etcd_watcher_cancel(watcher, response->watch_id);
        watch->state = NGX_ETCD_WATCH_NEW;
        return;
    }

    ngx_etcd_watch_established(watch, response);
}


static void
ngx_etcd_watch_established(ngx_etcd_watch_t *watch,
    Etcd__WatchResponse *response)
{
    ngx_uint_t           list;
    ngx_etcd_watcher_t  *watcher;

    watcher = watch->watcher;
    list = (watch->revision == 0);

    if (list) {

        /* what comes later than that is told */

        watch->revision = response->header->revision;
    }

    ngx_log_debug3(NGX_LOG_DEBUG_EVENT, watcher->cluster->log, 0,
                   "etcd watch \"%V\": created, id %L, from revision %L",
                   &watch->prefix, response->watch_id, watch->revision);

    watch->state = NGX_ETCD_WATCH_ACTIVE;
    watch->node.key = (ngx_rbtree_key_t) response->watch_id;

    ngx_rbtree_insert(&watcher->active, &watch->node);

    watch->creates++;

    ngx_etcd_fresh_count(&watcher->fresh, 1, 0);
    ngx_etcd_auth_accepted(watcher->cluster->auth);
    ngx_etcd_verify_start(&watch->verify);

    watch->failures = 0;

    if (list) {
        ngx_etcd_watch_catch_up(watch, response->header);
        ngx_etcd_watch_list_beside(watch);
        return;
    }

    if (!response->canceled) {

        /* its prefix may have been refused until now, and be shown as such */

        watch->events(watch, NULL, 0, watch->revision);
    }

    if (watch->state == NGX_ETCD_WATCH_ACTIVE) {
        ngx_etcd_gap_bridge(watch, response->header);
    }
}


ngx_int_t
ngx_etcd_watch_response(ngx_etcd_watch_t *watch, Etcd__WatchResponse *response,
    ngx_pool_t *pool)
{
    if (response->canceled) {
        ngx_etcd_watch_canceled(watch, response);
        return NGX_OK;
    }

    if (response->fragment || response->n_events != 0) {
        return ngx_etcd_watch_arrived(watch, response, pool);
    }

    if (response->created
        || watch->gap.revision != 0
        || response->header == NULL)
    {
        return NGX_OK;
    }

    if (watch->fragments != NULL) {
        watch->progress = response->header->revision;
        return NGX_OK;
    }

    ngx_etcd_watch_progress(watch, response->header->revision);

    return NGX_OK;
}


static void
ngx_etcd_watch_canceled(ngx_etcd_watch_t *watch, Etcd__WatchResponse *response)
{
    ngx_etcd_cluster_t  *cluster;

    if (response->compact_revision != 0) {
        cluster = watch->watcher->cluster;
        cluster->resyncs++;

        ngx_log_error(NGX_LOG_NOTICE, cluster->log, 0,
                      "etcd cluster \"%V\": prefix \"%V\": revision %L is "
                      "compacted (at %L), listing again",
                      &cluster->conf->name, &watch->prefix,
                      watch->revision, response->compact_revision);

        ngx_etcd_watch_detach(watch);
        watch->revision = 0;
        watch->state = NGX_ETCD_WATCH_NEW;
        return;
    }

    ngx_etcd_watch_declined(watch, response);
}


/* a watch that was listed is not created, or is ended, by etcd */

static void
ngx_etcd_watch_declined(ngx_etcd_watch_t *watch,
    Etcd__WatchResponse *response)
{
    ngx_str_t                raw, text;
    ngx_etcd_watcher_t      *watcher;
    ngx_etcd_grpc_status_e   status;
    u_char                   shown[NGX_ETCD_ESCAPED(NGX_ETCD_WATCH_REASON)];

    watcher = watch->watcher;

    raw.data = response->cancel_reason.data;
    raw.len = response->cancel_reason.len;

    status = ngx_etcd_watcher_status(&raw);

    text.data = shown;
    text.len = ngx_etcd_escape(shown, &raw, NGX_ETCD_WATCH_REASON) - shown;

    ngx_log_debug3(NGX_LOG_DEBUG_EVENT, watcher->cluster->log, 0,
                   "etcd watch \"%V\": canceled, id %L: \"%V\"",
                   &watch->prefix, response->watch_id, &text);

    if (status == NGX_ETCD_GRPC_UNAUTHENTICATED
        || (status == NGX_ETCD_GRPC_PERMISSION_DENIED
            && ngx_etcd_auth_outdated(watcher->cluster->auth, watcher->token)))
    {
        ngx_etcd_watch_detach(watch);

        ngx_etcd_watch_rest(watch);
        ngx_etcd_watcher_unauthenticated(watcher, &text);
        return;
    }

    ngx_etcd_watch_refused(watch, status, &text);
}


void
ngx_etcd_watch_rest(ngx_etcd_watch_t *watch)
{
    /* keys are counted once */

    if (watch->split) {
        watch->split = 0;
        watch->revision = 0;
    }

    watch->state = watch->revision ? NGX_ETCD_WATCH_LISTED
                                   : NGX_ETCD_WATCH_NEW;
}


/* takes it off the stream, in whatever state; etcd may still send for it */

void
ngx_etcd_watch_detach(ngx_etcd_watch_t *watch)
{
    int64_t              id;
    ngx_etcd_watcher_t  *watcher;

    watcher = watch->watcher;

    if (watch->state == NGX_ETCD_WATCH_LISTING || watch->listing) {
        ngx_etcd_list_cancel(&watch->reader);
        watcher->nlisting--;
    }

    if (watch->listing) {
        watch->listing = 0;
        watch->revision = 0;
    }

    switch (watch->state) {

    case NGX_ETCD_WATCH_CREATING:
        ngx_queue_remove(&watch->creating);
        watcher->ncreating--;
        break;

    case NGX_ETCD_WATCH_ACTIVE:
        id = (int64_t) watch->node.key;

        /* this clears the key */

        ngx_rbtree_delete(&watcher->active, &watch->node);

        ngx_etcd_gap_cancel(&watch->gap);
        ngx_etcd_verify_stop(&watch->verify);

        ngx_etcd_fresh_count(&watcher->fresh, -1, 0);
        ngx_etcd_watch_behind(watch, 1);

        ngx_etcd_watcher_cancel(watcher, id);
        break;

    default:
        break;
    }

    ngx_etcd_watch_drop_fragments(watch);

    if (watch->timer.timer_set) {
        ngx_del_timer(&watch->timer);
    }
}


void
ngx_etcd_watch_refused(ngx_etcd_watch_t *watch, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    ngx_etcd_watch_detach(watch);

    watch->state = NGX_ETCD_WATCH_WAITING;
    ngx_add_timer(&watch->timer, ngx_etcd_backoff(watch->watcher->cluster,
                                                  ++watch->failures));

    if (status == NGX_ETCD_GRPC_PERMISSION_DENIED) {
        ngx_etcd_watch_behind(watch, 0);
    }

    watch->failed(watch, status, text);
}


static void
ngx_etcd_watch_timer(ngx_event_t *ev)
{
    ngx_etcd_watch_t  *watch;

    watch = ev->data;

    if (watch->state == NGX_ETCD_WATCH_ACTIVE) {
        ngx_etcd_watch_turn(watch);
        return;
    }

    ngx_etcd_watch_rest(watch);

    ngx_etcd_watcher_advance(watch->watcher);
}


static void
ngx_etcd_watch_init_verify(ngx_etcd_watch_t *watch)
{
    ngx_etcd_verify_t  *verify;

    verify = &watch->verify;

    verify->cluster = watch->watcher->cluster;
    verify->prefix = &watch->prefix;
    verify->key = &watch->key;
    verify->range_end = &watch->range_end;
    verify->revision = &watch->revision;
    verify->interval = watch->verify_interval;
    verify->pending = ngx_etcd_watch_pending;
    verify->verified = ngx_etcd_watch_verified;
    verify->differs = ngx_etcd_watch_differs;
    verify->refused = ngx_etcd_watch_denied;
    verify->silent = ngx_etcd_watch_silent;
    verify->data = watch;
}


static ngx_uint_t
ngx_etcd_watch_pending(void *data)
{
    ngx_etcd_watch_t *watch = data;

    return watch->fragments != NULL && watch->handed < watch->whole;
}


static void
ngx_etcd_watch_verified(void *data, uint64_t time)
{
    ngx_etcd_watch_t *watch = data;

    watch->verified(watch, time);
}


static void
ngx_etcd_watch_differs(void *data)
{
    ngx_etcd_watch_t *watch = data;

    /* equal revisions do not prove that values are equal */

    watch->foreign = 1;
    ngx_etcd_watch_again(watch, 0);
}


static void
ngx_etcd_watch_denied(void *data, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    ngx_etcd_watch_refused(data, status, text);
}


static void
ngx_etcd_watch_silent(void *data, ngx_str_t *reason)
{
    ngx_etcd_watch_t *watch = data;

    ngx_etcd_watcher_leave(watch->watcher, reason);
}


void
ngx_etcd_watch_list(ngx_etcd_watch_t *watch)
{
    watch->state = NGX_ETCD_WATCH_LISTING;
    watch->watcher->nlisting++;

    ngx_etcd_list_start(&watch->reader);
}


/* while it is in force */

static void
ngx_etcd_watch_list_beside(ngx_etcd_watch_t *watch)
{
    watch->listing = 1;
    watch->watcher->nlisting++;

    ngx_etcd_list_start(&watch->reader);
}


static void
ngx_etcd_watch_list_begin(ngx_etcd_list_t *list)
{
    ngx_etcd_watch_t  *watch;

    watch = list->data;

    watch->volume = 0;
    ngx_etcd_verify_list(&watch->verify);
    watch->split = 0;
    watch->list(watch);
}


static ngx_int_t
ngx_etcd_watch_list_keys(ngx_etcd_list_t *list, Etcd__KeyValue **kvs, size_t n)
{
    size_t             i;
    ngx_etcd_watch_t  *watch;

    watch = list->data;

    ngx_etcd_verify_keys(&watch->verify, n);

    for (i = 0; i < n; i++) {
        watch->volume += kvs[i]->key.len + kvs[i]->value.len;
        ngx_etcd_watch_strip(watch, kvs[i]);
    }

    return watch->keys(watch, kvs, n);
}


ngx_int_t
ngx_etcd_watch_take(ngx_etcd_watch_t *watch, Etcd__KeyValue **kvs, size_t n)
{
    ngx_etcd_watch_list_begin(&watch->reader);

    return ngx_etcd_watch_list_keys(&watch->reader, kvs, n);
}


static void
ngx_etcd_watch_list_done(ngx_etcd_list_t *list, ngx_etcd_grpc_status_e status,
    ngx_str_t *text, int64_t revision)
{
    ngx_etcd_watch_t    *watch;
    ngx_etcd_watcher_t  *watcher;

    watch = list->data;
    watcher = watch->watcher;

    watcher->nlisting--;

    if (watch->prompt) {
        ngx_etcd_watch_list_prompt(watch, status, text, revision);
        return;
    }

    watch->state = NGX_ETCD_WATCH_LISTED;

    if (status == NGX_ETCD_GRPC_OK) {
        watch->failures = 0;
        watch->missed = 0;
        watch->revision = revision;
        ngx_etcd_watcher_listed(watcher, revision);
        ngx_etcd_watch_behind(watch, 1);
        watch->listed(watch, revision);
        watch->foreign = 0;

    } else {
        ngx_etcd_watch_refused(watch, status, text);
    }

    ngx_etcd_watcher_advance(watcher);
}


/* it is in force already, and goes on from where it is */

static void
ngx_etcd_watch_list_prompt(ngx_etcd_watch_t *watch,
    ngx_etcd_grpc_status_e status, ngx_str_t *text, int64_t revision)
{
    watch->listing = 0;

    if (status == NGX_ETCD_GRPC_OK) {
        ngx_etcd_watcher_listed(watch->watcher, revision);
        watch->listed(watch, revision);
        watch->foreign = 0;

    } else {
        watch->revision = 0;
        ngx_etcd_watch_refused(watch, status, text);
    }

    ngx_etcd_watcher_advance(watch->watcher);
}


void
ngx_etcd_watch_strip(ngx_etcd_watch_t *watch, Etcd__KeyValue *kv)
{
    size_t  len;

    len = watch->key.len - watch->prefix.len;

    if (kv->key.len >= len) {
        kv->key.data += len;
        kv->key.len -= len;
    }
}


ngx_uint_t
ngx_etcd_watch_active(ngx_etcd_watch_t *watch)
{
    return watch->state == NGX_ETCD_WATCH_ACTIVE;
}


void
ngx_etcd_watch_set_list(ngx_etcd_watch_t *watch, ngx_etcd_list_t *list)
{
    list->cluster = watch->watcher->cluster;
    list->key = watch->key;
    list->range_end = watch->range_end;
}


void
ngx_etcd_watch_set_range(ngx_etcd_watch_t *watch, ngx_etcd_range_t *range)
{
    range->cluster = watch->watcher->cluster;

    etcd__range_request__init(&range->request);

    range->request.key.data = watch->key.data;
    range->request.key.len = watch->key.len;
    range->request.range_end.data = watch->range_end.data;
    range->request.range_end.len = watch->range_end.len;
}
