
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


ngx_int_t ngx_http_etcd_variable_add(ngx_conf_t *cf);


#endif /* _NGX_HTTP_ETCD_VARIABLE_H_INCLUDED_ */
