
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The request and the end of a call.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_http2_session.h>
#include <ngx_etcd_version.h>
#include "test_peer.h"


/* messages that are more than two windows, and bytes of each */

#define TEST_GRPC_HELD  140
#define TEST_GRPC_PART  65536

#define TEST_GRPC_REQUEST                                                     \
    ":method: POST;:scheme: http;:path: /etcdserverpb.KV/Range;"              \
    ":authority: etcd:2379;te: trailers;content-type: application/grpc;"      \
    "user-agent: nginx-etcd/" NGX_ETCD_VERSION ";"


static void
test_grpc_request(ngx_pool_t *pool)
{
    test_call_t  *call;

    tap_expect(test_peer_ready(pool) == NGX_OK);

    call = test_call_start(pool, 0);

    tap_expect(call != NULL && test_peer.requests == 1);
    tap_text(&test_peer.headers, TEST_GRPC_REQUEST);
    tap_check(test_peer.ended);

    /* a message: not compressed, five bytes, field 1 of three bytes */

    tap_check(test_peer.body.len == 10);
    tap_check(ngx_memcmp(test_peer.body.data, "\0\0\0\0\x05\x0a\x03key", 10)
              == 0);

    tap_check(call->done == 0);
}


/* Milliseconds of eight digits, or seconds. */

static void
test_grpc_timeout(ngx_pool_t *pool)
{
    ngx_uint_t    i;
    test_call_t  *call;

    static struct {
        ngx_msec_t   timeout;
        char        *sent;
    } cases[] = {
        { 1, "grpc-timeout: 1m;" },
        { 99999999, "grpc-timeout: 99999999m;" },
        { 100000000, "grpc-timeout: 100000S;" },
        { (ngx_msec_t) 1 << 40, "grpc-timeout: 99999999S;" },
        { 0, NULL }
    };

    tap_expect(test_peer_ready(pool) == NGX_OK);

    for (i = 0; cases[i].sent != NULL; i++) {
        test_peer.headers.len = 0;

        call = test_call_start(pool, cases[i].timeout);
        tap_expect(call != NULL && test_peer.headers.len != 0);

        ngx_etcd_grpc_cancel(&call->call);
        test_peer_run();

        tap_check(test_peer.headers.len
                  == sizeof(TEST_GRPC_REQUEST) - 1 + ngx_strlen(cases[i].sent));
        tap_check(ngx_strncmp(test_peer.headers.data
                              + sizeof(TEST_GRPC_REQUEST) - 1, cases[i].sent,
                              ngx_strlen(cases[i].sent))
                  == 0);
        tap_expect(test_peer.reset == NGHTTP2_CANCEL);
    }
}


/* A token is not put into tables of HPACK. */

static void
test_grpc_metadata(ngx_pool_t *pool)
{
    ngx_keyval_t  md;

    tap_expect(test_peer_ready(pool) == NGX_OK);

    md.key = *tap_string(pool, "authorization");
    md.value = *tap_string(pool, "secret");
    test_peer.metadata = &md;

    tap_expect(test_call_start(pool, 0) != NULL);

    tap_expect(test_peer.requests == 1);
    tap_text(&test_peer.headers,
             TEST_GRPC_REQUEST "authorization: secret (never);");
}


/* Messages of a stream are sent as they come, and none after its end. */

static void
test_grpc_streaming(ngx_pool_t *pool)
{
    test_call_t           *call;
    Etcd__RangeRequest     request;
    ngx_etcd_grpc_call_t  *grpc;

    tap_expect(test_peer_ready(pool) == NGX_OK);

    call = test_call_start(pool, 0);
    tap_expect(call != NULL && test_peer.ended);

    etcd__range_request__init(&request);

    tap_check(ngx_etcd_grpc_send(&call->call, &request.base) == NGX_ERROR);

    ngx_etcd_grpc_cancel(&call->call);
    ngx_etcd_grpc_cancel(&call->call);
    ngx_etcd_grpc_end(&call->call);

    tap_check(ngx_etcd_grpc_send(&call->call, &request.base) == NGX_ERROR);

    test_peer.ended = 0;
    test_peer.body.len = 0;

    grpc = &call->call;

    tap_expect(ngx_etcd_grpc_start(test_peer.h2, grpc) == NGX_OK);
    test_peer_run();
    tap_check(test_peer.body.len == 0);

    tap_expect(ngx_etcd_grpc_send(grpc, &request.base) == NGX_OK);
    test_peer_run();
    tap_expect(test_peer.body.len == 5 && !test_peer.ended);

    tap_expect(ngx_etcd_grpc_send(grpc, &request.base) == NGX_OK);
    ngx_etcd_grpc_end(grpc);
    test_peer_run();
    tap_expect(test_peer.body.len == 10 && test_peer.ended);
}


/* The peer of a call that is held sends a window, and the rest when not. */

static void
test_grpc_hold(ngx_pool_t *pool)
{
    u_char       *p;
    ngx_str_t     body;
    ngx_uint_t    i;
    test_call_t  *call;

    tap_expect(test_peer_ready(pool) == NGX_OK);

    call = test_call_start(pool, 0);
    tap_expect(call != NULL);

    /* a field that is unknown; a length of 4 bytes */

    body.len = TEST_GRPC_HELD * (TEST_GRPC_PART + 10);
    body.data = calloc(1, body.len);

    if (body.data == NULL) {
        abort();
    }

    for (p = body.data, i = 0; i < TEST_GRPC_HELD; i++) {
        p = ngx_cpymem(p, "\0\0\1\0\5\x7a\x80\x80\x84\0", 10);
        p += TEST_GRPC_PART;
    }

    ngx_etcd_grpc_hold(&call->call, 1);
    test_peer_answer(TEST_OK, &body, NULL);

    i = test_peer.answered;
    ngx_etcd_grpc_hold(&call->call, 0);
    test_peer_run();

    free(body.data);

    tap_expect(i == NGX_ETCD_HTTP2_STREAM_WINDOW);
    tap_expect(call->messages == TEST_GRPC_HELD && call->done == 1);

    ngx_etcd_grpc_hold(&call->call, 1);
}


static void
test_grpc_deadline(ngx_pool_t *pool)
{
    test_call_t  *call;

    tap_expect(test_peer_ready(pool) == NGX_OK);

    call = test_call_start(pool, 300);
    tap_expect(call != NULL && test_peer.requests == 1);

    test_loop_pass(299);
    tap_expect(call->done == 0);

    test_loop_pass(1);
    tap_check(call->done == 1);
    tap_check(call->status == NGX_ETCD_GRPC_DEADLINE_EXCEEDED);
    tap_check(!call->call.unprocessed);
    tap_text(&call->text, "no answer in 300 ms");

    test_peer_run();
    tap_expect(test_peer.reset == NGHTTP2_CANCEL);
}


/*
 * The peer takes two streams at a time: the third is not sent, so that it may
 * be repeated.
 */

static void
test_grpc_unprocessed(ngx_pool_t *pool)
{
    ngx_uint_t    i;
    test_call_t  *calls[3];

    tap_expect(test_peer_ready(pool) == NGX_OK);

    for (i = 0; i < 3; i++) {
        calls[i] = test_call_start(pool, 300);
        tap_expect(calls[i] != NULL);
    }

    tap_expect(test_peer.requests == 2);
    tap_check(!calls[0]->done && !calls[1]->done && !calls[2]->done);

    test_loop_pass(300);

    tap_check(calls[0]->done == 1 && calls[1]->done == 1
              && calls[2]->done == 1);
    tap_check(!calls[0]->call.unprocessed && calls[2]->call.unprocessed);
    tap_check(test_peer.requests == 2);
}


static void
test_grpc_reset(ngx_pool_t *pool)
{
    ngx_uint_t    i;
    test_call_t  *call;

    static struct {
        uint32_t                 code;
        ngx_etcd_grpc_status_e   status;
        ngx_uint_t               unprocessed;
        char                    *text;
    } cases[] = {
        { NGHTTP2_REFUSED_STREAM, NGX_ETCD_GRPC_UNAVAILABLE, 1,
          "stream was closed: REFUSED_STREAM" },
        { NGHTTP2_CANCEL, NGX_ETCD_GRPC_CANCELLED, 0,
          "stream was closed: CANCEL" },
        { NGHTTP2_ENHANCE_YOUR_CALM, NGX_ETCD_GRPC_RESOURCE_EXHAUSTED, 0,
          "stream was closed: ENHANCE_YOUR_CALM" },
        { NGHTTP2_INADEQUATE_SECURITY, NGX_ETCD_GRPC_PERMISSION_DENIED, 0,
          "stream was closed: INADEQUATE_SECURITY" },
        { NGHTTP2_INTERNAL_ERROR, NGX_ETCD_GRPC_INTERNAL, 0,
          "stream was closed: INTERNAL_ERROR" },
        { 4711, NGX_ETCD_GRPC_INTERNAL, 0, "stream was closed: unknown" },
        { 0, 0, 0, NULL }
    };

    tap_expect(test_peer_ready(pool) == NGX_OK);

    for (i = 0; cases[i].text != NULL; i++) {
        call = test_call_start(pool, 0);
        tap_expect(call != NULL && test_peer.requests == i + 1);

        (void) nghttp2_submit_rst_stream(test_peer.session, NGHTTP2_FLAG_NONE,
                                         test_peer.id, cases[i].code);
        test_peer_run();

        tap_expect(call->done == 1 && call->status == cases[i].status);
        tap_check(call->call.unprocessed == cases[i].unprocessed);
        tap_text(&call->text, cases[i].text);
    }
}


static void
test_grpc_status_names(ngx_pool_t *pool)
{
    tap_check(ngx_strcmp(ngx_etcd_grpc_status_name(NGX_ETCD_GRPC_OK), "ok")
              == 0);
    tap_check(ngx_strcmp(ngx_etcd_grpc_status_name(
                             NGX_ETCD_GRPC_UNAUTHENTICATED),
                         "unauthenticated")
              == 0);
    tap_check(ngx_strcmp(ngx_etcd_grpc_status_name(
                             NGX_ETCD_GRPC_UNAUTHENTICATED + 1),
                         "unknown")
              == 0);
}


ngx_etcd_tap_test_t  test_grpc[] = {
    { "gRPC: request", test_grpc_request },
    { "gRPC: grpc-timeout", test_grpc_timeout },
    { "gRPC: metadata", test_grpc_metadata },
    { "gRPC: messages of a stream", test_grpc_streaming },
    { "gRPC: held", test_grpc_hold },
    { "gRPC: deadline", test_grpc_deadline },
    { "gRPC: calls that are not sent", test_grpc_unprocessed },
    { "gRPC: RST_STREAM", test_grpc_reset },
    { "gRPC: names of status", test_grpc_status_names },
    { NULL, NULL }
};
