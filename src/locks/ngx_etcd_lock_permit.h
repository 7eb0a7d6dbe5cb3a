
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The permits of a lock that this worker has or waits for, and the grants that
 * they serve (ngx_etcd_worker_locks.h): the first waiter gets a permit that is
 * free, and those that share the lock get one together.
 */


#ifndef _NGX_ETCD_LOCK_PERMIT_H_INCLUDED_
#define _NGX_ETCD_LOCK_PERMIT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_worker_locks.h>


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

/* Releases the key of a permit that no grant holds, and frees the permit. */
void ngx_etcd_lock_permit_remove(ngx_etcd_lock_permit_t *permit);

/* The key is gone, or can be: all grants of the permit are lost. */
void ngx_etcd_lock_permit_lose(ngx_etcd_lock_permit_t *permit);

/* Adds a permit if it is useful for the waiters, and removes surplus ones. */
void ngx_etcd_lock_permit_adjust(ngx_etcd_lock_t *lock);

/* The handler of lock->post: keys of the lock have changed. */
void ngx_etcd_lock_permit_post(ngx_event_t *ev);


#endif /* _NGX_ETCD_LOCK_PERMIT_H_INCLUDED_ */
