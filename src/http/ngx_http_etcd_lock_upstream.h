
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The upstreams of a request whose main request holds locks: the client is
 * watched as ngx_http_etcd_lock_hold.h says, and the connection is taken from
 * nginx if nginx leaves an upstream that may still work: after a timeout, for
 * an error page or a redirect, for an answer with an invalid header, at the end
 * of a tunnel, or if the body of the request is cut.
 */


#ifndef _NGX_HTTP_ETCD_LOCK_UPSTREAM_H_INCLUDED_
#define _NGX_HTTP_ETCD_LOCK_UPSTREAM_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/*
 * Called after the phases, before the content handler.  NGX_OK or NGX_ERROR.
 */
ngx_int_t ngx_http_etcd_lock_upstream(ngx_http_request_t *r);

/*
 * Called before this module ends the upstream of a request: the upstream must
 * notice that.
 */
void ngx_http_etcd_lock_upstream_cut(ngx_http_request_t *r);


#endif /* _NGX_HTTP_ETCD_LOCK_UPSTREAM_H_INCLUDED_ */
