
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "test_peer.h"


#define TEST_PEER_HEADERS  16


struct ngx_etcd_connection_s {
    test_peer_t  *peer;
};


test_peer_t  test_peer;


static ngx_int_t test_peer_connect(ngx_pool_t *pool, ngx_uint_t brief);
static void test_peer_close(void *data);
static ngx_int_t test_peer_server(void);
static void test_peer_append(ngx_str_t *text, const char *fmt, ...);
static ngx_uint_t test_peer_headers(char *text, nghttp2_nv *nv);
static void test_peer_input(u_char *p, size_t n);


/* the connection */

ngx_etcd_connection_t *
ngx_etcd_connection_create(ngx_etcd_connection_conf_t *conf, ngx_pool_t *pool,
    ngx_log_t *log)
{
    ngx_etcd_connection_t  *conn;

    conn = ngx_pcalloc(pool, sizeof(ngx_etcd_connection_t));
    if (conn == NULL) {
        return NULL;
    }

    conn->peer = &test_peer;
    test_peer.conf = *conf;
    test_peer.connected = 1;

    return conn;
}


char *
ngx_etcd_connection_action(ngx_etcd_connection_t *conn)
{
    return "connect()";
}


ngx_uint_t
ngx_etcd_connection_accepted(ngx_etcd_connection_t *conn)
{
    return !test_peer.unreached;
}


void
ngx_etcd_connection_flush(ngx_etcd_connection_t *conn)
{
    u_char  *p;
    size_t   n;

    while (test_peer.connected && !test_peer.blocked) {
        n = test_peer.conf.output(test_peer.conf.data, &p);

        if (n == 0) {
            return;
        }

        if (nghttp2_session_mem_recv(test_peer.session, p, n) < 0) {
            ngx_etcd_tap_fail("the server understands", __FILE__, __LINE__);
            return;
        }
    }
}


void
ngx_etcd_connection_stay(ngx_etcd_connection_t *conn)
{
    /* there is no event loop */
}


void
ngx_etcd_connection_wait(ngx_etcd_connection_t *conn, ngx_msec_t time)
{
    ngx_etcd_connection_flush(conn);
}


void
ngx_etcd_connection_close(ngx_etcd_connection_t *conn)
{
    test_peer.connected = 0;
}


/* handlers of the connection's owner */

static void
test_peer_ready_handler(void *data)
{
    test_peer.ready++;
}


static void
test_peer_alive_handler(void *data, ngx_uint_t answer)
{
    test_peer.alive++;
    test_peer.answers += answer;
}


static void
test_peer_pong_handler(void *data, uint64_t sent)
{
    test_peer.pongs += (sent != 0);
}


static void
test_peer_draining_handler(void *data)
{
    test_peer.drainings++;
    test_peer.too_many_pings = ngx_etcd_http2_too_many_pings(test_peer.h2);
}


static void
test_peer_closed_handler(void *data, ngx_str_t *reason)
{
    test_peer.closed++;
    test_peer.late = ngx_etcd_http2_late(test_peer.h2);
    test_peer.too_many_pings = ngx_etcd_http2_too_many_pings(test_peer.h2);
    test_peer_append(&test_peer.reason, "%V", reason);
    test_peer.h2 = NULL;
}


ngx_int_t
test_peer_open(ngx_pool_t *pool)
{
    return test_peer_connect(pool, 0);
}


ngx_int_t
test_peer_brief(ngx_pool_t *pool)
{
    return test_peer_connect(pool, 1);
}


static ngx_int_t
test_peer_connect(ngx_pool_t *pool, ngx_uint_t brief)
{
    ngx_etcd_http2_conf_t  conf;

    test_loop_init(pool->log);

    ngx_memzero(&test_peer, sizeof(test_peer_t));

    test_peer.reset = -1;
    test_peer.chunk = TEST_PEER_LARGE;
    test_peer.reason.data = test_peer.texts[0];
    test_peer.headers.data = test_peer.texts[1];
    test_peer.body.data = test_peer.texts[2];

    if (test_peer_server() != NGX_OK) {
        return NGX_ERROR;
    }

    test_alloc_cleanup(pool, test_peer_close);

    ngx_memzero(&conf, sizeof(ngx_etcd_http2_conf_t));

    ngx_str_set(&conf.authority, "etcd:2379");
    ngx_str_set(&conf.name, "http://etcd:2379");

    conf.brief = brief;
    conf.connect_timeout = brief ? 0 : 1000;
    conf.ping_interval = 10000;
    conf.ping_timeout = 2000;
    conf.max_message_size = TEST_PEER_LARGE / 4;
    conf.ready = test_peer_ready_handler;
    conf.alive = test_peer_alive_handler;
    conf.pong = test_peer_pong_handler;
    conf.draining = test_peer_draining_handler;
    conf.closed = test_peer_closed_handler;

    test_peer.h2 = ngx_etcd_http2_connect(&conf, pool->log);

    return (test_peer.h2 != NULL) ? NGX_OK : NGX_ERROR;
}


ngx_int_t
test_peer_ready(ngx_pool_t *pool)
{
    if (test_peer_open(pool) != NGX_OK) {
        return NGX_ERROR;
    }

    test_peer.conf.connected(test_peer.conf.data);
    test_peer_run();

    return test_peer.ready ? NGX_OK : NGX_ERROR;
}


static void
test_peer_close(void *data)
{
    if (test_peer.h2 != NULL) {
        ngx_etcd_http2_close(test_peer.h2);
    }

    test_loop_run();

    if (!test_loop_idle()) {
        ngx_etcd_tap_fail("no timer is left", __FILE__, __LINE__);
    }

    nghttp2_session_del(test_peer.session);
}


/* the server */

static int
test_peer_on_header(nghttp2_session *session, const nghttp2_frame *frame,
    const uint8_t *name, size_t namelen, const uint8_t *value,
    size_t valuelen, uint8_t flags, void *data)
{
    test_peer_append(&test_peer.headers, "%*s: %*s%s;", namelen, name, valuelen,
                     value,
                     (flags & NGHTTP2_NV_FLAG_NO_INDEX) ? " (never)" : "");

    return 0;
}


static int
test_peer_on_begin(nghttp2_session *session, const nghttp2_frame *frame,
    void *data)
{
    test_peer.id = frame->hd.stream_id;
    test_peer.requests++;

    return 0;
}


static int
test_peer_on_frame(nghttp2_session *session, const nghttp2_frame *frame,
    void *data)
{
    if (frame->hd.type == NGHTTP2_RST_STREAM) {
        test_peer.reset = frame->rst_stream.error_code;
        return 0;
    }

    if (frame->hd.type == NGHTTP2_PING
        && !(frame->hd.flags & NGHTTP2_FLAG_ACK))
    {
        test_peer.pings++;
    }

    if ((frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS)
        && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
    {
        test_peer.ended = 1;
    }

    return 0;
}


static int
test_peer_on_chunk(nghttp2_session *session, uint8_t flags, int32_t id,
    const uint8_t *p, size_t n, void *data)
{
    n = ngx_min(n, TEST_PEER_SIZE - test_peer.body.len);

    ngx_memcpy(test_peer.body.data + test_peer.body.len, p, n);
    test_peer.body.len += n;

    return 0;
}


static ngx_int_t
test_peer_server(void)
{
    int                         rc;
    nghttp2_option             *option;
    nghttp2_settings_entry      iv[1];
    nghttp2_session_callbacks  *cb;

    if (nghttp2_session_callbacks_new(&cb) != 0
        || nghttp2_option_new(&option) != 0)
    {
        abort();
    }

    nghttp2_session_callbacks_set_on_header_callback(cb, test_peer_on_header);
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb,
                                                          test_peer_on_begin);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb,
                                                         test_peer_on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb,
                                                          test_peer_on_chunk);

    nghttp2_option_set_no_http_messaging(option, 1);
    nghttp2_option_set_max_send_header_block_length(option, TEST_PEER_LARGE);

    rc = nghttp2_session_server_new2(&test_peer.session, cb, NULL, option);

    nghttp2_session_callbacks_del(cb);
    nghttp2_option_del(option);

    iv[0].settings_id = NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS;
    iv[0].value = 2;

    if (rc != 0
        || nghttp2_submit_settings(test_peer.session, NGHTTP2_FLAG_NONE, iv, 1)
           != 0)
    {
        return NGX_ERROR;
    }

    return NGX_OK;
}


void
test_peer_run(void)
{
    ssize_t         n, m;
    const uint8_t  *p;

    for ( ;; ) {
        test_loop_run();

        if (!test_peer.connected) {
            return;
        }

        n = nghttp2_session_mem_send(test_peer.session, &p);

        if (n <= 0) {
            return;
        }

        for ( /* void */ ; n > 0; n -= m, p += m) {
            m = ngx_min(n, (ssize_t) test_peer.chunk);
            test_peer_input((u_char *) p, m);
        }
    }
}


void
test_peer_send(char *data, size_t n)
{
    test_peer_input((u_char *) data, n);
    test_loop_run();
}


void
test_peer_frame(u_char type, u_char flags, int32_t id, char *data, size_t n)
{
    u_char  buf[9];

    buf[0] = (u_char) (n >> 16);
    buf[1] = (u_char) (n >> 8);
    buf[2] = (u_char) n;
    buf[3] = type;
    buf[4] = flags;
    buf[5] = (u_char) (id >> 24);
    buf[6] = (u_char) (id >> 16);
    buf[7] = (u_char) (id >> 8);
    buf[8] = (u_char) id;

    test_peer_input(buf, 9);
    test_peer_input((u_char *) data, n);
    test_loop_run();
}


/* The bytes are in memory of their own: none may be kept, or read beyond. */

static void
test_peer_input(u_char *p, size_t n)
{
    u_char  *copy;

    if (!test_peer.connected || n == 0) {
        return;
    }

    copy = malloc(n);

    if (copy == NULL) {
        abort();
    }

    ngx_memcpy(copy, p, n);
    test_peer.conf.received(test_peer.conf.data, copy, n);

    free(copy);
}


static void
test_peer_append(ngx_str_t *text, const char *fmt, ...)
{
    u_char   *p;
    va_list   args;

    va_start(args, fmt);
    p = ngx_vslprintf(text->data + text->len, text->data + TEST_PEER_SIZE, fmt,
                      args);
    va_end(args);

    text->len = p - text->data;
}


/* answers */

static ngx_uint_t
test_peer_headers(char *text, nghttp2_nv *nv)
{
    char        *end, *value;
    ngx_uint_t   n;

    for (n = 0; *text != '\0' && n < TEST_PEER_HEADERS; n++, text = end + 1) {
        end = strchr(text, '\n');
        value = strstr(text, ": ");

        nv[n].name = (uint8_t *) text;
        nv[n].namelen = value - text;
        nv[n].value = (uint8_t *) value + 2;
        nv[n].valuelen = end - value - 2;
        nv[n].flags = NGHTTP2_NV_FLAG_NONE;
    }

    return n;
}


static ssize_t
test_peer_read(nghttp2_session *session, int32_t id, uint8_t *buf, size_t size,
    uint32_t *flags, nghttp2_data_source *source, void *data)
{
    size_t  n;

    n = ngx_min(size, test_peer.answer.len - test_peer.answered);

    ngx_memcpy(buf, test_peer.answer.data + test_peer.answered, n);
    test_peer.answered += n;

    if (test_peer.answered == test_peer.answer.len) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;

        if (test_peer.trailers) {
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        }
    }

    return n;
}


void
test_peer_answer(char *headers, ngx_str_t *body, char *trailers)
{
    ngx_uint_t             n;
    nghttp2_nv             nv[TEST_PEER_HEADERS];
    nghttp2_data_provider  provider;

    if (!test_peer.connected) {
        return;
    }

    ngx_memzero(&provider, sizeof(nghttp2_data_provider));

    provider.read_callback = test_peer_read;

    n = test_peer_headers(headers, nv);

    test_peer.trailers = (trailers != NULL);
    test_peer.answered = 0;

    if (body != NULL) {
        test_peer.answer = *body;
    }

    (void) nghttp2_submit_response(test_peer.session, test_peer.id, nv, n,
                                   (body != NULL) ? &provider : NULL);
    test_peer_run();

    if (trailers != NULL && test_peer.connected) {
        n = test_peer_headers(trailers, nv);

        (void) nghttp2_submit_trailer(test_peer.session, test_peer.id, nv, n);
        test_peer_run();
    }
}


/* calls */

static ngx_int_t
test_call_message_handler(ngx_etcd_grpc_call_t *call,
    ProtobufCMessage *message, ngx_pool_t *pool)
{
    test_call_t          *test = (test_call_t *) call;
    Etcd__RangeResponse  *range = (Etcd__RangeResponse *) message;

    test->messages++;
    test->count = range->count;

    if (test->rc == NGX_DONE) {
        if (test->kept != NULL) {
            ngx_destroy_pool(test->kept);
        }

        test->kept = pool;
    }

    if (test->act == 1) {
        ngx_etcd_grpc_cancel(call);

    } else if (test->act == 2) {
        ngx_etcd_http2_close(test_peer.h2);
        test_peer.h2 = NULL;
    }

    return test->rc;
}


static void
test_call_done(ngx_etcd_grpc_call_t *call, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    test_call_t  *test = (test_call_t *) call;

    test->done++;
    test->ended = (test_peer.h2 != NULL && ngx_etcd_http2_ended(test_peer.h2));
    test->status = status;
    test->text.data = test->buf;
    test->text.len = 0;
    test_peer_append(&test->text, "%V", text);

    if (test->act == 3 && test_peer.h2 != NULL) {
        ngx_etcd_http2_close(test_peer.h2);
        test_peer.h2 = NULL;
    }
}


static void
test_call_cleanup(void *data)
{
    test_call_t  *test = data;

    ngx_etcd_grpc_cancel(&test->call);

    if (test->kept != NULL) {
        ngx_destroy_pool(test->kept);
    }
}


test_call_t *
test_call_start(ngx_pool_t *pool, ngx_msec_t timeout)
{
    test_call_t  *test;

    test = test_call_begin(pool, timeout);

    if (test != NULL) {
        test_peer_run();
    }

    return test;
}


test_call_t *
test_call_begin(ngx_pool_t *pool, ngx_msec_t timeout)
{
    test_call_t         *test;
    Etcd__RangeRequest   request;
    ngx_pool_cleanup_t  *cln;

    test_alloc_pause();
    cln = ngx_pool_cleanup_add(pool, sizeof(test_call_t));
    test_alloc_resume();

    if (cln == NULL) {
        abort();
    }

    test = cln->data;
    cln->handler = test_call_cleanup;

    ngx_memzero(test, sizeof(test_call_t));

    test->call.method = "/etcdserverpb.KV/Range";
    test->call.response = &etcd__range_response__descriptor;
    test->call.timeout = timeout;
    test->call.metadata = test_peer.metadata;
    test->call.nmetadata = (test_peer.metadata != NULL);
    test->call.message = test_call_message_handler;
    test->call.done = test_call_done;

    if (test_peer.h2 == NULL
        || ngx_etcd_grpc_start(test_peer.h2, &test->call) != NGX_OK)
    {
        return NULL;
    }

    etcd__range_request__init(&request);

    request.key.data = (u_char *) "key";
    request.key.len = 3;

    if (ngx_etcd_grpc_send(&test->call, &request.base) != NGX_OK) {
        ngx_etcd_grpc_cancel(&test->call);
        return NULL;
    }

    ngx_etcd_grpc_end(&test->call);

    return test;
}


ngx_str_t *
test_call_message(ngx_pool_t *pool, int64_t count)
{
    u_char               buf[32];
    size_t               len;
    Etcd__RangeResponse  range;

    etcd__range_response__init(&range);
    range.count = count;

    len = etcd__range_response__pack(&range, buf + 5);

    ngx_memzero(buf, 5);
    buf[4] = (u_char) len;

    return tap_bytes(pool, (char *) buf, 5 + len);
}
