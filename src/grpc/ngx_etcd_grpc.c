
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_grpc.h>
#include <ngx_etcd_grpc_response.h>
#include <ngx_etcd_secret.h>
#include <ngx_etcd_version.h>


/* pseudo-headers and fixed headers; the metadata of the call is added */
#define NGX_ETCD_GRPC_HEADERS  8

/* 8 digits and a unit: gRPC over HTTP/2, "Timeout" */
#define NGX_ETCD_GRPC_TIMEOUT_LEN  9
#define NGX_ETCD_GRPC_TIMEOUT_MAX  99999999


typedef struct {
    ngx_queue_t                queue;
    size_t                     len;
    size_t                     sent;
    u_char                     data[1];
} ngx_etcd_grpc_out_t;


static ssize_t
ngx_etcd_grpc_read_handler(ngx_etcd_http2_stream_t *h2s, u_char *buf,
    size_t size, ngx_uint_t *last)
{
    size_t                   n;
    u_char                  *p, *end;
    ngx_queue_t             *q;
    ngx_etcd_grpc_out_t     *out;
    ngx_etcd_grpc_stream_t  *stream = (ngx_etcd_grpc_stream_t *) h2s;

    p = buf;
    end = buf + size;

    while (!ngx_queue_empty(&stream->out) && p < end) {
        q = ngx_queue_head(&stream->out);
        out = ngx_queue_data(q, ngx_etcd_grpc_out_t, queue);

        n = ngx_min(out->len - out->sent, (size_t) (end - p));

        p = ngx_cpymem(p, out->data + out->sent, n);
        out->sent += n;

        if (out->sent == out->len) {
            ngx_queue_remove(q);
            ngx_etcd_secret_release(out, NULL);
        }
    }

    if (ngx_queue_empty(&stream->out) && stream->half_closed) {
        *last = 1;

    } else if (p == buf) {
        return NGX_AGAIN;
    }

    return p - buf;
}


static void
ngx_etcd_grpc_closed_handler(ngx_etcd_http2_stream_t *h2s, uint32_t code)
{
    ngx_etcd_grpc_status_e   status;
    ngx_etcd_grpc_stream_t  *stream = (ngx_etcd_grpc_stream_t *) h2s;

    if (stream->call == NULL) {
        return;
    }

    switch (code) {

    case NGHTTP2_REFUSED_STREAM:
        status = NGX_ETCD_GRPC_UNAVAILABLE;

        /* REFUSED_STREAM means "not processed", unless a response has begun */

        if (stream->http_status == 0) {
            h2s->sent = 0;
        }

        break;

    case NGHTTP2_CANCEL:
        status = NGX_ETCD_GRPC_CANCELLED;
        break;

    case NGHTTP2_ENHANCE_YOUR_CALM:
        status = NGX_ETCD_GRPC_RESOURCE_EXHAUSTED;
        break;

    case NGHTTP2_INADEQUATE_SECURITY:
        status = NGX_ETCD_GRPC_PERMISSION_DENIED;
        break;

    default:

        /* an error before HEADERS were sent is not the peer's */

        status = h2s->sent ? NGX_ETCD_GRPC_INTERNAL
                           : NGX_ETCD_GRPC_UNAVAILABLE;
        break;
    }

    ngx_etcd_grpc_stream_finish(stream, status, "stream was closed: %s",
                                nghttp2_http2_strerror(code));
}


static void
ngx_etcd_grpc_failed_handler(ngx_etcd_http2_stream_t *h2s, ngx_str_t *reason)
{
    ngx_etcd_grpc_stream_finish((ngx_etcd_grpc_stream_t *) h2s,
                                NGX_ETCD_GRPC_UNAVAILABLE, "%V", reason);
}


static void
ngx_etcd_grpc_free_handler(ngx_etcd_http2_stream_t *h2s)
{
    ngx_queue_t             *q;
    ngx_etcd_grpc_stream_t  *stream = (ngx_etcd_grpc_stream_t *) h2s;

    while (!ngx_queue_empty(&stream->out)) {
        q = ngx_queue_head(&stream->out);
        ngx_queue_remove(q);
        ngx_etcd_secret_release(ngx_queue_data(q, ngx_etcd_grpc_out_t, queue),
                                NULL);
    }

    ngx_etcd_grpc_response_free(stream);

    ngx_free(stream);
}


static const ngx_etcd_http2_stream_handlers_t  ngx_etcd_grpc_handlers = {
    ngx_etcd_grpc_response_begin,
    ngx_etcd_grpc_response_header,
    ngx_etcd_grpc_response_end,
    ngx_etcd_grpc_response_data,
    ngx_etcd_grpc_response_last,
    ngx_etcd_grpc_read_handler,
    ngx_etcd_grpc_closed_handler,
    ngx_etcd_grpc_failed_handler,
    ngx_etcd_grpc_free_handler
};


static void
ngx_etcd_grpc_set_header(nghttp2_nv *nv, const char *name,
    const u_char *value, size_t len)
{
    nv->name = (uint8_t *) name;
    nv->namelen = ngx_strlen(name);
    nv->value = (uint8_t *) value;
    nv->valuelen = len;
}


static size_t
ngx_etcd_grpc_timeout(u_char *buf, ngx_msec_t timeout)
{
    u_char      unit;
    ngx_msec_t  n;

    n = timeout;
    unit = 'm';

    if (n > NGX_ETCD_GRPC_TIMEOUT_MAX) {
        n = ngx_min(n / 1000, NGX_ETCD_GRPC_TIMEOUT_MAX);
        unit = 'S';
    }

    return ngx_snprintf(buf, NGX_ETCD_GRPC_TIMEOUT_LEN, "%M%c", n, unit)
           - buf;
}


static ngx_int_t
ngx_etcd_grpc_open(ngx_etcd_http2_t *h2, ngx_etcd_grpc_stream_t *stream)
{
    char                   *scheme;
    size_t                  len;
    ngx_int_t               rc;
    ngx_uint_t              i, n;
    nghttp2_nv             *nv;
    ngx_keyval_t           *md;
    ngx_etcd_grpc_call_t   *call;
    ngx_etcd_http2_conf_t  *conf;
    u_char                  timeout[NGX_ETCD_GRPC_TIMEOUT_LEN];

    call = stream->call;
    conf = ngx_etcd_http2_conf(h2);
    scheme = conf->ssl ? "https" : "http";

    nv = ngx_calloc((NGX_ETCD_GRPC_HEADERS + call->nmetadata)
                    * sizeof(nghttp2_nv), ngx_etcd_http2_log(h2));
    if (nv == NULL) {
        return NGX_ERROR;
    }

#define ngx_etcd_grpc_header(name, value)                                     \
    ngx_etcd_grpc_set_header(&nv[n++], name, (u_char *) value,                \
                             ngx_strlen(value))

    n = 0;

    ngx_etcd_grpc_header(":method", "POST");
    ngx_etcd_grpc_header(":scheme", scheme);
    ngx_etcd_grpc_header(":path", call->method);
    ngx_etcd_grpc_set_header(&nv[n++], ":authority", conf->authority.data,
                             conf->authority.len);
    ngx_etcd_grpc_header("te", "trailers");
    ngx_etcd_grpc_header("content-type", "application/grpc");
    ngx_etcd_grpc_header("user-agent", "nginx-etcd/" NGX_ETCD_VERSION);

#undef ngx_etcd_grpc_header

    if (call->timeout) {
        len = ngx_etcd_grpc_timeout(timeout, call->timeout);
        ngx_etcd_grpc_set_header(&nv[n++], "grpc-timeout", timeout, len);
    }

    for (i = 0; i < call->nmetadata; i++) {
        md = &call->metadata[i];

        nv[n].name = md->key.data;
        nv[n].namelen = md->key.len;
        nv[n].value = md->value.data;
        nv[n].valuelen = md->value.len;

        /* Keep tokens out of the HPACK table: RFC 7541, section 7.1.3. */

        nv[n].flags = NGHTTP2_NV_FLAG_NO_INDEX;
        n++;
    }

    rc = ngx_etcd_http2_stream_open(h2, &stream->http2, nv, n);

    ngx_free(nv);

    return rc;
}


static void
ngx_etcd_grpc_deadline_handler(ngx_event_t *ev)
{
    ngx_etcd_grpc_stream_t  *stream = ev->data;

    ngx_etcd_grpc_stream_finish(stream, NGX_ETCD_GRPC_DEADLINE_EXCEEDED,
                                "no answer in %M ms", stream->call->timeout);
}


ngx_int_t
ngx_etcd_grpc_start(ngx_etcd_http2_t *h2, ngx_etcd_grpc_call_t *call)
{
    ngx_log_t               *log;
    ngx_etcd_grpc_stream_t  *stream;

    log = ngx_etcd_http2_log(h2);

    /* The stream outlives the call: free() of the HTTP/2 stream frees it. */

    stream = ngx_calloc(sizeof(ngx_etcd_grpc_stream_t), log);
    if (stream == NULL) {
        return NGX_ERROR;
    }

    ngx_queue_init(&stream->out);

    stream->http2.handlers = &ngx_etcd_grpc_handlers;
    stream->http2.brief = call->brief;
    stream->call = call;

    if (ngx_etcd_grpc_open(h2, stream) != NGX_OK) {
        ngx_free(stream);
        return NGX_ERROR;
    }

    call->stream = stream;
    call->unprocessed = 0;

    ngx_etcd_event_init_timer(&stream->deadline,
                              ngx_etcd_grpc_deadline_handler, stream, log);

    if (call->timeout) {
        ngx_add_timer(&stream->deadline, call->timeout);
    }

    ngx_log_debug2(NGX_LOG_DEBUG_EVENT, log, 0,
                   "etcd grpc %uD: %s", stream->http2.id, call->method);

    return NGX_OK;
}


ngx_int_t
ngx_etcd_grpc_send(ngx_etcd_grpc_call_t *call, ProtobufCMessage *message)
{
    u_char                  *p;
    size_t                   len;
    ngx_etcd_grpc_out_t     *out;
    ngx_etcd_grpc_stream_t  *stream;

    stream = call->stream;

    if (stream == NULL || stream->half_closed) {
        return NGX_ERROR;
    }

    len = protobuf_c_message_get_packed_size(message);

    if (len > NGX_MAX_UINT32_VALUE) {
        return NGX_ERROR;
    }

    out = ngx_etcd_secret_malloc(offsetof(ngx_etcd_grpc_out_t, data)
                                 + NGX_ETCD_GRPC_PREFIX + len, NULL);
    if (out == NULL) {
        return NGX_ERROR;
    }

    p = out->data;

    *p++ = 0;
    *p++ = (u_char) (len >> 24);
    *p++ = (u_char) (len >> 16);
    *p++ = (u_char) (len >> 8);
    *p++ = (u_char) len;

    protobuf_c_message_pack(message, p);

    out->len = NGX_ETCD_GRPC_PREFIX + len;
    out->sent = 0;

    ngx_queue_insert_tail(&stream->out, &out->queue);

    ngx_etcd_http2_stream_resume(&stream->http2);

    return NGX_OK;
}


void
ngx_etcd_grpc_end(ngx_etcd_grpc_call_t *call)
{
    ngx_etcd_grpc_stream_t  *stream;

    stream = call->stream;

    if (stream == NULL || stream->half_closed) {
        return;
    }

    stream->half_closed = 1;

    ngx_etcd_http2_stream_resume(&stream->http2);
}


void
ngx_etcd_grpc_hold(ngx_etcd_grpc_call_t *call, ngx_uint_t hold)
{
    if (call->stream != NULL) {
        ngx_etcd_http2_stream_hold(&call->stream->http2, hold);
    }
}


void
ngx_etcd_grpc_cancel(ngx_etcd_grpc_call_t *call)
{
    ngx_etcd_grpc_stream_t  *stream;

    stream = call->stream;

    if (stream == NULL) {
        return;
    }

    ngx_log_debug2(NGX_LOG_DEBUG_EVENT, ngx_etcd_http2_log(stream->http2.h2),
                   0, "etcd grpc %uD: %s: cancel",
                   stream->http2.id, call->method);

    (void) ngx_etcd_grpc_stream_detach(stream);

    ngx_etcd_http2_stream_reset(&stream->http2, NGHTTP2_CANCEL);
}
