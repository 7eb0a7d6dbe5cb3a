
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_lease.h>
#include <ngx_etcd_auth.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_proto.pb-c.h>
#include <ngx_etcd_str.h>


static void ngx_etcd_lease_stream_advance(ngx_etcd_lease_stream_t *leases);


uint64_t
ngx_etcd_lease_patience(ngx_etcd_lease_patience_t *patience, uint64_t sent,
    uint64_t deadline, ngx_msec_t ttl)
{
    uint64_t  first, left, limit;

    first = ngx_max(ttl / 6, NGX_ETCD_LEASE_PATIENCE);
    left = (deadline > sent) ? deadline - sent : 0;
    limit = (left > first) ? left - first : 0;

    return sent + ngx_max(first, ngx_min(first << ngx_min(patience->misses, 4),
                                         limit));
}


/*
 * A renewal is sent after a third of the TTL.  It is given up before half of
 * the TTL is over, or later if others were given up before.
 */

static uint64_t
ngx_etcd_lease_overdue(ngx_etcd_lease_t *lease)
{
    ngx_uint_t                others;
    ngx_etcd_lease_stream_t  *leases;

    leases = lease->leases;
    others = ngx_etcd_endpoints_count(&leases->cluster->endpoints) - 1;

    /* up to the deadline if no other endpoint has confirmed one sooner */

    if (lease->sent == 0
        || (lease->answered && leases->patience.misses >= ngx_max(others, 1)))
    {
        return lease->deadline;
    }

    return ngx_etcd_lease_patience(&leases->patience, lease->sent,
                                   lease->deadline, lease->ttl);
}


static void
ngx_etcd_lease_drop(ngx_etcd_lease_t *lease)
{
    lease->sent = 0;
    lease->answered = 0;
    ngx_etcd_stream_range_cancel(&lease->read);
}


/*
 * Requests on the stream get no answer any more.  The next stream may lead to
 * an etcd that was restored meanwhile: all leases are renewed on it at once.
 */

static void
ngx_etcd_lease_stream_released(ngx_etcd_lease_stream_t *leases)
{
    ngx_queue_t       *q;
    ngx_etcd_lease_t  *lease;

    leases->open = 0;

    for (q = ngx_queue_head(&leases->leases);
         q != ngx_queue_sentinel(&leases->leases);
         q = ngx_queue_next(q))
    {
        lease = ngx_queue_data(q, ngx_etcd_lease_t, queue);

        ngx_etcd_lease_drop(lease);

        lease->renewal = 0;
    }
}


static void
ngx_etcd_lease_stream_leave(ngx_etcd_lease_stream_t *leases, ngx_str_t *text)
{
    leases->open = 0;
    ngx_etcd_grpc_cancel(&leases->call);

    ngx_etcd_lease_stream_released(leases);
    ngx_etcd_channel_stuck(leases->cluster->streams, text);
}


static void
ngx_etcd_lease_lose(ngx_etcd_lease_t *lease, char *reason)
{
    ngx_etcd_lease_forget(lease);

    lease->lost(lease, reason);
}


static void
ngx_etcd_lease_renewed(ngx_etcd_lease_t *lease, ngx_msec_t ttl)
{
    uint64_t                    sent;
    ngx_etcd_lease_patience_t  *patience;

    sent = lease->sent;

    lease->sent = 0;
    lease->answered = 0;
    lease->doubts = 0;

    if (lease->deadline <= ngx_etcd_clock()) {
        ngx_etcd_lease_lose(lease, "it was not renewed in time");
        return;
    }

    patience = &lease->leases->patience;

    /* a prompt renewal takes half of the first time, or less */

    if (ngx_etcd_clock() - sent > patience->ttl / 12) {
        patience->prompt = 0;

    } else if (patience->misses != 0
               && ++patience->prompt == NGX_ETCD_LEASE_PROMPT)
    {
        patience->misses = 0;
    }

    lease->ttl = ngx_min(lease->ttl, ttl);
    lease->deadline = ngx_etcd_lease_deadline(sent, lease->ttl);
    lease->renewal = sent + lease->ttl / 3;

    lease->renewed(lease);
}


/* Returns 1 if the renewal does not count; another one is scheduled. */

static ngx_uint_t
ngx_etcd_lease_doubtful(ngx_etcd_lease_t *lease, Etcd__ResponseHeader *header)
{
    uint64_t             id, term;
    ngx_etcd_cluster_t  *cluster;

    cluster = lease->leases->cluster;

    /* a proxy answers without them */

    id = (header != NULL) ? header->cluster_id : 0;
    term = (header != NULL) ? header->raft_term : 0;

    if ((lease->cluster_id == 0 || id == 0 || id == lease->cluster_id)
        && (lease->raft_term == 0 || term == 0 || term == lease->raft_term)
        && !cluster->history.foreign)
    {
        return 0;
    }

    if (!cluster->history.foreign) {
        ngx_log_error(NGX_LOG_INFO, cluster->log, 0,
                      "etcd cluster \"%V\": lease %xL: a renewal in raft term "
                      "%uL of cluster %xL does not count, a later read has "
                      "term %uL of cluster %xL", &cluster->conf->name,
                      lease->id, lease->raft_term, lease->cluster_id, term,
                      id);
    }

    /* members behind a proxy may be in different terms for a while */

    lease->sent = 0;
    lease->answered = 0;
    lease->renewal = lease->doubts++
                     ? ngx_etcd_clock() + NGX_ETCD_LEASE_PATIENCE : 0;

    return 1;
}


static void
ngx_etcd_lease_confirmed(ngx_etcd_lease_t *lease, Etcd__RangeResponse *response)
{
    int64_t  created;

    if (ngx_etcd_lease_doubtful(lease, response->header)) {
        return;
    }

    created = lease->created;

    if (created == 0
        || (response->n_kvs != 0
            && response->kvs[0]->create_revision == created))
    {
        ngx_etcd_lease_renewed(lease, lease->answered_ttl);
        return;
    }

    /* the owner checks whether the witness was given up meanwhile */

    lease->missing(lease, created);
}


static void
ngx_etcd_lease_unconfirmed(ngx_etcd_lease_t *lease,
    ngx_etcd_grpc_status_e status, ngx_str_t *text)
{
    ngx_etcd_cluster_t       *cluster;
    ngx_etcd_lease_stream_t  *leases;

    leases = lease->leases;
    cluster = leases->cluster;

    ngx_log_error(NGX_LOG_INFO, cluster->log, 0,
                  "etcd cluster \"%V\": lease %xL: a renewal is not confirmed "
                  "by a read of \"%V\": %s: %V", &cluster->conf->name,
                  lease->id, ngx_etcd_shown(&lease->key),
                  ngx_etcd_grpc_status_name(status), text);

    ngx_etcd_lease_drop(lease);

    /* a key that the user may not read is no reason to leave the endpoint */

    if (ngx_etcd_backoff_retriable(status)
        && leases->open
        && ngx_etcd_channel_get(cluster->streams) != NULL)
    {
        ngx_etcd_lease_stream_leave(leases, text);
    }
}


static void
ngx_etcd_lease_read(ngx_etcd_stream_range_t *read,
    ngx_etcd_grpc_status_e status, ngx_str_t *text,
    Etcd__RangeResponse *response)
{
    ngx_etcd_lease_t         *lease;
    ngx_etcd_lease_stream_t  *leases;

    lease = read->data;
    leases = lease->leases;

    if (status == NGX_ETCD_GRPC_OK) {
        ngx_etcd_lease_confirmed(lease, response);

    } else if (status == NGX_ETCD_GRPC_PERMISSION_DENIED && lease->shared) {
        ngx_etcd_lease_renewed(lease, lease->answered_ttl);

    } else if (!read->refused) {
        ngx_etcd_lease_unconfirmed(lease, status, text);
    }

    ngx_etcd_lease_stream_advance(leases);
}


/* Without a connection or a token, the read is started when there is one. */

static void
ngx_etcd_lease_confirm(ngx_etcd_lease_t *lease)
{
    ngx_etcd_auth_t          *auth;
    Etcd__RangeRequest        request;
    ngx_etcd_lease_stream_t  *leases;

    leases = lease->leases;
    auth = leases->cluster->auth;

    lease->read.cluster = leases->cluster;
    lease->read.done = ngx_etcd_lease_read;
    lease->read.data = lease;

    lease->witness(lease, &lease->key, &lease->created);

    etcd__range_request__init(&request);

    request.key = ngx_etcd_bytes(&lease->key);
    request.keys_only = 1;

    if (ngx_etcd_stream_range_start(&lease->read, &request) == NGX_OK) {
        return;
    }

    if (!ngx_etcd_auth_ready(auth) && !leases->waiter.waiting) {
        ngx_etcd_auth_wait(auth, &leases->waiter);
    }
}


static void
ngx_etcd_lease_answer(ngx_etcd_lease_t *lease,
    Etcd__LeaseKeepAliveResponse *response)
{
    ngx_msec_t             ttl;
    Etcd__ResponseHeader  *header;

    if (response->ttl <= 0) {
        ngx_etcd_lease_lose(lease, "etcd does not have it any more");
        return;
    }

    ttl = (ngx_msec_t) ngx_min(response->ttl, NGX_ETCD_LEASE_MAX_TTL) * 1000;

    if (lease->witness == NULL) {
        ngx_etcd_lease_renewed(lease, ttl);
        return;
    }

    header = response->header;

    lease->answered = 1;
    lease->answered_ttl = ttl;
    lease->cluster_id = (header != NULL) ? header->cluster_id : 0;
    lease->raft_term = (header != NULL) ? header->raft_term : 0;

    ngx_etcd_lease_confirm(lease);
}


static ngx_int_t
ngx_etcd_lease_stream_message(ngx_etcd_grpc_call_t *call,
    ProtobufCMessage *message, ngx_pool_t *pool)
{
    ngx_queue_t                   *q, *next;
    ngx_etcd_lease_t              *lease;
    ngx_etcd_lease_stream_t       *leases;
    Etcd__LeaseKeepAliveResponse  *response;

    leases = call->data;
    response = (Etcd__LeaseKeepAliveResponse *) message;

    leases->answers++;

    if (!leases->answered) {
        leases->answered = 1;
        leases->failures = 0;
        ngx_etcd_channel_succeeded(leases->cluster->streams);
        ngx_etcd_auth_accepted(leases->cluster->auth);
    }

    for (q = ngx_queue_head(&leases->leases);
         q != ngx_queue_sentinel(&leases->leases);
         q = next)
    {
        next = ngx_queue_next(q);
        lease = ngx_queue_data(q, ngx_etcd_lease_t, queue);

        if (lease->id == response->id && lease->sent != 0
            && !lease->answered)
        {

            /*
             * the answer proves as much as one to a PING, which only follows
             * silence
             */

            ngx_etcd_cluster_prove(leases->cluster, lease->sent);

            ngx_etcd_lease_answer(lease, response);
            break;
        }
    }

    ngx_etcd_lease_stream_advance(leases);

    return NGX_OK;
}


/*
 * Returns 1 if the stream has ended because the user may not put a key of one
 * lease.  etcd answers in order: the lease is that of the next answer, if it is
 * still kept.  etcd has not processed the requests behind the refused one.
 */

static ngx_uint_t
ngx_etcd_lease_stream_denied(ngx_etcd_lease_stream_t *leases,
    ngx_etcd_grpc_status_e status, ngx_str_t *text)
{
    ngx_msec_t         pause;
    ngx_queue_t       *q;
    ngx_etcd_lease_t  *lease, *denied;

    if (!ngx_etcd_auth_forbids(status, text)) {
        return 0;
    }

    denied = NULL;
    leases->open = 0;

    for (q = ngx_queue_head(&leases->leases);
         q != ngx_queue_sentinel(&leases->leases);
         q = ngx_queue_next(q))
    {
        lease = ngx_queue_data(q, ngx_etcd_lease_t, queue);

        if (lease->sent != 0 && !lease->answered) {
            if (lease->number == leases->answers) {
                denied = lease;
            }

            lease->sent = 0;
            lease->renewal = 0;
        }
    }

    if (denied == NULL) {
        ngx_add_timer(&leases->reopen,
                      ngx_etcd_backoff(leases->cluster, leases->failures++));
        return 1;
    }

    pause = ngx_max(denied->ttl / 6, NGX_ETCD_LEASE_PATIENCE);
    denied->renewal = ngx_etcd_clock() + ngx_etcd_backoff_around(pause);

    denied->denied(denied, status, text);

    return 1;
}


static void
ngx_etcd_lease_stream_ended(ngx_etcd_grpc_call_t *call,
    ngx_etcd_grpc_status_e status, ngx_str_t *text)
{
    ngx_uint_t                refused;
    ngx_etcd_channel_t       *streams;
    ngx_etcd_lease_stream_t  *leases;

    leases = call->data;
    streams = leases->cluster->streams;

    ngx_log_error(NGX_LOG_INFO, leases->cluster->log, 0,
                  "etcd cluster \"%V\": keepalive stream ended: %s: %V",
                  &leases->cluster->conf->name,
                  ngx_etcd_grpc_status_name(status), text);

    refused = ngx_etcd_auth_refused(leases->cluster->auth, streams,
                                    leases->token, status, text);

    if (!refused && ngx_etcd_lease_stream_denied(leases, status, text)) {
        ngx_etcd_lease_stream_advance(leases);
        return;
    }

    ngx_etcd_lease_stream_released(leases);

    if (!refused && ngx_etcd_channel_get(streams) != NULL) {

        /* the endpoint ends streams but accepts calls: try another one */

        ngx_add_timer(&leases->reopen,
                      leases->failures ? ngx_etcd_backoff(leases->cluster,
                                                          leases->failures)
                                       : 1);
        leases->failures++;

        ngx_etcd_channel_failed(streams, text);
    }

    ngx_etcd_lease_stream_advance(leases);
}


static void
ngx_etcd_lease_stream_open(ngx_etcd_lease_stream_t *leases)
{
    ngx_keyval_t           md[1 + NGX_ETCD_AUTH_METADATA];
    ngx_etcd_auth_t       *auth;
    ngx_etcd_http2_t      *h2;
    ngx_etcd_channel_t    *streams;
    ngx_etcd_grpc_call_t  *call;

    if (leases->reopen.timer_set || leases->waiter.waiting) {
        return;
    }

    streams = leases->cluster->streams;
    h2 = ngx_etcd_channel_get(streams);

    if (h2 == NULL) {
        ngx_etcd_channel_wait(streams, &leases->waiter);
        return;
    }

    auth = leases->cluster->auth;

    if (!ngx_etcd_auth_ready(auth)) {
        ngx_etcd_auth_wait(auth, &leases->waiter);
        return;
    }

    ngx_str_set(&md[0].key, "hasleader");
    ngx_str_set(&md[0].value, "true");

    call = &leases->call;
    ngx_memzero(call, sizeof(ngx_etcd_grpc_call_t));

    call->method = "/etcdserverpb.Lease/LeaseKeepAlive";
    call->response = &etcd__lease_keep_alive_response__descriptor;
    call->metadata = md;
    call->nmetadata = 1 + ngx_etcd_auth_metadata(auth, &md[1], &leases->token);
    call->message = ngx_etcd_lease_stream_message;
    call->done = ngx_etcd_lease_stream_ended;
    call->data = leases;

    if (ngx_etcd_grpc_start(h2, call) != NGX_OK) {
        ngx_add_timer(&leases->reopen,
                      ngx_etcd_backoff(leases->cluster, leases->failures++));
        return;
    }

    leases->open = 1;
    leases->answered = 0;
    leases->requests = 0;
    leases->answers = 0;
}


/*
 * The endpoint may answer other calls, but the stream is stuck behind a
 * renewal, or the endpoint has no quorum: there is time to try another one.
 */

static void
ngx_etcd_lease_stream_overdue(ngx_etcd_lease_stream_t *leases,
    ngx_etcd_lease_t *lease)
{
    ngx_str_t         text;
    ngx_etcd_auth_t  *auth;

    auth = leases->cluster->auth;

    if (lease->answered && auth->unauthorized && !lease->read.running) {

        /* no endpoint takes a read without a token, while watches go on */

        ngx_etcd_lease_drop(lease);
        return;
    }

    leases->patience.misses++;
    leases->patience.ttl = lease->ttl;
    leases->patience.prompt = 0;

    ngx_str_set(&text, "no answer to a keepalive");

    if (lease->answered) {
        ngx_str_set(&text, "no answer to a linearizable read after a "
                           "keepalive");
    }

    if (lease->read.running) {
        ngx_etcd_auth_unanswered(auth, lease->read.token, &text);
    }

    ngx_etcd_lease_stream_leave(leases, &text);
    ngx_etcd_lease_stream_open(leases);
}


/* An endpoint whose time is over at the deadline is left with the lease. */

static void
ngx_etcd_lease_stream_expire(ngx_etcd_lease_stream_t *leases, uint64_t now)
{
    ngx_queue_t       *q, *next;
    ngx_etcd_lease_t  *lease;

    for (q = ngx_queue_head(&leases->leases);
         q != ngx_queue_sentinel(&leases->leases);
         q = next)
    {
        next = ngx_queue_next(q);
        lease = ngx_queue_data(q, ngx_etcd_lease_t, queue);

        if (lease->deadline <= now) {
            if (leases->open && lease->sent != 0
                && ngx_etcd_lease_overdue(lease) <= now)
            {
                ngx_etcd_lease_stream_overdue(leases, lease);
            }

            ngx_etcd_lease_lose(lease, "it was not renewed in time");
        }
    }
}


static void
ngx_etcd_lease_renew(ngx_etcd_lease_stream_t *leases, ngx_etcd_lease_t *lease)
{
    uint64_t                     now;
    Etcd__LeaseKeepAliveRequest  request;

    now = ngx_etcd_clock();
    lease->renewal = now + lease->ttl / 3;

    etcd__lease_keep_alive_request__init(&request);
    request.id = lease->id;

    if (ngx_etcd_grpc_send(&leases->call, &request.base) == NGX_OK) {
        lease->number = leases->requests++;
        lease->sent = now;
    }
}


/* Does what is due, and sets the timer. */

static void
ngx_etcd_lease_stream_advance(ngx_etcd_lease_stream_t *leases)
{
    uint64_t           now, next, due;
    ngx_queue_t       *q;
    ngx_etcd_lease_t  *lease;

    /* one time for both: the leases that are left have not ended */

    now = ngx_etcd_clock();

    ngx_etcd_lease_stream_expire(leases, now);

    ngx_etcd_event_stop(&leases->timer);

    if (ngx_queue_empty(&leases->leases)) {
        return;
    }

    if (!leases->open) {
        ngx_etcd_lease_stream_open(leases);
    }

    next = now + NGX_ETCD_LEASE_MAX_TTL * 1000;

    for (q = ngx_queue_head(&leases->leases);
         q != ngx_queue_sentinel(&leases->leases);
         q = ngx_queue_next(q))
    {
        lease = ngx_queue_data(q, ngx_etcd_lease_t, queue);

        if (leases->open && ngx_etcd_lease_overdue(lease) <= now) {
            ngx_etcd_lease_stream_overdue(leases, lease);
        }

        if (lease->answered && !lease->read.running) {
            ngx_etcd_lease_confirm(lease);
        }

        if (leases->open && lease->sent == 0 && lease->renewal <= now) {
            ngx_etcd_lease_renew(leases, lease);
        }

        next = ngx_min(next, lease->deadline);

        if (leases->open) {
            due = lease->sent ? ngx_etcd_lease_overdue(lease) : lease->renewal;
            next = ngx_min(next, due);
        }
    }

    ngx_add_timer(&leases->timer, (next > now) ? (ngx_msec_t) (next - now)
                                               : 1);
}


static void
ngx_etcd_lease_stream_ready(void *data)
{
    ngx_etcd_lease_stream_advance(data);
}


static void
ngx_etcd_lease_stream_timer(ngx_event_t *ev)
{
    ngx_etcd_lease_stream_advance(ev->data);
}


ngx_etcd_lease_stream_t *
ngx_etcd_lease_stream_create(ngx_etcd_cluster_t *cluster)
{
    ngx_etcd_lease_stream_t  *leases;

    leases = ngx_pcalloc(cluster->pool, sizeof(ngx_etcd_lease_stream_t));
    if (leases == NULL) {
        return NULL;
    }

    leases->cluster = cluster;

    leases->waiter.handler = ngx_etcd_lease_stream_ready;
    leases->waiter.data = leases;

    ngx_etcd_event_init_timer(&leases->reopen, ngx_etcd_lease_stream_timer,
                              leases, cluster->log);

    ngx_etcd_event_init_timer(&leases->timer, ngx_etcd_lease_stream_timer,
                              leases, cluster->log);

    ngx_queue_init(&leases->leases);

    return leases;
}


void
ngx_etcd_lease_stream_destroy(ngx_etcd_lease_stream_t *leases)
{
    ngx_queue_t  *q;

    while (!ngx_queue_empty(&leases->leases)) {
        q = ngx_queue_head(&leases->leases);
        ngx_etcd_lease_forget(ngx_queue_data(q, ngx_etcd_lease_t, queue));
    }

    ngx_etcd_waiter_forget(&leases->waiter);

    ngx_etcd_event_stop(&leases->reopen);
    ngx_etcd_event_stop(&leases->timer);

    if (leases->open) {
        leases->open = 0;
        ngx_etcd_grpc_cancel(&leases->call);
    }
}


void
ngx_etcd_lease_keep(ngx_etcd_lease_stream_t *leases, ngx_etcd_lease_t *lease,
    ngx_uint_t now)
{
    lease->kept = 1;
    lease->leases = leases;
    lease->doubts = 0;
    lease->renewal = now ? 0 : lease->deadline + lease->ttl / 3
                               - ngx_etcd_lease_deadline(0, lease->ttl);

    ngx_queue_insert_tail(&leases->leases, &lease->queue);

    ngx_etcd_lease_stream_advance(leases);
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
