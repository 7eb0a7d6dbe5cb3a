
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Polls of locks that requests wait for.
 *
 * A watch may be silent because nothing happens, or because events are delayed:
 * after a partition, TCP retransmits with pauses of seconds, and an endpoint
 * may lag behind the cluster.  While a key of this client waits and the watch
 * of its lock queue is silent, a linearizable Range reads the first keys of the
 * lock queue.  If the waiting key is among the first, it holds the lock,
 * whatever the watch has reported: keys that are put later have higher create
 * revisions.  If the watch does not report the same within
 * NGX_ETCD_LOCK_POLL_LAG ms, the watch stream goes to another endpoint.
 *
 * All lock queues of a worker share one timer: each time, at most
 * NGX_ETCD_LOCK_POLL_QUEUES of them are polled, in turn.
 */


#ifndef _NGX_ETCD_LOCK_POLL_H_INCLUDED_
#define _NGX_ETCD_LOCK_POLL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_lock_queue.h>


/* ms that a watch is silent before its lock queue is polled */

#define NGX_ETCD_LOCK_POLL_QUIET     250

/* ms between two checks of all lock queues, plus a random time up to as much */

#define NGX_ETCD_LOCK_POLL_TICK      100

/* lock queues polled per check */

#define NGX_ETCD_LOCK_POLL_QUEUES    4

/* ms that a watch may be behind a poll */

#define NGX_ETCD_LOCK_POLL_LAG       1000


/* for the lock client: done() ends all polls */
void ngx_etcd_lock_poll_init(ngx_etcd_lock_session_t *locks);
void ngx_etcd_lock_poll_done(ngx_etcd_lock_session_t *locks);

/* a key of the lock queue waits: polls the lock queue while a key does */
void ngx_etcd_lock_poll_start(ngx_etcd_lock_queue_t *lock_queue);


#endif /* _NGX_ETCD_LOCK_POLL_H_INCLUDED_ */
