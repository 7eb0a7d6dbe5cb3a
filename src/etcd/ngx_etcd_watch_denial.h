
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Reports of a watch that etcd refuses: one line when it begins, one when it
 * is over.
 */


#ifndef _NGX_ETCD_WATCH_DENIAL_H_INCLUDED_
#define _NGX_ETCD_WATCH_DENIAL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_watch.h>


/*
 * "reported" is the last status that was logged, NGX_ETCD_GRPC_OK at first; the
 * name is the prefix of the message.
 */
void ngx_etcd_watch_denial(ngx_etcd_grpc_status_e *reported, ngx_str_t *name,
    ngx_etcd_watch_t *watch, ngx_etcd_grpc_status_e status, ngx_str_t *text,
    ngx_log_t *log);
void ngx_etcd_watch_denial_over(ngx_etcd_grpc_status_e *reported,
    ngx_str_t *name, ngx_etcd_watch_t *watch, ngx_log_t *log);


#endif /* _NGX_ETCD_WATCH_DENIAL_H_INCLUDED_ */
