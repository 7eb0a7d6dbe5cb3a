
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Polls of locks that are waited for.
 *
 * A watch may be silent since nothing happens, or since what happened is stuck:
 * after a partition TCP sends again with pauses of seconds, and an endpoint may
 * lag behind the cluster.  While a key of ours waits and its lock queue's watch
 * is silent, etcd is asked for the first keys of the lock queue by a
 * linearizable Range.  An own key that is among the first holds the lock,
 * whatever the watch knows: keys that are put later are created later.  A watch
 * that has not reported the same a while later is taken to another endpoint.
 *
 * All lock queues of a worker share one timer: at most _QUEUES Ranges are sent
 * in _TICK ms, to the lock queues in turn.
 */


#ifndef _NGX_ETCD_LOCK_POLL_H_INCLUDED_
#define _NGX_ETCD_LOCK_POLL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_lock_queue.h>


/* ms for which a watch is silent before its lock queue is polled */

#define NGX_ETCD_LOCK_POLL_QUIET     250

/* ms between two looks at all lock queues, at least; up to twice as long */

#define NGX_ETCD_LOCK_POLL_TICK      100

/* lock queues that are polled at one look */

#define NGX_ETCD_LOCK_POLL_QUEUES    4

/* ms that a watch may be behind a poll */

#define NGX_ETCD_LOCK_POLL_LAG       1000


void ngx_etcd_lock_poll_init(ngx_etcd_lock_session_t *locks);
void ngx_etcd_lock_poll_done(ngx_etcd_lock_session_t *locks);

/* a key of the lock queue waits: the lock queue is polled while one does */
void ngx_etcd_lock_poll_start(ngx_etcd_lock_queue_t *lock_queue);


#endif /* _NGX_ETCD_LOCK_POLL_H_INCLUDED_ */
