
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Upstreams whose prefix holds variables: the set of members that a request
 * asks for.
 */


#ifndef _NGX_HTTP_ETCD_CATALOG_H_INCLUDED_
#define _NGX_HTTP_ETCD_CATALOG_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd.h>


/* Finds the variables of a prefix; logs errors. */
ngx_int_t ngx_http_etcd_catalog_variables(ngx_conf_t *cf,
    ngx_etcd_upstream_t *upstream);

/*
 * The table of the upstream for this request.  NULL: there is no such set
 * (*rc is NGX_DECLINED), or an error (see ngx_etcd_table_cache_get()).
 */
ngx_etcd_table_t *ngx_http_etcd_catalog_table(ngx_http_request_t *r,
    ngx_etcd_service_conf_t *service, ngx_int_t *rc);

/*
 * Called by the balancer when there is no table: ends the request with
 * "etcd_unknown_status" or 503.  The balancer returns the result.
 */
ngx_int_t ngx_http_etcd_catalog_refuse(ngx_http_request_t *r, ngx_int_t rc);


#endif /* _NGX_HTTP_ETCD_CATALOG_H_INCLUDED_ */
