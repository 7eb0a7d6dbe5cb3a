
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The life of a connection, and what peers may send that nobody asked for.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "test_peer.h"


static void
test_http2_ready(ngx_pool_t *pool)
{
    test_call_t  *call;

    tap_expect(test_peer_open(pool) == NGX_OK);
    tap_check(!ngx_etcd_http2_usable(test_peer.h2));

    test_peer.conf.connected(test_peer.conf.data);
    tap_check(test_peer.ready == 0);

    /* the preface and SETTINGS are sent first */

    test_loop_run();
    tap_expect(test_peer.ready == 0 && test_peer.h2 != NULL);
    tap_check(!ngx_etcd_http2_usable(test_peer.h2));

    test_peer_run();
    tap_expect(test_peer.ready == 1);
    tap_check(ngx_etcd_http2_usable(test_peer.h2));
    tap_check(test_peer.alive != 0);

    call = test_call_start(pool, 0);
    tap_expect(call != NULL && test_peer.h2 != NULL);

    ngx_etcd_http2_close(test_peer.h2);
    test_peer.h2 = NULL;

    tap_check(call->done == 1 && call->status == NGX_ETCD_GRPC_UNAVAILABLE);
    tap_check(test_peer.closed == 0);
}


/* The reason is the pending step. */

static void
test_http2_timeouts(ngx_pool_t *pool)
{
    tap_expect(test_peer_open(pool) == NGX_OK);

    test_loop_pass(999);
    tap_check(test_peer.closed == 0);

    test_loop_pass(1);
    tap_check(test_peer.closed == 1);
    tap_text(&test_peer.reason, "connect() timed out");
}


static void
test_http2_settings(ngx_pool_t *pool)
{
    tap_expect(test_peer_open(pool) == NGX_OK);

    test_peer.conf.connected(test_peer.conf.data);
    test_loop_pass(1000);

    tap_check(test_peer.closed == 1);
    tap_expect(test_peer.reason.len != 0);

    if (!test_alloc_failed()) {
        tap_text(&test_peer.reason, "timed out waiting for HTTP/2 SETTINGS");
    }
}


/* There is more time for a peer that has accepted the connection. */

static void
test_http2_patience(ngx_pool_t *pool)
{
    tap_expect(test_peer_open(pool) == NGX_OK);
    ngx_etcd_http2_conf(test_peer.h2)->patience = 2000;

    test_peer.conf.connected(test_peer.conf.data);
    test_loop_pass(2999);
    tap_expect(test_peer.closed == 0);

    test_loop_pass(1);
    tap_check(test_peer.closed == 1 && test_peer.late);
}


static void
test_http2_unreached(ngx_pool_t *pool)
{
    tap_expect(test_peer_open(pool) == NGX_OK);
    ngx_etcd_http2_conf(test_peer.h2)->patience = 2000;
    test_peer.unreached = 1;

    test_loop_pass(1000);
    tap_check(test_peer.closed == 1 && !test_peer.late);
}


/* The other end, if that is no HTTP/2 server. */

static void
test_http2_strangers(ngx_pool_t *pool)
{
    ngx_uint_t   i;
    ngx_pool_t  *own;

    static struct {
        char  *data;
        char  *reason;
    } cases[] = {
        { "HTTP/1.1 400 Bad Request\r\n",
          "no HTTP/2: got \"HTTP/1.1 400 Bad Request\"" },
        { "SSH-2.0-\x1b[31m", "no HTTP/2: got \"SSH-2.0-\"" },
        { "\"\\\"\\\"", "no HTTP/2: got bytes 0x225c225c" },
        { "\x15\x03\x03\x02", "no HTTP/2: got a TLS alert, "
                              "is this an https endpoint?" },
        { "\xff\xfe\xfd\xfc", "no HTTP/2: got bytes 0xfffefdfc" },
        { "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
          "no HTTP/2: got "
          "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"" },
        { NULL, NULL }
    };

    for (i = 0; cases[i].data != NULL && !test_alloc_failed(); i++) {
        own = ngx_create_pool(1024, pool->log);
        tap_expect(own != NULL);

        if (test_peer_open(own) == NGX_OK) {
            test_peer.conf.connected(test_peer.conf.data);
            test_loop_run();
            test_peer_send(cases[i].data, ngx_strlen(cases[i].data));

            if (!test_alloc_failed()) {
                (void) ngx_etcd_tap_same(&test_peer.reason, cases[i].reason,
                                         __FILE__, __LINE__);
            }
        }

        ngx_destroy_pool(own);
    }
}


/* The same byte by byte; and a peer that says nothing. */

static void
test_http2_end(ngx_pool_t *pool)
{
    ngx_uint_t  i;
    ngx_str_t   reason = ngx_string("connection was closed by the peer");

    tap_expect(test_peer_open(pool) == NGX_OK);

    test_peer.conf.connected(test_peer.conf.data);
    test_loop_run();
    tap_expect(test_peer.h2 != NULL);

    for (i = 0; i < 3; i++) {
        test_peer_send("HTT" + i, 1);
        tap_expect(test_peer.closed == 0);
    }

    test_peer.connected = 0;
    test_peer.conf.failed(test_peer.conf.data, &reason);

    tap_check(test_peer.closed == 1);
    tap_expect(test_peer.reason.len != 0);

    if (!test_alloc_failed()) {
        tap_text(&test_peer.reason, "connection was closed by the peer "
                                    "before HTTP/2 SETTINGS");
    }
}


static void
test_http2_silence(ngx_pool_t *pool)
{
    ngx_str_t  reason = ngx_string("connection was closed by the peer");

    tap_expect(test_peer_open(pool) == NGX_OK);

    test_peer.conf.connected(test_peer.conf.data);
    test_loop_run();
    tap_expect(test_peer.h2 != NULL);

    test_peer.connected = 0;
    test_peer.conf.failed(test_peer.conf.data, &reason);

    tap_check(test_peer.closed == 1);

    if (!test_alloc_failed()) {
        tap_text(&test_peer.reason, "connection was closed by the peer before "
                                    "HTTP/2 SETTINGS, is this an https "
                                    "endpoint?");
    }
}


/* PINGs are sent while there are calls and the peer is silent. */

static void
test_http2_pings(ngx_pool_t *pool)
{
    test_call_t  *call;

    tap_expect(test_peer_ready(pool) == NGX_OK);

    test_loop_pass(60000);
    test_peer_run();
    tap_expect(test_peer.pings == 0 && test_peer.h2 != NULL);

    call = test_call_start(pool, 0);
    tap_expect(call != NULL && test_peer.requests == 1);

    test_loop_pass(9999);
    tap_expect(test_peer.pings == 0);

    test_loop_pass(1);
    tap_expect(test_peer.pings == 1 && test_peer.pongs == 0);

    test_peer_run();
    tap_expect(test_peer.pongs == 1 && call->done == 0);

    /* the next one, unanswered */

    test_loop_pass(10000);
    tap_expect(test_peer.pings == 2);

    test_loop_pass(1999);
    tap_expect(test_peer.closed == 0);

    test_loop_pass(1);
    tap_check(test_peer.closed == 1 && call->done == 1);
    tap_check(call->status == NGX_ETCD_GRPC_UNAVAILABLE);
    tap_text(&call->text, "no answer to PING in 2000 ms");
    tap_text(&test_peer.reason, "no answer to PING in 2000 ms");
}


/* A PING's answer with other bytes is none, but a sign of life. */

static void
test_http2_pong(ngx_pool_t *pool)
{
    test_call_t  *call;

    tap_expect(test_peer_ready(pool) == NGX_OK);

    call = test_call_start(pool, 0);
    tap_expect(call != NULL && test_peer.requests == 1);

    test_peer_frame(NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, "\0\0\0\0\0\0\0\0", 8);
    tap_check(test_peer.pongs == 0);

    test_loop_pass(10000);
    tap_expect(test_peer.pings == 1);

    test_peer_frame(NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, "12345678", 8);
    tap_check(test_peer.pongs == 0);

    test_loop_pass(9999);
    tap_expect(test_peer.pings == 1 && test_peer.closed == 0);

    /* no frame of the connection is a part of the answer to the call */

    tap_check(test_peer.alive != 0 && test_peer.answers == 0);

    test_peer_answer(TEST_OK, NULL, NULL);
    tap_check(test_peer.answers != 0 || test_alloc_failed());
}


/* After a complaint about PINGs, calls that go on are pinged half as often. */

static void
test_http2_fewer_pings(ngx_pool_t *pool)
{
    test_call_t  *call;
    char          frame[] = "\0\0\0\1\0\0\0\x0btoo_many_pings";

    tap_expect(test_peer_ready(pool) == NGX_OK);

    call = test_call_start(pool, 0);
    tap_expect(call != NULL && test_peer.requests == 1);

    test_peer_frame(NGHTTP2_GOAWAY, 0, 0, frame, sizeof(frame) - 1);
    tap_expect(test_peer.drainings == 1 && test_peer.too_many_pings);

    test_loop_pass(19999);
    tap_expect(test_peer.pings == 0 && call->done == 0);

    test_loop_pass(1);
    tap_expect(test_peer.pings == 1);
}


/*
 * GOAWAY: calls above the last one end and may be repeated, the others go on;
 * then the connection closes itself.
 */

static void
test_http2_goaway(ngx_pool_t *pool)
{
    test_call_t  *one, *two, *three;

    tap_expect(test_peer_ready(pool) == NGX_OK);

    one = test_call_start(pool, 0);
    tap_expect(one != NULL && test_peer.requests == 1);

    two = test_call_start(pool, 0);
    tap_expect(two != NULL && test_peer.requests == 2);

    three = test_call_start(pool, 0);
    tap_expect(three != NULL);

    test_peer_frame(NGHTTP2_GOAWAY, 0, 0, "\0\0\0\1\0\0\0\0", 8);

    tap_expect(test_peer.drainings == 1);
    tap_check(!test_peer.too_many_pings);
    tap_check(!ngx_etcd_http2_usable(test_peer.h2));
    tap_check(one->done == 0 && test_peer.closed == 0);
    tap_check(two->done == 1 && two->call.unprocessed);
    tap_check(three->done == 1 && three->call.unprocessed);

    test_peer.id = 1;
    test_peer_answer(TEST_OK, test_call_message(pool, 5), "grpc-status: 0\n");

    tap_expect(one->done == 1 && one->status == NGX_ETCD_GRPC_OK);
    tap_check(test_peer.closed == 1);
    tap_text(&test_peer.reason, "got GOAWAY: NO_ERROR");
}


static void
test_http2_too_many_pings(ngx_pool_t *pool)
{
    char  frame[] = "\x7f\xff\xff\xff\0\0\0\x0btoo_many_pings";

    tap_expect(test_peer_ready(pool) == NGX_OK);

    test_peer_frame(NGHTTP2_GOAWAY, 0, 0, frame, sizeof(frame) - 1);

    tap_expect(test_peer.closed == 1);
    tap_expect(test_peer.too_many_pings);
    tap_text(&test_peer.reason, "got GOAWAY: ENHANCE_YOUR_CALM: "
                                "too_many_pings");
}


/* Frames without payload end the connection, as soon as they are too many. */

static void
test_http2_flood(ngx_pool_t *pool)
{
    ngx_uint_t   i;
    char         update[] = "\0\0\4\x08\0\0\0\0\0\0\0\0\1";

    tap_expect(test_peer_ready(pool) == NGX_OK);

    /* 26 bytes each: 20 KB in a second are no flood */

    for (i = 0; i < 5000; i++) {
        if (i % 800 == 0) {
            test_loop_pass(1000);
        }

        test_peer_send(update, 13);
        tap_expect(test_peer.closed == 0);
        test_peer_send(update, 13);
    }

    tap_expect(test_peer.closed == 0);

    for (i = 0; i < 32768 / 13; i++) {
        test_peer_send(update, 13);
    }

    tap_expect(test_peer.closed == 1);
    tap_check(ngx_strncmp(test_peer.reason.data, "HTTP/2 flood: ", 14) == 0);
}


/* A header block of more than 64 KB ends its call only. */

static void
test_http2_headers(ngx_pool_t *pool)
{
    ngx_uint_t    i;
    nghttp2_nv    nv[42];
    test_call_t  *call;

    static u_char  value[2048];

    ngx_memset(value, 'x', sizeof(value));

    tap_expect(test_peer_ready(pool) == NGX_OK);

    call = test_call_start(pool, 0);
    tap_expect(call != NULL && test_peer.requests == 1);

    nv[0].name = (uint8_t *) ":status";
    nv[0].namelen = 7;
    nv[0].value = (uint8_t *) "200";
    nv[0].valuelen = 3;
    nv[0].flags = NGHTTP2_NV_FLAG_NONE;

    for (i = 1; i < 42; i++) {
        nv[i].name = (uint8_t *) "x";
        nv[i].namelen = 1;
        nv[i].value = value;
        nv[i].valuelen = sizeof(value);
        nv[i].flags = NGHTTP2_NV_FLAG_NONE;
    }

    (void) nghttp2_submit_headers(test_peer.session, NGHTTP2_FLAG_NONE,
                                  test_peer.id, NULL, nv, 25, NULL);
    test_peer_run();

    tap_expect(call->done == 1 && call->status == NGX_ETCD_GRPC_UNKNOWN);

    call = test_call_start(pool, 0);
    tap_expect(call != NULL && test_peer.requests == 2);

    (void) nghttp2_submit_headers(test_peer.session, NGHTTP2_FLAG_NONE,
                                  test_peer.id, NULL, nv, 42, NULL);
    test_peer_run();

    tap_expect(call->done == 1 && call->status == NGX_ETCD_GRPC_INTERNAL);
    tap_expect(test_peer.closed == 0);
}


/* Frames that no server may send end the connection and all calls. */

static void
test_http2_violations(ngx_pool_t *pool)
{
    ngx_uint_t    i;
    ngx_pool_t   *own;
    test_call_t  *call;

    static struct {
        u_char    type;
        u_char    flags;
        int32_t   id;
        char     *data;
        size_t    n;
    } cases[] = {
        { NGHTTP2_DATA, 0, 0, "x", 1 },
        { NGHTTP2_DATA, 0, 2, "x", 1 },
        { NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 2, "\x88", 1 },
        { NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, "\xff\xff\xff", 3 },
        { NGHTTP2_SETTINGS, 0, 0, "12345", 5 },
        { NGHTTP2_PING, 0, 0, "123", 3 },
        { NGHTTP2_PING, 0, 1, "12345678", 8 },
        { NGHTTP2_PUSH_PROMISE, NGHTTP2_FLAG_END_HEADERS, 1, "\0\0\0\2\x82",
          5 },
        { NGHTTP2_WINDOW_UPDATE, 0, 0, "\0\0\0\0", 4 },
        { NGHTTP2_CONTINUATION, 0, 1, "", 0 },
        { NGHTTP2_RST_STREAM, 0, 0, "\0\0\0\0", 4 },
        { 0, 0, 0, NULL, 0 }
    };

    for (i = 0; cases[i].data != NULL && !test_alloc_failed(); i++) {
        own = ngx_create_pool(1024, pool->log);
        tap_expect(own != NULL);

        call = (test_peer_ready(own) == NGX_OK) ? test_call_start(own, 0)
                                                : NULL;

        if (call != NULL && !test_alloc_failed()) {
            test_peer_frame(cases[i].type, cases[i].flags, cases[i].id,
                            cases[i].data, cases[i].n);

            if (!test_alloc_failed()
                && (test_peer.closed != 1 || call->done != 1
                    || test_peer.reason.len == 0))
            {
                ngx_etcd_tap_fail("a violation ends it", __FILE__, i);
            }
        }

        ngx_destroy_pool(own);
    }
}


/* Unknown frames, and calls that nobody has, are ignored. */

static void
test_http2_ignored(ngx_pool_t *pool)
{
    test_call_t  *call;

    tap_expect(test_peer_ready(pool) == NGX_OK);

    call = test_call_start(pool, 0);
    tap_expect(call != NULL && test_peer.requests == 1);

    test_peer_frame(0x2a, 0xff, 1, "whatever", 8);
    test_peer_frame(NGHTTP2_PRIORITY, 0, 1, "\0\0\0\0\x10", 5);
    tap_expect(call->done == 0 && test_peer.closed == 0);

    ngx_etcd_grpc_cancel(&call->call);
    test_peer_answer(TEST_OK, test_call_message(pool, 5), NULL);

    tap_expect(test_peer.closed == 0 && call->messages == 0);
}


/* done() closes the connection that is failing. */

static void
test_http2_close_again(ngx_pool_t *pool)
{
    ngx_str_t     reason = ngx_string("the cable is cut");
    test_call_t  *one, *two;

    tap_expect(test_peer_ready(pool) == NGX_OK);

    one = test_call_start(pool, 0);
    tap_expect(one != NULL);

    two = test_call_start(pool, 0);
    tap_expect(two != NULL && test_peer.h2 != NULL);

    one->act = 3;
    test_peer.connected = 0;
    test_peer.conf.failed(test_peer.conf.data, &reason);

    tap_check(one->done == 1 && two->done == 1);
    tap_check(test_peer.closed == 0);
}


/* One short call is sent at once, before SETTINGS, and is not timed. */

static void
test_http2_brief(ngx_pool_t *pool)
{
    test_call_t  *call;

    tap_expect(test_peer_brief(pool) == NGX_OK);

    test_loop_pass(60000);
    tap_check(test_peer.ready == 0 && test_peer.closed == 0);

    test_peer.conf.connected(test_peer.conf.data);
    tap_check(test_peer.ready == 1);
    tap_check(ngx_etcd_http2_usable(test_peer.h2));

    call = test_call_start(pool, 0);
    tap_expect(call != NULL && test_peer.requests == 1);
    tap_expect(test_peer.ended && test_peer.alive != 0);

    tap_check(nghttp2_session_get_remote_window_size(test_peer.session)
              == NGHTTP2_INITIAL_CONNECTION_WINDOW_SIZE);

    test_peer_answer(TEST_OK, test_call_message(pool, 5), "grpc-status: 0\n");
    tap_expect(call->done == 1);

    if (!test_alloc_failed()) {
        tap_check(call->status == NGX_ETCD_GRPC_OK && call->count == 5);
        tap_check(!ngx_etcd_http2_ended(test_peer.h2));
    }
}


/* The connection ends before SETTINGS, and the call with it. */

static void
test_http2_brief_end(ngx_pool_t *pool)
{
    test_call_t  *call;

    static char  text[] = "HTTP/1.1 400 Bad Request\r\n";

    tap_expect(test_peer_brief(pool) == NGX_OK);

    test_peer.conf.connected(test_peer.conf.data);

    call = test_call_begin(pool, 0);
    tap_expect(call != NULL);

    test_loop_run();
    tap_expect(test_peer.requests == 1 && test_peer.ended);
    tap_check(test_peer.alive == 0);

    test_peer_send(text, sizeof(text) - 1);
    tap_expect(test_peer.closed == 1);

    tap_check(call->done == 1 && call->status == NGX_ETCD_GRPC_UNAVAILABLE);
    tap_check(call->ended == 1);
    tap_expect(test_peer.reason.len != 0);

    if (!test_alloc_failed()) {
        tap_text(&test_peer.reason,
                 "no HTTP/2: got \"HTTP/1.1 400 Bad Request\"");
    }
}


ngx_etcd_tap_test_t  test_http2[] = {
    { "HTTP/2: ready, and closed", test_http2_ready },
    { "HTTP/2: no connection in time", test_http2_timeouts },
    { "HTTP/2: no SETTINGS in time", test_http2_settings },
    { "HTTP/2: patience", test_http2_patience },
    { "HTTP/2: none with a peer that is not reached", test_http2_unreached },
    { "HTTP/2: other protocols", test_http2_strangers },
    { "HTTP/2: closed too early", test_http2_end },
    { "HTTP/2: closed without a byte", test_http2_silence },
    { "HTTP/2: PINGs", test_http2_pings },
    { "HTTP/2: another PING", test_http2_pong },
    { "HTTP/2: fewer PINGs", test_http2_fewer_pings },
    { "HTTP/2: GOAWAY", test_http2_goaway },
    { "HTTP/2: too many PINGs", test_http2_too_many_pings },
    { "HTTP/2: a flood", test_http2_flood },
    { "HTTP/2: long headers", test_http2_headers },
    { "HTTP/2: violations", test_http2_violations },
    { "HTTP/2: what is ignored", test_http2_ignored },
    { "HTTP/2: closed while it fails", test_http2_close_again },
    { "HTTP/2: one short call", test_http2_brief },
    { "HTTP/2: one short call, no answer", test_http2_brief_end },
    { NULL, NULL }
};
