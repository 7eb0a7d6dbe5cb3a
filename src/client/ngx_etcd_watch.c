
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_watcher.h>
#include <ngx_etcd_auth.h>


static void ngx_etcd_watch_canceled(ngx_etcd_watch_t *watch,
    Etcd__WatchResponse *response);
static ngx_int_t ngx_etcd_watch_fragment(ngx_etcd_watch_t *watch,
    Etcd__WatchResponse *response, ngx_pool_t *pool);
static void ngx_etcd_watch_deliver(ngx_etcd_watch_t *watch,
    Etcd__Event **events, size_t n);
static void ngx_etcd_watch_declined(ngx_etcd_watch_t *watch, ngx_str_t *text);
static void ngx_etcd_watch_refused(ngx_etcd_watch_t *watch,
    ngx_etcd_grpc_status_e status, ngx_str_t *text);
static void ngx_etcd_watch_timer(ngx_event_t *ev);
static ngx_etcd_grpc_status_e ngx_etcd_watch_reason(ngx_str_t *text);

static void ngx_etcd_watch_list_begin(ngx_etcd_list_t *list);
static ngx_int_t ngx_etcd_watch_list_page(ngx_etcd_list_t *list,
    Etcd__KeyValue **kvs, size_t n);
static void ngx_etcd_watch_list_done(ngx_etcd_list_t *list,
    ngx_etcd_grpc_status_e status, ngx_str_t *text, int64_t revision);
static void ngx_etcd_watch_strip(ngx_etcd_watch_t *watch, Etcd__KeyValue *kv);


ngx_int_t
ngx_etcd_watch_add(ngx_etcd_watcher_t *watcher, ngx_etcd_watch_t *watch)
{
    ngx_str_t           *ns;
    ngx_etcd_cluster_t  *cluster;

    cluster = watcher->cluster;
    ns = &cluster->conf->key_namespace;

    watch->key.len = ns->len + watch->prefix.len;
    watch->key.data = ngx_pnalloc(cluster->pool, watch->key.len);
    if (watch->key.data == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(ngx_cpymem(watch->key.data, ns->data, ns->len),
               watch->prefix.data, watch->prefix.len);

    watch->range_end = ngx_etcd_prefix_end(cluster->pool, &watch->key);
    if (watch->range_end.data == NULL) {
        return NGX_ERROR;
    }

    watch->watcher = watcher;
    watch->reader.cluster = cluster;
    watch->reader.key = watch->key;
    watch->reader.range_end = watch->range_end;
    watch->reader.begin = ngx_etcd_watch_list_begin;
    watch->reader.page = ngx_etcd_watch_list_page;
    watch->reader.done = ngx_etcd_watch_list_done;
    watch->reader.data = watch;

    watch->timer.handler = ngx_etcd_watch_timer;
    watch->timer.data = watch;
    watch->timer.log = cluster->log;
    watch->timer.cancelable = 1;

    ngx_etcd_watch_rest(watch);

    ngx_queue_insert_tail(&watcher->watches, &watch->queue);

    ngx_etcd_watcher_advance(watcher);

    return NGX_OK;
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

    etcd__watch_request__init(&request);
    etcd__watch_create_request__init(&create);

    create.key.data = watch->key.data;
    create.key.len = watch->key.len;
    create.range_end.data = watch->range_end.data;
    create.range_end.len = watch->range_end.len;
    create.start_revision = watch->revision + 1;
    create.progress_notify = 1;
    create.fragment = 1;

    request.request_union_case =
                             ETCD__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
    request.create_request = &create;

    if (ngx_etcd_grpc_send(&watcher->call, &request.base) != NGX_OK) {
        return;
    }

    watch->state = NGX_ETCD_WATCH_CREATING;

    ngx_queue_insert_tail(&watcher->creating, &watch->creating);
    watcher->ncreating++;

    if (!watcher->overdue.timer_set) {
        ngx_etcd_watcher_expect(watcher);
    }
}


/* answers come in the order of the creates */

void
ngx_etcd_watch_created(ngx_etcd_watcher_t *watcher,
    Etcd__WatchResponse *response)
{
    ngx_str_t          text;
    ngx_queue_t       *q;
    ngx_etcd_watch_t  *watch;

    if (ngx_queue_empty(&watcher->creating)) {
        return;
    }

    q = ngx_queue_head(&watcher->creating);
    watch = ngx_queue_data(q, ngx_etcd_watch_t, creating);

    ngx_queue_remove(&watch->creating);
    watcher->ncreating--;

    ngx_etcd_watcher_expect(watcher);

    if (response->canceled && response->compact_revision == 0) {
        text.data = response->cancel_reason.data;
        text.len = response->cancel_reason.len;

        watch->state = NGX_ETCD_WATCH_LISTED;
        ngx_etcd_watch_declined(watch, &text);
        return;
    }

    if (watch->revision == 0) {

        /* everything is to be read again since it was asked for */

        ngx_etcd_watcher_cancel(watcher, response->watch_id);
        watch->state = NGX_ETCD_WATCH_NEW;
        return;
    }

    ngx_log_debug3(NGX_LOG_DEBUG_EVENT, watcher->cluster->log, 0,
                   "etcd watch \"%V\": created, id %L, from revision %L",
                   &watch->prefix, response->watch_id, watch->revision + 1);

    watch->state = NGX_ETCD_WATCH_ACTIVE;
    watch->node.key = (ngx_rbtree_key_t) response->watch_id;

    ngx_rbtree_insert(&watcher->active, &watch->node);

    ngx_etcd_auth_accepted(watcher->cluster->auth);

    watch->failures = 0;

    if (!response->canceled) {

        /* its prefix may have been refused until now, and be shown as such */

        watch->events(watch, NULL, 0, watch->revision);
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

    if (response->fragment || watch->fragments != NULL) {
        return ngx_etcd_watch_fragment(watch, response, pool);
    }

    if (response->n_events != 0) {
        ngx_etcd_watch_deliver(watch, response->events, response->n_events);
        return NGX_OK;
    }

    /* a progress notification: nothing happened up to this revision */

    if (!response->created
        && response->header != NULL
        && response->header->revision > watch->revision)
    {
        watch->revision = response->header->revision;
        watch->events(watch, NULL, 0, watch->revision);
    }

    return NGX_OK;
}


static void
ngx_etcd_watch_canceled(ngx_etcd_watch_t *watch, Etcd__WatchResponse *response)
{
    ngx_str_t            text;
    ngx_etcd_cluster_t  *cluster;

    if (response->compact_revision != 0) {
        cluster = watch->watcher->cluster;
        cluster->resyncs++;

        ngx_log_error(NGX_LOG_NOTICE, cluster->log, 0,
                      "etcd cluster \"%V\": prefix \"%V\": revision %L is "
                      "compacted (at %L), listing again",
                      &cluster->conf->name, &watch->prefix,
                      watch->revision + 1, response->compact_revision);

        ngx_etcd_watch_detach(watch);
        watch->revision = 0;
        watch->state = NGX_ETCD_WATCH_NEW;
        return;
    }

    text.data = response->cancel_reason.data;
    text.len = response->cancel_reason.len;

    ngx_log_debug3(NGX_LOG_DEBUG_EVENT, watch->watcher->cluster->log, 0,
                   "etcd watch \"%V\": canceled, id %L: \"%V\"",
                   &watch->prefix, response->watch_id, &text);

    ngx_etcd_watch_declined(watch, &text);
}


/* a watch that was listed is not created, or is ended, by etcd */

static void
ngx_etcd_watch_declined(ngx_etcd_watch_t *watch, ngx_str_t *text)
{
    ngx_etcd_grpc_status_e  status;

    status = ngx_etcd_watch_reason(text);

    if (status == NGX_ETCD_GRPC_UNAUTHENTICATED) {
        ngx_etcd_watch_detach(watch);

        ngx_etcd_watch_rest(watch);
        ngx_etcd_watcher_unauthenticated(watch->watcher, text);
        return;
    }

    ngx_etcd_watch_refused(watch, status, text);
}


/*
 * The parts of one response: the messages are kept by making their pools
 * part of one that is destroyed with the last.
 */

static ngx_int_t
ngx_etcd_watch_fragment(ngx_etcd_watch_t *watch, Etcd__WatchResponse *response,
    ngx_pool_t *pool)
{
    size_t                n;
    Etcd__Event         **event;
    ngx_array_t          *events;
    ngx_pool_cleanup_t   *cln;

    if (watch->fragments == NULL) {
        watch->fragment_pool = ngx_create_pool(4096,
                                               watch->watcher->cluster->log);
        if (watch->fragment_pool == NULL) {
            return NGX_ERROR;
        }

        watch->fragments = ngx_array_create(watch->fragment_pool, 64,
                                            sizeof(Etcd__Event *));
        if (watch->fragments == NULL) {
            ngx_etcd_watch_drop_fragments(watch);
            return NGX_ERROR;
        }
    }

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
        ngx_etcd_watch_deliver(watch, events->elts, events->nelts);
        ngx_etcd_watch_drop_fragments(watch);
    }

    return NGX_DONE;
}


static void
ngx_etcd_watch_deliver(ngx_etcd_watch_t *watch, Etcd__Event **events, size_t n)
{
    size_t   i, used;
    int64_t  revision;

    revision = watch->revision;
    used = 0;

    for (i = 0; i < n; i++) {

        if (events[i]->kv == NULL
            || events[i]->kv->mod_revision <= watch->revision)
        {
            continue;
        }

        ngx_etcd_watch_strip(watch, events[i]->kv);

        revision = ngx_max(revision, events[i]->kv->mod_revision);
        events[used++] = events[i];
    }

    if (used == 0) {
        return;
    }

    watch->revision = revision;
    watch->events(watch, events, used, revision);
}


void
ngx_etcd_watch_rest(ngx_etcd_watch_t *watch)
{
    watch->state = watch->revision ? NGX_ETCD_WATCH_LISTED
                                   : NGX_ETCD_WATCH_NEW;
}


void
ngx_etcd_watch_drop_fragments(ngx_etcd_watch_t *watch)
{
    if (watch->fragment_pool != NULL) {
        ngx_destroy_pool(watch->fragment_pool);
        watch->fragment_pool = NULL;
        watch->fragments = NULL;
    }
}


/* takes it off the stream, in whatever state; etcd may still send for it */

void
ngx_etcd_watch_detach(ngx_etcd_watch_t *watch)
{
    int64_t              id;
    ngx_etcd_watcher_t  *watcher;

    watcher = watch->watcher;

    switch (watch->state) {

    case NGX_ETCD_WATCH_LISTING:
        ngx_etcd_list_cancel(&watch->reader);
        watcher->nlisting--;
        break;

    case NGX_ETCD_WATCH_CREATING:
        ngx_queue_remove(&watch->creating);
        watcher->ncreating--;
        break;

    case NGX_ETCD_WATCH_ACTIVE:
        id = (int64_t) watch->node.key;

        /* this clears the key */

        ngx_rbtree_delete(&watcher->active, &watch->node);

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


static void
ngx_etcd_watch_refused(ngx_etcd_watch_t *watch, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    ngx_etcd_watch_detach(watch);

    watch->state = NGX_ETCD_WATCH_WAITING;
    ngx_add_timer(&watch->timer, ngx_etcd_backoff(++watch->failures));

    watch->failed(watch, status, text);
}


static void
ngx_etcd_watch_timer(ngx_event_t *ev)
{
    ngx_etcd_watch_t  *watch;

    watch = ev->data;

    ngx_etcd_watch_rest(watch);

    ngx_etcd_watcher_advance(watch->watcher);
}


/* a reason may hold a status as Go prints it */

static ngx_etcd_grpc_status_e
ngx_etcd_watch_reason(ngx_str_t *text)
{
    static struct {
        char                    *text;
        ngx_etcd_grpc_status_e   status;
    } reasons[] = {
        { "permission denied", NGX_ETCD_GRPC_PERMISSION_DENIED },
        { "PermissionDenied", NGX_ETCD_GRPC_PERMISSION_DENIED },
        { "invalid auth token", NGX_ETCD_GRPC_UNAUTHENTICATED },
        { "Unauthenticated", NGX_ETCD_GRPC_UNAUTHENTICATED },
        { "user name is empty", NGX_ETCD_GRPC_UNAUTHENTICATED },
        { "revision of auth store is old", NGX_ETCD_GRPC_UNAUTHENTICATED },
        { NULL, NGX_ETCD_GRPC_UNKNOWN }
    };

    ngx_uint_t  i;

    for (i = 0; reasons[i].text != NULL; i++) {
        if (text->len >= ngx_strlen(reasons[i].text)
            && ngx_strlcasestrn(text->data, text->data + text->len,
                                (u_char *) reasons[i].text,
                                ngx_strlen(reasons[i].text) - 1)
               != NULL)
        {
            break;
        }
    }

    return reasons[i].status;
}


void
ngx_etcd_watch_list(ngx_etcd_watch_t *watch)
{
    watch->state = NGX_ETCD_WATCH_LISTING;
    watch->watcher->nlisting++;

    ngx_etcd_list_start(&watch->reader);
}


static void
ngx_etcd_watch_list_begin(ngx_etcd_list_t *list)
{
    ngx_etcd_watch_t  *watch;

    watch = list->data;
    watch->list(watch);
}


static ngx_int_t
ngx_etcd_watch_list_page(ngx_etcd_list_t *list, Etcd__KeyValue **kvs, size_t n)
{
    size_t             i;
    ngx_etcd_watch_t  *watch;

    watch = list->data;

    for (i = 0; i < n; i++) {
        ngx_etcd_watch_strip(watch, kvs[i]);
    }

    return watch->keys(watch, kvs, n);
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
    watch->state = NGX_ETCD_WATCH_LISTED;

    if (status == NGX_ETCD_GRPC_OK) {
        watch->failures = 0;
        watch->revision = revision;
        watch->listed(watch, revision);

    } else {
        ngx_etcd_watch_refused(watch, status, text);
    }

    ngx_etcd_watcher_advance(watcher);
}


static void
ngx_etcd_watch_strip(ngx_etcd_watch_t *watch, Etcd__KeyValue *kv)
{
    size_t  len;

    len = watch->key.len - watch->prefix.len;

    if (kv->key.len >= len) {
        kv->key.data += len;
        kv->key.len -= len;
    }
}
