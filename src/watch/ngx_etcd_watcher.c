
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_watcher.h>
#include <ngx_etcd_watch_request.h>


static void ngx_etcd_watcher_open(ngx_etcd_watcher_t *watcher);
static void ngx_etcd_watcher_created(ngx_etcd_watcher_t *watcher,
    Etcd__WatchResponse *response);
static ngx_etcd_watcher_member_t *ngx_etcd_watcher_answered(
    ngx_etcd_watcher_t *watcher, int64_t id);
static void ngx_etcd_watcher_expect(ngx_etcd_watcher_t *watcher);
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
static ngx_etcd_watcher_member_t *ngx_etcd_watcher_find(
    ngx_etcd_watcher_t *watcher, int64_t id);


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

    ngx_queue_init(&watcher->members);
    ngx_queue_init(&watcher->creating);
    ngx_rbtree_init(&watcher->active, &watcher->sentinel,
                    ngx_rbtree_insert_value);

    return watcher;
}


void
ngx_etcd_watcher_destroy(ngx_etcd_watcher_t *watcher)
{
    ngx_queue_t                *q;
    ngx_etcd_watcher_member_t  *member;

    ngx_etcd_history_forget(&watcher->history);
    ngx_etcd_waiter_forget(&watcher->waiter);
    ngx_etcd_fresh_done(&watcher->fresh);

    if (watcher->timer.timer_set) {
        ngx_del_timer(&watcher->timer);
    }

    if (watcher->overdue.timer_set) {
        ngx_del_timer(&watcher->overdue);
    }

    for (q = ngx_queue_head(&watcher->members);
         q != ngx_queue_sentinel(&watcher->members);
         q = ngx_queue_next(q))
    {
        member = ngx_queue_data(q, ngx_etcd_watcher_member_t, queue);
        member->handlers->stop(member->data);
    }

    if (watcher->open) {
        watcher->open = 0;
        ngx_etcd_grpc_cancel(&watcher->call);
    }
}


void
ngx_etcd_watcher_advance(ngx_etcd_watcher_t *watcher)
{
    ngx_queue_t                *q;
    ngx_etcd_watcher_member_t  *member;

    if (!watcher->open) {
        ngx_etcd_watcher_open(watcher);
    }

    for (q = ngx_queue_head(&watcher->members);
         q != ngx_queue_sentinel(&watcher->members);
         q = ngx_queue_next(q))
    {
        member = ngx_queue_data(q, ngx_etcd_watcher_member_t, queue);
        member->handlers->advance(member->data);
    }
}


void
ngx_etcd_watcher_add(ngx_etcd_watcher_t *watcher,
    ngx_etcd_watcher_member_t *member)
{
    member->watcher = watcher;

    ngx_queue_insert_tail(&watcher->members, &member->queue);
}


void
ngx_etcd_watcher_remove(ngx_etcd_watcher_member_t *member)
{
    ngx_queue_remove(&member->queue);
}


ngx_uint_t
ngx_etcd_watcher_accepts(ngx_etcd_watcher_t *watcher)
{
    ngx_uint_t  max;

    max = watcher->serial ? 1 : NGX_ETCD_WATCHER_CREATES;

    return watcher->open && !watcher->stale && watcher->ncreating < max;
}


ngx_int_t
ngx_etcd_watcher_create_watch(ngx_etcd_watcher_member_t *member,
    ngx_str_t *key, ngx_str_t *range_end, int64_t revision)
{
    ngx_int_t            rc;
    ngx_etcd_watcher_t  *watcher;

    watcher = member->watcher;

    rc = ngx_etcd_watch_request_create(&watcher->call, key, range_end,
                                       revision);
    if (rc != NGX_OK) {
        return rc;
    }

    member->state = NGX_ETCD_WATCHER_CREATING;
    member->number = watcher->numbers++;

    ngx_queue_insert_tail(&watcher->creating, &member->creating);
    watcher->ncreating++;

    if (!watcher->overdue.timer_set) {
        ngx_etcd_watcher_expect(watcher);
    }

    return NGX_OK;
}


void
ngx_etcd_watcher_activate(ngx_etcd_watcher_member_t *member, int64_t id)
{
    member->state = NGX_ETCD_WATCHER_ACTIVE;
    member->node.key = (ngx_rbtree_key_t) id;

    ngx_rbtree_insert(&member->watcher->active, &member->node);

    ngx_etcd_fresh_count(&member->watcher->fresh, 1, 0);
}


void
ngx_etcd_watcher_detach(ngx_etcd_watcher_member_t *member)
{
    int64_t                    id;
    ngx_etcd_watcher_t        *watcher;
    ngx_etcd_watcher_state_e   state;

    watcher = member->watcher;
    state = member->state;

    member->state = NGX_ETCD_WATCHER_DETACHED;

    switch (state) {

    case NGX_ETCD_WATCHER_CREATING:
        ngx_queue_remove(&member->creating);
        watcher->ncreating--;
        break;

    case NGX_ETCD_WATCHER_ACTIVE:
        id = (int64_t) member->node.key;

        /* this clears the key */

        ngx_rbtree_delete(&watcher->active, &member->node);

        ngx_etcd_fresh_count(&watcher->fresh, -1, 0);
        ngx_etcd_watcher_cancel(watcher, id);
        break;

    default:
        break;
    }
}


/*
 * Answers come in the order of the creates, and ids are counted from 0, but
 * for refused creates, which have none.  A proxy counts like that, and answers
 * in any order.
 */

static ngx_etcd_watcher_member_t *
ngx_etcd_watcher_answered(ngx_etcd_watcher_t *watcher, int64_t id)
{
    ngx_queue_t                *q;
    ngx_etcd_watcher_member_t  *member, *first;

    q = ngx_queue_head(&watcher->creating);
    first = ngx_queue_data(q, ngx_etcd_watcher_member_t, creating);

    for ( /* void */ ;
         q != ngx_queue_sentinel(&watcher->creating);
         q = ngx_queue_next(q))
    {
        member = ngx_queue_data(q, ngx_etcd_watcher_member_t, creating);

        if (id == -1) {
            member->number--;

        } else if (member->number == id) {
            return member;
        }
    }

    if (id == -1) {
        watcher->numbers--;
    }

    return first;
}


static void
ngx_etcd_watcher_created(ngx_etcd_watcher_t *watcher,
    Etcd__WatchResponse *response)
{
    ngx_etcd_watcher_member_t  *member;

    if (ngx_queue_empty(&watcher->creating)) {
        return;
    }

    member = ngx_etcd_watcher_answered(watcher, response->watch_id);

    ngx_queue_remove(&member->creating);
    watcher->ncreating--;
    member->state = NGX_ETCD_WATCHER_DETACHED;

    ngx_etcd_watcher_expect(watcher);

    member->handlers->created(member->data, response);
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

    streams = watcher->cluster->streams;
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
        watcher->cluster->resyncs++;
        ngx_etcd_watcher_relist(watcher, 0);
        return;
    }

    /* when the connection is gone, the channel decides when and where next */

    if (ngx_etcd_channel_get(watcher->cluster->streams) == NULL) {
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

    ngx_etcd_channel_failed(watcher->cluster->streams, text);
}


static void
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

    ngx_etcd_channel_failed(watcher->cluster->streams, &text);
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
    ngx_queue_t                *q;
    ngx_etcd_watcher_member_t  *member;

    if (watcher->overdue.timer_set) {
        ngx_del_timer(&watcher->overdue);
    }

    ngx_etcd_fresh_ended(&watcher->fresh);

    for (q = ngx_queue_head(&watcher->members);
         q != ngx_queue_sentinel(&watcher->members);
         q = ngx_queue_next(q))
    {
        member = ngx_queue_data(q, ngx_etcd_watcher_member_t, queue);

        if (member->state != NGX_ETCD_WATCHER_DETACHED) {
            member->handlers->ended(member->data);
        }
    }
}


static ngx_int_t
ngx_etcd_watcher_message(ngx_etcd_grpc_call_t *call, ProtobufCMessage *message,
    ngx_pool_t *pool)
{
    ngx_int_t                   rc;
    ngx_uint_t                  changed, answer;
    ngx_etcd_watcher_t         *watcher;
    Etcd__WatchResponse        *response;
    ngx_etcd_watcher_member_t  *member;

    watcher = call->data;
    response = (Etcd__WatchResponse *) message;

    /* the last fragment is freed together with the others */
    changed = response->created || response->canceled;
    answer = !changed && response->watch_id == -1 && response->n_events == 0;

    ngx_etcd_watcher_header(watcher, response->header);

    if (!watcher->answered) {
        watcher->answered = 1;
        watcher->failures = 0;
        ngx_etcd_channel_succeeded(watcher->cluster->streams);
    }

    if (response->created) {
        ngx_etcd_watcher_created(watcher, response);
    }

    /* NULL: the watch was canceled, or the id is that of progress, -1 */

    member = ngx_etcd_watcher_find(watcher, response->watch_id);

    rc = NGX_OK;

    if (member != NULL) {
        rc = member->handlers->response(member->data, response, pool);
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
        cluster->resyncs++;
        ngx_etcd_watcher_relist(watcher, 1);
    }

    if (other) {
        ngx_etcd_history_change(cluster, header);
        watcher->relisted = cluster->history;
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

    if (watcher->relisted == watcher->cluster->history) {
        return;
    }

    watcher->relisted = watcher->cluster->history;

    /* after a doubt only what was created since then is listed once more */

    if (!watcher->doubted) {
        watcher->doubted = 1;
        watcher->cluster->resyncs++;
    }

    ngx_etcd_watcher_relist(watcher, 1);
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
    cluster->resyncs++;

    ngx_etcd_watcher_relist(watcher, 0);
}


void
ngx_etcd_watcher_leave(ngx_etcd_watcher_t *watcher, ngx_str_t *reason)
{
    ngx_etcd_watcher_end(watcher);

    ngx_etcd_channel_failed(watcher->cluster->streams, reason);
    ngx_etcd_watcher_open(watcher);
}


static void
ngx_etcd_watcher_relist(ngx_etcd_watcher_t *watcher, ngx_uint_t foreign)
{
    ngx_queue_t                *q;
    ngx_etcd_watcher_member_t  *member;

    for (q = ngx_queue_head(&watcher->members);
         q != ngx_queue_sentinel(&watcher->members);
         q = ngx_queue_next(q))
    {
        member = ngx_queue_data(q, ngx_etcd_watcher_member_t, queue);
        member->handlers->relist(member->data, foreign);
    }

    ngx_etcd_watcher_advance(watcher);
}


static ngx_etcd_watcher_member_t *
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
            return ngx_rbtree_data(node, ngx_etcd_watcher_member_t, node);
        }

        node = (key < node->key) ? node->left : node->right;
    }

    return NULL;
}


ngx_int_t
ngx_etcd_watcher_progress(ngx_etcd_watcher_t *watcher)
{
    if (!watcher->open) {
        return NGX_DECLINED;
    }

    return ngx_etcd_watch_request_progress(&watcher->call);
}


void
ngx_etcd_watcher_cancel(ngx_etcd_watcher_t *watcher, int64_t id)
{
    /* events of an id that could not be canceled are dropped */

    if (watcher->open) {
        (void) ngx_etcd_watch_request_cancel(&watcher->call, id);
    }
}


static ngx_int_t
ngx_etcd_watcher_ask(void *data)
{
    return ngx_etcd_watcher_progress(data);
}
