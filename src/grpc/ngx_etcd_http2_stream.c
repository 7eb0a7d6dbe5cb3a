
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_http2_state.h>
#include <ngx_etcd_http2_stream.h>


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
        h2->quiet = ngx_current_msec;

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
        h2->unheard += left;
    }

    /*
     * If there is no memory for RST_STREAM, the stream stays until the peer
     * closes it, which is harmless: the stream has no call.
     */
    (void) nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, stream->id,
                                     code);

    ngx_etcd_http2_state_post(h2);
}
