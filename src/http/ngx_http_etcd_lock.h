
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The directive "etcd_lock" in http.
 */


#ifndef _NGX_HTTP_ETCD_LOCK_H_INCLUDED_
#define _NGX_HTTP_ETCD_LOCK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd.h>


char *ngx_http_etcd_lock(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/*
 * Called for a location with locks: refuses directives that start background
 * subrequests, which go on when the request has its answer.
 */
char *ngx_http_etcd_lock_check(ngx_conf_t *cf, ngx_array_t *locks);

ngx_int_t ngx_http_etcd_lock_add_variables(ngx_conf_t *cf);
void ngx_http_etcd_lock_add_filters(void);

/* Phase handler; NGX_DECLINED: no locks, or all are held. */
ngx_int_t ngx_http_etcd_lock_handler(ngx_http_request_t *r);


#endif /* _NGX_HTTP_ETCD_LOCK_H_INCLUDED_ */
