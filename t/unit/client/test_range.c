
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_kv.h>
#include "test_etcd.h"


/* the arguments of the consumers' handlers */

static struct {
    ngx_etcd_range_t  range;
    int64_t           revision;
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
test_range_cleanup(void *data)
{
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
    tap_check(test_etcd.cluster->history.linearized == 50);

    test_range_state.range.request.serializable = 1;
    ngx_etcd_range_start(&test_range_state.range);
    test_loop_run();
    call = test_etcd_range(0);
    tap_expect(call != NULL);

    test_etcd_keys(call, 'a', 1, 0, 20);
    tap_check(test_etcd.done == 2 && test_etcd.cluster->history.changes == 0);
    tap_check(test_etcd.cluster->history.linearized == 50);
}


ngx_etcd_tap_test_t  test_range[] = {
    { "range: the end of a prefix", test_range_prefix_end },
    { "range: an answer", test_range_range },
    { NULL, NULL }
};
