
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The directive "etcd_wait" in http.
 */


#ifndef _NGX_HTTP_ETCD_WAIT_H_INCLUDED_
#define _NGX_HTTP_ETCD_WAIT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd.h>



/* Phase handler; NGX_DECLINED: no need to wait. */
ngx_int_t ngx_http_etcd_wait_handler(ngx_http_request_t *r);

/* Returns 1 if requests to this location wait for that upstream. */
ngx_uint_t ngx_http_etcd_wait_for(ngx_http_request_t *r,
    ngx_etcd_service_conf_t *service);

/* Returns 1 if other requests come first, as ngx_etcd_wait_yields(). */
ngx_uint_t ngx_http_etcd_wait_yields(ngx_http_request_t *r,
    ngx_etcd_table_t *table);

/*
 * Called by the balancer when it has no first peer.  NGX_AGAIN: the request
 * is held; the balancer returns NGX_ERROR, which does not end the request.
 * The request is built again and the balancer asked again later, or at once
 * if "again" is set and there is a peer.  NGX_DECLINED: there is nothing to
 * wait for.
 */
ngx_int_t ngx_http_etcd_wait_peer(ngx_http_request_t *r,
    ngx_etcd_table_t *table, ngx_uint_t again);

/* Ends a wait for a peer; returns 1 if the request was waiting. */
ngx_uint_t ngx_http_etcd_wait_abandon(ngx_http_request_t *r);

/*
 * Ends the wait of a background subrequest of the request, and returns the
 * subrequest, which does not go on; NULL: none waits.
 */
ngx_http_request_t *ngx_http_etcd_wait_background(ngx_http_request_t *r);


#endif /* _NGX_HTTP_ETCD_WAIT_H_INCLUDED_ */
