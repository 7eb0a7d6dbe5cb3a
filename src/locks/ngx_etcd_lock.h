
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Locks of one worker: requests wait in a queue, with as many keys in etcd as
 * are useful, which is one for a lock with one permit.  A held key serves as
 * many requests in a row as "reuse=" says; the transaction that releases the
 * key also puts the next one.  A key that no request wants may be kept for a
 * moment (ngx_etcd_lock_permit.h).
 *
 * A request waits for a grant, and holds it (ngx_etcd_worker_locks.h).
 */


#ifndef _NGX_ETCD_LOCK_H_INCLUDED_
#define _NGX_ETCD_LOCK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_worker_locks.h>


/*
 * Requests the lock.  NGX_OK: it is held, together with others; NGX_AGAIN:
 * handler() will be called; NGX_DECLINED: the lock is not available, see
 * "state"; NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_lock_begin(ngx_etcd_grant_t *grant, ngx_log_t *log);

/* Ends the grant in any state; no handler is called afterwards. */
void ngx_etcd_lock_end(ngx_etcd_grant_t *grant);

/* Returns 1 if the lock is held at this moment. */
ngx_uint_t ngx_etcd_lock_held(ngx_etcd_grant_t *grant);

/*
 * Returns 1 if the lock is lost although lost() was not called; lost() will
 * not be called any more.  In a process that was stopped, other events may be
 * handled before the timer that detects the loss.
 */
ngx_uint_t ngx_etcd_lock_found_lost(ngx_etcd_grant_t *grant);


#endif /* _NGX_ETCD_LOCK_H_INCLUDED_ */
