
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The permits of a lock that this worker has or waits for, and the grants that
 * they serve (ngx_etcd_worker_locks.h): the first waiter gets a permit that is
 * free, and those that share the lock get one together.
 *
 * A permit may be kept for a moment after its request has released it
 * ("reuse=NUMBER,TIME"): the next request of this worker gets the lock without
 * a write to etcd, with its own token.
 *
 * A request gets a kept permit only after a linearizable Range of the prefix,
 * sent after the request arrived, has returned its key and no other one, or,
 * if the key is shared, only others that share the lock with it, as if the key
 * had just been put.  A watch alone is no proof, because it may be
 * silent while its connection is stuck.
 *
 * A kept key does not delay other clients: the prefix is watched, and as soon
 * as another key appears there, the permit is released.  The key is released
 * NGX_ETCD_LOCK_MAX_KEEP after it was put in any case, so that even a silent
 * watch does not delay others for longer.
 */


#ifndef _NGX_ETCD_LOCK_PERMIT_H_INCLUDED_
#define _NGX_ETCD_LOCK_PERMIT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_worker_locks.h>


/* kept permits per worker and cluster */

#define NGX_ETCD_LOCK_MAX_KEPT  1024


/* Counts a grant that is not held, by its state, and says why. */
void ngx_etcd_lock_report(ngx_etcd_grant_t *grant, ngx_etcd_refusal_e refusal,
    ngx_log_t *log);

/* Ends the wait of a grant: its handler is called soon. */
void ngx_etcd_lock_decide(ngx_etcd_grant_t *grant,
    ngx_etcd_grant_state_e state);

/*
 * The first waiter gets a permit that no grant holds, or, if both are shared,
 * one that others hold.  NGX_DECLINED: there is no such waiter, or the permit
 * may be lost.
 */
ngx_int_t ngx_etcd_lock_permit_next(ngx_etcd_lock_permit_t *permit);

/* The grant holds its permit no more; the caller decides what becomes of it. */
void ngx_etcd_lock_permit_return(ngx_etcd_grant_t *grant);

/*
 * Keeps a permit that its grant has released.  NGX_DECLINED: remove the permit.
 */
ngx_int_t ngx_etcd_lock_reuse_keep(ngx_etcd_lock_permit_t *permit);

/*
 * If a request of this worker waits and a permit is kept, asks etcd whether the
 * permit may be passed on; the lock is posted when the answer is known.
 */
void ngx_etcd_lock_reuse_ask(ngx_etcd_lock_t *lock);

/* The permit, if it is kept, is passed on or removed now. */
void ngx_etcd_lock_reuse_end(ngx_etcd_lock_permit_t *permit);

/* Releases the key of a permit that no grant holds, and frees the permit. */
void ngx_etcd_lock_permit_remove(ngx_etcd_lock_permit_t *permit);

/* The key is gone, or can be: all grants of the permit are lost. */
void ngx_etcd_lock_permit_lose(ngx_etcd_lock_permit_t *permit);

/* Adds a permit if it is useful for the waiters, and removes surplus ones. */
void ngx_etcd_lock_permit_adjust(ngx_etcd_lock_t *lock);

/* The handler of lock->post: keys of the lock have changed. */
void ngx_etcd_lock_permit_post(ngx_event_t *ev);


#endif /* _NGX_ETCD_LOCK_PERMIT_H_INCLUDED_ */
