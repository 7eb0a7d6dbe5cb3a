
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The directive "etcd_set" in stream; values of variables, and texts with them.
 */


#ifndef _NGX_STREAM_ETCD_SET_H_INCLUDED_
#define _NGX_STREAM_ETCD_SET_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_etcd.h>


/* Evaluates a variable for a session; an ngx_etcd_pattern_value_pt. */
ngx_variable_value_t *ngx_stream_etcd_set_value(void *session,
    ngx_uint_t index);

/* Compiles the text to an ngx_stream_complex_value_t; NULL: an error. */
void *ngx_stream_etcd_set_compile(ngx_conf_t *cf, ngx_str_t *text);

/* Evaluates a compiled text for a session. */
ngx_int_t ngx_stream_etcd_set_text(void *session, void *compiled,
    ngx_str_t *text);

char *ngx_stream_etcd_set(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/*
 * Called after the configuration was read: checks that no other directive has
 * redefined the variables, and that those of keys exist.
 */
ngx_int_t ngx_stream_etcd_set_check(ngx_conf_t *cf);


#endif /* _NGX_STREAM_ETCD_SET_H_INCLUDED_ */
