
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_keeper.h>
#include <ngx_etcd_auth.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_proto.pb-c.h>


static void ngx_etcd_keeper_open(ngx_etcd_keeper_t *keeper);
static void ngx_etcd_keeper_ready(void *data);
static void ngx_etcd_keeper_reopen(ngx_event_t *ev);
static void ngx_etcd_keeper_ended(ngx_etcd_grpc_call_t *call,
    ngx_etcd_grpc_status_e status, ngx_str_t *text);
static void ngx_etcd_keeper_released(ngx_etcd_keeper_t *keeper);
static ngx_int_t ngx_etcd_keeper_message(ngx_etcd_grpc_call_t *call,
    ProtobufCMessage *message, ngx_pool_t *pool);
static void ngx_etcd_keeper_overdue(ngx_etcd_keeper_t *keeper,
    ngx_etcd_lease_t *lease);
static void ngx_etcd_keeper_leave(ngx_etcd_keeper_t *keeper, ngx_str_t *text);
static void ngx_etcd_keeper_timer(ngx_event_t *ev);
static void ngx_etcd_keeper_advance(ngx_etcd_keeper_t *keeper);
static void ngx_etcd_keeper_expire(ngx_etcd_keeper_t *keeper);

static uint64_t ngx_etcd_lease_due(ngx_etcd_keeper_t *keeper,
    ngx_etcd_lease_t *lease);
static uint64_t ngx_etcd_lease_overdue(ngx_etcd_lease_t *lease);
static void ngx_etcd_lease_renew(ngx_etcd_keeper_t *keeper,
    ngx_etcd_lease_t *lease);
static void ngx_etcd_lease_answer(ngx_etcd_lease_t *lease,
    Etcd__LeaseKeepAliveResponse *response);
static void ngx_etcd_lease_confirm(ngx_etcd_lease_t *lease);
static void ngx_etcd_lease_read(ngx_etcd_quorum_read_t *read,
    ngx_etcd_grpc_status_e status, ngx_str_t *text);
static void ngx_etcd_lease_confirmed(ngx_etcd_lease_t *lease);
static ngx_uint_t ngx_etcd_lease_doubtful(ngx_etcd_lease_t *lease);
static void ngx_etcd_lease_unconfirmed(ngx_etcd_lease_t *lease,
    ngx_etcd_grpc_status_e status, ngx_str_t *text);
static void ngx_etcd_lease_renewed(ngx_etcd_lease_t *lease, uint64_t sent,
    ngx_msec_t ttl);
static void ngx_etcd_lease_drop(ngx_etcd_lease_t *lease);
static void ngx_etcd_lease_lose(ngx_etcd_lease_t *lease, char *reason);


ngx_etcd_keeper_t *
ngx_etcd_keeper_create(ngx_etcd_cluster_t *cluster)
{
    ngx_etcd_keeper_t  *keeper;

    keeper = ngx_pcalloc(cluster->pool, sizeof(ngx_etcd_keeper_t));
    if (keeper == NULL) {
        return NULL;
    }

    keeper->cluster = cluster;

    keeper->waiter.handler = ngx_etcd_keeper_ready;
    keeper->waiter.data = keeper;

    keeper->reopen.handler = ngx_etcd_keeper_reopen;
    keeper->reopen.data = keeper;
    keeper->reopen.log = cluster->log;
    keeper->reopen.cancelable = 1;

    keeper->timer.handler = ngx_etcd_keeper_timer;
    keeper->timer.data = keeper;
    keeper->timer.log = cluster->log;
    keeper->timer.cancelable = 1;

    ngx_queue_init(&keeper->leases);

    return keeper;
}


void
ngx_etcd_keeper_destroy(ngx_etcd_keeper_t *keeper)
{
    ngx_queue_t  *q;

    while (!ngx_queue_empty(&keeper->leases)) {
        q = ngx_queue_head(&keeper->leases);
        ngx_etcd_lease_forget(ngx_queue_data(q, ngx_etcd_lease_t, queue));
    }

    ngx_etcd_waiter_forget(&keeper->waiter);

    if (keeper->reopen.timer_set) {
        ngx_del_timer(&keeper->reopen);
    }

    if (keeper->timer.timer_set) {
        ngx_del_timer(&keeper->timer);
    }

    if (keeper->open) {
        keeper->open = 0;
        ngx_etcd_grpc_cancel(&keeper->call);
    }
}


uint64_t
ngx_etcd_lease_deadline(uint64_t sent, ngx_msec_t ttl)
{
    return sent + ttl - ngx_min(ttl / 10, NGX_ETCD_LEASE_MAX_MARGIN);
}


void
ngx_etcd_lease_keep(ngx_etcd_keeper_t *keeper, ngx_etcd_lease_t *lease,
    ngx_uint_t now)
{
    lease->kept = 1;
    lease->keeper = keeper;
    lease->nsent = 0;
    lease->doubts = 0;
    lease->renewal = ngx_etcd_clock() + (now ? 0 : lease->ttl / 3);

    ngx_queue_insert_tail(&keeper->leases, &lease->queue);

    ngx_etcd_keeper_advance(keeper);
}


void
ngx_etcd_lease_forget(ngx_etcd_lease_t *lease)
{
    if (lease->kept) {
        lease->kept = 0;
        ngx_queue_remove(&lease->queue);
        ngx_etcd_lease_drop(lease);
    }
}


static void
ngx_etcd_keeper_open(ngx_etcd_keeper_t *keeper)
{
    ngx_keyval_t           md[1 + NGX_ETCD_AUTH_METADATA];
    ngx_etcd_auth_t       *auth;
    ngx_etcd_http2_t      *h2;
    ngx_etcd_channel_t    *streams;
    ngx_etcd_grpc_call_t  *call;

    if (keeper->reopen.timer_set || keeper->waiter.waiting) {
        return;
    }

    streams = keeper->cluster->streams;
    h2 = ngx_etcd_channel_get(streams);

    if (h2 == NULL) {
        ngx_etcd_channel_wait(streams, &keeper->waiter);
        return;
    }

    auth = keeper->cluster->auth;

    if (!ngx_etcd_auth_ready(auth)) {
        ngx_etcd_auth_wait(auth, &keeper->waiter);
        return;
    }

    ngx_str_set(&md[0].key, "hasleader");
    ngx_str_set(&md[0].value, "true");

    call = &keeper->call;
    ngx_memzero(call, sizeof(ngx_etcd_grpc_call_t));

    call->method = "/etcdserverpb.Lease/LeaseKeepAlive";
    call->response = &etcd__lease_keep_alive_response__descriptor;
    call->metadata = md;
    call->nmetadata = 1 + ngx_etcd_auth_metadata(auth, &md[1], &keeper->token);
    call->message = ngx_etcd_keeper_message;
    call->done = ngx_etcd_keeper_ended;
    call->data = keeper;

    if (ngx_etcd_grpc_start(h2, call) != NGX_OK) {
        ngx_add_timer(&keeper->reopen,
                      ngx_etcd_backoff(keeper->cluster, keeper->failures++));
        return;
    }

    keeper->open = 1;
    keeper->answered = 0;
}


static void
ngx_etcd_keeper_ready(void *data)
{
    ngx_etcd_keeper_advance(data);
}


static void
ngx_etcd_keeper_reopen(ngx_event_t *ev)
{
    ngx_etcd_keeper_advance(ev->data);
}


static void
ngx_etcd_keeper_ended(ngx_etcd_grpc_call_t *call,
    ngx_etcd_grpc_status_e status, ngx_str_t *text)
{
    ngx_etcd_keeper_t   *keeper;
    ngx_etcd_channel_t  *streams;

    keeper = call->data;
    streams = keeper->cluster->streams;

    ngx_log_error(NGX_LOG_INFO, keeper->cluster->log, 0,
                  "etcd cluster \"%V\": keepalive stream ended: %s: %V",
                  &keeper->cluster->conf->name,
                  ngx_etcd_grpc_status_name(status), text);

    ngx_etcd_keeper_released(keeper);

    if (!ngx_etcd_auth_refused(keeper->cluster->auth, keeper->token, status,
                               text)
        && ngx_etcd_channel_get(streams) != NULL)
    {
        /* the endpoint ends streams but takes calls: another one is better */

        ngx_add_timer(&keeper->reopen,
                      keeper->failures ? ngx_etcd_backoff(keeper->cluster,
                                                          keeper->failures)
                                       : 1);
        keeper->failures++;

        ngx_etcd_channel_failed(streams, text);
    }

    ngx_etcd_keeper_advance(keeper);
}


/*
 * What was sent on the stream is not answered any more.  The next one may be
 * of an etcd that was restored meanwhile: all leases are renewed on it at once.
 */

static void
ngx_etcd_keeper_released(ngx_etcd_keeper_t *keeper)
{
    ngx_queue_t       *q;
    ngx_etcd_lease_t  *lease;

    keeper->open = 0;

    for (q = ngx_queue_head(&keeper->leases);
         q != ngx_queue_sentinel(&keeper->leases);
         q = ngx_queue_next(q))
    {
        lease = ngx_queue_data(q, ngx_etcd_lease_t, queue);

        ngx_etcd_lease_drop(lease);

        lease->nsent = 0;
        lease->renewal = 0;
    }
}


static ngx_int_t
ngx_etcd_keeper_message(ngx_etcd_grpc_call_t *call, ProtobufCMessage *message,
    ngx_pool_t *pool)
{
    ngx_queue_t                   *q, *next;
    ngx_etcd_lease_t              *lease;
    ngx_etcd_keeper_t             *keeper;
    Etcd__LeaseKeepAliveResponse  *response;

    keeper = call->data;
    response = (Etcd__LeaseKeepAliveResponse *) message;

    if (!keeper->answered) {
        keeper->answered = 1;
        keeper->failures = 0;
        ngx_etcd_channel_succeeded(keeper->cluster->streams);
        ngx_etcd_auth_accepted(keeper->cluster->auth);
    }

    for (q = ngx_queue_head(&keeper->leases);
         q != ngx_queue_sentinel(&keeper->leases);
         q = next)
    {
        next = ngx_queue_next(q);
        lease = ngx_queue_data(q, ngx_etcd_lease_t, queue);

        if (lease->id == response->id && lease->nsent != 0) {

            /* as good as the answer to a PING, which is not sent then */

            ngx_etcd_cluster_prove(keeper->cluster, lease->sent[0]);

            ngx_etcd_lease_answer(lease, response);
            break;
        }
    }

    ngx_etcd_keeper_advance(keeper);

    return NGX_OK;
}


/*
 * The endpoint answers other calls, perhaps, but the stream is stuck behind a
 * renewal, or the endpoint has no quorum: there is time to try another one.
 */

static void
ngx_etcd_keeper_overdue(ngx_etcd_keeper_t *keeper, ngx_etcd_lease_t *lease)
{
    ngx_str_t         text;
    ngx_etcd_auth_t  *auth;

    if (lease->answered == 0) {
        ngx_str_set(&text, "no answer to a keepalive");
        ngx_etcd_keeper_leave(keeper, &text);
        return;
    }

    ngx_str_set(&text, "no answer to a linearizable read after a keepalive");
    auth = keeper->cluster->auth;

    /* a restored etcd may never come to the point where a token was made */

    if (lease->read.range.running && auth->token.len != 0) {
        (void) ngx_etcd_auth_refused(auth, lease->read.range.token,
                                     NGX_ETCD_GRPC_UNAUTHENTICATED, &text);
    }

    ngx_etcd_keeper_leave(keeper, &text);
}


static void
ngx_etcd_keeper_leave(ngx_etcd_keeper_t *keeper, ngx_str_t *text)
{
    keeper->open = 0;
    ngx_etcd_grpc_cancel(&keeper->call);

    ngx_etcd_keeper_released(keeper);
    ngx_etcd_channel_failed(keeper->cluster->streams, text);
}


static void
ngx_etcd_keeper_timer(ngx_event_t *ev)
{
    ngx_etcd_keeper_advance(ev->data);
}


/* does what is due, and sets the timer for what is due next */

static void
ngx_etcd_keeper_advance(ngx_etcd_keeper_t *keeper)
{
    uint64_t           now, next;
    ngx_queue_t       *q;
    ngx_etcd_lease_t  *lease;

    ngx_etcd_keeper_expire(keeper);

    if (keeper->timer.timer_set) {
        ngx_del_timer(&keeper->timer);
    }

    if (ngx_queue_empty(&keeper->leases)) {
        return;
    }

    if (!keeper->open) {
        ngx_etcd_keeper_open(keeper);
    }

    now = ngx_etcd_clock();
    next = now + NGX_ETCD_LEASE_MAX_TTL * 1000;

    for (q = ngx_queue_head(&keeper->leases);
         q != ngx_queue_sentinel(&keeper->leases);
         q = ngx_queue_next(q))
    {
        lease = ngx_queue_data(q, ngx_etcd_lease_t, queue);

        if (keeper->open && ngx_etcd_lease_overdue(lease) <= now) {
            ngx_etcd_keeper_overdue(keeper, lease);
            ngx_etcd_keeper_open(keeper);
        }

        if (lease->answered != 0 && !lease->read.range.running) {
            ngx_etcd_lease_confirm(lease);
        }

        if (keeper->open && lease->renewal <= now) {
            ngx_etcd_lease_renew(keeper, lease);
        }

        next = ngx_min(next, ngx_etcd_lease_due(keeper, lease));
    }

    ngx_add_timer(&keeper->timer, (next > now) ? (ngx_msec_t) (next - now)
                                               : 1);
}


static void
ngx_etcd_keeper_expire(ngx_etcd_keeper_t *keeper)
{
    uint64_t           now;
    ngx_queue_t       *q, *next;
    ngx_etcd_lease_t  *lease;

    now = ngx_etcd_clock();

    for (q = ngx_queue_head(&keeper->leases);
         q != ngx_queue_sentinel(&keeper->leases);
         q = next)
    {
        next = ngx_queue_next(q);
        lease = ngx_queue_data(q, ngx_etcd_lease_t, queue);

        if (lease->deadline <= now) {
            ngx_etcd_lease_lose(lease, "it was not renewed in time");
        }
    }
}


static uint64_t
ngx_etcd_lease_due(ngx_etcd_keeper_t *keeper, ngx_etcd_lease_t *lease)
{
    uint64_t  due;

    due = lease->deadline;

    if (keeper->open) {
        due = ngx_min(due, lease->renewal);
        due = ngx_min(due, ngx_etcd_lease_overdue(lease));
    }

    return due;
}


/*
 * A renewal sent after a third of the TTL is given up before half of it,
 * unless it is answered and confirmed.
 */

static uint64_t
ngx_etcd_lease_overdue(ngx_etcd_lease_t *lease)
{
    uint64_t  sent;

    if (lease->answered != 0) {
        sent = lease->answered;

    } else if (lease->nsent != 0) {
        sent = lease->sent[0];

    } else {
        return lease->deadline;
    }

    return sent + ngx_max(lease->ttl / 6, NGX_ETCD_LEASE_PATIENCE);
}


static void
ngx_etcd_lease_renew(ngx_etcd_keeper_t *keeper, ngx_etcd_lease_t *lease)
{
    uint64_t                     now;
    Etcd__LeaseKeepAliveRequest  request;

    now = ngx_etcd_clock();
    lease->renewal = now + lease->ttl / 3;

    if (lease->nsent == NGX_ETCD_LEASE_IN_FLIGHT) {
        return;
    }

    etcd__lease_keep_alive_request__init(&request);
    request.id = lease->id;

    if (ngx_etcd_grpc_send(&keeper->call, &request.base) == NGX_OK) {
        lease->sent[lease->nsent++] = now;
    }
}


/* the server answers in order: this is for the oldest request */

static void
ngx_etcd_lease_answer(ngx_etcd_lease_t *lease,
    Etcd__LeaseKeepAliveResponse *response)
{
    uint64_t               sent;
    ngx_msec_t             ttl;
    Etcd__ResponseHeader  *header;

    sent = lease->sent[0];
    lease->nsent--;

    ngx_memmove(lease->sent, lease->sent + 1,
                lease->nsent * sizeof(uint64_t));

    if (response->ttl <= 0) {
        ngx_etcd_lease_lose(lease, "etcd does not have it any more");
        return;
    }

    ttl = (ngx_msec_t) ngx_min(response->ttl, NGX_ETCD_LEASE_MAX_TTL) * 1000;

    if (lease->witness == NULL) {
        ngx_etcd_lease_renewed(lease, sent, ttl);
        return;
    }

    if (lease->answered != 0) {

        /* the one before is not confirmed yet: the next one will count */

        return;
    }

    header = response->header;

    lease->answered = sent;
    lease->answered_ttl = ttl;
    lease->cluster_id = (header != NULL) ? header->cluster_id : 0;
    lease->raft_term = (header != NULL) ? header->raft_term : 0;

    ngx_etcd_lease_confirm(lease);
}


/* without a connection or a token it is tried again when there is one */

static void
ngx_etcd_lease_confirm(ngx_etcd_lease_t *lease)
{
    ngx_etcd_auth_t         *auth;
    ngx_etcd_keeper_t       *keeper;
    ngx_etcd_quorum_read_t  *read;

    keeper = lease->keeper;
    auth = keeper->cluster->auth;
    read = &lease->read;

    read->cluster = keeper->cluster;
    read->done = ngx_etcd_lease_read;
    read->data = lease;

    lease->witness(lease, &read->key, &lease->created);

    if (ngx_etcd_quorum_read_start(read) == NGX_OK) {
        return;
    }

    if (!ngx_etcd_auth_ready(auth) && !keeper->waiter.waiting) {
        ngx_etcd_auth_wait(auth, &keeper->waiter);
    }
}


static void
ngx_etcd_lease_read(ngx_etcd_quorum_read_t *read,
    ngx_etcd_grpc_status_e status, ngx_str_t *text)
{
    ngx_etcd_lease_t   *lease;
    ngx_etcd_keeper_t  *keeper;

    lease = read->data;
    keeper = lease->keeper;

    if (status == NGX_ETCD_GRPC_OK
        || (status == NGX_ETCD_GRPC_PERMISSION_DENIED && lease->shared))
    {
        if (status == NGX_ETCD_GRPC_OK) {
            ngx_etcd_lease_confirmed(lease);

        } else {
            ngx_etcd_lease_renewed(lease, lease->answered,
                                   lease->answered_ttl);
        }

    } else if (!read->range.refused) {
        ngx_etcd_lease_unconfirmed(lease, status, text);
    }

    ngx_etcd_keeper_advance(keeper);
}


static void
ngx_etcd_lease_confirmed(ngx_etcd_lease_t *lease)
{
    int64_t  created;

    if (ngx_etcd_lease_doubtful(lease)) {
        return;
    }

    created = lease->created;

    if (created == 0 || lease->read.created == created) {
        ngx_etcd_lease_renewed(lease, lease->answered, lease->answered_ttl);
        return;
    }

    /* it may have been given up meanwhile, and something else is proved then */

    lease->missing(lease, created);
}


/* 1: the renewal does not count, there will be another one */

static ngx_uint_t
ngx_etcd_lease_doubtful(ngx_etcd_lease_t *lease)
{
    uint64_t                 now;
    ngx_etcd_cluster_t      *cluster;
    ngx_etcd_quorum_read_t  *read;

    read = &lease->read;
    cluster = lease->keeper->cluster;

    if ((lease->cluster_id == 0 || read->cluster_id == 0
         || read->cluster_id == lease->cluster_id)
        && (lease->raft_term == 0 || read->raft_term == 0
            || read->raft_term == lease->raft_term)
        && !cluster->foreign)
    {
        return 0;
    }

    if (!cluster->foreign) {
        ngx_log_error(NGX_LOG_INFO, cluster->log, 0,
                      "etcd cluster \"%V\": lease %xL: a renewal in raft term "
                      "%uL of cluster %xL does not count, a read after it is "
                      "of term %uL of cluster %xL", &cluster->conf->name,
                      lease->id, lease->raft_term, lease->cluster_id,
                      read->raft_term, read->cluster_id);
    }

    /* members behind a proxy may be of several terms for a while */

    now = ngx_etcd_clock();

    lease->answered = 0;
    lease->renewal = lease->doubts++ ? now + NGX_ETCD_LEASE_PATIENCE : now;

    return 1;
}


static void
ngx_etcd_lease_unconfirmed(ngx_etcd_lease_t *lease,
    ngx_etcd_grpc_status_e status, ngx_str_t *text)
{
    ngx_etcd_keeper_t   *keeper;
    ngx_etcd_cluster_t  *cluster;

    keeper = lease->keeper;
    cluster = keeper->cluster;

    ngx_log_error(NGX_LOG_INFO, cluster->log, 0,
                  "etcd cluster \"%V\": lease %xL: a renewal is not confirmed "
                  "by a read of \"%V\": %s: %V", &cluster->conf->name,
                  lease->id, &lease->read.key,
                  ngx_etcd_grpc_status_name(status), text);

    ngx_etcd_lease_drop(lease);

    /* a key that the user may not read is no reason to leave the endpoint */

    if (ngx_etcd_backoff_retriable(status)
        && keeper->open
        && ngx_etcd_channel_get(cluster->streams) != NULL)
    {
        ngx_etcd_keeper_leave(keeper, text);
    }
}


static void
ngx_etcd_lease_renewed(ngx_etcd_lease_t *lease, uint64_t sent, ngx_msec_t ttl)
{
    lease->answered = 0;
    lease->doubts = 0;

    if (lease->deadline <= ngx_etcd_clock()) {
        ngx_etcd_lease_lose(lease, "it was not renewed in time");
        return;
    }

    lease->ttl = ttl;
    lease->deadline = ngx_etcd_lease_deadline(sent, ttl);

    if (lease->nsent == 0) {
        lease->renewal = sent + ttl / 3;
    }

    lease->renewed(lease);
}


static void
ngx_etcd_lease_drop(ngx_etcd_lease_t *lease)
{
    lease->answered = 0;
    ngx_etcd_quorum_read_cancel(&lease->read);
}


static void
ngx_etcd_lease_lose(ngx_etcd_lease_t *lease, char *reason)
{
    ngx_etcd_lease_forget(lease);

    lease->lost(lease, reason);
}
