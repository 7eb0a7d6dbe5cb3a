
/*
 * Copyright (C) nginx-etcd contributors
 *
 * What the files of the http module share.
 */


#ifndef _NGX_HTTP_ETCD_MODULE_H_INCLUDED_
#define _NGX_HTTP_ETCD_MODULE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_etcd_upstream.h>


typedef struct {
    ngx_etcd_upstream_t    upstream;
    ngx_uint_t             initialized;    /* our balancer is the one */
} ngx_http_etcd_srv_conf_t;


/* of a request that goes, or went, through one of our upstreams */

typedef struct {
    ngx_etcd_pick_t        pick;
    ngx_etcd_upstream_t   *upstream;
} ngx_http_etcd_ctx_t;


extern ngx_module_t  ngx_http_etcd_module;


/* _upstream.c */

char *ngx_http_etcd_members(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_etcd_balance(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_etcd_allow(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* after the configuration was read: refuses what has replaced our balancer */
ngx_int_t ngx_http_etcd_upstream_check(ngx_conf_t *cf);

/* NULL: the request went through none of our upstreams */
ngx_http_etcd_ctx_t *ngx_http_etcd_get_ctx(ngx_http_request_t *r);


/* _variable.c */

ngx_int_t ngx_http_etcd_add_variables(ngx_conf_t *cf);


/* _status.c */

char *ngx_http_etcd_status(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);


#endif /* _NGX_HTTP_ETCD_MODULE_H_INCLUDED_ */
