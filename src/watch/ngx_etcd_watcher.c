
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_watcher.h>
#include <ngx_etcd_auth.h>


static void ngx_etcd_watcher_open(ngx_etcd_watcher_t *watcher);
static void ngx_etcd_watcher_ready(void *data);
static void ngx_etcd_watcher_timer(ngx_event_t *ev);
static void ngx_etcd_watcher_overdue(ngx_event_t *ev);
static void ngx_etcd_watcher_end(ngx_etcd_watcher_t *watcher);
static void ngx_etcd_watcher_release(ngx_etcd_watcher_t *watcher);
static void ngx_etcd_watcher_ended(ngx_etcd_grpc_call_t *call,
    ngx_etcd_grpc_status_e status, ngx_str_t *text);
static ngx_int_t ngx_etcd_watcher_message(ngx_etcd_grpc_call_t *call,
    ProtobufCMessage *message, ngx_pool_t *pool);
static ngx_int_t ngx_etcd_watcher_ask(void *data);
static void ngx_etcd_watcher_header(ngx_etcd_watcher_t *watcher,
    Etcd__ResponseHeader *header);
static void ngx_etcd_watcher_history(void *data);
static void ngx_etcd_watcher_relist(ngx_etcd_watcher_t *watcher,
    ngx_uint_t foreign);
static ngx_etcd_watch_t *ngx_etcd_watcher_find(ngx_etcd_watcher_t *watcher,
    int64_t id);


ngx_etcd_watcher_t *
ngx_etcd_watcher_create(ngx_etcd_cluster_t *cluster)
{
    ngx_etcd_watcher_t  *watcher;

    watcher = ngx_pcalloc(cluster->pool, sizeof(ngx_etcd_watcher_t));
    if (watcher == NULL) {
        return NULL;
    }

    watcher->cluster = cluster;

    watcher->waiter.handler = ngx_etcd_watcher_ready;
    watcher->waiter.data = watcher;

    watcher->timer.handler = ngx_etcd_watcher_timer;
    watcher->timer.data = watcher;
    watcher->timer.log = cluster->log;
    watcher->timer.cancelable = 1;

    watcher->overdue.handler = ngx_etcd_watcher_overdue;
    watcher->overdue.data = watcher;
    watcher->overdue.log = cluster->log;
    watcher->overdue.cancelable = 1;

    ngx_etcd_fresh_init(&watcher->fresh, cluster, ngx_etcd_watcher_ask,
                        watcher);

    watcher->history.changed = ngx_etcd_watcher_history;
    watcher->history.data = watcher;

    ngx_etcd_history_listen(cluster, &watcher->history);

    ngx_queue_init(&watcher->watches);
    ngx_queue_init(&watcher->creating);
    ngx_rbtree_init(&watcher->active, &watcher->sentinel,
                    ngx_rbtree_insert_value);

    return watcher;
}


void
ngx_etcd_watcher_destroy(ngx_etcd_watcher_t *watcher)
{
    ngx_queue_t       *q;
    ngx_etcd_watch_t  *watch;

    ngx_etcd_history_forget(&watcher->history);
    ngx_etcd_waiter_forget(&watcher->waiter);
    ngx_etcd_fresh_done(&watcher->fresh);

    if (watcher->timer.timer_set) {
        ngx_del_timer(&watcher->timer);
    }

    if (watcher->overdue.timer_set) {
        ngx_del_timer(&watcher->overdue);
    }

    for (q = ngx_queue_head(&watcher->watches);
         q != ngx_queue_sentinel(&watcher->watches);
         q = ngx_queue_next(q))
    {
        watch = ngx_queue_data(q, ngx_etcd_watch_t, queue);

        ngx_etcd_list_cancel(&watch->reader);
        ngx_etcd_gap_cancel(&watch->gap);
        ngx_etcd_verify_stop(&watch->verify);
        ngx_etcd_watch_drop_fragments(watch);

        if (watch->timer.timer_set) {
            ngx_del_timer(&watch->timer);
        }
    }

    if (watcher->open) {
        watcher->open = 0;
        ngx_etcd_grpc_cancel(&watcher->call);
    }
}


/* does what can be done now: lists, the stream, creates */

void
ngx_etcd_watcher_advance(ngx_etcd_watcher_t *watcher)
{
    ngx_queue_t       *q;
    ngx_etcd_watch_t  *watch;

    if (!watcher->open) {
        ngx_etcd_watcher_open(watcher);
    }

    for (q = ngx_queue_head(&watcher->watches);
         q != ngx_queue_sentinel(&watcher->watches);
         q = ngx_queue_next(q))
    {
        watch = ngx_queue_data(q, ngx_etcd_watch_t, queue);

        if (watch->state == NGX_ETCD_WATCH_NEW && watch->prompt) {
            watch->state = NGX_ETCD_WATCH_LISTED;
        }

        if (watch->state == NGX_ETCD_WATCH_NEW
            && watcher->nlisting < NGX_ETCD_WATCH_LISTS)
        {
            ngx_etcd_watch_list(watch);
        }

        if (watch->state == NGX_ETCD_WATCH_LISTED
            && watcher->open
            && !watcher->stale
            && watcher->ncreating < (watcher->serial ? 1
                                                     : NGX_ETCD_WATCH_CREATES))
        {
            ngx_etcd_watch_create(watch);
        }
    }
}


static void
ngx_etcd_watcher_open(ngx_etcd_watcher_t *watcher)
{
    ngx_keyval_t           md[1 + NGX_ETCD_AUTH_METADATA];
    ngx_etcd_auth_t       *auth;
    ngx_etcd_http2_t      *h2;
    ngx_etcd_channel_t    *streams;
    ngx_etcd_grpc_call_t  *call;

    if (watcher->timer.timer_set || watcher->waiter.waiting) {
        return;
    }

    streams = &watcher->cluster->streams;
    h2 = ngx_etcd_channel_get(streams);

    if (h2 == NULL) {
        ngx_etcd_channel_wait(streams, &watcher->waiter);
        return;
    }

    auth = watcher->cluster->auth;

    if (!ngx_etcd_auth_ready(auth)) {
        ngx_etcd_auth_wait(auth, &watcher->waiter);
        return;
    }

    ngx_str_set(&md[0].key, "hasleader");
    ngx_str_set(&md[0].value, "true");

    call = &watcher->call;
    ngx_memzero(call, sizeof(ngx_etcd_grpc_call_t));

    call->method = "/etcdserverpb.Watch/Watch";
    call->response = &etcd__watch_response__descriptor;
    call->metadata = md;
    call->nmetadata = 1 + ngx_etcd_auth_metadata(auth, &md[1],
                                                 &watcher->token);
    call->message = ngx_etcd_watcher_message;
    call->done = ngx_etcd_watcher_ended;
    call->data = watcher;

    if (ngx_etcd_grpc_start(h2, call) != NGX_OK) {
        ngx_add_timer(&watcher->timer,
                      ngx_etcd_backoff(watcher->cluster, watcher->failures++));
        return;
    }

    watcher->open = 1;
    watcher->numbers = 0;
    watcher->reached = 0;
    watcher->answered = 0;
    watcher->stale = 0;
}


static void
ngx_etcd_watcher_ready(void *data)
{
    ngx_etcd_watcher_t *watcher = data;

    ngx_etcd_auth_t  *auth;

    auth = watcher->cluster->auth;

    if (watcher->open && watcher->stale) {

        if (!ngx_etcd_auth_ready(auth)) {
            ngx_etcd_auth_wait(auth, &watcher->waiter);
            return;
        }

        watcher->stale = 0;

        if (watcher->cluster->conf->user.len == 0) {

            /* another stream would have no token either */

            watcher->token = auth->generation;

        } else {

            /* a stream keeps the token that it was opened with */

            ngx_etcd_watcher_end(watcher);
        }
    }

    ngx_etcd_watcher_advance(watcher);
}


void
ngx_etcd_watcher_unauthenticated(ngx_etcd_watcher_t *watcher, ngx_str_t *text)
{
    ngx_etcd_auth_t  *auth;

    auth = watcher->cluster->auth;
    watcher->stale = 1;

    /* watches that run go on meanwhile, however long that takes */

    (void) ngx_etcd_auth_refused(auth, watcher->token,
                                 NGX_ETCD_GRPC_UNAUTHENTICATED, text);

    ngx_etcd_auth_wait(auth, &watcher->waiter);
}


static void
ngx_etcd_watcher_timer(ngx_event_t *ev)
{
    ngx_etcd_watcher_advance(ev->data);
}


static void
ngx_etcd_watcher_ended(ngx_etcd_grpc_call_t *call,
    ngx_etcd_grpc_status_e status, ngx_str_t *text)
{
    ngx_etcd_watcher_t  *watcher;

    watcher = call->data;
    watcher->open = 0;

    ngx_log_error(NGX_LOG_INFO, watcher->cluster->log, 0,
                  "etcd cluster \"%V\": watch stream ended: %s: %V",
                  &watcher->cluster->conf->name,
                  ngx_etcd_grpc_status_name(status), text);

    ngx_etcd_watcher_release(watcher);

    if (ngx_etcd_auth_refused(watcher->cluster->auth, watcher->token, status,
                              text))
    {
        ngx_etcd_watcher_open(watcher);
        return;
    }

    if (call->oversize) {

        /* lists are made of smaller pieces, and find out whose it was */

        ngx_add_timer(&watcher->timer,
                      ngx_etcd_backoff(watcher->cluster, watcher->failures++));
        ngx_etcd_watcher_relist(watcher, 0);
        return;
    }

    /* when the connection is gone, the channel decides when and where next */

    if (ngx_etcd_channel_get(&watcher->cluster->streams) == NULL) {
        ngx_etcd_watcher_open(watcher);
        return;
    }

    /*
     * the endpoint ends streams ("no leader", "shutting down") but takes
     * calls: another one is better
     */

    ngx_add_timer(&watcher->timer,
                  watcher->failures ? ngx_etcd_backoff(watcher->cluster,
                                                       watcher->failures)
                                    : 1);
    watcher->failures++;

    ngx_etcd_channel_failed(&watcher->cluster->streams, text);
}


void
ngx_etcd_watcher_expect(ngx_etcd_watcher_t *watcher)
{
    if (watcher->overdue.timer_set) {
        ngx_del_timer(&watcher->overdue);
    }

    if (watcher->ncreating != 0) {
        ngx_add_timer(&watcher->overdue,
                      watcher->cluster->conf->request_timeout);
    }
}


/*
 * The connection may be alive all the same: an etcd that was restored from a
 * backup keeps a call waiting until it reaches the point in its log where the
 * token was made, which may be never.
 */

static void
ngx_etcd_watcher_overdue(ngx_event_t *ev)
{
    ngx_str_t            text;
    ngx_etcd_auth_t     *auth;
    ngx_etcd_watcher_t  *watcher;

    watcher = ev->data;
    auth = watcher->cluster->auth;

    if (!watcher->open || watcher->ncreating == 0) {
        return;
    }

    ngx_str_set(&text, "no answer to a watch");

    if (auth->token.len != 0) {
        (void) ngx_etcd_auth_refused(auth, watcher->token,
                                     NGX_ETCD_GRPC_UNAUTHENTICATED, &text);
    }

    ngx_etcd_watcher_end(watcher);

    ngx_etcd_channel_failed(&watcher->cluster->streams, &text);
    ngx_etcd_watcher_open(watcher);
}


static void
ngx_etcd_watcher_end(ngx_etcd_watcher_t *watcher)
{
    watcher->open = 0;
    ngx_etcd_grpc_cancel(&watcher->call);

    ngx_etcd_watcher_release(watcher);
}


/* the stream is gone: its watches go on on the next one */

static void
ngx_etcd_watcher_release(ngx_etcd_watcher_t *watcher)
{
    ngx_queue_t       *q;
    ngx_etcd_watch_t  *watch;

    if (watcher->overdue.timer_set) {
        ngx_del_timer(&watcher->overdue);
    }

    ngx_etcd_fresh_ended(&watcher->fresh);

    for (q = ngx_queue_head(&watcher->watches);
         q != ngx_queue_sentinel(&watcher->watches);
         q = ngx_queue_next(q))
    {
        watch = ngx_queue_data(q, ngx_etcd_watch_t, queue);

        if (watch->state == NGX_ETCD_WATCH_CREATING
            || watch->state == NGX_ETCD_WATCH_ACTIVE)
        {
            ngx_etcd_watch_detach(watch);
            ngx_etcd_watch_rest(watch);
            watch->missed = 1;
        }
    }
}


static ngx_int_t
ngx_etcd_watcher_message(ngx_etcd_grpc_call_t *call, ProtobufCMessage *message,
    ngx_pool_t *pool)
{
    ngx_int_t             rc;
    ngx_uint_t            changed, answer;
    ngx_etcd_watch_t     *watch;
    ngx_etcd_watcher_t   *watcher;
    Etcd__WatchResponse  *response;

    watcher = call->data;
    response = (Etcd__WatchResponse *) message;

    /* the last fragment is freed together with the others */
    changed = response->created || response->canceled;
    answer = !changed && response->watch_id == -1 && response->n_events == 0;

    ngx_etcd_watcher_header(watcher, response->header);

    if (!watcher->answered) {
        watcher->answered = 1;
        watcher->failures = 0;
        ngx_etcd_channel_succeeded(&watcher->cluster->streams);
    }

    if (response->created) {
        ngx_etcd_watch_created(watcher, response);
    }

    /* of a watch that we have left, or a progress answer (-1) */

    watch = ngx_etcd_watcher_find(watcher, response->watch_id);

    rc = NGX_OK;

    if (watch != NULL) {
        rc = ngx_etcd_watch_response(watch, response, pool);
    }

    if (answer) {
        ngx_etcd_fresh_answered(&watcher->fresh);

    } else {
        ngx_etcd_fresh_received(&watcher->fresh);
    }

    if (changed) {
        ngx_etcd_watcher_advance(watcher);
    }

    return rc;
}


/*
 * A lower revision on a new stream: a member that lags, or a cluster restored
 * from a backup; another id: another cluster.  A linearizable list tells what
 * is true.  (Later on, answers of several watches may overtake each other.)
 */

static void
ngx_etcd_watcher_header(ngx_etcd_watcher_t *watcher,
    Etcd__ResponseHeader *header)
{
    ngx_uint_t           other, back;
    ngx_etcd_cluster_t  *cluster;

    /* one that names no cluster is a proxy's own, whatever it says */

    if (header == NULL || header->cluster_id == 0) {
        return;
    }

    cluster = watcher->cluster;

    other = (cluster->cluster_id != 0
             && header->cluster_id != cluster->cluster_id);

    back = (!watcher->answered && header->revision < cluster->revision);

    if (other || back) {
        ngx_log_error(NGX_LOG_WARN, cluster->log, 0,
                      "etcd cluster \"%V\": %s (cluster id %xL, was %xL; "
                      "revision %L, was %L), reading everything again",
                      &cluster->conf->name,
                      other ? "another cluster answers"
                            : "the revision went back",
                      header->cluster_id, cluster->cluster_id,
                      header->revision, cluster->revision);

        watcher->doubted = 1;
        ngx_etcd_watcher_relist(watcher, 1);
    }

    if (other) {
        ngx_etcd_history_change(cluster, header);
    }

    cluster->cluster_id = header->cluster_id;
    cluster->revision = ngx_max(cluster->revision, header->revision);

    watcher->reached = ngx_max(watcher->reached, header->revision);
}


/* a linearizable answer has shown it, maybe before any watch could */

static void
ngx_etcd_watcher_history(void *data)
{
    ngx_etcd_watcher_t *watcher = data;

    if (!watcher->doubted) {
        watcher->doubted = 1;
        ngx_etcd_watcher_relist(watcher, 1);
    }
}


void
ngx_etcd_watcher_listed(ngx_etcd_watcher_t *watcher, int64_t revision)
{
    if (watcher->doubted) {
        watcher->doubted = 0;
        watcher->cluster->revision = revision;
    }
}


void
ngx_etcd_watcher_mixed(ngx_etcd_watcher_t *watcher)
{
    ngx_etcd_cluster_t  *cluster;

    cluster = watcher->cluster;

    ngx_log_error(NGX_LOG_WARN, cluster->log, 0,
                  "etcd cluster \"%V\": answers of watches were mixed up, as "
                  "by a proxy: reading everything again",
                  &cluster->conf->name);

    watcher->serial = 1;

    ngx_etcd_watcher_relist(watcher, 0);
}


void
ngx_etcd_watcher_leave(ngx_etcd_watcher_t *watcher, ngx_str_t *reason)
{
    ngx_etcd_watcher_end(watcher);

    ngx_etcd_channel_failed(&watcher->cluster->streams, reason);
    ngx_etcd_watcher_open(watcher);
}


static void
ngx_etcd_watcher_relist(ngx_etcd_watcher_t *watcher, ngx_uint_t foreign)
{
    ngx_queue_t       *q;
    ngx_etcd_watch_t  *watch;

    watcher->cluster->resyncs++;

    for (q = ngx_queue_head(&watcher->watches);
         q != ngx_queue_sentinel(&watcher->watches);
         q = ngx_queue_next(q))
    {
        watch = ngx_queue_data(q, ngx_etcd_watch_t, queue);

        /* a create that is under way keeps its place among the answers */

        watch->revision = 0;
        watch->foreign |= foreign;

        if (watch->state == NGX_ETCD_WATCH_ACTIVE
            || watch->state == NGX_ETCD_WATCH_LISTED)
        {
            ngx_etcd_watch_detach(watch);
            watch->state = NGX_ETCD_WATCH_NEW;
        }
    }

    ngx_etcd_watcher_advance(watcher);
}


static ngx_etcd_watch_t *
ngx_etcd_watcher_find(ngx_etcd_watcher_t *watcher, int64_t id)
{
    ngx_rbtree_key_t    key;
    ngx_rbtree_node_t  *node, *sentinel;

    if (id < 0) {
        return NULL;
    }

    key = (ngx_rbtree_key_t) id;
    node = watcher->active.root;
    sentinel = watcher->active.sentinel;

    while (node != sentinel) {

        if (key == node->key) {
            return ngx_rbtree_data(node, ngx_etcd_watch_t, node);
        }

        node = (key < node->key) ? node->left : node->right;
    }

    return NULL;
}


void
ngx_etcd_watcher_cancel(ngx_etcd_watcher_t *watcher, int64_t id)
{
    Etcd__WatchRequest        request;
    Etcd__WatchCancelRequest  cancel;

    if (!watcher->open) {
        return;
    }

    etcd__watch_request__init(&request);
    etcd__watch_cancel_request__init(&cancel);

    cancel.watch_id = id;

    request.request_union_case =
                             ETCD__WATCH_REQUEST__REQUEST_UNION_CANCEL_REQUEST;
    request.cancel_request = &cancel;

    /* where this cannot be sent, events for the id are simply dropped */

    (void) ngx_etcd_grpc_send(&watcher->call, &request.base);
}


/*
 * Only a sign of life: up to 3.4.24 and 3.5.7 its revision may be ahead of
 * events that are still to come.
 */

ngx_int_t
ngx_etcd_watcher_progress(ngx_etcd_watcher_t *watcher)
{
    Etcd__WatchRequest          request;
    Etcd__WatchProgressRequest  progress;

    if (!watcher->open) {
        return NGX_DECLINED;
    }

    etcd__watch_request__init(&request);
    etcd__watch_progress_request__init(&progress);

    request.request_union_case =
                           ETCD__WATCH_REQUEST__REQUEST_UNION_PROGRESS_REQUEST;
    request.progress_request = &progress;

    return ngx_etcd_grpc_send(&watcher->call, &request.base);
}


static ngx_int_t
ngx_etcd_watcher_ask(void *data)
{
    return ngx_etcd_watcher_progress(data);
}


ngx_etcd_grpc_status_e
ngx_etcd_watcher_status(ngx_str_t *text)
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
