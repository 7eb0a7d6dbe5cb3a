
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The directive "etcd_set" in http; values of variables, and texts with them.
 */


#ifndef _NGX_HTTP_ETCD_SET_H_INCLUDED_
#define _NGX_HTTP_ETCD_SET_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd.h>


/* Evaluates a variable for a request; an ngx_etcd_pattern_value_pt. */
ngx_variable_value_t *ngx_http_etcd_set_value(void *request, ngx_uint_t index);

/* Compiles the text to an ngx_http_complex_value_t; NULL: an error. */
void *ngx_http_etcd_set_compile(ngx_conf_t *cf, ngx_str_t *text);

/* Evaluates a compiled text for a request. */
ngx_int_t ngx_http_etcd_set_text(void *request, void *compiled,
    ngx_str_t *text);

char *ngx_http_etcd_set(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/*
 * Called after the configuration was read: checks that no other directive has
 * redefined the variables, and that those of keys exist.
 */
ngx_int_t ngx_http_etcd_set_check(ngx_conf_t *cf);


#endif /* _NGX_HTTP_ETCD_SET_H_INCLUDED_ */
