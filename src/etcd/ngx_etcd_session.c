
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_session.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_event.h>

#include <openssl/rand.h>


static void
ngx_etcd_session_denied(ngx_etcd_lease_t *lease, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    ngx_uint_t           level;
    ngx_etcd_cluster_t  *cluster;
    ngx_etcd_session_t  *session;

    session = lease->data;
    cluster = session->leases->cluster;
    level = ngx_etcd_cause_level(&session->denials, status, text);

    ngx_log_error(level, cluster->log, 0,
                  "etcd cluster \"%V\": %V: lease %xL was not renewed: %s: %V, "
                  "trying again", &cluster->conf->name, &session->name,
                  lease->id, ngx_etcd_grpc_status_name(status), text);
}


static void
ngx_etcd_session_renewed(ngx_etcd_lease_t *lease)
{
    ngx_etcd_cluster_t  *cluster;
    ngx_etcd_session_t  *session;

    session = lease->data;

    if (ngx_etcd_cause_forget(&session->denials)) {
        cluster = session->leases->cluster;

        ngx_log_error(NGX_LOG_NOTICE, cluster->log, 0,
                      "etcd cluster \"%V\": %V: lease %xL is renewed again",
                      &cluster->conf->name, &session->name, lease->id);
    }

    if (session->renewed != NULL) {
        session->renewed(session);
    }
}


static ngx_msec_t
ngx_etcd_session_pause(ngx_etcd_session_t *session, ngx_uint_t n,
    ngx_msec_t most)
{
    ngx_msec_t  pause;

    pause = ngx_etcd_latency(&session->leases->cluster->latency)
            * NGX_ETCD_SESSION_WRITES;
    pause = ngx_max(pause, NGX_ETCD_SESSION_PAUSE) << ngx_min(n, 16);
    pause = ngx_min(pause, most);

    return 1 + (ngx_msec_t) ngx_random() % pause;
}


/*
 * Etcd is too slow for the lease, as it may be for those of others.  Each new
 * lease makes it write, and makes all of them wait longer: there is a pause
 * that is long beside a write, whoever waits for a lease (exponential backoff
 * with full jitter).  The first one is short: there may have been an outage.
 */

static void
ngx_etcd_session_late(ngx_etcd_session_t *session)
{
    ngx_uint_t  n;

    n = session->pause.late++;

    session->pause.slow = ngx_etcd_clock()
                          + ngx_etcd_session_pause(session, n,
                                n ? NGX_ETCD_SESSION_MAX_PAUSE
                                  : NGX_ETCD_SESSION_PAUSE);
}


/*
 * Etcd has written.  If that was prompt, it is not slow: what was late before
 * was so because of an outage, which is over.
 */

static void
ngx_etcd_session_written(ngx_etcd_session_t *session)
{
    session->pause.took = ngx_etcd_clock() - session->unary.last;

    if (session->pause.took < NGX_ETCD_SESSION_PROMPT) {
        session->pause.late = 0;
        session->pause.slow = 0;
    }
}


static void
ngx_etcd_session_again(ngx_etcd_session_t *session)
{
    ngx_msec_t                 delay, half;
    ngx_etcd_cluster_t        *cluster;
    ngx_etcd_session_pause_t  *pause;

    pause = &session->pause;
    cluster = session->leases->cluster;
    session->state = NGX_ETCD_SESSION_WAITING;

    if (session->full) {
        delay = ngx_etcd_backoff_around(NGX_ETCD_SESSION_FULL);

    } else if (pause->unanswered) {
        half = (ngx_msec_t) session->ttl * 1000 / 2;
        delay = ngx_etcd_session_pause(session, pause->unanswered - 1,
                                       ngx_min(half,
                                               NGX_ETCD_SESSION_MAX_PAUSE));

    } else {
        delay = pause->failures ? ngx_etcd_backoff(cluster, pause->failures)
                                : 1;
    }

    pause->failures++;

    ngx_add_timer(&pause->timer, delay);
}


static void
ngx_etcd_session_leave(ngx_etcd_session_t *session, char *reason)
{
    uint64_t  now, held;

    now = ngx_etcd_clock();
    held = now - session->pause.since;

    if (held > NGX_ETCD_SESSION_PROVED) {
        session->pause.failures = 0;
    }

    if (held > (uint64_t) session->lease.ttl * NGX_ETCD_SESSION_TTLS) {
        session->pause.late = 0;
    }

    if (session->lease.deadline <= now) {
        ngx_etcd_session_late(session);
    }

    session->former = session->lease.id;

    ngx_etcd_session_again(session);

    session->lost(session, reason);
}


static void
ngx_etcd_session_lost(ngx_etcd_lease_t *lease, char *reason)
{
    ngx_etcd_cluster_t  *cluster;
    ngx_etcd_session_t  *session;

    session = lease->data;
    cluster = session->leases->cluster;

    ngx_log_error(NGX_LOG_WARN, cluster->log, 0,
                  "etcd cluster \"%V\": %V: lease %xL is lost: %s",
                  &cluster->conf->name, &session->name, lease->id, reason);

    ngx_etcd_session_leave(session, reason);
}


static void
ngx_etcd_session_witness(ngx_etcd_lease_t *lease, ngx_str_t *key,
    int64_t *created)
{
    ngx_etcd_session_t  *session = lease->data;

    session->witness(session, key, created);
}


static void
ngx_etcd_session_missing(ngx_etcd_lease_t *lease, int64_t created)
{
    ngx_etcd_session_t  *session = lease->data;

    session->missing(session, created);
}


static void
ngx_etcd_session_history(void *data)
{
    ngx_etcd_session_t *session = data;

    session->pause.rest = ngx_etcd_clock() + (uint64_t) session->ttl * 1000;

    switch (session->state) {

    case NGX_ETCD_SESSION_HELD:
        ngx_etcd_session_replace(session, "etcd has another history");
        break;

    case NGX_ETCD_SESSION_GRANTING:
        ngx_etcd_unary_cancel(&session->unary);

        session->former = session->lease.id;
        ngx_etcd_session_again(session);
        break;

    default:
        break;
    }
}


static void
ngx_etcd_session_finish(ngx_etcd_session_t *session)
{
    if (session->ended != NULL) {
        session->ended(session->ended_data);
    }
}


/* if the outcome is unknown, the lease is revoked before the next request */

static void
ngx_etcd_session_refused(ngx_etcd_session_t *session,
    ngx_etcd_grpc_status_e status, ngx_str_t *text)
{
    ngx_uint_t           full, level;
    ngx_etcd_cluster_t  *cluster;

    full = session->unary.full;
    cluster = session->leases->cluster;

    level = ngx_etcd_cause_level(&session->refusals, status, text);

    ngx_log_error(level, cluster->log, 0,
                  "etcd cluster \"%V\": %V: no lease: %s: %V, trying again",
                  &cluster->conf->name, &session->name,
                  ngx_etcd_grpc_status_name(status), text);

    session->full = full;

    if (session->unary.unknown) {
        session->former = session->lease.id;
    }

    ngx_etcd_session_again(session);

    if (full && session->refused != NULL) {
        session->refused(session);
    }
}


static void
ngx_etcd_session_hold(ngx_etcd_session_t *session, ngx_uint_t now)
{
    session->state = NGX_ETCD_SESSION_HELD;
    session->pause.since = ngx_etcd_clock();
    (void) ngx_etcd_cause_forget(&session->denials);

    ngx_etcd_lease_keep(session->leases, &session->lease, now);
}


static void
ngx_etcd_session_granted(ngx_etcd_unary_t *unary, ngx_etcd_grpc_status_e status,
    ngx_str_t *text, ProtobufCMessage *response, ngx_pool_t *pool)
{
    int64_t              ttl;
    uint64_t             sent;
    ngx_etcd_cluster_t  *cluster;
    ngx_etcd_session_t  *session;

    session = unary->data;

    if (status == NGX_ETCD_GRPC_OK) {
        ttl = ((Etcd__LeaseGrantResponse *) response)->ttl;
        sent = unary->last;
        ngx_destroy_pool(pool);

    } else if (status == NGX_ETCD_GRPC_FAILED_PRECONDITION
               && unary->unknown && !unary->full)
    {

        /* the lease already exists: etcd has processed an earlier attempt */

        ttl = session->ttl;
        sent = unary->first;

    } else {
        ngx_etcd_session_refused(session, status, text);
        return;
    }

    session->full = 0;
    ngx_etcd_session_written(session);

    if (ttl <= 0) {
        ngx_etcd_session_again(session);
        return;
    }

    session->lease.ttl = (ngx_msec_t) ngx_min(ttl, session->ttl) * 1000;
    session->lease.deadline = ngx_etcd_lease_deadline(sent,
                                                      session->lease.ttl);

    if (session->lease.deadline <= ngx_etcd_clock()) {

        /* etcd answers: the revocation shows whether it is slow */

        session->former = session->lease.id;
        session->pause.failures = 0;
        ngx_etcd_session_late(session);
        ngx_etcd_session_again(session);
        return;
    }

    if (ngx_etcd_cause_forget(&session->refusals)) {
        cluster = session->leases->cluster;

        ngx_log_error(NGX_LOG_NOTICE, cluster->log, 0,
                      "etcd cluster \"%V\": %V: lease %xL is granted",
                      &cluster->conf->name, &session->name, session->lease.id);
    }

    /* a third of the TTL may have passed: renew at once */

    ngx_etcd_session_hold(session, sent != unary->last);

    session->held(session);
}


/*
 * Waits until another lease may be requested.  If locks wait for it, and etcd
 * was too slow, the last lease is revoked once more meanwhile: a write that is
 * prompt ends the pause.
 */

static void
ngx_etcd_session_rest(ngx_etcd_session_t *session, uint64_t now)
{
    uint64_t                   wait, probe;
    ngx_etcd_session_pause_t  *pause;

    pause = &session->pause;
    wait = ngx_max(pause->rest, pause->slow) - now;

    if (session->leases->cluster->urgent && pause->rest <= now) {
        probe = 1 + (ngx_msec_t) ngx_random()
                    % ngx_max(pause->took, NGX_ETCD_SESSION_PAUSE);

        if (probe < wait) {
            wait = probe;
            session->former = session->lease.id;
        }
    }

    session->state = NGX_ETCD_SESSION_WAITING;

    ngx_add_timer(&pause->timer, (ngx_msec_t) wait);
}


static void
ngx_etcd_session_grant(ngx_etcd_session_t *session)
{
    uint64_t                  id, now;
    ngx_etcd_unary_t         *unary;
    Etcd__LeaseGrantRequest  *request;

    now = ngx_etcd_clock();

    if (now < ngx_max(session->pause.rest, session->pause.slow)) {
        ngx_etcd_session_rest(session, now);
        return;
    }

    /* a random positive number: two clients do not choose the same one */

    if (RAND_bytes((u_char *) &id, sizeof(uint64_t)) != 1) {
        id = (uint64_t) ngx_random() << 32 ^ (uint64_t) ngx_random()
             ^ (uint64_t) ngx_pid << 40;
    }

    id >>= 1;

    session->state = NGX_ETCD_SESSION_GRANTING;
    session->lease.id = (id != 0) ? (int64_t) id : 1;

    request = &session->grant;
    etcd__lease_grant_request__init(request);

    request->id = session->lease.id;
    request->ttl = session->ttl;

    unary = &session->unary;

    unary->method = "/etcdserverpb.Lease/LeaseGrant";
    unary->name = "lease grant";
    unary->request = &request->base;
    unary->response = &etcd__lease_grant_response__descriptor;
    unary->roomy = 1;
    unary->done = ngx_etcd_session_granted;

    ngx_etcd_unary_start(unary);
}


static void
ngx_etcd_session_revoked(ngx_etcd_unary_t *unary, ngx_etcd_grpc_status_e status,
    ngx_str_t *text, ProtobufCMessage *response, ngx_pool_t *pool)
{
    ngx_etcd_session_t  *session;

    session = unary->data;

    if (pool != NULL) {
        ngx_destroy_pool(pool);
    }

    if (session->state == NGX_ETCD_SESSION_ENDING) {
        session->former = 0;
        session->state = NGX_ETCD_SESSION_CLOSED;
        ngx_etcd_session_finish(session);
        return;
    }

    if (ngx_etcd_backoff_retriable(status)) {

        /* keys of the lease may still exist, and block those of the next one */

        session->pause.unanswered = unary->unknown
                                    ? session->pause.unanswered + 1 : 0;

        ngx_etcd_session_again(session);
        return;
    }

    session->pause.unanswered = 0;

    if (status == NGX_ETCD_GRPC_OK || status == NGX_ETCD_GRPC_NOT_FOUND) {
        ngx_etcd_session_written(session);
    }

    /* the lease was revoked, did not exist, or this user may not revoke it */

    session->former = 0;

    ngx_etcd_session_grant(session);
}


static void
ngx_etcd_session_revoke(ngx_etcd_session_t *session,
    ngx_etcd_session_state_e state)
{
    ngx_etcd_unary_t          *unary;
    Etcd__LeaseRevokeRequest  *request;

    session->state = state;

    request = &session->revoke;
    etcd__lease_revoke_request__init(request);

    request->id = session->former;

    unary = &session->unary;

    unary->cluster = session->leases->cluster;
    unary->method = "/etcdserverpb.Lease/LeaseRevoke";
    unary->name = "lease revoke";
    unary->request = &request->base;
    unary->response = &etcd__lease_revoke_response__descriptor;
    unary->done = ngx_etcd_session_revoked;

    ngx_etcd_unary_start(unary);
}


static void
ngx_etcd_session_timer(ngx_event_t *ev)
{
    ngx_etcd_session_t  *session;

    session = ev->data;

    if (session->former != 0) {
        ngx_etcd_session_revoke(session, NGX_ETCD_SESSION_REVOKING);
        return;
    }

    ngx_etcd_session_grant(session);
}


static void
ngx_etcd_session_init(ngx_etcd_session_t *session)
{
    session->lease.denied = ngx_etcd_session_denied;
    session->lease.renewed = ngx_etcd_session_renewed;
    session->lease.lost = ngx_etcd_session_lost;
    session->lease.data = session;
    session->lease.shared = !session->exclusive;

    if (session->witness != NULL) {
        session->lease.witness = ngx_etcd_session_witness;
        session->lease.missing = ngx_etcd_session_missing;
    }

    if (session->exclusive) {
        session->history.changed = ngx_etcd_session_history;
        session->history.data = session;

        ngx_etcd_history_forget(&session->history);
        ngx_etcd_history_listen(session->leases->cluster, &session->history);
    }

    ngx_etcd_event_init_timer(&session->pause.timer, ngx_etcd_session_timer,
                              session, session->leases->cluster->log);

    session->full = 0;

    session->unary.cluster = session->leases->cluster;
    session->unary.data = session;

    /* LeaseGrant (with an id) and LeaseRevoke may be repeated */

    session->unary.idempotent = 1;
    session->unary.writes = 1;
}


void
ngx_etcd_session_start(ngx_etcd_session_t *session)
{
    ngx_etcd_session_init(session);

    ngx_etcd_session_grant(session);
}


void
ngx_etcd_session_adopt(ngx_etcd_session_t *session,
    ngx_etcd_lease_state_t *hold)
{
    ngx_etcd_session_init(session);

    if (hold->deadline <= ngx_etcd_clock()) {
        session->former = hold->lease;
        ngx_etcd_session_again(session);
        return;
    }

    session->lease.id = hold->lease;
    session->lease.ttl = hold->ttl;
    session->lease.deadline = hold->deadline;

    ngx_etcd_session_hold(session, 1);
}


void
ngx_etcd_session_replace(ngx_etcd_session_t *session, char *reason)
{
    ngx_etcd_lease_forget(&session->lease);

    ngx_etcd_session_lost(&session->lease, reason);
}


void
ngx_etcd_session_give_up(ngx_etcd_session_t *session, char *reason)
{
    ngx_etcd_cluster_t  *cluster;

    cluster = session->leases->cluster;

    ngx_log_error(NGX_LOG_INFO, cluster->log, 0,
                  "etcd cluster \"%V\": %V: lease %xL is given up: %s",
                  &cluster->conf->name, &session->name, session->lease.id,
                  reason);

    ngx_etcd_lease_forget(&session->lease);

    ngx_etcd_session_leave(session, reason);
}


void
ngx_etcd_session_hasten(ngx_etcd_session_t *session)
{
    uint64_t  now;

    if (session->state != NGX_ETCD_SESSION_WAITING || session->full) {
        return;
    }

    now = ngx_etcd_clock();

    if (now >= ngx_max(session->pause.rest, session->pause.slow)) {
        ngx_etcd_backoff_hasten(&session->pause.timer);

    } else if (session->former == 0) {
        ngx_etcd_session_rest(session, now);
    }
}


void
ngx_etcd_session_end(ngx_etcd_session_t *session,
    void (*ended)(void *data), void *data)
{
    ngx_etcd_session_state_e  state;

    state = session->state;

    ngx_etcd_session_close(session);

    session->ended = ended;
    session->ended_data = data;

    /* a lease that is being requested may already exist */

    if (state == NGX_ETCD_SESSION_HELD || state == NGX_ETCD_SESSION_GRANTING) {
        session->former = session->lease.id;
    }

    if (session->former == 0) {
        ngx_etcd_session_finish(session);
        return;
    }

    ngx_etcd_session_revoke(session, NGX_ETCD_SESSION_ENDING);
}


void
ngx_etcd_session_close(ngx_etcd_session_t *session)
{
    ngx_etcd_lease_forget(&session->lease);
    ngx_etcd_unary_cancel(&session->unary);

    ngx_etcd_history_forget(&session->history);

    ngx_etcd_event_stop(&session->pause.timer);

    session->state = NGX_ETCD_SESSION_CLOSED;
}


/* the TTL is in seconds; -1: there is no such lease */

static void
ngx_etcd_lease_ttl_done(ngx_etcd_unary_t *unary, ngx_etcd_grpc_status_e status,
    ngx_str_t *text, ProtobufCMessage *response, ngx_pool_t *pool)
{
    ngx_etcd_lease_ttl_t  *lease_ttl = unary->data;

    int64_t                         ttl;
    Etcd__LeaseTimeToLiveResponse  *answer;

    ttl = 0;

    if (status == NGX_ETCD_GRPC_OK) {
        answer = (Etcd__LeaseTimeToLiveResponse *) response;
        ttl = answer->ttl;

        if (lease_ttl->keys != NULL && answer->header != NULL) {
            lease_ttl->keys(lease_ttl, answer->keys, answer->n_keys,
                            answer->header->revision);
        }

        ngx_destroy_pool(pool);
    }

    if (ttl <= 0) {
        lease_ttl->done(lease_ttl, 0);
        return;
    }

    ttl = ngx_min(ttl, NGX_ETCD_LEASE_TTL_MAX);

    lease_ttl->done(lease_ttl, unary->last + (uint64_t) ttl * 1000);
}


void
ngx_etcd_lease_ttl_ask(ngx_etcd_lease_ttl_t *lease_ttl)
{
    ngx_etcd_unary_t  *unary;

    etcd__lease_time_to_live_request__init(&lease_ttl->request);

    lease_ttl->request.id = lease_ttl->lease;
    lease_ttl->request.keys = (lease_ttl->keys != NULL);

    unary = &lease_ttl->unary;

    unary->cluster = lease_ttl->cluster;
    unary->method = "/etcdserverpb.Lease/LeaseTimeToLive";
    unary->name = "time to live";
    unary->request = &lease_ttl->request.base;
    unary->response = &etcd__lease_time_to_live_response__descriptor;
    unary->timeout = lease_ttl->timeout;
    unary->idempotent = 1;
    unary->done = ngx_etcd_lease_ttl_done;
    unary->data = lease_ttl;

    ngx_etcd_unary_start(unary);
}


void
ngx_etcd_lease_ttl_cancel(ngx_etcd_lease_ttl_t *lease_ttl)
{
    ngx_etcd_unary_cancel(&lease_ttl->unary);
}
