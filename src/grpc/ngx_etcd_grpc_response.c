
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_grpc_response.h>
#include <ngx_etcd_message.h>
#include <ngx_etcd_secret.h>
#include <ngx_etcd_str.h>


/* a buffer up to this size is kept for the next messages of the stream */
#define NGX_ETCD_GRPC_BODY_KEEP   16384
#define NGX_ETCD_GRPC_BODY_SMALL  1024

#define NGX_ETCD_GRPC_POOL_SMALL  2048
#define NGX_ETCD_GRPC_POOL_LARGE  16384


ngx_etcd_grpc_call_t *
ngx_etcd_grpc_stream_detach(ngx_etcd_grpc_stream_t *stream)
{
    ngx_etcd_grpc_call_t  *call;

    call = stream->call;

    ngx_etcd_event_stop(&stream->deadline);

    stream->call = NULL;
    call->stream = NULL;

    return call;
}


void
ngx_etcd_grpc_stream_finish(ngx_etcd_grpc_stream_t *stream,
    ngx_etcd_grpc_status_e status, const char *fmt, ...)
{
    u_char                *p;
    va_list                args;
    ngx_str_t              text;
    ngx_etcd_grpc_call_t  *call;
    u_char                 buf[NGX_ETCD_GRPC_TEXT];

    if (stream->call == NULL) {
        return;
    }

    va_start(args, fmt);
    p = ngx_vslprintf(buf, buf + NGX_ETCD_GRPC_TEXT, fmt, args);
    va_end(args);

    text.data = buf;
    text.len = p - buf;

    call = ngx_etcd_grpc_stream_detach(stream);

    ngx_log_debug4(NGX_LOG_DEBUG_EVENT, ngx_etcd_http2_log(stream->http2.h2),
                   0, "etcd grpc %uD: %s: %s: \"%V\"",
                   stream->http2.id, call->method,
                   ngx_etcd_grpc_status_name(status), &text);

    if (!stream->http2.sent) {
        call->unprocessed = 1;
    }

    ngx_etcd_http2_stream_reset(&stream->http2, NGHTTP2_CANCEL);

    call->done(call, status, &text);
}


void
ngx_etcd_grpc_response_begin(ngx_etcd_http2_stream_t *h2s)
{
    ngx_etcd_grpc_stream_t  *stream = (ngx_etcd_grpc_stream_t *) h2s;

    ngx_memzero(&stream->headers, sizeof(ngx_etcd_grpc_headers_t));
}


static void
ngx_etcd_grpc_set_type(ngx_etcd_grpc_headers_t *h, ngx_str_t *value)
{
    size_t             len;
    static const char  type[] = "application/grpc";

    len = sizeof(type) - 1;

    /* "application/grpc", "application/grpc+proto", "...; charset=" */

    h->grpc_type = value->len >= len
                   && ngx_strncasecmp(value->data, (u_char *) type, len) == 0
                   && (value->len == len || value->data[len] == '+'
                       || value->data[len] == ';');

    h->type_len = ngx_min(value->len, NGX_ETCD_GRPC_TYPE);
    ngx_memcpy(h->type, value->data, h->type_len);
}


/* Decodes grpc-message; an invalid percent escape is copied as it is. */

static void
ngx_etcd_grpc_set_text(ngx_etcd_grpc_headers_t *h, ngx_str_t *value)
{
    u_char     *p, *last, *dst, *end;
    ngx_int_t   n;

    p = value->data;
    last = p + value->len;
    dst = h->text;
    end = dst + NGX_ETCD_GRPC_TEXT;

    while (p < last && dst < end) {

        if (*p == '%' && last - p > 2) {
            n = ngx_hextoi(p + 1, 2);

            if (n != NGX_ERROR) {
                *dst++ = (u_char) n;
                p += 3;
                continue;
            }
        }

        *dst++ = *p++;
    }

    h->text_len = dst - h->text;
}


void
ngx_etcd_grpc_response_header(ngx_etcd_http2_stream_t *h2s, ngx_str_t *name,
    ngx_str_t *value)
{
    ngx_int_t                 n;
    ngx_etcd_grpc_stream_t   *stream = (ngx_etcd_grpc_stream_t *) h2s;
    ngx_etcd_grpc_headers_t  *h;

    h = &stream->headers;

    if (ngx_etcd_str_is(name, ":status")) {
        n = ngx_atoi(value->data, value->len);
        h->http_status = (n == NGX_ERROR) ? 0 : n;

    } else if (ngx_etcd_str_is(name, "content-type")) {
        ngx_etcd_grpc_set_type(h, value);

    } else if (ngx_etcd_str_is(name, "grpc-status")) {
        n = ngx_atoi(value->data, value->len);

        if (n == NGX_ERROR || n > NGX_ETCD_GRPC_UNAUTHENTICATED) {
            n = NGX_ETCD_GRPC_UNKNOWN;
        }

        h->grpc_status = n;
        h->has_status = 1;

    } else if (ngx_etcd_str_is(name, "grpc-message")) {
        ngx_etcd_grpc_set_text(h, value);
    }
}


static void
ngx_etcd_grpc_finish_by_http(ngx_etcd_grpc_stream_t *stream)
{
    ngx_etcd_grpc_status_e    status;
    ngx_etcd_grpc_headers_t  *h;

    h = &stream->headers;

    switch (h->http_status) {

    case 401:
        status = NGX_ETCD_GRPC_UNAUTHENTICATED;
        break;

    case 403:
        status = NGX_ETCD_GRPC_PERMISSION_DENIED;
        break;

    case 404:
        status = NGX_ETCD_GRPC_UNIMPLEMENTED;
        break;

    case 429:
    case 502:
    case 503:
    case 504:
        status = NGX_ETCD_GRPC_UNAVAILABLE;
        break;

    default:
        status = NGX_ETCD_GRPC_UNKNOWN;
        break;
    }

    if (h->grpc_type) {
        ngx_etcd_grpc_stream_finish(stream, status, "got HTTP status %ui",
                                    h->http_status);

    } else {
        ngx_etcd_grpc_stream_finish(stream, status, "not a gRPC response: "
                                    "HTTP status %ui, content type \"%V\"",
                                    h->http_status,
                                    ngx_etcd_shown_bytes(h->type, h->type_len));
    }
}


static void
ngx_etcd_grpc_finish_by_status(ngx_etcd_grpc_stream_t *stream)
{
    ngx_str_t                 raw, text;
    ngx_etcd_grpc_status_e    status;
    ngx_etcd_grpc_headers_t  *h;
    u_char                    shown[NGX_ETCD_ESCAPED(NGX_ETCD_GRPC_TEXT)];

    h = &stream->headers;

    if (!h->has_status) {
        ngx_etcd_grpc_stream_finish(stream, NGX_ETCD_GRPC_UNKNOWN,
                                    "response ended without grpc-status");
        return;
    }

    if (h->grpc_status == NGX_ETCD_GRPC_OK && stream->body.nprefix) {
        ngx_etcd_grpc_stream_finish(stream, NGX_ETCD_GRPC_INTERNAL,
                                    "response ended inside of a message");
        return;
    }

    raw.data = h->text;
    raw.len = h->text_len;

    text.data = shown;
    text.len = ngx_etcd_escape(shown, &raw, NGX_ETCD_GRPC_TEXT) - shown;

    status = h->grpc_status;

    if (status == NGX_ETCD_GRPC_UNKNOWN) {
        status = ngx_etcd_grpc_status_of(&raw);
    }

    ngx_etcd_grpc_stream_finish(stream, status, "%V", &text);
}


void
ngx_etcd_grpc_response_end(ngx_etcd_http2_stream_t *h2s, ngx_uint_t last)
{
    ngx_etcd_grpc_stream_t   *stream = (ngx_etcd_grpc_stream_t *) h2s;
    ngx_etcd_grpc_headers_t  *h;

    h = &stream->headers;

    if (h->http_status >= 100 && h->http_status < 200) {
        return;
    }

    if (stream->http_status == 0) {
        stream->http_status = h->http_status;

        if (!h->has_status && (!h->grpc_type || h->http_status != 200)) {
            ngx_etcd_grpc_finish_by_http(stream);
            return;
        }
    }

    if (last) {
        ngx_etcd_grpc_finish_by_status(stream);
    }
}


void
ngx_etcd_grpc_response_last(ngx_etcd_http2_stream_t *h2s)
{
    ngx_etcd_grpc_stream_finish((ngx_etcd_grpc_stream_t *) h2s,
                                NGX_ETCD_GRPC_UNKNOWN,
                                "response ended without grpc-status");
}


static ngx_int_t
ngx_etcd_grpc_prefix(ngx_etcd_grpc_stream_t *stream)
{
    u_char                *p;
    size_t                 max;
    ngx_etcd_grpc_body_t  *body;

    body = &stream->body;
    p = body->prefix;

    if (p[0] != 0) {
        ngx_etcd_grpc_stream_finish(stream, NGX_ETCD_GRPC_INTERNAL,
                                    "got an unexpected compressed message");
        return NGX_ERROR;
    }

    body->len = (size_t) p[1] << 24 | (size_t) p[2] << 16
                | (size_t) p[3] << 8 | p[4];
    body->got = 0;

    max = ngx_etcd_http2_conf(stream->http2.h2)->max_message_size;

    if (body->len > max) {
        stream->call->oversize = 1;
        ngx_etcd_grpc_stream_finish(stream, NGX_ETCD_GRPC_RESOURCE_EXHAUSTED,
                                    "got a message of %uz bytes, which is "
                                    "more than \"max_message_size\" of %uz",
                                    body->len, max);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* The pool takes over a long message: elements of lists are not copied. */

static ProtobufCMessage *
ngx_etcd_grpc_unpack(ngx_etcd_grpc_stream_t *stream, ngx_pool_t *pool,
    u_char *data, size_t len, ngx_uint_t *exceeded)
{
    ngx_etcd_message_owned_t  buf;

    buf = stream->body.buf;

    if (data != buf.data || len <= NGX_ETCD_GRPC_BODY_KEEP) {
        return ngx_etcd_message_unpack(stream->call->response, pool, data,
                                       len, exceeded);
    }

    ngx_memzero(&stream->body.buf, sizeof(ngx_etcd_message_owned_t));

    *exceeded = 0;

    if (ngx_etcd_message_own(pool, &buf) != NGX_OK) {
        return NULL;
    }

    return ngx_etcd_message_unpack_in_place(stream->call->response, pool, data,
                                            len, exceeded);
}


/* A message with too many parts is reported like one that is too long. */

static void
ngx_etcd_grpc_unreadable(ngx_etcd_grpc_stream_t *stream, size_t len,
    ngx_uint_t exceeded)
{
    if (!exceeded) {
        ngx_etcd_grpc_stream_finish(stream, NGX_ETCD_GRPC_INTERNAL,
                                    "could not read a message of %uz bytes",
                                    len);
        return;
    }

    stream->call->oversize = 1;
    ngx_etcd_grpc_stream_finish(stream, NGX_ETCD_GRPC_RESOURCE_EXHAUSTED,
                                "got a message of %uz bytes in more than %d "
                                "parts, or that needs more than %d bytes "
                                "beside its own", len,
                                NGX_ETCD_MESSAGE_PARTS, NGX_ETCD_MESSAGE_WORK);
}


static void
ngx_etcd_grpc_deliver(ngx_etcd_grpc_stream_t *stream, u_char *data,
    size_t len)
{
    size_t                  size;
    ngx_int_t               rc;
    ngx_uint_t              exceeded;
    ngx_pool_t             *pool;
    ProtobufCMessage       *message;
    ngx_etcd_grpc_body_t   *body;
    ngx_etcd_http2_conf_t  *conf;

    size = (len < NGX_ETCD_GRPC_POOL_SMALL) ? NGX_ETCD_GRPC_POOL_SMALL
                                            : NGX_ETCD_GRPC_POOL_LARGE;

    /* the handler may keep the pool longer than the connection's log exists */

    pool = ngx_create_pool(size, ngx_cycle->log);
    if (pool == NULL) {
        ngx_etcd_grpc_stream_finish(stream, NGX_ETCD_GRPC_RESOURCE_EXHAUSTED,
                                    "no memory for a message of %uz bytes",
                                    len);
        return;
    }

    message = ngx_etcd_grpc_unpack(stream, pool, data, len, &exceeded);

    body = &stream->body;

    body->nprefix = 0;
    body->got = 0;

    if (body->buf.size > NGX_ETCD_GRPC_BODY_KEEP || ngx_etcd_secret_received) {
        ngx_etcd_grpc_response_free(stream);
    }

    if (message == NULL) {
        ngx_destroy_pool(pool);
        ngx_etcd_grpc_unreadable(stream, len, exceeded);
        return;
    }

    conf = ngx_etcd_http2_conf(stream->http2.h2);

    if (conf->header != NULL
        && conf->header(conf->data, ngx_etcd_message_cluster_id(message))
           != NGX_OK)
    {
        ngx_destroy_pool(pool);
        ngx_etcd_grpc_stream_finish(stream, NGX_ETCD_GRPC_UNAVAILABLE,
                                    "another cluster answers");
        return;
    }

    rc = stream->call->message(stream->call, message, pool);

    if (rc != NGX_DONE) {
        ngx_destroy_pool(pool);
    }

    if (rc == NGX_ERROR) {
        ngx_etcd_grpc_stream_finish(stream, NGX_ETCD_GRPC_INTERNAL,
                                    "message was not accepted");
    }
}


static ngx_uint_t
ngx_etcd_grpc_body_is_secret(ngx_etcd_grpc_stream_t *stream)
{
    return stream->call->secret || ngx_etcd_secret_received;
}


/*
 * realloc() moves large blocks without copying, but does not clear the old
 * block: a secret is copied and cleared here.
 */

static ngx_int_t
ngx_etcd_grpc_body_grow(ngx_etcd_grpc_stream_t *stream, size_t size)
{
    ngx_etcd_grpc_body_t      *body;
    ngx_etcd_message_owned_t   buf;

    body = &stream->body;

    buf.size = size;
    buf.secret = ngx_etcd_grpc_body_is_secret(stream);
    buf.data = buf.secret ? ngx_etcd_secret_malloc(size, NULL)
                          : realloc(body->buf.data, size);

    if (buf.data == NULL) {
        return NGX_ERROR;
    }

    if (buf.secret && body->buf.data != NULL) {
        ngx_memcpy(buf.data, body->buf.data, body->got);
        ngx_etcd_grpc_response_free(stream);
    }

    body->buf = buf;

    return NGX_OK;
}


/* The buffer grows with the bytes received, not with the announced length. */

static ngx_int_t
ngx_etcd_grpc_collect(ngx_etcd_grpc_stream_t *stream, u_char *p, size_t n)
{
    size_t                 size;
    ngx_etcd_grpc_body_t  *body;

    body = &stream->body;

    if (n > body->buf.size - body->got
        || (ngx_etcd_grpc_body_is_secret(stream) && !body->buf.secret))
    {
        size = ngx_max(body->got + n, body->got * 2);
        size = ngx_max(size, NGX_ETCD_GRPC_BODY_SMALL);
        size = ngx_min(size, body->len);

        if (ngx_etcd_grpc_body_grow(stream, size) != NGX_OK) {
            ngx_etcd_grpc_stream_finish(stream,
                                        NGX_ETCD_GRPC_RESOURCE_EXHAUSTED,
                                        "no memory for a message of %uz bytes",
                                        body->len);
            return NGX_ERROR;
        }
    }

    ngx_memcpy(body->buf.data + body->got, p, n);
    body->got += n;

    return NGX_OK;
}


/* A handler may end the call: check stream->call again after each step. */

void
ngx_etcd_grpc_response_data(ngx_etcd_http2_stream_t *h2s, u_char *p, size_t n)
{
    size_t                   m;
    ngx_etcd_grpc_body_t    *body;
    ngx_etcd_grpc_stream_t  *stream = (ngx_etcd_grpc_stream_t *) h2s;

    body = &stream->body;

    while (n && stream->call) {

        if (body->nprefix < NGX_ETCD_GRPC_PREFIX) {
            m = ngx_min(n, NGX_ETCD_GRPC_PREFIX - body->nprefix);

            ngx_memcpy(body->prefix + body->nprefix, p, m);
            body->nprefix += m;
            p += m;
            n -= m;

            if (body->nprefix < NGX_ETCD_GRPC_PREFIX
                || ngx_etcd_grpc_prefix(stream) != NGX_OK)
            {
                return;
            }
        }

        m = ngx_min(n, body->len - body->got);

        if (m == 0 && body->len) {
            return;
        }

        if (body->got == 0 && m == body->len) {

            /*
             * the message is complete in the input: deliver it without a copy
             */

            ngx_etcd_grpc_deliver(stream, p, m);

        } else if (ngx_etcd_grpc_collect(stream, p, m) != NGX_OK) {
            return;

        } else if (body->got == body->len) {
            ngx_etcd_grpc_deliver(stream, body->buf.data, body->len);
        }

        p += m;
        n -= m;
    }
}


void
ngx_etcd_grpc_response_free(ngx_etcd_grpc_stream_t *stream)
{
    ngx_etcd_message_owned_t  *buf;

    buf = &stream->body.buf;

    if (buf->data != NULL) {
        ngx_etcd_message_disown(buf);
        ngx_memzero(buf, sizeof(ngx_etcd_message_owned_t));
    }
}
