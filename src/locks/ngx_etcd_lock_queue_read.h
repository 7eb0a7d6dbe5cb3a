
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
 * Requests the first keys of the lock queue: one more than the permits, or all
 * if there are shared ones.
 */
void ngx_etcd_lock_queue_request(ngx_etcd_lock_queue_t *lock_queue,
    Etcd__RangeRequest *request);

/*
 * Returns 1 if such an answer has the key, and no other one that does not share
 * the lock with it.
 */
ngx_uint_t ngx_etcd_lock_queue_alone(ngx_etcd_mutex_t *mutex,
    Etcd__RangeResponse *response);

/*
 * Finds a waiting key among these.  NGX_OK: it holds one of the permits;
 * NGX_DECLINED: it does not exist; NGX_AGAIN: it waits.
 */
ngx_int_t ngx_etcd_lock_queue_place(ngx_etcd_lock_queue_t *lock_queue,
    ngx_etcd_mutex_t *mutex, Etcd__RangeResponse *response);

/*
 * Reads the first keys if a key waits and the watch is silent.  NGX_OK: they
 * are being read now; NGX_DECLINED: there is no need.
 */
ngx_int_t ngx_etcd_lock_queue_read(ngx_etcd_lock_queue_t *lock_queue);


#endif /* _NGX_ETCD_LOCK_QUEUE_READ_H_INCLUDED_ */
