
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_grpc_stream.h>


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
