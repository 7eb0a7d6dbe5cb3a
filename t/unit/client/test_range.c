
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_kv.h>
#include "test_etcd.h"


/* the arguments of the consumers' handlers */

static struct {
    ngx_etcd_range_t        range;
    ngx_etcd_quorum_read_t  read;
    int64_t                 revision;
} test_range_state;


static void
test_range_prefix_end(ngx_pool_t *pool)
{
    ngx_str_t   end, *prefix;
    ngx_uint_t  i;

    static struct {
        char    *prefix;
        size_t   len;
        char    *end;
        size_t   end_len;
    } cases[] = {
        { "a", 1, "b", 1 }, { "/s/", 3, "/s0", 3 }, { "a\xff", 2, "b", 1 },
        { "a\xfe\xff\xff", 4, "a\xff", 2 }, { "\xff\xff", 2, "\0", 1 },
        { "a\0", 2, "a\1", 2 }, { "", 0, "\0", 1 }
    };

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        prefix = tap_bytes(pool, cases[i].prefix, cases[i].len);
        end = ngx_etcd_range_prefix_end(pool, prefix);

        tap_expect(end.data != NULL);
        tap_check(end.len == cases[i].end_len);
        tap_check(ngx_memcmp(end.data, cases[i].end, end.len) == 0);
        tap_check(ngx_memcmp(prefix->data, cases[i].prefix, prefix->len) == 0);
    }
}


static void
test_range_range_done(ngx_etcd_range_t *range, ngx_etcd_grpc_status_e status,
    ngx_str_t *text, Etcd__RangeResponse *response, ngx_pool_t *pool)
{
    test_etcd_done(status, text);

    if (response != NULL) {
        test_range_state.revision = response->header->revision;
        ngx_destroy_pool(pool);
    }
}


static void
test_range_read_done(ngx_etcd_quorum_read_t *read,
    ngx_etcd_grpc_status_e status, ngx_str_t *text)
{
    test_etcd_done(status, text);
}


static void
test_range_cleanup(void *data)
{
    ngx_etcd_quorum_read_cancel(&test_range_state.read);

    if (test_range_state.range.unary.cluster != NULL) {
        ngx_etcd_range_cancel(&test_range_state.range);
    }
}


static ngx_int_t
test_range_init(ngx_pool_t *pool)
{
    test_etcd_conf(pool, 2);

    if (test_etcd_create(pool) != NGX_OK) {
        return NGX_ERROR;
    }

    test_alloc_cleanup(pool, test_range_cleanup);

    ngx_memzero(&test_range_state, sizeof(test_range_state));

    test_range_state.range.cluster = test_etcd.cluster;
    test_range_state.range.done = test_range_range_done;
    etcd__range_request__init(&test_range_state.range.request);

    test_range_state.read.cluster = test_etcd.cluster;
    test_range_state.read.key = *tap_string(pool, "/a");
    test_range_state.read.done = test_range_read_done;

    return NGX_OK;
}


static void
test_range_range(ngx_pool_t *pool)
{
    ngx_etcd_grpc_stream_t  *call;

    tap_expect(test_range_init(pool) == NGX_OK);

    ngx_etcd_range_start(&test_range_state.range);
    test_loop_run();
    call = test_etcd_range(0);
    tap_expect(call != NULL);

    test_etcd_keys(call, 'a', 1, 0, 50);
    tap_check(test_etcd.done == 1 && test_etcd.status == NGX_ETCD_GRPC_OK);
    tap_check(test_range_state.revision == 50);

    /* the header of a linearizable answer is looked at */

    tap_check(test_etcd.cluster->cluster_id == 7);
    tap_check(test_etcd.cluster->linearized == 50);

    test_range_state.range.request.serializable = 1;
    ngx_etcd_range_start(&test_range_state.range);
    test_loop_run();
    call = test_etcd_range(0);
    tap_expect(call != NULL);

    test_etcd_keys(call, 'a', 1, 0, 20);
    tap_check(test_etcd.done == 2 && test_etcd.cluster->history == 0);
    tap_check(test_etcd.cluster->linearized == 50);
}


/* A read by the streams' endpoint is made once, and only now. */

static void
test_range_quorum(ngx_pool_t *pool)
{
    Etcd__RangeRequest      *request;
    ngx_etcd_grpc_stream_t  *call;

    tap_expect(test_range_init(pool) == NGX_OK);

    ngx_etcd_quorum_read_cancel(&test_range_state.read);
    tap_check(ngx_etcd_quorum_read_start(&test_range_state.read)
              == NGX_DECLINED);
    tap_check(test_etcd.done == 0);

    test_loop_run();
    tap_expect(ngx_etcd_quorum_read_start(&test_range_state.read) == NGX_OK);
    call = test_etcd_range(0);
    tap_check(call != NULL && call->call->timeout == 0);

    request = (Etcd__RangeRequest *)
              test_etcd_request(pool, call, &etcd__range_request__descriptor);
    tap_check(request->keys_only && !request->serializable);

    test_etcd_keys(call, 'a', 1, 0, 50);
    tap_check(test_etcd.done == 1 && test_etcd.status == NGX_ETCD_GRPC_OK);
    tap_check(test_range_state.read.cluster_id == 7
              && test_range_state.read.raft_term == 3
              && test_range_state.read.created == 17);

    /* no such key; an answer that is none; one that fails; one nobody wants */

    tap_expect(ngx_etcd_quorum_read_start(&test_range_state.read) == NGX_OK);
    test_etcd_keys(test_etcd_range(0), 'a', 0, 0, 50);
    tap_check(test_etcd.done == 2 && test_range_state.read.created == 0);

    tap_expect(ngx_etcd_quorum_read_start(&test_range_state.read) == NGX_OK);
    test_etcd_fail(test_etcd_range(0), NGX_ETCD_GRPC_OK, "");
    tap_check(test_etcd.done == 3
              && test_etcd.status == NGX_ETCD_GRPC_INTERNAL);

    tap_expect(ngx_etcd_quorum_read_start(&test_range_state.read) == NGX_OK);
    test_etcd_fail(test_etcd_range(0), NGX_ETCD_GRPC_UNAUTHENTICATED, "x");
    tap_check(test_etcd.done == 4 && test_range_state.read.range.refused);
    tap_check(test_etcd.cluster->auth->unauthorized);

    tap_check(ngx_etcd_quorum_read_start(&test_range_state.read)
              == NGX_DECLINED);
    test_loop_pass(NGX_ETCD_AUTH_BACKOFF_MAX);

    tap_expect(ngx_etcd_quorum_read_start(&test_range_state.read) == NGX_OK);
    ngx_etcd_quorum_read_cancel(&test_range_state.read);
    tap_check(test_etcd_range(0) == NULL && test_etcd.done == 4);
    tap_check(!test_range_state.read.range.running);
}


ngx_etcd_tap_test_t  test_range[] = {
    { "range: the end of a prefix", test_range_prefix_end },
    { "range: an answer", test_range_range },
    { "quorum read", test_range_quorum },
    { NULL, NULL }
};
