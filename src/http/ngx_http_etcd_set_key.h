
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The key of a variable of "etcd_set" in a request.
 */


#ifndef _NGX_HTTP_ETCD_SET_KEY_H_INCLUDED_
#define _NGX_HTTP_ETCD_SET_KEY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd.h>


/*
 * Makes the key of a request in buf, as ngx_etcd_set_variable_key().  NGX_OK,
 * NGX_DECLINED or NGX_ERROR.
 */
ngx_int_t ngx_http_etcd_set_key(ngx_http_request_t *r,
    ngx_etcd_set_variable_use_t *use, u_char *buf, ngx_str_t *key);


#endif /* _NGX_HTTP_ETCD_SET_KEY_H_INCLUDED_ */
