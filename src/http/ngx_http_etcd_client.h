
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Detects that the client of a waiting request closes its connection.
 */


#ifndef _NGX_HTTP_ETCD_CLIENT_H_INCLUDED_
#define _NGX_HTTP_ETCD_CLIENT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd.h>


/*
 * Makes the read event detect that the client closes the connection: NGX_OK
 * or NGX_ERROR.
 */
ngx_int_t ngx_http_etcd_client_watch(ngx_http_request_t *r);


#endif /* _NGX_HTTP_ETCD_CLIENT_H_INCLUDED_ */
