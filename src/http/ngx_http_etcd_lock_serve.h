
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The directive "etcd_lock_serve": the client's connection is the lock.  The
 * content handler runs when the locks of the location are held, and sends the
 * token, then a comment now and then.  The answer has no end of its own: it
 * lasts as long as the locks, and the locks last as long as it.
 */


#ifndef _NGX_HTTP_ETCD_LOCK_SERVE_H_INCLUDED_
#define _NGX_HTTP_ETCD_LOCK_SERVE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd.h>


#define NGX_ETCD_LOCK_SERVE_PING  15000       /* ms */


char *ngx_http_etcd_lock_serve(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/*
 * Called for every location when its other directives are merged: refuses locks
 * that may be passed by or lost.
 */
char *ngx_http_etcd_lock_serve_merge(ngx_conf_t *cf,
    ngx_http_etcd_loc_conf_t *prev, ngx_http_etcd_loc_conf_t *elcf);

/*
 * Called before a request takes the locks of its location.  NGX_DECLINED: it
 * may; other values refuse a request that could not be the lock.
 */
ngx_int_t ngx_http_etcd_lock_serve_refuse(ngx_http_request_t *r);

/*
 * Called before a request is ended since its lock is lost.  Tells the client if
 * its connection is the lock.
 */
void ngx_http_etcd_lock_serve_lost(ngx_http_request_t *r);


#endif /* _NGX_HTTP_ETCD_LOCK_SERVE_H_INCLUDED_ */
