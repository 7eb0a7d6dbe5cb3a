
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_http2_session.h>
#include <ngx_etcd_secret.h>
#include <ngx_etcd_str.h>


/* Counts n of the bytes being received as payload: parts of an answer. */

static void
ngx_etcd_http2_state_payload(ngx_etcd_http2_t *h2, size_t n)
{
    h2->overhead.bytes -= 2 * n;
    h2->answer = 1;
}


void
ngx_etcd_http2_state_post(ngx_etcd_http2_t *h2)
{
    if (h2->state == ngx_etcd_http2_closed) {
        return;
    }

    ngx_post_event(&h2->work, &ngx_posted_events);
}


void
ngx_etcd_http2_state_reason(ngx_etcd_http2_t *h2, const char *fmt, ...)
{
    u_char  *p;
    va_list  args;

    if (h2->reason.len) {
        return;
    }

    va_start(args, fmt);
    p = ngx_vslprintf(h2->reason_buf, h2->reason_buf + NGX_ETCD_HTTP2_REASON,
                      fmt, args);
    va_end(args);

    h2->reason.data = h2->reason_buf;
    h2->reason.len = p - h2->reason_buf;
}


ngx_uint_t
ngx_etcd_http2_state_usable(ngx_etcd_http2_t *h2)
{
    return h2->state == ngx_etcd_http2_ready
           && nghttp2_session_check_request_allowed(h2->session);
}


static ssize_t
ngx_etcd_http2_stream_read(nghttp2_session *session, int32_t id, uint8_t *buf,
    size_t length, uint32_t *flags, nghttp2_data_source *source, void *data)
{
    ssize_t                   n;
    ngx_uint_t                last;
    ngx_etcd_http2_stream_t  *stream = source->ptr;

    last = 0;

    n = stream->handlers->read(stream, buf, length, &last);

    if (n == NGX_AGAIN) {
        stream->deferred = 1;
        return NGHTTP2_ERR_DEFERRED;
    }

    if (last) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        stream->local_ended = 1;
    }

    return n;
}


ngx_int_t
ngx_etcd_http2_stream_open(ngx_etcd_http2_t *h2,
    ngx_etcd_http2_stream_t *stream, nghttp2_nv *headers, size_t n)
{
    int32_t                id;
    nghttp2_data_provider  provider;

    if (!ngx_etcd_http2_state_usable(h2)) {
        return NGX_ERROR;
    }

    provider.source.ptr = stream;
    provider.read_callback = ngx_etcd_http2_stream_read;

    id = nghttp2_submit_request(h2->session, NULL, headers, n, &provider,
                                stream);
    if (id < 0) {
        ngx_log_error(NGX_LOG_INFO, &h2->log, 0,
                      "could not open a stream: %s", nghttp2_strerror(id));
        return NGX_ERROR;
    }

    stream->id = id;
    stream->h2 = h2;

    ngx_queue_insert_tail(&h2->streams, &stream->queue);

    if (h2->nstreams++ == 0) {

        /*
         * an idle connection receives nothing: restart the liveness interval
         */
        h2->ping.input = ngx_current_msec;

        if (h2->conf.ping_interval && !h2->timer.timer_set) {
            ngx_add_timer(&h2->timer, h2->conf.ping_interval);
        }
    }

    ngx_etcd_http2_state_post(h2);

    return NGX_OK;
}


void
ngx_etcd_http2_stream_resume(ngx_etcd_http2_stream_t *stream)
{
    if (!stream->deferred) {
        return;
    }

    stream->deferred = 0;

    /* fails if the stream is being closed: closed() follows */
    (void) nghttp2_session_resume_data(stream->h2->session, stream->id);

    ngx_etcd_http2_state_post(stream->h2);
}


void
ngx_etcd_http2_stream_hold(ngx_etcd_http2_stream_t *stream, ngx_uint_t hold)
{
    ngx_etcd_http2_t  *h2;

    h2 = stream->h2;

    if (stream->remote_ended || h2->state == ngx_etcd_http2_closed) {
        return;
    }

    /*
     * A window of 0 takes back nothing that the peer was granted: nghttp2 sends
     * no WINDOW_UPDATE.  Without memory for one the stream stands still.
     */
    (void) nghttp2_session_set_local_window_size(h2->session,
                                         NGHTTP2_FLAG_NONE, stream->id,
                                         hold ? 0
                                              : NGX_ETCD_HTTP2_STREAM_WINDOW);

    ngx_etcd_http2_state_post(h2);
}


void
ngx_etcd_http2_stream_reset(ngx_etcd_http2_stream_t *stream, uint32_t code)
{
    int32_t            left;
    ngx_etcd_http2_t  *h2;

    h2 = stream->h2;

    if ((stream->local_ended && stream->remote_ended)
        || h2->state == ngx_etcd_http2_closed)
    {
        return;
    }

    /* nghttp2 discards DATA of a reset stream without a callback */

    left = nghttp2_session_get_stream_local_window_size(h2->session,
                                                        stream->id);
    if (left > 0 && !stream->brief) {
        h2->overhead.unheard += left;
    }

    /*
     * If there is no memory for RST_STREAM, the stream stays until the peer
     * closes it, which is harmless: the stream has no call.
     */
    (void) nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, stream->id,
                                     code);

    ngx_etcd_http2_state_post(h2);
}


#define NGX_ETCD_HTTP2_CONNECTION_WINDOW  (16 * 1024 * 1024)
#define NGX_ETCD_HTTP2_MAX_STREAMS        100

/*
 * Header blocks of a stream that count as payload: the response, the
 * trailers, and two of 1xx.  A peer may send any number of 1xx responses.
 */

#define NGX_ETCD_HTTP2_BLOCKS  4


static int
ngx_etcd_http2_on_begin_headers(nghttp2_session *session,
    const nghttp2_frame *frame, void *data)
{
    ngx_etcd_http2_t         *h2 = data;
    ngx_etcd_http2_stream_t  *stream;

    if (h2->state == ngx_etcd_http2_closed) {
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }

    stream = nghttp2_session_get_stream_user_data(session,
                                                  frame->hd.stream_id);

    if (stream != NULL && frame->hd.type == NGHTTP2_HEADERS) {
        stream->header_size = 0;
        stream->nblocks++;
        stream->handlers->begin(stream);
    }

    return 0;
}


static int
ngx_etcd_http2_on_header(nghttp2_session *session, const nghttp2_frame *frame,
    const uint8_t *name, size_t namelen, const uint8_t *value,
    size_t valuelen, uint8_t flags, void *data)
{
    ngx_str_t                 n, v;
    ngx_etcd_http2_t         *h2 = data;
    ngx_etcd_http2_stream_t  *stream;

    if (h2->state == ngx_etcd_http2_closed) {
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }

    stream = nghttp2_session_get_stream_user_data(session,
                                                  frame->hd.stream_id);
    if (stream == NULL) {
        return 0;
    }

    /* 32: the overhead per field (RFC 9113, section 6.5.2) */

    stream->header_size += namelen + valuelen + 32;

    if (stream->nblocks <= NGX_ETCD_HTTP2_BLOCKS) {
        ngx_etcd_http2_state_payload(h2, namelen + valuelen);
    }

    if (stream->header_size > NGX_ETCD_HTTP2_HEADERS_SIZE) {
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }

    n.data = (u_char *) name;
    n.len = namelen;
    v.data = (u_char *) value;
    v.len = valuelen;

    stream->handlers->header(stream, &n, &v);

    return 0;
}


static void
ngx_etcd_http2_goaway(ngx_etcd_http2_t *h2, const nghttp2_goaway *frame)
{
    size_t             len;
    const char        *code;
    static const char  pings[] = "too_many_pings";

    h2->goaway = 1;

    len = frame->opaque_data_len;
    code = nghttp2_http2_strerror(frame->error_code);

    if (frame->error_code == NGHTTP2_ENHANCE_YOUR_CALM
        && len == sizeof(pings) - 1
        && ngx_memcmp(frame->opaque_data, pings, len) == 0)
    {
        h2->ping.refused = 1;
        ngx_etcd_http2_state_reason(h2, "got GOAWAY: %s: %s", code, pings);
        return;
    }

    ngx_etcd_http2_state_reason(h2, "got GOAWAY: %s", code);
}


static int
ngx_etcd_http2_on_frame_recv(nghttp2_session *session,
    const nghttp2_frame *frame, void *data)
{
    ngx_uint_t                last;
    ngx_etcd_http2_t         *h2 = data;
    ngx_etcd_http2_stream_t  *stream;

    if (h2->state == ngx_etcd_http2_closed) {
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }

    if (frame->hd.type == NGHTTP2_SETTINGS) {
        if (!(frame->hd.flags & NGHTTP2_FLAG_ACK)) {
            h2->settings = 1;
        }

        return 0;
    }

    if (frame->hd.type == NGHTTP2_GOAWAY) {
        ngx_etcd_http2_goaway(h2, &frame->goaway);
        return 0;
    }

    if (frame->hd.type == NGHTTP2_PING) {
        if ((frame->hd.flags & NGHTTP2_FLAG_ACK)
            && h2->ping.clock != 0
            && ngx_memcmp(frame->ping.opaque_data, &h2->ping.clock,
                          sizeof(h2->ping.clock)) == 0)
        {
            h2->ping.answered = 1;
        }

        return 0;
    }

    stream = nghttp2_session_get_stream_user_data(session,
                                                  frame->hd.stream_id);
    if (stream == NULL) {
        return 0;
    }

    last = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) ? 1 : 0;

    if (last) {
        stream->remote_ended = 1;
    }

    if (frame->hd.type == NGHTTP2_HEADERS) {
        stream->handlers->end(stream, last);

    } else if (frame->hd.type == NGHTTP2_DATA && last) {
        stream->handlers->last(stream);
    }

    return 0;
}


static int
ngx_etcd_http2_on_data_chunk(nghttp2_session *session, uint8_t flags,
    int32_t id, const uint8_t *p, size_t n, void *data)
{
    ngx_etcd_http2_t         *h2 = data;
    ngx_etcd_http2_stream_t  *stream;

    if (h2->state == ngx_etcd_http2_closed) {
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }

    stream = nghttp2_session_get_stream_user_data(session, id);

    if (stream != NULL) {
        ngx_etcd_http2_state_payload(h2, n);
        stream->handlers->data(stream, (u_char *) p, n);
    }

    return 0;
}


static int
ngx_etcd_http2_on_stream_close(nghttp2_session *session, int32_t id,
    uint32_t code, void *data)
{
    ngx_etcd_http2_t         *h2 = data;
    ngx_etcd_http2_stream_t  *stream;

    if (h2->state == ngx_etcd_http2_closed) {
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }

    stream = nghttp2_session_get_stream_user_data(session, id);
    if (stream == NULL) {
        return 0;
    }

    stream->local_ended = 1;
    stream->remote_ended = 1;

    ngx_queue_remove(&stream->queue);
    h2->nstreams--;

    stream->handlers->closed(stream, code);
    stream->handlers->free(stream);

    /* the connection may be draining and this stream its last one */
    ngx_etcd_http2_state_post(h2);

    return 0;
}


static int
ngx_etcd_http2_before_frame_send(nghttp2_session *session,
    const nghttp2_frame *frame, void *data)
{
    size_t                    len;
    ngx_etcd_http2_t         *h2 = data;
    ngx_etcd_http2_stream_t  *stream;

    if (frame->hd.type == NGHTTP2_GOAWAY) {

        /*
         * nghttp2 sends GOAWAY: the peer violated the protocol, see opaque
         * data
         */

        len = frame->goaway.opaque_data_len;

        ngx_etcd_http2_state_reason(h2, "HTTP/2 error: %s%s%V",
                              nghttp2_http2_strerror(frame->goaway.error_code),
                                    len ? ": " : "",
                              ngx_etcd_shown_bytes(frame->goaway.opaque_data,
                                                   len));
        return 0;
    }

    if (frame->hd.type != NGHTTP2_HEADERS) {
        return 0;
    }

    stream = nghttp2_session_get_stream_user_data(session,
                                                  frame->hd.stream_id);
    if (stream != NULL) {
        stream->sent = 1;
    }

    return 0;
}


static int
ngx_etcd_http2_on_error(nghttp2_session *session, int code, const char *msg,
    size_t len, void *data)
{
    ngx_log_debug1(NGX_LOG_DEBUG_EVENT,
                   &((ngx_etcd_http2_t *) data)->log, 0,
                   "etcd http2: %V",
                   ngx_etcd_shown_bytes((u_char *) msg, len));

    return 0;
}


static ngx_int_t
ngx_etcd_http2_settings(ngx_etcd_http2_t *h2)
{
    size_t                  n;
    nghttp2_settings_entry  iv[4];

    iv[0].settings_id = NGHTTP2_SETTINGS_ENABLE_PUSH;
    iv[0].value = 0;

    iv[1].settings_id = NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE;
    iv[1].value = NGX_ETCD_HTTP2_HEADERS_SIZE;

    iv[2].settings_id = NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS;
    iv[2].value = NGX_ETCD_HTTP2_MAX_STREAMS;

    iv[3].settings_id = NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE;
    iv[3].value = NGX_ETCD_HTTP2_STREAM_WINDOW;

    /* for a short call the windows stay as HTTP/2 has them: 65535 bytes */

    n = h2->conf.brief ? 2 : 4;

    if (nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, iv, n) != 0) {
        return NGX_ERROR;
    }

    if (h2->conf.brief) {
        return NGX_OK;
    }

    /* a large window per stream needs a large window per connection */

    if (nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE,
                                              0,
                                              NGX_ETCD_HTTP2_CONNECTION_WINDOW)
        != 0)
    {
        return NGX_ERROR;
    }

    return NGX_OK;
}


ngx_int_t
ngx_etcd_http2_session_create(ngx_etcd_http2_t *h2)
{
    int                         rc;
    nghttp2_mem                 memory;
    nghttp2_session_callbacks  *cb;

    memory.mem_user_data = NULL;
    memory.malloc = ngx_etcd_secret_malloc;
    memory.free = ngx_etcd_secret_release;
    memory.calloc = ngx_etcd_secret_calloc;
    memory.realloc = ngx_etcd_secret_realloc;

    if (nghttp2_session_callbacks_new(&cb) != 0) {
        return NGX_ERROR;
    }

    nghttp2_session_callbacks_set_on_begin_headers_callback(cb,
                                             ngx_etcd_http2_on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(cb,
                                                     ngx_etcd_http2_on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb,
                                             ngx_etcd_http2_on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb,
                                             ngx_etcd_http2_on_data_chunk);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb,
                                             ngx_etcd_http2_on_stream_close);
    nghttp2_session_callbacks_set_before_frame_send_callback(cb,
                                             ngx_etcd_http2_before_frame_send);
    nghttp2_session_callbacks_set_error_callback2(cb,
                                                  ngx_etcd_http2_on_error);

    rc = nghttp2_session_client_new3(&h2->session, cb, h2, NULL,
                                     h2->conf.brief ? NULL : &memory);

    nghttp2_session_callbacks_del(cb);

    if (rc != 0) {
        h2->session = NULL;
        return NGX_ERROR;
    }

    return ngx_etcd_http2_settings(h2);
}
