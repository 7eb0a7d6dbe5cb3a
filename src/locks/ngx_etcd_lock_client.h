
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The client that takes all locks of one process in one cluster.  It creates
 * the state that the locks share (ngx_etcd_lock_session.h), keeps the lease,
 * and tells the mutexes when it is held or lost.
 */


#ifndef _NGX_ETCD_LOCK_CLIENT_H_INCLUDED_
#define _NGX_ETCD_LOCK_CLIENT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_lock_session.h>


/*
 * Connects when a lease is first requested.  The TTL is in seconds.  Returns
 * NULL if there is no memory.
 */
ngx_etcd_lock_session_t *ngx_etcd_lock_client_create(
    ngx_etcd_cluster_conf_t *conf, time_t ttl, ngx_log_t *log);

/*
 * No handler is called any more, and all memory is freed.  Keys and lease
 * remain in etcd.
 */
void ngx_etcd_lock_client_destroy(ngx_etcd_lock_session_t *locks);

/* Requests a lease, unless there is one or one is being requested. */
void ngx_etcd_lock_client_start(ngx_etcd_lock_session_t *locks);

/*
 * To be called when no lock is held: revokes the lease, and with it deletes
 * every key that may be left.  ended() may be called before this returns.
 */
void ngx_etcd_lock_client_end(ngx_etcd_lock_session_t *locks,
    void (*ended)(void *data), void *data);


#endif /* _NGX_ETCD_LOCK_CLIENT_H_INCLUDED_ */
