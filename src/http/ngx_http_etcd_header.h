
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Headers of answers that the module itself makes.
 */


#ifndef _NGX_HTTP_ETCD_HEADER_H_INCLUDED_
#define _NGX_HTTP_ETCD_HEADER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


typedef struct {
    ngx_str_t     name;
    ngx_str_t     value;
} ngx_http_etcd_header_t;


/* Adds the headers of an array, the last one of which has an empty name. */
ngx_int_t ngx_http_etcd_header_add(ngx_http_request_t *r,
    ngx_http_etcd_header_t *header);


#endif /* _NGX_HTTP_ETCD_HEADER_H_INCLUDED_ */
