
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Publishes the holders and waiters of this worker's locks for the status of
 * all workers.  Locks beyond the rows of the table are not shown.
 */


#ifndef _NGX_ETCD_LOCK_STATUS_H_INCLUDED_
#define _NGX_ETCD_LOCK_STATUS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_worker_locks.h>


/* ms until the search for a free table is repeated */

#define NGX_ETCD_LOCK_STATUS_AGAIN  1000


/* Change the number of locks held or awaited by this worker by n. */
void ngx_etcd_lock_status_held(ngx_etcd_lock_t *lock, ngx_int_t n);
void ngx_etcd_lock_status_waiting(ngx_etcd_lock_t *lock, ngx_int_t n);

/*
 * Shows the new holder of the key, instead of the former one if there was
 * one.
 */
void ngx_etcd_lock_status_holder(ngx_etcd_lock_key_t *key);

/* Removes the holder, if shown. */
void ngx_etcd_lock_status_free(ngx_etcd_lock_key_t *key);


#endif /* _NGX_ETCD_LOCK_STATUS_H_INCLUDED_ */
