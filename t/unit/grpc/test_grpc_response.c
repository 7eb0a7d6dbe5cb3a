
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "test_peer.h"


#define TEST_STATUS_OK  "grpc-status: 0\n"


static void test_response_is(ngx_pool_t *pool, char *headers, ngx_str_t *body,
    char *trailers, ngx_etcd_grpc_status_e status, char *text);


/* One answer on a connection of its own: how the call ends, and says what. */

static void
test_response_is(ngx_pool_t *pool, char *headers, ngx_str_t *body,
    char *trailers, ngx_etcd_grpc_status_e status, char *text)
{
    ngx_pool_t   *own;
    test_call_t  *call;

    test_alloc_pause();
    own = ngx_create_pool(1024, pool->log);
    test_alloc_resume();

    call = (test_peer_ready(own) == NGX_OK) ? test_call_start(own, 0) : NULL;

    if (call == NULL) {
        if (!test_alloc_failed()) {
            ngx_etcd_tap_fail("a call begins", __FILE__, __LINE__);
        }

    } else {
        test_peer_answer(headers, body, trailers);

        if (!test_alloc_failed()) {
            if (call->done != 1 || call->status != status) {
                ngx_etcd_tap_fail(text, __FILE__, __LINE__);
            }

            (void) ngx_etcd_tap_same(&call->text, text, __FILE__, __LINE__);

        } else if (call->done > 1) {
            ngx_etcd_tap_fail("done() is called once", __FILE__, __LINE__);
        }
    }

    ngx_destroy_pool(own);
}


static ngx_str_t *
test_response_bytes(ngx_pool_t *pool, size_t n)
{
    char       *bytes;
    ngx_str_t  *text;

    bytes = calloc(1, n);

    if (bytes == NULL) {
        abort();
    }

    text = tap_bytes(pool, bytes, n);

    free(bytes);

    return text;
}


/* Bytes of messages, wherever DATA frames and reads of the socket end. */

static void
test_response_framing(ngx_pool_t *pool)
{
    u_char        buf[64];
    size_t        chunk;
    ngx_str_t    *one, *two, *body;
    test_call_t  *call;

    one = test_call_message(pool, 5);
    two = test_call_message(pool, 1000000);

    ngx_memcpy(buf, one->data, one->len);
    ngx_memzero(buf + one->len, 5);                  /* one without bytes */
    ngx_memcpy(buf + one->len + 5, two->data, two->len);

    body = tap_bytes(pool, (char *) buf, one->len + 5 + two->len);

    tap_expect(test_peer_ready(pool) == NGX_OK);

    for (chunk = 1; chunk < 40; chunk++) {
        test_peer.chunk = chunk;

        call = test_call_start(pool, 0);
        tap_expect(call != NULL);

        test_peer_answer(TEST_OK, body, TEST_STATUS_OK);

        tap_expect(call->done == 1 && call->status == NGX_ETCD_GRPC_OK);
        tap_check(call->messages == 3 && call->count == 1000000);
    }
}


static void
test_response_status(ngx_pool_t *pool)
{
    ngx_str_t  *body;

    body = test_call_message(pool, 1);

    test_response_is(pool, TEST_OK, body, TEST_STATUS_OK, NGX_ETCD_GRPC_OK, "");
    test_response_is(pool, TEST_OK, body, "grpc-status: 9\n",
                     NGX_ETCD_GRPC_FAILED_PRECONDITION, "");

    /* only trailers */

    test_response_is(pool, TEST_OK "grpc-status: 16\n"
                     "grpc-message: etcdserver: invalid auth token\n", NULL,
                     NULL, NGX_ETCD_GRPC_UNAUTHENTICATED,
                     "etcdserver: invalid auth token");

    /* no status, or none that gRPC has */

    test_response_is(pool, TEST_OK, body, "x: y\n", NGX_ETCD_GRPC_UNKNOWN,
                     "response ended without grpc-status");
    test_response_is(pool, TEST_OK, body, NULL, NGX_ETCD_GRPC_UNKNOWN,
                     "response ended without grpc-status");
    test_response_is(pool, TEST_OK "grpc-status: 17\n", NULL, NULL,
                     NGX_ETCD_GRPC_UNKNOWN, "");
    test_response_is(pool, TEST_OK "grpc-status: -1\n", NULL, NULL,
                     NGX_ETCD_GRPC_UNKNOWN, "");
    test_response_is(pool, TEST_OK "grpc-status: \n", NULL, NULL,
                     NGX_ETCD_GRPC_UNKNOWN, "");
    test_response_is(pool,
                     TEST_OK "grpc-status: 99999999999999999999999999\n", NULL,
                     NULL, NGX_ETCD_GRPC_UNKNOWN, "");
}


/* The peer's text is decoded and escaped. */

static void
test_response_text(ngx_pool_t *pool)
{
    ngx_uint_t  i;
    char        line[1024], wanted[1024];

#define test_text(sent, shown)                                                \
    test_response_is(pool,                                                    \
                     TEST_OK "grpc-status: 2\ngrpc-message: " sent "\n",      \
                     NULL, NULL, NGX_ETCD_GRPC_UNKNOWN, shown)

    test_text("a%20b", "a b");
    test_text("%", "%");
    test_text("%4", "%4");
    test_text("a%41", "aA");
    test_text("%zz%4G", "%zz%4G");
    test_text("%0a%22%5c%C3%a4%00", "\\x0a\\\"\\\\\\xc3\\xa4\\x00");

#undef test_text

    /* 512 bytes of the text, and of what is made of it, are kept */

    i = sprintf(line, TEST_OK "grpc-status: 2\ngrpc-message: ");
    ngx_memset(line + i, 'x', 600);
    ngx_memcpy(line + i + 600, "\n", 2);

    ngx_memset(wanted, 'x', 512);
    wanted[512] = '\0';

    test_response_is(pool, line, NULL, NULL, NGX_ETCD_GRPC_UNKNOWN, wanted);
}


/* Answers of somebody else: "HTTP status to gRPC status codes" of gRPC. */

static void
test_response_http(ngx_pool_t *pool)
{
#define test_http(sent, status, text)                                         \
    test_response_is(pool, sent, tap_string(pool, "<html>"), NULL,            \
                     NGX_ETCD_GRPC_##status, text)

    test_http(":status: 401\n", UNAUTHENTICATED,
              "not a gRPC response: HTTP status 401, content type \"\"");
    test_http(":status: 403\ncontent-type: text/html\n", PERMISSION_DENIED,
              "not a gRPC response: HTTP status 403, "
              "content type \"text/html\"");
    test_http(":status: 404\n", UNIMPLEMENTED,
              "not a gRPC response: HTTP status 404, content type \"\"");
    test_http(":status: 429\n", UNAVAILABLE,
              "not a gRPC response: HTTP status 429, content type \"\"");
    test_http(":status: 503\ncontent-type: application/grpc\n", UNAVAILABLE,
              "got HTTP status 503");
    test_http(":status: 200\n", UNKNOWN,
              "not a gRPC response: HTTP status 200, content type \"\"");
    test_http(":status: 200\ncontent-type: application/grpcx\n", UNKNOWN,
              "not a gRPC response: HTTP status 200, "
              "content type \"application/grpcx\"");
    test_http(":status: 200\ncontent-type: application/grp\n", UNKNOWN,
              "not a gRPC response: HTTP status 200, "
              "content type \"application/grp\"");
    test_http(":status: 200\ncontent-type: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
              "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\n", UNKNOWN,
              "not a gRPC response: HTTP status 200, content type "
              "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbbbbbbbbb"
              "bbbb\"");

#undef test_http

    /* other ways to write the type, and a status beside another code */

    test_response_is(pool, ":status: 200\n"
                     "content-type: Application/gRPC+proto\n",
                     test_call_message(pool, 1), TEST_STATUS_OK,
                     NGX_ETCD_GRPC_OK, "");
    test_response_is(pool, ":status: 200\n"
                     "content-type: application/grpc;charset=utf-8\n",
                     test_call_message(pool, 1), TEST_STATUS_OK,
                     NGX_ETCD_GRPC_OK, "");
    test_response_is(pool, ":status: 503\ngrpc-status: 7\n", NULL, NULL,
                     NGX_ETCD_GRPC_PERMISSION_DENIED, "");
}


static void
test_response_broken(ngx_pool_t *pool)
{
    test_response_is(pool, TEST_OK, tap_bytes(pool, "\1\0\0\0\0", 5),
                     TEST_STATUS_OK, NGX_ETCD_GRPC_INTERNAL,
                     "got an unexpected compressed message");
    test_response_is(pool, TEST_OK, tap_bytes(pool, "\0\0\0\0\1\x08", 6),
                     TEST_STATUS_OK, NGX_ETCD_GRPC_INTERNAL,
                     "could not read a message of 1 bytes");
    test_response_is(pool, TEST_OK, tap_bytes(pool, "\0\0\0\0", 4),
                     TEST_STATUS_OK, NGX_ETCD_GRPC_INTERNAL,
                     "response ended inside of a message");
    test_response_is(pool, TEST_OK, tap_bytes(pool, "\0\0\0\0\5abcd", 9),
                     TEST_STATUS_OK, NGX_ETCD_GRPC_INTERNAL,
                     "response ended inside of a message");
    test_response_is(pool, TEST_OK, tap_bytes(pool, "\0\0\0\0\5abcd", 9),
                     "grpc-status: 14\n", NGX_ETCD_GRPC_UNAVAILABLE, "");
    test_response_is(pool, TEST_OK, tap_bytes(pool, "\0\xff\xff\xff\xff", 5),
                     NULL, NGX_ETCD_GRPC_RESOURCE_EXHAUSTED,
                     "got a message of 4294967295 bytes, which is more than "
                     "\"max_message_size\" of 100000");
    test_response_is(pool, TEST_OK, tap_bytes(pool, "\0\0\1\x86\xa1", 5),
                     NULL, NGX_ETCD_GRPC_RESOURCE_EXHAUSTED,
                     "got a message of 100001 bytes, which is more than "
                     "\"max_message_size\" of 100000");
}


/* 100000 bytes of empty keys: more memory than a message may need. */

static void
test_response_parts(ngx_pool_t *pool)
{
    u_char      *p;
    ngx_str_t   *body;
    ngx_uint_t   i;

    test_alloc_pause();

    body = test_response_bytes(pool, 100005);
    p = ngx_cpymem(body->data, "\0\0\1\x86\xa0", 5);

    for (i = 0; i < 100000; i += 2) {
        *p++ = 0x12;
        *p++ = 0;
    }

    test_response_is(pool, TEST_OK, body, NULL,
                     NGX_ETCD_GRPC_RESOURCE_EXHAUSTED,
                     "got a message of 100000 bytes in more than 100000 parts, "
                     "or that needs more than 4194304 bytes beside its own");

    test_alloc_resume();
}


/* Header blocks before the response do not count. */

static void
test_response_1xx(ngx_pool_t *pool)
{
    ngx_uint_t    i;
    nghttp2_nv    nv;
    test_call_t  *call;

    tap_expect(test_peer_ready(pool) == NGX_OK);

    call = test_call_start(pool, 0);
    tap_expect(call != NULL && test_peer.requests == 1);

    nv.name = (uint8_t *) ":status";
    nv.namelen = 7;
    nv.value = (uint8_t *) "103";
    nv.valuelen = 3;
    nv.flags = NGHTTP2_NV_FLAG_NONE;

    for (i = 0; i < 3; i++) {
        (void) nghttp2_submit_headers(test_peer.session, NGHTTP2_FLAG_NONE,
                                      test_peer.id, NULL, &nv, 1, NULL);
        test_peer_run();
    }

    tap_expect(call->done == 0);

    test_peer_answer(TEST_OK, test_call_message(pool, 3), TEST_STATUS_OK);

    tap_expect(call->done == 1 && call->status == NGX_ETCD_GRPC_OK);
    tap_check(call->messages == 1 && call->count == 3);
}


/* The handler of messages may keep them, refuse them, and end everything. */

static void
test_response_handler(ngx_pool_t *pool)
{
    u_char        buf[64];
    ngx_str_t    *one, *body;
    ngx_uint_t    act;
    test_call_t  *call;

    one = test_call_message(pool, 5);
    ngx_memcpy(buf, one->data, one->len);
    ngx_memcpy(buf + one->len, one->data, one->len);
    body = tap_bytes(pool, (char *) buf, 2 * one->len);

    tap_expect(test_peer_ready(pool) == NGX_OK);

    call = test_call_start(pool, 0);
    tap_expect(call != NULL);

    call->rc = NGX_DONE;
    test_peer_answer(TEST_OK, body, TEST_STATUS_OK);
    tap_expect(call->messages == 2 && call->status == NGX_ETCD_GRPC_OK);
    tap_check(call->kept != NULL);

    call = test_call_start(pool, 0);
    tap_expect(call != NULL);

    call->rc = NGX_ERROR;
    test_peer_answer(TEST_OK, body, TEST_STATUS_OK);
    tap_expect(call->messages == 1 && call->done == 1);
    tap_check(call->status == NGX_ETCD_GRPC_INTERNAL);
    tap_text(&call->text, "message was not accepted");

    for (act = 1; act <= 2; act++) {
        call = test_call_start(pool, 0);
        tap_expect(call != NULL);

        call->act = act;
        test_peer_answer(TEST_OK, body, TEST_STATUS_OK);

        tap_expect(call->messages == 1 && call->done == act - 1);
    }

    tap_check(call->status == NGX_ETCD_GRPC_UNAVAILABLE);
    tap_text(&call->text, "connection was closed");
    tap_check(test_peer.closed == 0);
}


/* A secret is read the same way, and its buffer is another one. */

static void
test_response_secret(ngx_pool_t *pool)
{
    u_char       *p;
    ngx_str_t    *body;
    test_call_t  *call;

    /* a header of 2992 bytes: revisions */

    body = test_response_bytes(pool, 3000);
    p = ngx_cpymem(body->data, "\0\0\0\x0b\xb3\x0a\xb0\x17", 8);

    while (p < body->data + body->len) {
        *p++ = 0x18;
        *p++ = 1;
    }

    tap_expect(test_peer_ready(pool) == NGX_OK);

    test_peer.chunk = 500;

    call = test_call_start(pool, 0);
    tap_expect(call != NULL);

    call->call.secret = 1;
    test_peer_answer(TEST_OK, body, TEST_STATUS_OK);

    tap_expect(call->messages == 1 && call->status == NGX_ETCD_GRPC_OK);
}


ngx_etcd_tap_test_t  test_grpc_response[] = {
    { "gRPC response: frames", test_response_framing },
    { "gRPC response: grpc-status", test_response_status },
    { "gRPC response: grpc-message", test_response_text },
    { "gRPC response: other servers", test_response_http },
    { "gRPC response: broken messages", test_response_broken },
    { "gRPC response: too many parts", test_response_parts },
    { "gRPC response: 1xx", test_response_1xx },
    { "gRPC response: what handlers do", test_response_handler },
    { "gRPC response: a secret", test_response_secret },
    { NULL, NULL }
};
