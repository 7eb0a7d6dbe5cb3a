
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The client that takes all locks of one process in one cluster: it creates
 * what the locks share (ngx_etcd_lock_session.h), keeps the lease, and tells
 * the keys what becomes of it.
 */


#ifndef _NGX_ETCD_LOCK_CLIENT_H_INCLUDED_
#define _NGX_ETCD_LOCK_CLIENT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_lock_session.h>


/* nothing is connected to yet; NULL: no memory */
ngx_etcd_lock_session_t *ngx_etcd_lock_client_create(
    ngx_etcd_cluster_conf_t *conf, time_t ttl, ngx_log_t *log);

/*
 * No handler is called any more, and nothing of it may be used; keys and lease
 * live on in etcd.
 */
void ngx_etcd_lock_client_destroy(ngx_etcd_lock_session_t *locks);

/* there is to be a lease, if there is none, or none is asked for */
void ngx_etcd_lock_client_start(ngx_etcd_lock_session_t *locks);

/*
 * Nothing is held: the lease is revoked, and with it every key that may be
 * left.  ended() may be called before this returns.
 */
void ngx_etcd_lock_client_end(ngx_etcd_lock_session_t *locks,
    void (*ended)(void *data), void *data);


#endif /* _NGX_ETCD_LOCK_CLIENT_H_INCLUDED_ */
