
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The nghttp2 session of a connection, and its callbacks.  Private to
 * ngx_etcd_http2.c.
 */


#ifndef _NGX_ETCD_HTTP2_SESSION_H_INCLUDED_
#define _NGX_ETCD_HTTP2_SESSION_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_http2_state.h>


/* Creates h2->session and queues SETTINGS. */
ngx_int_t ngx_etcd_http2_session_create(ngx_etcd_http2_t *h2);


#endif /* _NGX_ETCD_HTTP2_SESSION_H_INCLUDED_ */
