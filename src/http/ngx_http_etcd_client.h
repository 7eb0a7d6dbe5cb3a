
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The client of a request may close its connection while the request waits, or
 * may send a body that nobody wants any more; and headers of answers that the
 * module itself makes.
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

/* Returns 1 if the client has closed its connection, or reset its stream. */
ngx_uint_t ngx_http_etcd_client_left(ngx_http_request_t *r);

/*
 * Ends the reading of a body, if there is any.  An error page gets a GET
 * request without a body then.  To be called before a request is finalized with
 * a status that nginx's own reading of the body has not caused.
 */
void ngx_http_etcd_client_skip_body(ngx_http_request_t *r);


/*
 * Headers of answers that the module itself makes.
 */

typedef struct {
    ngx_str_t     name;
    ngx_str_t     value;
} ngx_http_etcd_header_t;


/* Adds the headers of an array, the last one of which has an empty name. */
ngx_int_t ngx_http_etcd_header_add(ngx_http_request_t *r,
    ngx_http_etcd_header_t *header);


#endif /* _NGX_HTTP_ETCD_CLIENT_H_INCLUDED_ */
