
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
    tap_expect(lease[0].nsent == 1 && lease[1].nsent == 1
               && lease[2].nsent == 1);

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
    tap_check(lease[0].nsent == 0 && lease[1].nsent == 0);

    test_lease_answer(call, 3);
    tap_check(test_leases.renewed[0] == 1 && test_leases.renewed[1] == 0
              && test_leases.renewed[2] == 1);

    /* the refused renewal is sent before others are due, but not at once */

    test_loop_pass(TEST_LEASE_TTL / 12 - 1);
    tap_check(lease[1].nsent == 0);
    tap_check(lease[1].deadline == deadline);

    test_loop_pass(TEST_LEASE_TTL / 6);
    tap_expect(lease[1].nsent == 1);

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
        tap_expect(test_leases.lease[i].nsent == 1);
    }

    ngx_etcd_lease_forget(&test_leases.lease[0]);
    test_etcd_fail(call, NGX_ETCD_GRPC_PERMISSION_DENIED, TEST_LEASE_DENIED);

    for (i = 0; i < TEST_LEASE_N; i++) {
        tap_check(test_leases.denied[i] == 0);
    }

    test_loop_pass(NGX_ETCD_BACKOFF_BASE);
    call = test_lease_stream();
    tap_expect(call != NULL && test_leases.lease[1].nsent == 1
               && test_leases.lease[2].nsent == 1);

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
        tap_expect(test_leases.lease[i].nsent == 1);
    }
}


ngx_etcd_tap_test_t  test_lease[] = {
    { "lease: one renewal is refused", test_lease_one },
    { "lease: all renewals are refused", test_lease_all },
    { "lease: a former lease is refused", test_lease_former },
    { "lease: an endpoint refuses the stream", test_lease_endpoint },
    { NULL, NULL }
};
