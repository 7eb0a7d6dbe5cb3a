
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Values of variables, and texts with variables.
 */


#ifndef _NGX_STREAM_ETCD_VALUE_H_INCLUDED_
#define _NGX_STREAM_ETCD_VALUE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>


/* Evaluates a variable for a session; an ngx_etcd_pattern_value_pt. */
ngx_variable_value_t *ngx_stream_etcd_value_get(void *session,
    ngx_uint_t index);

/* Compiles the text to an ngx_stream_complex_value_t; NULL: an error. */
void *ngx_stream_etcd_value_compile(ngx_conf_t *cf, ngx_str_t *text);


#endif /* _NGX_STREAM_ETCD_VALUE_H_INCLUDED_ */
