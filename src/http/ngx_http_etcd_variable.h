
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Variables of the http module.
 */


#ifndef _NGX_HTTP_ETCD_VARIABLE_H_INCLUDED_
#define _NGX_HTTP_ETCD_VARIABLE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd.h>


/*
 * Pins the leader that a request is built for.
 */

/*
 * Pins the leader that the request is being built for.  *peer is NULL if
 * there is no leader, or if the upstream of this module has no single leader.
 * NGX_DECLINED: no request is being built, or the upstream is not of this
 * module; NGX_ERROR: no memory.
 */
ngx_int_t ngx_http_etcd_pin(ngx_http_request_t *r, ngx_etcd_peer_t **peer);

/*
 * Evaluates a variable by its handler.  In the rewrite phase the value stays
 * the same until the rewrite module has run.
 */
ngx_int_t ngx_http_etcd_variable_get(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data, ngx_http_get_variable_pt get);

ngx_int_t ngx_http_etcd_variable_add(ngx_conf_t *cf);


#endif /* _NGX_HTTP_ETCD_VARIABLE_H_INCLUDED_ */
