
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The directive "etcd_status".
 */


#ifndef _NGX_HTTP_ETCD_STATUS_H_INCLUDED_
#define _NGX_HTTP_ETCD_STATUS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd.h>


char *ngx_http_etcd_status(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
void ngx_http_etcd_status_merge(ngx_http_etcd_status_conf_t *conf,
    ngx_http_etcd_status_conf_t *prev);


#endif /* _NGX_HTTP_ETCD_STATUS_H_INCLUDED_ */
