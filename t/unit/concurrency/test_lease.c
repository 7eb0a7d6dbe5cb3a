
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_lease.h>
#include "client/test_etcd.h"


#define TEST_LEASE_N       3
#define TEST_LEASE_TTL     12000    /* ms */
#define TEST_LEASE_DENIED  "etcdserver: permission denied"


static struct {
    ngx_etcd_lease_stream_t  *leases;
    ngx_etcd_lease_t          lease[TEST_LEASE_N];
    ngx_uint_t                denied[TEST_LEASE_N];
    ngx_uint_t                renewed[TEST_LEASE_N];
    ngx_uint_t                lost[TEST_LEASE_N];
} test_leases;


static void
test_lease_denied(ngx_etcd_lease_t *lease, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    test_leases.denied[lease - test_leases.lease]++;
}


static void
test_lease_renewed(ngx_etcd_lease_t *lease)
{
    test_leases.renewed[lease - test_leases.lease]++;
}


static void
test_lease_lost(ngx_etcd_lease_t *lease, char *reason)
{
    test_leases.lost[lease - test_leases.lease]++;
}


/* The leases go with the pool, before the cluster is destroyed. */

static void
test_lease_destroy(void *data)
{
    ngx_etcd_lease_stream_destroy(test_leases.leases);
}


static ngx_etcd_grpc_stream_t *
test_lease_stream(void)
{
    return test_etcd_call("/etcdserverpb.Lease/LeaseKeepAlive", 0);
}


/* All leases, with the ids from 1 on, are renewed at once, in this order. */

static ngx_etcd_grpc_stream_t *
test_lease_begin(ngx_pool_t *pool)
{
    ngx_uint_t         i;
    ngx_etcd_lease_t  *lease;

    test_etcd_conf(pool, 2);

    if (test_etcd_create(pool) != NGX_OK) {
        return NULL;
    }

    ngx_memzero(&test_leases, sizeof(test_leases));

    test_leases.leases = ngx_etcd_lease_stream_create(test_etcd.cluster);
    if (test_leases.leases == NULL) {
        return NULL;
    }

    test_alloc_cleanup(pool, test_lease_destroy);

    for (i = 0; i < TEST_LEASE_N; i++) {
        lease = &test_leases.lease[i];

        lease->id = i + 1;
        lease->ttl = TEST_LEASE_TTL;
        lease->deadline = ngx_etcd_lease_deadline(ngx_etcd_clock(),
                                                  TEST_LEASE_TTL);
        lease->denied = test_lease_denied;
        lease->renewed = test_lease_renewed;
        lease->lost = test_lease_lost;

        ngx_etcd_lease_keep(test_leases.leases, lease, 1);
    }

    test_loop_run();

    return test_lease_stream();
}


static void
test_lease_answer(ngx_etcd_grpc_stream_t *call, int64_t id)
{
    Etcd__LeaseKeepAliveResponse  response;

    etcd__lease_keep_alive_response__init(&response);

    response.id = id;
    response.ttl = TEST_LEASE_TTL / 1000;

    test_etcd_message(call, &response.base);
}


/* The second of three renewals is refused: the others are not affected. */

static void
test_lease_one(ngx_pool_t *pool)
{
    ngx_uint_t                    connects;
    uint64_t                      deadline;
    ngx_etcd_lease_t             *lease;
    ngx_etcd_grpc_stream_t       *call;
    Etcd__LeaseKeepAliveRequest  *request;

    call = test_lease_begin(pool);
    tap_expect(call != NULL && call->request.len != 0);

    lease = test_leases.lease;
    tap_expect(lease[0].sent != 0 && lease[1].sent != 0
               && lease[2].sent != 0);

    connects = test_etcd.connects;
    deadline = lease[1].deadline;

    test_loop_pass(100);
    test_lease_answer(call, 1);
    test_etcd_fail(call, NGX_ETCD_GRPC_PERMISSION_DENIED, TEST_LEASE_DENIED);

    tap_check(test_leases.denied[0] == 0 && test_leases.denied[1] == 1
              && test_leases.denied[2] == 0);

    /* the request behind the refused one is sent again, and nothing else */

    call = test_lease_stream();
    tap_expect(call != NULL && call->request.len != 0);
    tap_check(test_etcd.connects == connects);

    request = (Etcd__LeaseKeepAliveRequest *)
              test_etcd_request(pool, call,
                                &etcd__lease_keep_alive_request__descriptor);
    tap_check(request->id == 3);
    tap_check(lease[0].sent == 0 && lease[1].sent == 0);

    test_lease_answer(call, 3);
    tap_check(test_leases.renewed[0] == 1 && test_leases.renewed[1] == 0
              && test_leases.renewed[2] == 1);

    /* the refused renewal is sent before others are due, but not at once */

    test_loop_pass(TEST_LEASE_TTL / 12 - 1);
    tap_check(lease[1].sent == 0);
    tap_check(lease[1].deadline == deadline);

    test_loop_pass(TEST_LEASE_TTL / 6);
    tap_expect(lease[1].sent != 0);

    test_lease_answer(call, 2);
    tap_check(test_leases.renewed[1] == 1 && lease[1].deadline > deadline);
    tap_check(test_etcd.connects == connects && test_lease_stream() == call);
}


/* All renewals are refused, until the leases end. */

static void
test_lease_all(ngx_pool_t *pool)
{
    ngx_uint_t               i, n;
    ngx_etcd_grpc_stream_t  *call;

    call = test_lease_begin(pool);
    tap_expect(call != NULL && call->request.len != 0);

    n = test_etcd.connects;

    for (i = 0; i < TEST_LEASE_TTL; i++) {
        call = test_lease_stream();

        if (call != NULL && call->request.len != 0) {
            test_etcd_fail(call, NGX_ETCD_GRPC_PERMISSION_DENIED,
                           TEST_LEASE_DENIED);
        }

        test_loop_pass(1);
    }

    for (i = 0; i < TEST_LEASE_N; i++) {
        tap_check(test_leases.lost[i] == 1);
        tap_check(test_leases.denied[i] <= 1 + 12);
        tap_expect(test_leases.denied[i] >= 1 + 3);
    }

    tap_check(test_etcd.connects == n);
}


/* The refused lease is not kept any more: no other one is taken for it. */

static void
test_lease_former(ngx_pool_t *pool)
{
    ngx_uint_t               i;
    ngx_etcd_grpc_stream_t  *call;

    call = test_lease_begin(pool);
    tap_expect(call != NULL && call->request.len != 0);

    for (i = 0; i < TEST_LEASE_N; i++) {
        tap_expect(test_leases.lease[i].sent != 0);
    }

    ngx_etcd_lease_forget(&test_leases.lease[0]);
    test_etcd_fail(call, NGX_ETCD_GRPC_PERMISSION_DENIED, TEST_LEASE_DENIED);

    for (i = 0; i < TEST_LEASE_N; i++) {
        tap_check(test_leases.denied[i] == 0);
    }

    test_loop_pass(NGX_ETCD_BACKOFF_BASE);
    call = test_lease_stream();
    tap_expect(call != NULL && test_leases.lease[1].sent != 0
               && test_leases.lease[2].sent != 0);

    test_lease_answer(call, 2);
    test_lease_answer(call, 3);
    tap_check(test_leases.renewed[1] == 1 && test_leases.renewed[2] == 1);
}


/* Other ends of the stream are the endpoint's: another one is asked. */

static void
test_lease_endpoint(ngx_pool_t *pool)
{
    ngx_uint_t               i, where;
    ngx_etcd_grpc_stream_t  *call;

    call = test_lease_begin(pool);
    tap_expect(call != NULL && call->request.len != 0);

    where = test_etcd_where(call->h2);
    test_etcd_fail(call, NGX_ETCD_GRPC_PERMISSION_DENIED,
                   "got HTTP status 403");

    test_loop_pass(NGX_ETCD_BACKOFF_BASE);
    call = test_lease_stream();
    tap_expect(call != NULL && call->request.len != 0);
    tap_expect(test_etcd_where(call->h2) != where);

    for (i = 0; i < TEST_LEASE_N; i++) {
        tap_check(test_leases.denied[i] == 0);
        tap_expect(test_leases.lease[i].sent != 0);
    }
}


/* one lease, whose renewals need a read */

typedef struct {
    ngx_etcd_lease_stream_t  *leases;
    ngx_etcd_lease_t          lease;
    ngx_uint_t                renewed;
    ngx_uint_t                lost;
} test_kept_t;


static test_kept_t  test_kept;


static void
test_lease_patience(ngx_pool_t *pool)
{
    ngx_uint_t                 i;
    ngx_etcd_lease_patience_t  patience;

    static struct {
        uint64_t     left;
        ngx_msec_t   ttl;
        ngx_uint_t   misses;
        uint64_t     patience;
    } cases[] = {

        /* the first one does not depend on the time that is left */

        { 3400, 6000, 0, 1000 }, { 100, 6000, 0, 1000 }, { 0, 6000, 0, 1000 },
        { 1000, 2000, 0, 333 }, { 1000, 900, 0, 200 },

        /* further ones leave another endpoint as much */

        { 3400, 6000, 1, 2000 }, { 3400, 6000, 2, 2400 },
        { 2400, 6000, 1, 1400 }, { 1500, 6000, 1, 1000 },
        { 0, 6000, 5, 1000 }, { 3400, 6000, 1000000, 2400 },
        { 86400000, 86400000, 70, 86400000 - 14400000 }
    };

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        patience.misses = cases[i].misses;

        tap_check(ngx_etcd_lease_patience(&patience, 5000, 5000 + cases[i].left,
                                          cases[i].ttl)
                  == 5000 + cases[i].patience);
    }
}


static void
test_kept_witness(ngx_etcd_lease_t *lease, ngx_str_t *key, int64_t *created)
{
    ngx_str_set(key, "k");
    *created = 0;
}


static void
test_kept_renewed(ngx_etcd_lease_t *lease)
{
    test_kept.renewed++;
}


static void
test_kept_lost(ngx_etcd_lease_t *lease, char *reason)
{
    test_kept.lost++;
}


static void
test_kept_destroy(void *data)
{
    ngx_etcd_lease_stream_destroy(test_kept.leases);
}


static ngx_etcd_lease_t *
test_kept_grant(void)
{
    ngx_etcd_lease_t  *lease;

    lease = &test_kept.lease;

    lease->id = 7;
    lease->ttl = 6000;
    lease->deadline = ngx_etcd_lease_deadline(ngx_etcd_clock(), 6000);
    lease->witness = test_kept_witness;
    lease->renewed = test_kept_renewed;
    lease->lost = test_kept_lost;
    lease->shared = 1;

    ngx_etcd_lease_keep(test_kept.leases, lease, 0);

    return lease;
}


static ngx_etcd_lease_t *
test_kept_start(ngx_pool_t *pool, ngx_uint_t endpoints)
{
    ngx_memzero(&test_kept, sizeof(test_kept_t));

    test_etcd_conf(pool, endpoints);

    if (test_etcd_create(pool) != NGX_OK) {
        return NULL;
    }

    test_kept.leases = ngx_etcd_lease_stream_create(test_etcd.cluster);
    if (test_kept.leases == NULL) {
        return NULL;
    }

    test_alloc_cleanup(pool, test_kept_destroy);

    return test_kept_grant();
}


/* Answers the renewal of the lease; the read that follows is not answered. */

static ngx_etcd_grpc_stream_t *
test_kept_answer_ttl(int64_t ttl)
{
    ngx_etcd_grpc_stream_t        *call;
    Etcd__LeaseKeepAliveResponse   response;

    call = test_etcd_call("/etcdserverpb.Lease/LeaseKeepAlive", 0);

    if (call == NULL || test_kept.lease.sent == 0) {
        return NULL;
    }

    etcd__lease_keep_alive_response__init(&response);
    response.id = 7;
    response.ttl = ttl;

    test_etcd_message(call, &response.base);

    return test_etcd_range(0);
}


static ngx_etcd_grpc_stream_t *
test_kept_answer(void)
{
    return test_kept_answer_ttl(6);
}


/*
 * Each endpoint answers the renewal, and not the read: the first one is left
 * after a sixth of the TTL.  The last one, when all others were left, has time
 * up to the deadline.
 */

static void
test_lease_slow(ngx_pool_t *pool)
{
    ngx_uint_t               where;
    ngx_etcd_lease_t        *lease;
    ngx_etcd_grpc_stream_t  *read;

    lease = test_kept_start(pool, 3);
    tap_expect(lease != NULL);

    test_loop_pass(2000 + 1);
    read = test_kept_answer();
    tap_expect(read != NULL && !test_alloc_failed());

    where = test_etcd_where(read->h2);

    test_loop_pass(990);
    tap_check(test_etcd_range(0) == read);

    /* 5400 - 3000 ms are left, less those of the first patience */

    test_loop_pass(20);
    read = test_kept_answer();
    tap_expect(read != NULL);
    tap_check(test_etcd_where(read->h2) != where);
    tap_check(test_kept.leases->patience.misses == 1);

    where = test_etcd_where(read->h2);

    test_loop_pass(1350);
    tap_check(test_etcd_range(0) == read);

    test_loop_pass(100);
    read = test_kept_answer();
    tap_expect(read != NULL);
    tap_check(test_etcd_where(read->h2) != where);
    tap_check(test_kept.leases->patience.misses == 2 && test_kept.lost == 0);

    /* the deadline has not moved, and the endpoint is left with the lease */

    test_loop_pass((ngx_msec_t) (lease->deadline - ngx_etcd_clock()) - 1);
    tap_check(test_etcd_range(0) == read && test_kept.lost == 0);

    test_loop_pass(1);
    tap_check(test_kept.lost == 1 && test_kept.renewed == 0);
    tap_check(test_kept.leases->patience.misses == 3);
    tap_check(test_etcd_range(0) == NULL);

    /* of the next lease, the read of the first renewal has the time it needs */

    (void) test_kept_grant();

    test_loop_pass(2000 + 1);
    read = test_kept_answer();
    tap_expect(read != NULL);

    test_loop_pass(3000);
    tap_check(test_etcd_range(0) == read && test_kept.lost == 1);

    /* meanwhile no other renewal is sent */

    tap_check(test_kept.leases->requests == 1);

    test_etcd_keys(read, 'k', 0, 0, 1);
    tap_check(test_kept.renewed == 1);

    /* the renewal counts from when it was sent */

    tap_check(lease->deadline - ngx_etcd_clock() <= 5400 - 3000);
    tap_check(test_kept.leases->patience.misses == 3);
}


/* An endpoint that had less than its time, when the lease ends, is not left. */

static void
test_lease_short(ngx_pool_t *pool)
{
    ngx_etcd_lease_t        *lease;
    ngx_etcd_grpc_stream_t  *read;

    lease = test_kept_start(pool, 3);
    tap_expect(lease != NULL);

    ngx_etcd_lease_forget(lease);
    lease->deadline = ngx_etcd_clock() + 300;
    ngx_etcd_lease_keep(test_kept.leases, lease, 1);

    test_loop_pass(10);
    read = test_kept_answer();
    tap_expect(read != NULL && !test_alloc_failed());

    test_loop_pass(289);
    tap_check(test_etcd_range(0) == read && test_kept.lost == 0);

    test_loop_pass(1);
    tap_check(test_kept.lost == 1 && test_kept.renewed == 0);
    tap_check(test_kept.leases->patience.misses == 0);
    tap_check(test_etcd_call("/etcdserverpb.Lease/LeaseKeepAlive", 0) != NULL);
}


/* Many prompt renewals in a row bring back the first patience. */

static void
test_lease_prompt(ngx_pool_t *pool)
{
    ngx_uint_t               i;
    ngx_etcd_lease_t        *lease;
    ngx_etcd_grpc_stream_t  *read;

    lease = test_kept_start(pool, 3);
    tap_expect(lease != NULL);

    test_kept.leases->patience.misses = 2;
    test_kept.leases->patience.ttl = 6000;

    for (i = 0; i < 20; i++) {
        test_loop_pass((ngx_msec_t) (lease->renewal - ngx_etcd_clock()) + 1);
        read = test_kept_answer();
        tap_expect(read != NULL && !test_alloc_failed());

        test_loop_pass((i == 3) ? 600 : 10);

        read = test_etcd_range(0);
        tap_expect(read != NULL);
        tap_check((test_kept.leases->patience.misses == 0)
                  == (i >= 4 + NGX_ETCD_LEASE_PROMPT));

        test_etcd_keys(read, 'k', 0, 0, 1);
        tap_check(test_kept.renewed == i + 1);
    }

    tap_check(test_kept.leases->patience.misses == 0);
}


/* A lease that was granted slowly is renewed a third after the request. */

static void
test_lease_late(ngx_pool_t *pool)
{
    ngx_etcd_lease_t  *lease;

    lease = test_kept_start(pool, 1);
    tap_expect(lease != NULL);

    ngx_etcd_lease_forget(lease);
    lease->deadline -= 1500;
    ngx_etcd_lease_keep(test_kept.leases, lease, 0);

    test_loop_pass(490);
    tap_check(lease->sent == 0);

    test_loop_pass(20);
    tap_check(lease->sent != 0 || test_alloc_failed());
}


/*
 * A renewal counts for as long as was requested, or for less: the next raft
 * leader may keep the lease for less than the one that has renewed it.
 */

static void
test_lease_ttl(ngx_pool_t *pool)
{
    ngx_uint_t               i;
    uint64_t                 sent;
    ngx_etcd_lease_t        *lease;
    ngx_etcd_grpc_stream_t  *read;

    static struct {
        int64_t      answered;
        ngx_msec_t   ttl;
    } cases[] = {
        { 6, 6000 }, { 15, 6000 }, { 7, 6000 }, { INT64_MAX, 6000 },
        { 4, 4000 }, { 15, 4000 }
    };

    lease = test_kept_start(pool, 1);
    tap_expect(lease != NULL);

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        test_loop_pass((ngx_msec_t) (lease->renewal - ngx_etcd_clock()) + 1);
        tap_expect(lease->sent != 0);

        sent = lease->sent;

        read = test_kept_answer_ttl(cases[i].answered);
        tap_expect(read != NULL && !test_alloc_failed());

        test_etcd_keys(read, 'k', 0, 0, 1);
        tap_check(test_kept.renewed == i + 1);
        tap_check(lease->ttl == cases[i].ttl);
        tap_check(lease->deadline
                  == ngx_etcd_lease_deadline(sent, cases[i].ttl));
        tap_check(lease->renewal == sent + cases[i].ttl / 3);
    }
}


/* Two clocks may drift apart by a thousandth of any TTL. */

static void
test_lease_margin(ngx_pool_t *pool)
{
    ngx_uint_t  i;

    static struct {
        ngx_msec_t   ttl;
        ngx_msec_t   margin;
    } cases[] = {
        { 2000, 200 }, { 5000, 500 }, { 10000, 1000 }, { 99999, 1000 },
        { 100000, 1000 }, { 101000, 1010 }, { 900000, 9000 },
        { NGX_ETCD_LEASE_MAX_TTL * 1000, 864000 }
    };

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tap_check(ngx_etcd_lease_deadline(1, cases[i].ttl)
                  == 1 + cases[i].ttl - cases[i].margin);
        tap_check(cases[i].margin >= cases[i].ttl / 1000 * 2);
    }
}


ngx_etcd_tap_test_t  test_lease[] = {
    { "lease: one renewal is refused", test_lease_one },
    { "lease: all renewals are refused", test_lease_all },
    { "lease: a former lease is refused", test_lease_former },
    { "lease: an endpoint refuses the stream", test_lease_endpoint },
    { "lease: patience", test_lease_patience },
    { "lease: etcd is slow", test_lease_slow },
    { "lease: too late to be slow", test_lease_short },
    { "lease: etcd is slow no more", test_lease_prompt },
    { "lease: granted slowly", test_lease_late },
    { "lease: another TTL than the requested one", test_lease_ttl },
    { "lease: margins", test_lease_margin },
    { NULL, NULL }
};
