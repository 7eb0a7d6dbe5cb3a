
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The status page.
 */


#ifndef _NGX_HTTP_ETCD_PAGE_H_INCLUDED_
#define _NGX_HTTP_ETCD_PAGE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd.h>


/* Sends the page; the result is that of a content handler. */
ngx_int_t ngx_http_etcd_page(ngx_http_request_t *r);


#endif /* _NGX_HTTP_ETCD_PAGE_H_INCLUDED_ */
