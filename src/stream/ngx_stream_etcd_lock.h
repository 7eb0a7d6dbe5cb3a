
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The directive "etcd_lock" in stream.
 */


#ifndef _NGX_STREAM_ETCD_LOCK_H_INCLUDED_
#define _NGX_STREAM_ETCD_LOCK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_etcd.h>


char *ngx_stream_etcd_lock(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
ngx_int_t ngx_stream_etcd_lock_add_variables(ngx_conf_t *cf);

/* Called after the configuration was read. */
void ngx_stream_etcd_lock_add_filter(void);

/* NGX_DECLINED: no locks, or all are held; NGX_DONE: the session is paused. */
ngx_int_t ngx_stream_etcd_lock_handler(ngx_stream_session_t *s);

/* Log phase handler: the session has ended. */
ngx_int_t ngx_stream_etcd_lock_log(ngx_stream_session_t *s);


#endif /* _NGX_STREAM_ETCD_LOCK_H_INCLUDED_ */
