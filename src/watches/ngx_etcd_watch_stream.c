
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_watch_stream.h>
#include <ngx_etcd_watch_request.h>


static void ngx_etcd_watch_stream_open(ngx_etcd_watch_stream_t *stream);


/* the stream has ended: its watches continue on the next one */

static void
ngx_etcd_watch_stream_release(ngx_etcd_watch_stream_t *stream)
{
    ngx_queue_t                     *q;
    ngx_etcd_watch_stream_member_t  *member;

    ngx_etcd_event_stop(&stream->overdue);

    ngx_etcd_proof_ended(&stream->proof);

    for (q = ngx_queue_head(&stream->members);
         q != ngx_queue_sentinel(&stream->members);
         q = ngx_queue_next(q))
    {
        member = ngx_queue_data(q, ngx_etcd_watch_stream_member_t, queue);

        if (member->state != NGX_ETCD_WATCH_STREAM_DETACHED) {
            member->handlers->ended(member->data);
        }
    }
}


static void
ngx_etcd_watch_stream_end(ngx_etcd_watch_stream_t *stream)
{
    stream->open = 0;
    ngx_etcd_grpc_cancel(&stream->call);

    ngx_etcd_watch_stream_release(stream);
}


static void
ngx_etcd_watch_stream_ready(void *data)
{
    ngx_etcd_watch_stream_t *stream = data;

    ngx_etcd_auth_t  *auth;

    auth = stream->cluster->auth;

    if (stream->open && stream->stale) {

        if (!ngx_etcd_auth_ready(auth)) {
            ngx_etcd_auth_wait(auth, &stream->waiter);
            return;
        }

        stream->stale = 0;

        if (!ngx_etcd_cluster_authenticates(stream->cluster->conf)) {

            /* another stream would have no token either */

            stream->token = auth->generation;

        } else {

            /* a stream keeps the token that it was opened with */

            ngx_etcd_watch_stream_end(stream);
        }
    }

    ngx_etcd_watch_stream_advance(stream);
}


static void
ngx_etcd_watch_stream_timer(ngx_event_t *ev)
{
    ngx_etcd_watch_stream_advance(ev->data);
}


/* The connection may be alive all the same. */

static void
ngx_etcd_watch_stream_overdue(ngx_event_t *ev)
{
    ngx_str_t                 text;
    ngx_etcd_watch_stream_t  *stream;

    stream = ev->data;

    if (!stream->open || stream->ncreating == 0) {
        return;
    }

    ngx_str_set(&text, "no answer to a watch");

    ngx_etcd_auth_unanswered(stream->cluster->auth, stream->token, &text);
    ngx_etcd_watch_stream_leave(stream, &text);
}


static void
ngx_etcd_watch_stream_relist(ngx_etcd_watch_stream_t *stream,
    ngx_uint_t foreign)
{
    ngx_queue_t                     *q;
    ngx_etcd_watch_stream_member_t  *member;

    for (q = ngx_queue_head(&stream->members);
         q != ngx_queue_sentinel(&stream->members);
         q = ngx_queue_next(q))
    {
        member = ngx_queue_data(q, ngx_etcd_watch_stream_member_t, queue);
        member->handlers->relist(member->data, foreign);
    }

    ngx_etcd_watch_stream_advance(stream);
}


/* a linearizable answer has shown another history, maybe before any watch */

static void
ngx_etcd_watch_stream_history(void *data)
{
    ngx_etcd_watch_stream_t *stream = data;

    if (stream->relisted == stream->cluster->history.changes) {
        return;
    }

    stream->relisted = stream->cluster->history.changes;

    /* if the revision was in doubt, the relist is already counted */

    if (!stream->doubted) {
        stream->doubted = 1;
        stream->cluster->counts.resyncs++;
    }

    ngx_etcd_watch_stream_relist(stream, 1);
}


ngx_etcd_watch_stream_t *
ngx_etcd_watch_stream_create(ngx_etcd_cluster_t *cluster)
{
    ngx_etcd_watch_stream_t  *stream;

    stream = ngx_pcalloc(cluster->pool, sizeof(ngx_etcd_watch_stream_t));
    if (stream == NULL) {
        return NULL;
    }

    stream->cluster = cluster;

    stream->waiter.handler = ngx_etcd_watch_stream_ready;
    stream->waiter.data = stream;

    ngx_etcd_event_init_timer(&stream->timer, ngx_etcd_watch_stream_timer,
                              stream, cluster->log);

    ngx_etcd_event_init_timer(&stream->overdue, ngx_etcd_watch_stream_overdue,
                              stream, cluster->log);

    stream->proof.cluster = cluster;
    stream->proof.progress = ngx_etcd_watch_stream_progress;
    stream->proof.leave = ngx_etcd_watch_stream_leave;
    stream->proof.data = stream;

    stream->proof.verify.proof = &stream->proof;
    stream->proof.verify.range = &stream->proof.range;

    stream->history.changed = ngx_etcd_watch_stream_history;
    stream->history.data = stream;

    ngx_etcd_history_listen(cluster, &stream->history);

    ngx_queue_init(&stream->members);
    ngx_queue_init(&stream->creating);
    ngx_rbtree_init(&stream->active, &stream->sentinel,
                    ngx_rbtree_insert_value);

    return stream;
}


void
ngx_etcd_watch_stream_destroy(ngx_etcd_watch_stream_t *stream)
{
    ngx_queue_t                     *q;
    ngx_etcd_watch_stream_member_t  *member;

    ngx_etcd_history_forget(&stream->history);
    ngx_etcd_waiter_forget(&stream->waiter);

    /* after this, nothing is a proof any more */

    stream->cluster->current = 0;
    ngx_etcd_proof_ended(&stream->proof);

    ngx_etcd_event_stop(&stream->timer);
    ngx_etcd_event_stop(&stream->overdue);

    for (q = ngx_queue_head(&stream->members);
         q != ngx_queue_sentinel(&stream->members);
         q = ngx_queue_next(q))
    {
        member = ngx_queue_data(q, ngx_etcd_watch_stream_member_t, queue);
        member->handlers->stop(member->data);
    }

    stream->open = 0;
    ngx_etcd_grpc_cancel(&stream->call);
}


/*
 * A lower revision on a new stream means a member that lags, or a cluster
 * restored from a backup; another id means another cluster.  A linearizable
 * list decides.  (Later responses of several watches may overtake each other.)
 * The history changes first: lists of the former one that have begun end then.
 */

static void
ngx_etcd_watch_stream_header(ngx_etcd_watch_stream_t *stream,
    Etcd__ResponseHeader *header)
{
    ngx_uint_t           other, back, level;
    ngx_etcd_cluster_t  *cluster;

    /* a header without a cluster id is made by a proxy */

    if (header == NULL || header->cluster_id == 0) {
        return;
    }

    cluster = stream->cluster;

    other = (cluster->cluster_id != 0
             && header->cluster_id != cluster->cluster_id);

    back = (!stream->answered && header->revision < cluster->revision);

    if (other || back) {
        /* ngx_etcd_cluster_id_check() has warned of another cluster */

        level = other ? NGX_LOG_INFO : NGX_LOG_WARN;

        ngx_log_error(level, cluster->log, 0,
                      "etcd cluster \"%V\": %s (cluster id %xL, was %xL; "
                      "revision %L, was %L), listing again",
                      &cluster->conf->name,
                      other ? "another cluster answers"
                            : "the revision went back",
                      header->cluster_id, cluster->cluster_id,
                      header->revision, cluster->revision);

        stream->doubted = 1;
        cluster->counts.resyncs++;

        if (other) {
            ngx_etcd_history_change(cluster, header);
            stream->relisted = cluster->history.changes;
        }

        ngx_etcd_watch_stream_relist(stream, 1);
    }

    cluster->cluster_id = header->cluster_id;
    cluster->revision = ngx_max(cluster->revision, header->revision);

    stream->reached = ngx_max(stream->reached, header->revision);
}


/*
 * etcd answers creates in their order, and counts ids from 0.  A refused create
 * has no id (-1), so the ids of later creates decrease by one.  A proxy counts
 * the same way, and answers in any order.
 */

static ngx_etcd_watch_stream_member_t *
ngx_etcd_watch_stream_answered(ngx_etcd_watch_stream_t *stream, int64_t id)
{
    ngx_queue_t                     *q;
    ngx_etcd_watch_stream_member_t  *member, *first;

    q = ngx_queue_head(&stream->creating);
    first = ngx_queue_data(q, ngx_etcd_watch_stream_member_t, creating);

    for ( /* void */ ;
         q != ngx_queue_sentinel(&stream->creating);
         q = ngx_queue_next(q))
    {
        member = ngx_queue_data(q, ngx_etcd_watch_stream_member_t, creating);

        if (id == -1) {
            member->number--;

        } else if (member->number == id) {
            return member;
        }
    }

    if (id == -1) {
        stream->numbers--;
    }

    return first;
}


static void
ngx_etcd_watch_stream_expect(ngx_etcd_watch_stream_t *stream)
{
    ngx_etcd_event_stop(&stream->overdue);

    if (stream->ncreating != 0) {
        ngx_add_timer(&stream->overdue,
                      stream->cluster->conf->request_timeout);
    }
}


static void
ngx_etcd_watch_stream_created(ngx_etcd_watch_stream_t *stream,
    Etcd__WatchResponse *response)
{
    ngx_etcd_watch_stream_member_t  *member;

    if (ngx_queue_empty(&stream->creating)) {
        return;
    }

    member = ngx_etcd_watch_stream_answered(stream, response->watch_id);

    ngx_queue_remove(&member->creating);
    stream->ncreating--;
    member->state = NGX_ETCD_WATCH_STREAM_DETACHED;

    ngx_etcd_watch_stream_expect(stream);

    member->handlers->created(member->data, response);
}


static ngx_etcd_watch_stream_member_t *
ngx_etcd_watch_stream_find(ngx_etcd_watch_stream_t *stream, int64_t id)
{
    ngx_rbtree_key_t    key;
    ngx_rbtree_node_t  *node, *sentinel;

    if (id < 0) {
        return NULL;
    }

    key = (ngx_rbtree_key_t) id;
    node = stream->active.root;
    sentinel = stream->active.sentinel;

    while (node != sentinel) {

        if (key == node->key) {
            return ngx_rbtree_data(node, ngx_etcd_watch_stream_member_t, node);
        }

        node = (key < node->key) ? node->left : node->right;
    }

    return NULL;
}


static ngx_int_t
ngx_etcd_watch_stream_message(ngx_etcd_grpc_call_t *call,
    ProtobufCMessage *message, ngx_pool_t *pool)
{
    ngx_int_t                        rc;
    ngx_uint_t                       changed, answer;
    Etcd__WatchResponse             *response;
    ngx_etcd_watch_stream_t         *stream;
    ngx_etcd_watch_stream_member_t  *member;

    stream = call->data;
    response = (Etcd__WatchResponse *) message;

    /* a response handler may free the last fragment together with the others */
    changed = response->created || response->canceled;
    answer = !changed && response->watch_id == -1 && response->n_events == 0;

    ngx_etcd_watch_stream_header(stream, response->header);

    if (!stream->answered) {
        stream->answered = 1;
        stream->failures = 0;
        ngx_etcd_channel_succeeded(stream->cluster->streams);
    }

    if (response->created) {
        ngx_etcd_watch_stream_created(stream, response);
    }

    /* NULL: the watch was canceled, or the id is -1, of a progress answer */

    member = ngx_etcd_watch_stream_find(stream, response->watch_id);

    rc = NGX_OK;

    if (member != NULL) {
        rc = member->handlers->response(member->data, response, pool);
    }

    ngx_etcd_proof_received(&stream->proof, answer);

    if (changed) {
        ngx_etcd_watch_stream_advance(stream);
    }

    return rc;
}


static void
ngx_etcd_watch_stream_ended(ngx_etcd_grpc_call_t *call,
    ngx_etcd_grpc_status_e status, ngx_str_t *text)
{
    ngx_etcd_watch_stream_t  *stream;

    stream = call->data;
    stream->open = 0;

    ngx_log_error(NGX_LOG_INFO, stream->cluster->log, 0,
                  "etcd cluster \"%V\": watch stream ended: %s: %V",
                  &stream->cluster->conf->name,
                  ngx_etcd_grpc_status_name(status), text);

    ngx_etcd_watch_stream_release(stream);

    if (ngx_etcd_auth_refused(stream->cluster->auth, stream->cluster->streams,
                              stream->token, status, text))
    {
        ngx_etcd_watch_stream_open(stream);
        return;
    }

    if (call->oversize) {

        /* lists have smaller pages, and show whose values are too large */

        ngx_add_timer(&stream->timer,
                      ngx_etcd_backoff(stream->cluster, stream->failures++));
        stream->cluster->counts.resyncs++;
        ngx_etcd_watch_stream_relist(stream, 0);
        return;
    }

    /* without a connection, the channel decides when and where to connect */

    if (ngx_etcd_channel_get(stream->cluster->streams) == NULL) {
        ngx_etcd_watch_stream_open(stream);
        return;
    }

    /*
     * the endpoint ends streams ("no leader", "shutting down") but accepts
     * calls: connect to another one
     */

    ngx_add_timer(&stream->timer,
                  stream->failures ? ngx_etcd_backoff(stream->cluster,
                                                      stream->failures)
                                    : 1);
    stream->failures++;

    ngx_etcd_channel_failed(stream->cluster->streams, text);
}


static void
ngx_etcd_watch_stream_open(ngx_etcd_watch_stream_t *stream)
{
    ngx_keyval_t           md[1 + NGX_ETCD_AUTH_METADATA];
    ngx_etcd_auth_t       *auth;
    ngx_etcd_http2_t      *h2;
    ngx_etcd_channel_t    *streams;
    ngx_etcd_grpc_call_t  *call;

    if (stream->timer.timer_set || stream->waiter.waiting) {
        return;
    }

    streams = stream->cluster->streams;
    h2 = ngx_etcd_channel_get(streams);

    if (h2 == NULL) {
        ngx_etcd_channel_wait(streams, &stream->waiter);
        return;
    }

    auth = stream->cluster->auth;

    if (!ngx_etcd_auth_ready(auth)) {
        ngx_etcd_auth_wait(auth, &stream->waiter);
        return;
    }

    ngx_str_set(&md[0].key, "hasleader");
    ngx_str_set(&md[0].value, "true");

    call = &stream->call;
    ngx_memzero(call, sizeof(ngx_etcd_grpc_call_t));

    call->method = "/etcdserverpb.Watch/Watch";
    call->response = &etcd__watch_response__descriptor;
    call->metadata = md;
    call->nmetadata = 1 + ngx_etcd_auth_metadata(auth, &md[1],
                                                 &stream->token);
    call->message = ngx_etcd_watch_stream_message;
    call->done = ngx_etcd_watch_stream_ended;
    call->data = stream;

    if (ngx_etcd_grpc_start(h2, call) != NGX_OK) {
        ngx_add_timer(&stream->timer,
                      ngx_etcd_backoff(stream->cluster, stream->failures++));
        return;
    }

    stream->open = 1;
    stream->numbers = 0;
    stream->reached = 0;
    stream->answered = 0;
    stream->stale = 0;

    ngx_etcd_proof_opened(&stream->proof);
}


void
ngx_etcd_watch_stream_advance(ngx_etcd_watch_stream_t *stream)
{
    ngx_queue_t                     *q;
    ngx_etcd_watch_stream_member_t  *member;

    if (!stream->open) {
        ngx_etcd_watch_stream_open(stream);
    }

    for (q = ngx_queue_head(&stream->members);
         q != ngx_queue_sentinel(&stream->members);
         q = ngx_queue_next(q))
    {
        member = ngx_queue_data(q, ngx_etcd_watch_stream_member_t, queue);
        member->handlers->advance(member->data);
    }
}


ngx_int_t
ngx_etcd_watch_stream_create_watch(ngx_etcd_watch_stream_member_t *member,
    ngx_str_t *key, ngx_str_t *range_end, int64_t revision)
{
    ngx_uint_t                max;
    ngx_etcd_watch_stream_t  *stream;

    stream = member->stream;
    max = stream->serial ? 1 : NGX_ETCD_WATCH_STREAM_CREATES;

    if (!stream->open || stream->stale || stream->ncreating >= max) {
        return NGX_DECLINED;
    }

    if (ngx_etcd_watch_request_create(&stream->call, key, range_end, revision)
        != NGX_OK)
    {
        /* no memory: nothing else may advance the watch */

        ngx_add_timer(&stream->timer, ngx_etcd_backoff(stream->cluster, 0));

        return NGX_ERROR;
    }

    member->state = NGX_ETCD_WATCH_STREAM_CREATING;
    member->number = stream->numbers++;

    ngx_queue_insert_tail(&stream->creating, &member->creating);
    stream->ncreating++;

    if (!stream->overdue.timer_set) {
        ngx_etcd_watch_stream_expect(stream);
    }

    return NGX_OK;
}


void
ngx_etcd_watch_stream_activate(ngx_etcd_watch_stream_member_t *member,
    int64_t id)
{
    member->state = NGX_ETCD_WATCH_STREAM_ACTIVE;
    member->node.key = (ngx_rbtree_key_t) id;

    ngx_rbtree_insert(&member->stream->active, &member->node);

    ngx_etcd_proof_count(&member->stream->proof, 1, 0);
}


void
ngx_etcd_watch_stream_detach(ngx_etcd_watch_stream_member_t *member)
{
    int64_t                         id;
    ngx_etcd_watch_stream_t        *stream;
    ngx_etcd_watch_stream_state_e   state;

    stream = member->stream;
    state = member->state;

    member->state = NGX_ETCD_WATCH_STREAM_DETACHED;

    switch (state) {

    case NGX_ETCD_WATCH_STREAM_CREATING:
        ngx_queue_remove(&member->creating);
        stream->ncreating--;
        break;

    case NGX_ETCD_WATCH_STREAM_ACTIVE:
        id = (int64_t) member->node.key;

        /* ngx_rbtree_delete() clears the key */

        ngx_rbtree_delete(&stream->active, &member->node);

        ngx_etcd_proof_count(&stream->proof, -1, 0);
        ngx_etcd_watch_stream_cancel(stream, id);
        break;

    default:
        break;
    }
}


void
ngx_etcd_watch_stream_mixed(ngx_etcd_watch_stream_t *stream)
{
    ngx_etcd_cluster_t  *cluster;

    cluster = stream->cluster;

    ngx_log_error(NGX_LOG_WARN, cluster->log, 0,
                  "etcd cluster \"%V\": answers of watches were mixed up by a "
                  "proxy, listing again",
                  &cluster->conf->name);

    stream->serial = 1;
    cluster->counts.resyncs++;

    ngx_etcd_watch_stream_relist(stream, 0);
}


void
ngx_etcd_watch_stream_leave(void *data, ngx_str_t *reason)
{
    ngx_etcd_watch_stream_t *stream = data;

    ngx_etcd_watch_stream_end(stream);

    ngx_etcd_channel_stuck(stream->cluster->streams, reason);
    ngx_etcd_watch_stream_open(stream);
}


ngx_int_t
ngx_etcd_watch_stream_progress(void *data)
{
    ngx_etcd_watch_stream_t *stream = data;

    if (!stream->open) {
        return NGX_DECLINED;
    }

    return ngx_etcd_watch_request_progress(&stream->call);
}


void
ngx_etcd_watch_stream_cancel(ngx_etcd_watch_stream_t *stream, int64_t id)
{
    /* events of an id that could not be canceled are dropped */

    if (stream->open) {
        (void) ngx_etcd_watch_request_cancel(&stream->call, id);
    }
}
