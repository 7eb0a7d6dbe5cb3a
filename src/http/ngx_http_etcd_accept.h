
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The header "Accept" of a request.
 */


#ifndef _NGX_HTTP_ETCD_ACCEPT_H_INCLUDED_
#define _NGX_HTTP_ETCD_ACCEPT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd.h>


/*
 * Returns the client's quality of a media type, 0 (unacceptable) to 1000.  A
 * media range with a version matches that version only.
 */
ngx_uint_t ngx_http_etcd_accept(ngx_http_request_t *r, const ngx_str_t *type,
    const ngx_str_t *version);


#endif /* _NGX_HTTP_ETCD_ACCEPT_H_INCLUDED_ */
