
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

/* Called for every location. */
void ngx_http_etcd_status_merge(ngx_conf_t *cf,
    ngx_http_etcd_status_conf_t *prev, ngx_http_etcd_status_conf_t *conf);


/*
 * The header "Accept" of a request.
 */

/*
 * Returns the client's quality of a media type, 0 (unacceptable) to 1000.  A
 * media range with a version matches that version only.
 */
ngx_uint_t ngx_http_etcd_accept(ngx_http_request_t *r, const ngx_str_t *type,
    const ngx_str_t *version);


/*
 * The status page.
 */

/* Sends the page; the result is that of a content handler. */
ngx_int_t ngx_http_etcd_page(ngx_http_request_t *r);


#endif /* _NGX_HTTP_ETCD_STATUS_H_INCLUDED_ */
