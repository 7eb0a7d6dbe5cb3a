
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_kv.h>
#include "test_etcd.h"


static struct {
    ngx_etcd_stream_range_t   range;
    Etcd__RangeRequest        request;
    size_t                    keys;
} test_stream_range_state;


static void
test_stream_range_done(ngx_etcd_stream_range_t *range,
    ngx_etcd_grpc_status_e status, ngx_str_t *text,
    Etcd__RangeResponse *response)
{
    test_etcd_done(status, text);

    test_stream_range_state.keys = (response != NULL) ? response->n_kvs : 0;
}


static void
test_stream_range_cleanup(void *data)
{
    ngx_etcd_stream_range_cancel(&test_stream_range_state.range);
}


static ngx_int_t
test_stream_range_init(ngx_pool_t *pool)
{
    ngx_etcd_stream_range_t  *range;

    test_etcd_conf(pool, 2);

    if (test_etcd_create(pool) != NGX_OK) {
        return NGX_ERROR;
    }

    test_alloc_cleanup(pool, test_stream_range_cleanup);

    ngx_memzero(&test_stream_range_state, sizeof(test_stream_range_state));
    etcd__range_request__init(&test_stream_range_state.request);

    range = &test_stream_range_state.range;
    range->cluster = test_etcd.cluster;
    range->timeout = 700;
    range->done = test_stream_range_done;

    /* no connection yet: declined, and the streams connect */

    if (ngx_etcd_stream_range_start(range, &test_stream_range_state.request)
        != NGX_DECLINED)
    {
        ngx_etcd_tap_fail("no connection", __FILE__, __LINE__);
    }

    test_loop_run();

    return NGX_OK;
}


static ngx_int_t
test_stream_range_start(void)
{
    return ngx_etcd_stream_range_start(&test_stream_range_state.range,
                                       &test_stream_range_state.request);
}


/* By the connection of the streams; a linearizable answer tells the history. */

static void
test_stream_range_answer(ngx_pool_t *pool)
{
    ngx_etcd_http2_t        *h2;
    ngx_etcd_grpc_stream_t  *call;

    tap_expect(test_stream_range_init(pool) == NGX_OK);
    tap_expect(test_stream_range_start() == NGX_OK);
    tap_check(test_stream_range_state.range.running && test_etcd.done == 0);

    h2 = ngx_etcd_channel_get(test_etcd.cluster->streams);
    call = test_etcd_range(0);
    tap_check(call != NULL && call->h2 == h2 && call->call->timeout == 700);

    test_etcd_keys(call, 'a', 3, 0, 50);
    tap_check(test_etcd.done == 1 && test_etcd.status == NGX_ETCD_GRPC_OK);
    tap_check(test_stream_range_state.keys == 3);
    tap_check(!test_stream_range_state.range.running);
    tap_check(test_etcd.cluster->history.linearized == 50);

    /* An endpoint's own data say nothing of the history. */

    test_stream_range_state.request.serializable = 1;
    tap_expect(test_stream_range_start() == NGX_OK);
    test_etcd_keys(test_etcd_range(0), 'a', 1, 0, 20);
    tap_check(test_etcd.done == 2 && test_stream_range_state.keys == 1);
    tap_check(test_etcd.cluster->history.linearized == 50);
    tap_check(test_etcd.cluster->history.changes == 0);
}


static void
test_stream_range_fails(ngx_pool_t *pool)
{
    Etcd__RangeResponse      response;
    ngx_etcd_grpc_stream_t  *call;

    tap_expect(test_stream_range_init(pool) == NGX_OK);

    /* the end without an answer, and a second answer */

    tap_expect(test_stream_range_start() == NGX_OK);
    test_etcd_fail(test_etcd_range(0), NGX_ETCD_GRPC_OK, "");
    tap_check(test_etcd.done == 1
              && test_etcd.status == NGX_ETCD_GRPC_INTERNAL);
    tap_text(&test_etcd.text, "OK without a response");

    etcd__range_response__init(&response);

    tap_expect(test_stream_range_start() == NGX_OK);
    call = test_etcd_range(0);
    test_etcd_message(call, &response.base);
    test_etcd_message(call, &response.base);
    tap_check(test_etcd.done == 2 && test_etcd.status != NGX_ETCD_GRPC_OK);

    /* an answer does not count if the call fails after it */

    tap_expect(test_stream_range_start() == NGX_OK);
    call = test_etcd_range(0);
    test_etcd_message(call, &response.base);
    test_etcd_fail(call, NGX_ETCD_GRPC_UNAVAILABLE, "no leader");
    tap_check(test_etcd.done == 3
              && test_etcd.status == NGX_ETCD_GRPC_UNAVAILABLE);
    tap_check(!test_stream_range_state.range.refused);

    /* a token that is not accepted: to be started again, but not at once */

    tap_expect(test_stream_range_start() == NGX_OK);
    test_etcd_fail(test_etcd_range(0), NGX_ETCD_GRPC_UNAUTHENTICATED, "x");
    tap_check(test_etcd.done == 4 && test_stream_range_state.range.refused);
    tap_check(test_stream_range_start() == NGX_DECLINED);
}


/* Nothing is told of a call that nobody wants any more. */

static void
test_stream_range_cancel(ngx_pool_t *pool)
{
    Etcd__RangeResponse  response;

    tap_expect(test_stream_range_init(pool) == NGX_OK);
    tap_expect(test_stream_range_start() == NGX_OK);

    etcd__range_response__init(&response);
    test_etcd_message(test_etcd_range(0), &response.base);

    ngx_etcd_stream_range_cancel(&test_stream_range_state.range);
    tap_check(test_etcd_range(0) == NULL && test_etcd.done == 0);
    tap_check(!test_stream_range_state.range.running);

    ngx_etcd_stream_range_cancel(&test_stream_range_state.range);

    /* a connection that breaks ends a call */

    tap_expect(test_stream_range_start() == NGX_OK);
    test_etcd_break(ngx_etcd_channel_get(test_etcd.cluster->streams), "gone");
    tap_check(test_etcd.done == 1
              && test_etcd.status == NGX_ETCD_GRPC_UNAVAILABLE);
}


ngx_etcd_tap_test_t  test_stream_range[] = {
    { "stream range: an answer", test_stream_range_answer },
    { "stream range: failures", test_stream_range_fails },
    { "stream range: ends", test_stream_range_cancel },
    { NULL, NULL }
};
