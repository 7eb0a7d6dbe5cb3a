
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The client that takes all locks of one process in one cluster.  It creates
 * the state that the locks share (ngx_etcd_lock_queue.h), keeps the lease,
 * and tells the mutexes when it is held or lost.
 *
 * One timer checks what is not known for certain:
 *
 * - Keys that have been held for a while are watched.
 *
 * - Lock queues in which a key waits are read while their watch is silent, in
 *   turn (ngx_etcd_lock_queue.h).  If the watch does not report the same soon,
 *   the watch stream goes to another endpoint.
 *
 * - etcd may process a put long after the client has given it up: a stopped
 *   member does so when it continues, whether the connection still exists or
 *   not.  The key then lives as long as its lease.  A key that a watch reports
 *   as deleted may exist, too, if the watch has not noticed another history of
 *   etcd.  So from the first such key on, the keys of the lease are read
 *   (LeaseTimeToLive of etcd's v3 API), and those that no mutex knows of are
 *   deleted, until the lease is given up.
 */


#ifndef _NGX_ETCD_LOCK_CLIENT_H_INCLUDED_
#define _NGX_ETCD_LOCK_CLIENT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_lock_queue.h>


/* lock queues that are read in one check */

#define NGX_ETCD_LOCK_CLIENT_READS   4

/* ms between two searches for keys of the lease that no mutex knows of */

#define NGX_ETCD_LOCK_CLIENT_SEARCH  1000

/* ms after the last unknown outcome: an unused lease is given up */

#define NGX_ETCD_LOCK_CLIENT_LATE    10000


/*
 * Connects when a lease is first requested.  The TTL is in seconds.  Returns
 * NULL if there is no memory.
 */
ngx_etcd_lock_client_t *ngx_etcd_lock_client_create(
    ngx_etcd_cluster_conf_t *conf, time_t ttl, ngx_log_t *log);

/*
 * No handler is called any more, and all memory is freed.  Keys and lease
 * remain in etcd.
 */
void ngx_etcd_lock_client_destroy(ngx_etcd_lock_client_t *client);

/* Requests a lease, unless there is one or one is being requested. */
void ngx_etcd_lock_client_start(ngx_etcd_lock_client_t *client);

/*
 * To be called when no lock is held: revokes the lease, and with it deletes
 * every key that may be left.  ended() may be called before this returns.
 */
void ngx_etcd_lock_client_end(ngx_etcd_lock_client_t *client,
    void (*ended)(void *data), void *data);


#endif /* _NGX_ETCD_LOCK_CLIENT_H_INCLUDED_ */
