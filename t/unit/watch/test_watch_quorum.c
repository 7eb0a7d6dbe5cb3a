
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_watch_quorum.h>
#include "client/test_etcd.h"


/* ms, of the configuration in test_etcd_conf() */

#define TEST_QUORUM_INTERVAL  (3 * 10000)
#define TEST_QUORUM_TIMEOUT   5000


static ngx_etcd_watch_quorum_t  test_quorum;
static ngx_uint_t               test_quorum_silent;


static void
test_quorum_leave(void *data, ngx_str_t *reason)
{
    test_quorum_silent++;
    ngx_etcd_watch_quorum_stop(&test_quorum);
}


static void
test_quorum_cleanup(void *data)
{
    ngx_etcd_watch_quorum_stop(&test_quorum);
}


/* The streams channel is connected, and a key is known. */

static ngx_int_t
test_quorum_init(ngx_pool_t *pool)
{
    ngx_str_t  key;

    test_quorum_silent = 0;

    test_etcd_conf(pool, 1);

    if (test_etcd_create(pool) != NGX_OK) {
        return NGX_ERROR;
    }

    test_alloc_cleanup(pool, test_quorum_cleanup);

    ngx_memzero(&test_quorum, sizeof(ngx_etcd_watch_quorum_t));
    ngx_etcd_watch_quorum_init(&test_quorum, test_etcd.cluster,
                               test_quorum_leave, NULL);

    ngx_str_set(&key, "a/");
    ngx_etcd_watch_quorum_know(&test_quorum, &key);

    ngx_str_set(&key, "b/");
    ngx_etcd_watch_quorum_know(&test_quorum, &key);

    (void) ngx_etcd_channel_get(test_etcd.cluster->streams);
    test_loop_run();

    return NGX_OK;
}


/* Waits for the next read, at most one interval. */

static ngx_etcd_grpc_stream_t *
test_quorum_next(void)
{
    ngx_uint_t  ms;

    for (ms = 0; ms < TEST_QUORUM_INTERVAL && test_etcd_range(0) == NULL; ms++)
    {
        test_loop_pass(1);
    }

    return test_etcd_range(0);
}


/* An answer is followed by the next read, however long it takes. */

static void
test_quorum_answers(ngx_pool_t *pool)
{
    ngx_uint_t               i;
    Etcd__RangeRequest      *request;
    Etcd__RangeResponse      range;
    ngx_etcd_grpc_stream_t  *call;

    tap_expect(test_quorum_init(pool) == NGX_OK);

    test_etcd.cluster->current = 1;
    ngx_etcd_watch_quorum_start(&test_quorum);
    test_loop_pass(TEST_QUORUM_INTERVAL * 3 / 4 - 1);
    tap_check(test_etcd_range(0) == NULL);

    for (i = 0; i < 3; i++) {
        call = test_quorum_next();
        tap_expect(call != NULL);

        request = (Etcd__RangeRequest *)
                  test_etcd_request(pool, call,
                                    &etcd__range_request__descriptor);

        tap_check(request->key.len == 2 && !request->serializable);
        tap_check(request->key.data[0] == 'a' || test_alloc_failed());

        test_loop_pass(TEST_QUORUM_TIMEOUT - 1);
        tap_check(test_quorum_silent == 0);

        if (i == 2) {
            test_etcd_fail(call, NGX_ETCD_GRPC_PERMISSION_DENIED,
                           "etcdserver: permission denied");

        } else {
            etcd__range_response__init(&range);
            test_etcd_answer(call, &range.base);
        }

        /* the answer proves the time of the request */

        tap_check(test_etcd.cluster->proved == test_quorum.sent
                  && ngx_etcd_clock() - test_quorum.sent
                     >= TEST_QUORUM_TIMEOUT - 1);
    }

    test_loop_pass(TEST_QUORUM_TIMEOUT);
    tap_check(test_quorum_silent == 0);
}


/* The next endpoint has twice as long; an answer of any kind ends this. */

static void
test_quorum_silence(ngx_pool_t *pool)
{
    ngx_etcd_grpc_stream_t  *call;

    tap_expect(test_quorum_init(pool) == NGX_OK);

    ngx_etcd_watch_quorum_start(&test_quorum);
    tap_expect(test_quorum_next() != NULL);

    test_loop_pass(TEST_QUORUM_TIMEOUT);
    tap_check(test_quorum_silent == 1 && test_etcd_range(0) == NULL);

    ngx_etcd_watch_quorum_start(&test_quorum);
    tap_expect(test_quorum_next() != NULL);

    test_loop_pass(TEST_QUORUM_TIMEOUT * 2 - 1);
    tap_check(test_quorum_silent == 1);
    test_loop_pass(1);
    tap_check(test_quorum_silent == 2);

    ngx_etcd_watch_quorum_start(&test_quorum);
    call = test_quorum_next();
    tap_expect(call != NULL);
    test_etcd_fail(call, NGX_ETCD_GRPC_PERMISSION_DENIED, "no");
    tap_check(test_quorum.silences == 0);

    /* a failure proves nothing, and is no silence */

    call = test_quorum_next();
    tap_expect(call != NULL);
    test_etcd_fail(call, NGX_ETCD_GRPC_INTERNAL, "etcd has a fault");
    tap_check(test_quorum_silent == 2);
    tap_expect(test_quorum_next() != NULL);
}


/* Without a key or a connection nothing is read. */

static void
test_quorum_nothing(ngx_pool_t *pool)
{
    tap_expect(test_quorum_init(pool) == NGX_OK);

    test_quorum.read.key.len = 0;
    ngx_etcd_watch_quorum_start(&test_quorum);
    tap_check(test_quorum_next() == NULL);

    ngx_str_set(&test_quorum.read.key, "a/");
    tap_expect(test_etcd_connection(0) != NULL);
    test_etcd.down = 1;
    test_etcd_break(test_etcd_connection(0), "broken");
    tap_check(test_quorum_next() == NULL && test_quorum_silent == 0);
}


ngx_etcd_tap_test_t  test_watch_quorum[] = {
    { "watch quorum: answers", test_quorum_answers },
    { "watch quorum: no answer", test_quorum_silence },
    { "watch quorum: nothing to read", test_quorum_nothing },
    { NULL, NULL }
};
