
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Sends a status piece by piece, so that a worker has time for other requests.
 */


#ifndef _NGX_HTTP_ETCD_OUTPUT_H_INCLUDED_
#define _NGX_HTTP_ETCD_OUTPUT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd.h>


/*
 * Sends a status; the header is set except for the length.  The result is
 * that of a content handler.
 */
ngx_int_t ngx_http_etcd_output(ngx_http_request_t *r,
    ngx_etcd_status_t *status);


#endif /* _NGX_HTTP_ETCD_OUTPUT_H_INCLUDED_ */
