
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_http2_state.h>


void
ngx_etcd_http2_state_payload(ngx_etcd_http2_t *h2, size_t n)
{
    h2->overhead -= 2 * n;
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
