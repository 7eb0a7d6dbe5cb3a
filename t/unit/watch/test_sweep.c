
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_sweep.h>
#include "client/test_etcd.h"


#define TEST_SWEEP_LEASE  0x1a2b


static struct {
    ngx_etcd_sweep_t    sweep;
    ngx_rbtree_node_t   node[4];
    ngx_uint_t          found;        /* bits of numbers */
    ngx_uint_t          swept;
    int64_t             revision;
    ngx_uint_t          end;          /* with the next search */
} test_sweep_state;


static void
test_sweep_found(void *data, ngx_str_t *key, ngx_uint_t number,
    int64_t revision)
{
    test_sweep_state.found |= (ngx_uint_t) 1 << number;
    test_sweep_state.revision = revision;

    ngx_etcd_sweep_add(&test_sweep_state.sweep, &test_sweep_state.node[number],
                       number);
}


static void
test_sweep_swept(void *data)
{
    test_sweep_state.swept++;

    if (test_sweep_state.end) {
        ngx_etcd_sweep_end(&test_sweep_state.sweep);
    }
}


static void
test_sweep_cleanup(void *data)
{
    ngx_etcd_sweep_end(&test_sweep_state.sweep);
}


static ngx_etcd_sweep_t *
test_sweep_init(ngx_pool_t *pool)
{
    ngx_etcd_sweep_t  *sweep;

    test_etcd_conf(pool, 1);

    if (test_etcd_create(pool) != NGX_OK) {
        return NULL;
    }

    ngx_memzero(&test_sweep_state, sizeof(test_sweep_state));

    sweep = &test_sweep_state.sweep;
    sweep->cluster = test_etcd.cluster;
    sweep->found = test_sweep_found;
    sweep->swept = test_sweep_swept;

    ngx_etcd_sweep_init(sweep);

    test_alloc_cleanup(pool, test_sweep_cleanup);

    return sweep;
}


/* The call of the next search; NULL: there is none within that time. */

static ngx_etcd_grpc_stream_t *
test_sweep_call(ngx_uint_t seconds)
{
    ngx_etcd_grpc_stream_t  *call;

    do {
        test_loop_pass(1000);
        call = test_etcd_call("/etcdserverpb.Lease/LeaseTimeToLive", 0);
    } while (call == NULL && --seconds != 0);

    return call;
}


static void
test_sweep_answer(ngx_etcd_grpc_stream_t *call, char **keys, size_t n,
    int64_t revision)
{
    size_t                         i;
    ProtobufCBinaryData            data[8];
    Etcd__ResponseHeader           header;
    Etcd__LeaseTimeToLiveResponse  response;

    etcd__response_header__init(&header);
    etcd__lease_time_to_live_response__init(&response);

    for (i = 0; i < n; i++) {
        data[i].data = (u_char *) keys[i];
        data[i].len = ngx_strlen(keys[i]);
    }

    header.cluster_id = 7;
    header.revision = revision;

    response.header = &header;
    response.id = TEST_SWEEP_LEASE;
    response.ttl = 10;
    response.keys = data;
    response.n_keys = n;

    test_etcd_answer(call, &response.base);
}


static void
test_sweep_keys(ngx_pool_t *pool)
{
    ngx_etcd_sweep_t        *sweep;
    ngx_etcd_grpc_stream_t  *call;

    static char *keys[] = {
        "l/1a2b-1", "l/1a2b-2", "l/1a2b-", "l/1a2b", "l/a1a2b-3", "1a2b-3",
        "l/1a2b-x", "l/1a2b--3"
    };

    sweep = test_sweep_init(pool);
    tap_expect(sweep != NULL);

    ngx_etcd_sweep_add(sweep, &test_sweep_state.node[1], 1);
    ngx_etcd_sweep_begin(sweep, TEST_SWEEP_LEASE);

    call = test_sweep_call(10);
    tap_check(call != NULL);

    test_sweep_answer(call, keys, sizeof(keys) / sizeof(keys[0]), 40);
    tap_check(test_sweep_state.found == 1 << 2);
    tap_check(test_sweep_state.revision == 40 && test_sweep_state.swept == 1);

    /* a key is found once; one that is not known any more, again */

    call = test_sweep_call(10);
    tap_check(call != NULL);

    ngx_etcd_sweep_remove(sweep, &test_sweep_state.node[1]);
    ngx_etcd_sweep_remove(sweep, &test_sweep_state.node[1]);

    test_sweep_state.found = 0;
    test_sweep_answer(call, keys, 2, 41);
    tap_check(test_sweep_state.found == 1 << 1);

    /* an answer without a revision, as of a proxy, says nothing */

    call = test_sweep_call(10);
    tap_check(call != NULL);

    ngx_etcd_sweep_remove(sweep, &test_sweep_state.node[1]);

    test_sweep_state.found = 0;
    test_sweep_answer(call, keys, 2, 0);
    tap_check(test_sweep_state.found == 0 && test_sweep_state.swept == 2);
}


/* A search that fails is repeated; swept() may end it. */

static void
test_sweep_fails(ngx_pool_t *pool)
{
    ngx_etcd_sweep_t        *sweep;
    ngx_etcd_grpc_stream_t  *call;

    sweep = test_sweep_init(pool);
    tap_expect(sweep != NULL);

    ngx_etcd_sweep_begin(sweep, TEST_SWEEP_LEASE);

    call = test_sweep_call(10);
    tap_check(call != NULL);

    test_etcd_fail(call, NGX_ETCD_GRPC_INTERNAL, "it failed");
    tap_check(test_sweep_state.swept == 0);

    call = test_sweep_call(10);
    tap_check(call != NULL);

    test_sweep_state.end = 1;
    test_sweep_answer(call, NULL, 0, 42);
    tap_check(test_sweep_state.swept == 1 && sweep->lease == 0);

    tap_check(test_sweep_call(3) == NULL);
}


static void
test_sweep_ends(ngx_pool_t *pool)
{
    ngx_etcd_sweep_t  *sweep;

    sweep = test_sweep_init(pool);
    tap_expect(sweep != NULL);

    tap_check(!ngx_etcd_sweep_over(sweep));

    ngx_etcd_sweep_begin(sweep, TEST_SWEEP_LEASE);
    test_loop_pass(NGX_ETCD_SWEEP_LONG - 1);
    tap_check(!ngx_etcd_sweep_over(sweep));

    /* another unknown outcome */

    ngx_etcd_sweep_begin(sweep, TEST_SWEEP_LEASE);
    test_loop_pass(NGX_ETCD_SWEEP_LONG - 1);
    tap_check(!ngx_etcd_sweep_over(sweep));

    test_loop_pass(1);
    tap_check(ngx_etcd_sweep_over(sweep));

    ngx_etcd_sweep_add(sweep, &test_sweep_state.node[1], 1);
    tap_check(!ngx_etcd_sweep_over(sweep));
    ngx_etcd_sweep_remove(sweep, &test_sweep_state.node[1]);

    /* another lease, then none */

    ngx_etcd_sweep_begin(sweep, TEST_SWEEP_LEASE + 1);
    tap_check(sweep->lease == TEST_SWEEP_LEASE + 1);
    tap_check(!ngx_etcd_sweep_over(sweep));

    ngx_etcd_sweep_end(sweep);
    ngx_etcd_sweep_end(sweep);
    tap_check(!ngx_etcd_sweep_over(sweep));
    tap_check(test_sweep_call(3) == NULL);
}


ngx_etcd_tap_test_t  test_sweep[] = {
    { "sweep: unknown keys", test_sweep_keys },
    { "sweep: failures", test_sweep_fails },
    { "sweep: the end", test_sweep_ends },
    { NULL, NULL }
};
