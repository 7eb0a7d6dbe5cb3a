
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Upstreams whose prefix holds variables: the set of members that a session
 * asks for.
 */


#ifndef _NGX_STREAM_ETCD_CATALOG_H_INCLUDED_
#define _NGX_STREAM_ETCD_CATALOG_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_etcd.h>


/* Finds the variables of a prefix; logs errors. */
ngx_int_t ngx_stream_etcd_catalog_variables(ngx_conf_t *cf,
    ngx_etcd_upstream_t *upstream);

/*
 * The table of the upstream for this session.  NULL: there is no such set
 * (*rc is NGX_DECLINED), or an error (see ngx_etcd_table_cache_get()).
 */
ngx_etcd_table_t *ngx_stream_etcd_catalog_table(ngx_stream_session_t *s,
    ngx_etcd_service_conf_t *service, ngx_int_t *rc);

/*
 * Called by the balancer when there is no table: logs why.  The balancer
 * returns the result, and nginx ends the session.
 */
ngx_int_t ngx_stream_etcd_catalog_refuse(ngx_stream_session_t *s,
    ngx_etcd_service_conf_t *service, ngx_int_t rc);


#endif /* _NGX_STREAM_ETCD_CATALOG_H_INCLUDED_ */
