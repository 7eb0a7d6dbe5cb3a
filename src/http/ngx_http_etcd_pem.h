
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Variables with certificates and private keys ("type=pem" of "etcd_set"),
 * which have a value only in "ssl_certificate" and "ssl_certificate_key" of a
 * server, while nginx evaluates these during a TLS handshake.
 *
 * All variables of a map are read at once: nginx gets a certificate and the
 * key that was written together with it.
 */


#ifndef _NGX_HTTP_ETCD_PEM_H_INCLUDED_
#define _NGX_HTTP_ETCD_PEM_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd.h>


ngx_int_t ngx_http_etcd_pem_get(ngx_http_request_t *r, ngx_array_t *sets,
    ngx_etcd_set_use_t *use, ngx_http_variable_value_t *v);


#endif /* _NGX_HTTP_ETCD_PEM_H_INCLUDED_ */
