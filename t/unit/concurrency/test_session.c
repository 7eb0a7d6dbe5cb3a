
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_session.h>
#include "client/test_etcd.h"


#define TEST_SESSION_FULL     "etcdserver: mvcc: database space exceeded"
#define TEST_SESSION_EXISTS   "etcdserver: lease already exists"
#define TEST_SESSION_SILENCE  600     /* s */
#define TEST_SESSION_SLOW     300     /* s */
#define TEST_SESSION_WRITE    1900    /* ms */


static struct {
    ngx_etcd_session_t  session;
    ngx_uint_t          held;
    ngx_uint_t          refused;
    ngx_uint_t          lost;
} test_sessions;


static void
test_session_held(ngx_etcd_session_t *session)
{
    test_sessions.held++;
}


static void
test_session_refused(ngx_etcd_session_t *session)
{
    test_sessions.refused++;
}


static void
test_session_renewed(ngx_etcd_session_t *session)
{
    /* renewals are not of interest here */
}


static void
test_session_lost(ngx_etcd_session_t *session, char *reason)
{
    test_sessions.lost++;
}


/* The session goes with the pool, before the cluster is destroyed. */

static void
test_session_destroy(void *data)
{
    ngx_etcd_lease_stream_t  *leases;

    leases = test_sessions.session.leases;

    ngx_etcd_session_close(&test_sessions.session);
    ngx_etcd_lease_stream_destroy(leases);
}


static ngx_etcd_grpc_stream_t *
test_session_grant(void)
{
    return test_etcd_call("/etcdserverpb.Lease/LeaseGrant", 0);
}


static ngx_etcd_grpc_stream_t *
test_session_revoke(void)
{
    return test_etcd_call("/etcdserverpb.Lease/LeaseRevoke", 0);
}


/* Waits for a call of either kind, up to so many ms. */

static ngx_etcd_grpc_stream_t *
test_session_wait(ngx_etcd_grpc_stream_t *(*find)(void), ngx_uint_t ms)
{
    ngx_etcd_grpc_stream_t  *call;

    for (call = find(); call == NULL && ms != 0; ms--) {
        test_loop_pass(1);
        call = find();
    }

    return call;
}


/* Returns the first request of a lease. */

static ngx_etcd_grpc_stream_t *
test_session_start(ngx_pool_t *pool, time_t ttl)
{
    ngx_etcd_session_t       *session;
    ngx_etcd_lease_stream_t  *leases;

    test_etcd_conf(pool, 2);

    if (test_etcd_create(pool) != NGX_OK) {
        return NULL;
    }

    leases = ngx_etcd_lease_stream_create(test_etcd.cluster);
    if (leases == NULL) {
        return NULL;
    }

    ngx_memzero(&test_sessions, sizeof(test_sessions));
    session = &test_sessions.session;

    session->leases = leases;
    ngx_str_set(&session->name, "test");
    session->ttl = ttl;
    session->held = test_session_held;
    session->refused = test_session_refused;
    session->renewed = test_session_renewed;
    session->lost = test_session_lost;

    test_alloc_cleanup(pool, test_session_destroy);

    ngx_etcd_session_start(session);
    test_loop_run();

    return test_session_grant();
}


static ngx_etcd_grpc_stream_t *
test_session_begin(ngx_pool_t *pool)
{
    return test_session_start(pool, 10);
}


/* A full etcd is asked again after seconds, even if a request is urgent. */

static void
test_session_full(ngx_pool_t *pool)
{
    ngx_uint_t                 i, n;
    ngx_etcd_session_t        *session;
    ngx_etcd_grpc_stream_t    *call;
    Etcd__LeaseGrantResponse   response;

    call = test_session_begin(pool);
    tap_expect(call != NULL);

    session = &test_sessions.session;

    for (n = 1; n < 4; n++) {
        test_etcd_fail(call, NGX_ETCD_GRPC_RESOURCE_EXHAUSTED,
                       TEST_SESSION_FULL);

        tap_check(test_sessions.refused == n && session->full);
        tap_check(session->state == NGX_ETCD_SESSION_WAITING);

        ngx_etcd_session_hasten(session);
        test_loop_pass(NGX_ETCD_SESSION_FULL / 2 - 1);
        call = test_session_grant();
        tap_check(call == NULL);

        for (i = 0; i <= NGX_ETCD_SESSION_FULL && call == NULL; i++) {
            test_loop_pass(1);
            call = test_session_grant();
        }

        tap_expect(call != NULL);
    }

    etcd__lease_grant_response__init(&response);

    response.id = session->lease.id;
    response.ttl = 10;

    test_etcd_answer(call, &response.base);

    tap_check(session->state == NGX_ETCD_SESSION_HELD);
    tap_check(test_sessions.held == 1 && !session->full);
}


/*
 * The first attempt may have been processed: a full etcd does not say that the
 * lease exists, and it is revoked before the next one is requested.
 */

static void
test_session_doubt(ngx_pool_t *pool)
{
    ngx_uint_t               n;
    ngx_etcd_session_t      *session;
    ngx_etcd_grpc_stream_t  *call;

    call = test_session_begin(pool);
    tap_expect(call != NULL);

    session = &test_sessions.session;
    test_etcd_fail(call, NGX_ETCD_GRPC_UNAVAILABLE, "broken");

    for (n = 0; n < 1000 && test_session_grant() == NULL; n++) {
        test_loop_pass(1);
    }

    call = test_session_grant();
    tap_expect(call != NULL);

    test_etcd_fail(call, NGX_ETCD_GRPC_RESOURCE_EXHAUSTED, TEST_SESSION_FULL);

    tap_check(test_sessions.held == 0 && test_sessions.refused == 1);
    tap_check(session->former == session->lease.id);

    test_loop_pass(NGX_ETCD_SESSION_FULL * 3 / 2 + 1);
    tap_check(test_session_grant() == NULL);
    tap_expect(test_etcd_call("/etcdserverpb.Lease/LeaseRevoke", 0) != NULL);
}


/* The same after an attempt that was answered: the lease exists. */

static void
test_session_exists(ngx_pool_t *pool)
{
    ngx_uint_t               n;
    ngx_etcd_grpc_stream_t  *call;

    call = test_session_begin(pool);
    tap_expect(call != NULL);

    test_etcd_fail(call, NGX_ETCD_GRPC_UNAVAILABLE, "broken");

    for (n = 0; n < 1000 && test_session_grant() == NULL; n++) {
        test_loop_pass(1);
    }

    call = test_session_grant();
    tap_expect(call != NULL);

    test_etcd_fail(call, NGX_ETCD_GRPC_FAILED_PRECONDITION,
                   TEST_SESSION_EXISTS);

    tap_check(test_sessions.held == 1 && test_sessions.refused == 0);
}


static void
test_session_grants(ngx_pool_t *pool, int64_t granted, ngx_msec_t ttl)
{
    uint64_t                   now;
    ngx_etcd_session_t        *session;
    ngx_etcd_grpc_stream_t    *call;
    Etcd__LeaseGrantResponse   response;

    call = test_session_begin(pool);
    tap_expect(call != NULL);

    session = &test_sessions.session;

    etcd__lease_grant_response__init(&response);

    response.id = session->lease.id;
    response.ttl = granted;

    now = ngx_etcd_clock();
    test_etcd_answer(call, &response.base);

    tap_expect(session->state == NGX_ETCD_SESSION_HELD);
    tap_check(session->lease.ttl == ttl);
    tap_check(session->lease.deadline <= ngx_etcd_lease_deadline(now, ttl));
}


/* No lease counts for longer than was requested. */

static void
test_session_longer(ngx_pool_t *pool)
{
    test_session_grants(pool, 15, 10000);
}


static void
test_session_endless(ngx_pool_t *pool)
{
    test_session_grants(pool, INT64_MAX, 10000);
}


static void
test_session_shorter(ngx_pool_t *pool)
{
    test_session_grants(pool, 4, 4000);
}


/*
 * Revocations that get no answer: four attempts in each request_timeout of 5 s,
 * and 2.5 s of pause on average, a quarter of the TTL.
 */

static void
test_session_silence(ngx_pool_t *pool)
{
    ngx_uint_t               n;
    ngx_etcd_session_t      *session;
    ngx_etcd_grpc_stream_t  *call;

    call = test_session_begin(pool);
    tap_expect(call != NULL);

    session = &test_sessions.session;
    session->former = 7;
    test_etcd_fail(call, NGX_ETCD_GRPC_PERMISSION_DENIED, "denied");

    for (n = 0; n < 1000 && session->state != NGX_ETCD_SESSION_REVOKING; n++) {
        test_loop_pass(1);
    }

    tap_expect(session->state == NGX_ETCD_SESSION_REVOKING);

    n = test_etcd.started;
    test_loop_pass(TEST_SESSION_SILENCE * 1000);
    n = test_etcd.started - n;

    tap_check(n < TEST_SESSION_SILENCE * 2 / (10 + 5) * 4 * 3 / 2);
    tap_expect(n > TEST_SESSION_SILENCE / (5 + 5) * 4 / 2);
    tap_expect(session->former == 7);

    /*
     * The answer ends this, and the next lease is requested at once.  The call
     * may wait for a connection.
     */

    for (n = 0; n < 60000 && session->state != NGX_ETCD_SESSION_REVOKING; n++) {
        test_loop_pass(1);
    }

    call = test_session_wait(test_session_revoke, NGX_ETCD_BACKOFF_URGENT);
    tap_expect(call != NULL);

    test_etcd_fail(call, NGX_ETCD_GRPC_NOT_FOUND, "not found");

    tap_check(session->former == 0 && session->pause.unanswered == 0);
    tap_expect(test_session_grant() != NULL);
}


/*
 * Outages, one after the other, longer than the TTL: an attempt before each was
 * processed, or was not answered.  Another lease is requested as soon as etcd
 * is back.
 */

static void
test_session_outage(ngx_pool_t *pool)
{
    ngx_uint_t               i;
    ngx_etcd_grpc_stream_t  *call;

    call = test_session_start(pool, 2);

    for (i = 0; i < 6; i++) {
        tap_expect(call != NULL);

        test_loop_pass(4000);

        call = test_session_wait(test_session_grant, 500);
        tap_expect(call != NULL);

        test_etcd_fail(call, NGX_ETCD_GRPC_FAILED_PRECONDITION,
                       TEST_SESSION_EXISTS);

        tap_check(test_sessions.held == 0);

        call = test_session_wait(test_session_revoke, 2);
        tap_expect(call != NULL);

        test_etcd_fail(call, NGX_ETCD_GRPC_NOT_FOUND, "not found");

        call = test_session_wait(test_session_grant, 2);
    }

    tap_expect(call != NULL);
}


/*
 * Etcd answers so many ms after each request, for a while or until there is a
 * lease.  Returns the number of answers.
 */

static ngx_uint_t
test_session_serve(ngx_msec_t time, ngx_msec_t write)
{
    ngx_uint_t                 ms, age, writes;
    ngx_etcd_grpc_stream_t    *call, *last;
    Etcd__LeaseGrantResponse   response;

    last = NULL;
    age = 0;
    writes = 0;

    for (ms = 0; ms < time && test_sessions.held == 0; ms++) {
        test_loop_pass(1);

        call = test_session_grant();
        call = (call != NULL) ? call : test_session_revoke();

        age = (call == last) ? age + 1 : 0;
        last = call;

        if (call == NULL || age < write) {
            continue;
        }

        last = NULL;
        writes++;

        if (call != test_session_grant()) {
            test_etcd_fail(call, NGX_ETCD_GRPC_NOT_FOUND, "not found");
            continue;
        }

        etcd__lease_grant_response__init(&response);

        response.id = test_sessions.session.lease.id;
        response.ttl = 2;

        test_etcd_answer(call, &response.base);
    }

    return writes;
}


/* Etcd takes as long for each write as a lease lasts: it gets few of them. */

static void
test_session_slow(ngx_pool_t *pool)
{
    ngx_uint_t  writes;

    tap_expect(test_session_start(pool, 2) != NULL);

    writes = test_session_serve(TEST_SESSION_SLOW * 1000, TEST_SESSION_WRITE);

    tap_check(test_sessions.held == 0);
    tap_expect(writes > TEST_SESSION_SLOW / 20);
    tap_check(writes * TEST_SESSION_WRITE < TEST_SESSION_SLOW * 1000 / 2);
}


/* Locks wait: they have a lease soon after etcd is fast again. */

static void
test_session_fast(ngx_pool_t *pool)
{
    ngx_uint_t  i;

    tap_expect(test_session_start(pool, 2) != NULL);

    test_etcd.cluster->urgent = 1;

    for (i = 0; i < 6; i++) {
        (void) test_session_serve(30000 + i * 700, TEST_SESSION_WRITE);
        tap_check(test_sessions.held == 0);

        (void) test_session_serve(TEST_SESSION_WRITE * 2, 1);
        tap_expect(test_sessions.held == 1);

        test_sessions.held = 0;
    }
}


ngx_etcd_tap_test_t  test_session[] = {
    { "session: a full etcd", test_session_full },
    { "session: a lease of a full etcd", test_session_doubt },
    { "session: a lease that exists", test_session_exists },
    { "session: more than the requested TTL", test_session_longer },
    { "session: the longest TTL", test_session_endless },
    { "session: less than the requested TTL", test_session_shorter },
    { "session: revocations without an answer", test_session_silence },
    { "session: outages in a row", test_session_outage },
    { "session: an etcd that is too slow", test_session_slow },
    { "session: an etcd that was too slow", test_session_fast },
    { NULL, NULL }
};
