
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Reads of the keys of a lock queue, and what their answers say of a key
 * (ngx_etcd_lock_queue.h).
 */


#ifndef _NGX_ETCD_LOCK_QUEUE_READ_H_INCLUDED_
#define _NGX_ETCD_LOCK_QUEUE_READ_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_lock_queue.h>


/*
 * Returns 1 if the answer of a read has the key, and no other one that does not
 * share the lock with it.
 */
ngx_uint_t ngx_etcd_lock_queue_alone(ngx_etcd_mutex_t *mutex,
    Etcd__RangeResponse *response);

/*
 * Finds a waiting key among these.  NGX_OK: it holds one of the permits;
 * NGX_DECLINED: it does not exist; NGX_AGAIN: it waits.
 */
ngx_int_t ngx_etcd_lock_queue_place(ngx_etcd_mutex_t *mutex,
    Etcd__RangeResponse *response);

/*
 * Reads the first keys if a key waits and the watch is silent.  NGX_OK: they
 * are being read now; NGX_DECLINED: there is no need; NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_lock_queue_read(ngx_etcd_lock_queue_t *lock_queue);


#endif /* _NGX_ETCD_LOCK_QUEUE_READ_H_INCLUDED_ */
