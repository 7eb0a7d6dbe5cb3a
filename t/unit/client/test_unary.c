
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_kv.h>
#include "test_etcd.h"


typedef struct {
    ngx_etcd_unary_t       unary;
    Etcd__RangeRequest     request;
    int64_t                count;        /* of the response */
} test_unary_t;


static test_unary_t  test_call;


static void
test_unary_done(ngx_etcd_unary_t *unary, ngx_etcd_grpc_status_e status,
    ngx_str_t *text, ProtobufCMessage *response, ngx_pool_t *pool)
{
    test_etcd_done(status, text);

    if (response != NULL) {
        test_call.count = ((Etcd__RangeResponse *) response)->count;
        ngx_destroy_pool(pool);
    }
}


/* The call is cancelled with the pool, before the cluster is destroyed. */

static void
test_unary_cancel(void *data)
{
    ngx_etcd_unary_cancel(&test_call.unary);
}


static ngx_etcd_unary_t *
test_unary_start(ngx_pool_t *pool)
{
    ngx_etcd_unary_t  *unary;

    if (test_etcd_create(pool) != NGX_OK) {
        return NULL;
    }

    test_alloc_cleanup(pool, test_unary_cancel);

    unary = &test_call.unary;
    ngx_memzero(&test_call, sizeof(test_unary_t));
    etcd__range_request__init(&test_call.request);

    test_call.request.key.data = (u_char *) "k";
    test_call.request.key.len = 1;

    unary->cluster = test_etcd.cluster;
    unary->method = "/etcdserverpb.KV/Range";
    unary->name = "test";
    unary->request = &test_call.request.base;
    unary->response = &etcd__range_response__descriptor;
    unary->idempotent = 1;
    unary->done = test_unary_done;

    return unary;
}


static void
test_unary_ok(ngx_pool_t *pool)
{
    ngx_etcd_unary_t        *unary;
    Etcd__RangeRequest      *request;
    Etcd__RangeResponse      range;
    ngx_etcd_grpc_stream_t  *call;

    test_etcd_conf(pool, 2);
    unary = test_unary_start(pool);
    tap_expect(unary != NULL);

    ngx_etcd_unary_start(unary);
    tap_check(test_etcd.done == 0);

    test_loop_run();
    call = test_etcd_range(0);
    tap_expect(call != NULL && call->ended);
    tap_check(call->token.len == 0 && call->call->timeout == 500);

    request = (Etcd__RangeRequest *)
              test_etcd_request(pool, call, &etcd__range_request__descriptor);
    tap_check(request->key.len == 1);

    etcd__range_response__init(&range);
    range.count = 77;
    test_etcd_answer(call, &range.base);

    tap_check(test_etcd.done == 1 && test_etcd.status == NGX_ETCD_GRPC_OK);
    tap_check(test_call.count == 77);
    tap_check(!unary->unknown && (!unary->repeated || test_alloc_failed()));
}


/* The deadline of an attempt is doubled; each is made at another endpoint. */

static void
test_unary_attempts(ngx_pool_t *pool)
{
    ngx_uint_t               where;
    ngx_etcd_unary_t        *unary;
    Etcd__RangeResponse      range;
    ngx_etcd_grpc_stream_t  *call;

    test_etcd_conf(pool, 2);
    unary = test_unary_start(pool);
    tap_expect(unary != NULL);

    ngx_etcd_unary_start(unary);
    test_loop_run();
    tap_expect(test_etcd_range(0) != NULL);

    where = test_etcd_where(test_etcd_range(0)->h2);

    test_loop_pass(500 + 1);
    call = test_etcd_range(0);
    tap_expect(call != NULL && test_etcd.started == 2);
    tap_check(call->call->timeout == 1000);
    tap_check(test_etcd_where(call->h2) != where);
    tap_check(test_etcd.done == 0);

    etcd__range_response__init(&range);
    test_etcd_answer(call, &range.base);

    tap_check(test_etcd.done == 1 && test_etcd.status == NGX_ETCD_GRPC_OK);
    tap_check(unary->repeated && !unary->unknown);
}


/*
 * An attempt is heard half-way: a PING does not keep the channel at an endpoint
 * that does not answer, a part of another answer does.
 */

static void
test_unary_silence(ngx_pool_t *pool)
{
    ngx_uint_t               answer, where;
    ngx_etcd_unary_t        *unary;
    ngx_etcd_grpc_stream_t  *call;

    test_etcd_conf(pool, 2);
    unary = test_unary_start(pool);
    tap_expect(unary != NULL);

    for (answer = 0; answer < 2; answer++) {
        ngx_etcd_unary_start(unary);
        test_loop_run();

        call = test_etcd_range(0);
        tap_expect(call != NULL && call->call->timeout == 500);

        where = test_etcd_where(call->h2);

        test_loop_pass(250);
        tap_expect(test_etcd_range(0) == call);
        test_etcd_alive(call, answer);
        test_loop_pass(250 + 1);

        call = test_etcd_range(0);
        tap_expect(call != NULL && call->call->timeout == 1000);
        tap_check((test_etcd_where(call->h2) == where) == answer);

        ngx_etcd_unary_cancel(unary);
        ngx_etcd_channel_succeeded(test_etcd.cluster->reads);
    }
}


/*
 * The second endpoint is slow, too: a short attempt does not leave it, and does
 * not end the call that waits there.  The next attempt is long enough.
 */

static void
test_unary_patience(ngx_pool_t *pool)
{
    ngx_uint_t               where;
    ngx_etcd_unary_t        *unary;
    ngx_etcd_grpc_stream_t  *call;

    test_etcd_conf(pool, 2);
    unary = test_unary_start(pool);
    tap_expect(unary != NULL);

    ngx_etcd_unary_start(unary);
    test_loop_pass(500 + 1);
    tap_expect(test_etcd_range(0) != NULL && test_etcd.started == 2);

    where = test_etcd_where(test_etcd_range(0)->h2);

    ngx_etcd_unary_cancel(unary);
    ngx_etcd_unary_start(unary);
    test_loop_pass(500 + 1);

    call = test_etcd_range(0);
    tap_expect(call != NULL && call->call->timeout == 1000);
    tap_check(test_etcd_where(call->h2) == where || test_alloc_failed());

    test_loop_pass(1000 + NGX_ETCD_BACKOFF_URGENT);

    call = test_etcd_range(0);
    tap_expect(call != NULL && test_etcd.started == 5);
    tap_check(test_etcd_where(call->h2) != where || test_alloc_failed());
}


/*
 * The endpoint of the streams does not answer linearizable reads: a call that
 * waits there goes elsewhere at once, and a connection without one stays.
 */

static void
test_unary_stuck(ngx_pool_t *pool, ngx_uint_t waits)
{
    ngx_str_t                reason = ngx_string("no answer");
    ngx_etcd_http2_t        *h2, *home;
    ngx_etcd_unary_t        *unary;
    ngx_etcd_channel_t      *reads, *streams;
    Etcd__RangeResponse      range;
    ngx_etcd_grpc_stream_t  *call;

    test_etcd_conf(pool, 2);
    unary = test_unary_start(pool);
    tap_expect(unary != NULL);

    reads = test_etcd.cluster->reads;
    streams = test_etcd.cluster->streams;
    reads->next = &test_etcd.cluster->endpoints.places[0];
    streams->next = reads->next;

    (void) ngx_etcd_channel_get(streams);
    ngx_etcd_unary_start(unary);
    test_loop_run();

    home = ngx_etcd_channel_get(reads);
    call = test_etcd_range(0);
    tap_expect(home != NULL && call != NULL && call->h2 == home);

    if (!waits) {
        etcd__range_response__init(&range);
        test_etcd_alive(call, 1);
        test_etcd_answer(call, &range.base);
    }

    ngx_etcd_channel_stuck(streams, &reason);
    test_loop_pass(10);

    h2 = ngx_etcd_channel_get(reads);
    tap_expect(h2 != NULL);
    tap_check(test_etcd_where(h2) == (waits ? 2 : 1) || test_alloc_failed());
    tap_check((test_etcd_range(0) != NULL) == waits || test_alloc_failed());
}


static void
test_unary_stuck_call(ngx_pool_t *pool)
{
    test_unary_stuck(pool, 1);
}


static void
test_unary_stuck_idle(ngx_pool_t *pool)
{
    test_unary_stuck(pool, 0);
}


/*
 * Calls that nobody answers, one after the other: when all endpoints were
 * silent, they are left less often, but none is kept.
 */

static void
test_unary_silent(ngx_pool_t *pool)
{
    ngx_uint_t         i, connects;
    ngx_etcd_unary_t  *unary;

    test_etcd_conf(pool, 2);
    unary = test_unary_start(pool);
    tap_expect(unary != NULL);

    connects = 0;

    for (i = 0; i < 24; i++) {
        if (i == 12) {
            connects = test_etcd.connects;
        }

        ngx_etcd_unary_start(unary);
        test_loop_pass(5000);
    }

    connects = test_etcd.connects - connects;

    tap_check(connects <= 8);
    tap_expect(connects >= 4);
}


/* No answer at all: after request_timeout, not before. */

static void
test_unary_timeout(ngx_pool_t *pool)
{
    ngx_etcd_unary_t  *unary;

    test_etcd_conf(pool, 3);
    unary = test_unary_start(pool);
    tap_expect(unary != NULL);

    test_etcd.down = 1;
    ngx_etcd_unary_start(unary);

    test_loop_pass(4999);
    tap_check(test_etcd.done == 0);

    test_loop_pass(1);
    tap_check(test_etcd.done == 1);
    tap_check(test_etcd.status == NGX_ETCD_GRPC_UNAVAILABLE);
    tap_text(&test_etcd.text, "no endpoint answered in time");
    tap_check(test_etcd.connects >= 6 && test_etcd.started == 0);
}


/* The time is over between two attempts: the reason is that of the last one. */

static void
test_unary_reason(ngx_pool_t *pool)
{
    ngx_uint_t               n;
    ngx_etcd_unary_t        *unary;
    ngx_etcd_grpc_stream_t  *call;

    test_etcd_conf(pool, 3);
    unary = test_unary_start(pool);
    tap_expect(unary != NULL);

    ngx_etcd_unary_start(unary);

    for (n = 0; n < 4000; n++) {
        test_loop_pass(1);
        call = test_etcd_range(0);

        if (call != NULL) {
            test_etcd_fail(call, NGX_ETCD_GRPC_RESOURCE_EXHAUSTED,
                           "etcdserver: too many requests");
        }
    }

    tap_expect(test_etcd.started > 2 && test_etcd.done == 0);

    test_etcd.down = 1;
    test_etcd_break(test_etcd_connection(0), "broken");

    test_loop_pass(1000);
    tap_check(test_etcd.done == 1);
    tap_check(test_etcd.status == NGX_ETCD_GRPC_RESOURCE_EXHAUSTED);
    tap_text(&test_etcd.text, "etcdserver: too many requests");
}


/* A call that may have been processed is repeated only if idempotent. */

static void
test_unary_once(ngx_pool_t *pool)
{
    ngx_etcd_unary_t        *unary;
    ngx_etcd_grpc_stream_t  *call;

    test_etcd_conf(pool, 2);
    unary = test_unary_start(pool);
    tap_expect(unary != NULL);

    unary->idempotent = 0;
    ngx_etcd_unary_start(unary);
    test_loop_run();

    call = test_etcd_range(0);
    tap_expect(call != NULL);

    call->call->unprocessed = 1;
    test_etcd_fail(call, NGX_ETCD_GRPC_UNAVAILABLE, "refused");
    tap_check(test_etcd.done == 0);

    test_loop_pass(1000);
    call = test_etcd_range(0);
    tap_expect(call != NULL);

    test_etcd_fail(call, NGX_ETCD_GRPC_UNAVAILABLE, "broken");
    tap_check(test_etcd.done == 1 && unary->unknown);
    tap_text(&test_etcd.text, "broken");
}


static void
test_unary_final(ngx_pool_t *pool)
{
    ngx_uint_t               i;
    ngx_etcd_unary_t        *unary;
    ngx_etcd_grpc_stream_t  *call;

    static ngx_etcd_grpc_status_e  finals[] = {
        NGX_ETCD_GRPC_INVALID_ARGUMENT, NGX_ETCD_GRPC_NOT_FOUND,
        NGX_ETCD_GRPC_PERMISSION_DENIED, NGX_ETCD_GRPC_FAILED_PRECONDITION,
        NGX_ETCD_GRPC_OUT_OF_RANGE, NGX_ETCD_GRPC_UNIMPLEMENTED
    };

    test_etcd_conf(pool, 1);
    unary = test_unary_start(pool);
    tap_expect(unary != NULL);

    for (i = 0; i < sizeof(finals) / sizeof(finals[0]); i++) {
        ngx_etcd_unary_start(unary);
        test_loop_pass(100);
        call = test_etcd_range(0);
        tap_expect(call != NULL);

        test_etcd_fail(call, finals[i], "no");
        tap_check(test_etcd.done == i + 1 && test_etcd.status == finals[i]);
        tap_check(!unary->unknown);
    }

    /* too much for one message is so each time */

    ngx_etcd_unary_start(unary);
    test_loop_pass(100);
    call = test_etcd_range(0);
    tap_expect(call != NULL);

    call->call->oversize = 1;
    test_etcd_fail(call, NGX_ETCD_GRPC_RESOURCE_EXHAUSTED, "too long");
    tap_check(test_etcd.done == i + 1 && unary->smaller && !unary->full);

    /* a full database is not waited for if that is not wanted */

    unary->roomy = 1;
    ngx_etcd_unary_start(unary);
    test_loop_pass(100);
    call = test_etcd_range(0);
    tap_expect(call != NULL);

    test_etcd_fail(call, NGX_ETCD_GRPC_RESOURCE_EXHAUSTED,
                   "etcdserver: mvcc: database space exceeded");
    tap_check(test_etcd.done == i + 2);
    tap_check(test_etcd.status == NGX_ETCD_GRPC_FAILED_PRECONDITION);
    tap_check(unary->full);

    ngx_etcd_unary_start(unary);
    tap_check(!unary->full);
}


/* Answers that are none: two messages, or OK without one. */

static void
test_unary_odd(ngx_pool_t *pool)
{
    ngx_etcd_unary_t        *unary;
    Etcd__RangeResponse      range;
    ngx_etcd_grpc_stream_t  *call;

    test_etcd_conf(pool, 1);
    unary = test_unary_start(pool);
    tap_expect(unary != NULL);

    etcd__range_response__init(&range);

    ngx_etcd_unary_start(unary);
    test_loop_run();
    call = test_etcd_range(0);
    tap_expect(call != NULL);

    test_etcd_message(call, &range.base);
    test_etcd_message(call, &range.base);
    tap_check(test_etcd.done == 0);

    test_loop_pass(400);
    call = test_etcd_range(0);
    tap_expect(call != NULL);

    test_etcd_fail(call, NGX_ETCD_GRPC_OK, "");
    tap_check(test_etcd.done == 0);

    test_loop_pass(400);
    call = test_etcd_range(0);
    tap_expect(call != NULL);

    /* the call is cancelled after the message, before the end */

    test_etcd_message(call, &range.base);
    ngx_etcd_unary_cancel(unary);
    ngx_etcd_unary_cancel(unary);

    test_loop_pass(10000);
    tap_check(test_etcd.done == 0);
}


/*
 * Of a write that was repeated twice, the time counts that its attempts have
 * waited, and no pause: refusals at once do not make etcd slow.
 */

static void
test_unary_measured(ngx_pool_t *pool)
{
    ngx_uint_t               n, silent;
    ngx_msec_t               latency;
    ngx_etcd_unary_t        *unary;
    Etcd__RangeResponse      range;
    ngx_etcd_grpc_stream_t  *call;

    test_etcd_conf(pool, 2);
    unary = test_unary_start(pool);
    tap_expect(unary != NULL);

    unary->writes = 1;

    for (silent = 0; silent < 2; silent++) {
        ngx_etcd_unary_start(unary);
        call = NULL;

        for (n = 0; n < 3; n++) {
            test_loop_run();
            call = test_etcd_range(0);

            while (call == NULL && test_etcd.done == silent) {
                test_loop_pass(1);
                call = test_etcd_range(0);
            }

            tap_expect(call != NULL && !test_alloc_failed());
            tap_check(call->call->timeout == (ngx_msec_t) 500 << n);

            if (n == 2) {
                break;
            }

            if (silent) {
                test_loop_pass(500 << n);

            } else {
                test_loop_pass(1);
                test_etcd_fail(call, NGX_ETCD_GRPC_RESOURCE_EXHAUSTED,
                               "too many requests");
            }
        }

        test_loop_pass(100);

        etcd__range_response__init(&range);
        test_etcd_answer(call, &range.base);
        tap_expect(test_etcd.done == silent + 1);

        latency = ngx_etcd_latency(&test_etcd.cluster->latency);

        tap_check(silent ? (latency >= 1600 && latency < 1650)
                         : (latency >= 100 && latency < 110));
    }

    /* half of request_timeout is less than two such writes */

    ngx_etcd_unary_start(unary);
    test_loop_run();

    call = test_etcd_range(0);
    tap_expect(call != NULL);
    tap_check(call->call->timeout == 2500);
}


ngx_etcd_tap_test_t  test_unary[] = {
    { "unary: an answer", test_unary_ok },
    { "unary: attempts", test_unary_attempts },
    { "unary: another answer, and none", test_unary_silence },
    { "unary: slow endpoints", test_unary_patience },
    { "unary: an endpoint that is stuck", test_unary_stuck_call },
    { "unary: the same, and no call waits", test_unary_stuck_idle },
    { "unary: endpoints that are silent", test_unary_silent },
    { "unary: no answer", test_unary_timeout },
    { "unary: the reason of the last attempt", test_unary_reason },
    { "unary: what is not repeated", test_unary_once },
    { "unary: answers that are final", test_unary_final },
    { "unary: answers that are none", test_unary_odd },
    { "unary: how long a write takes", test_unary_measured },
    { NULL, NULL }
};
