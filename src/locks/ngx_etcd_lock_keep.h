
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Keys of locks that are kept for a moment after their holder has released
 * them ("linger="): the next request of this worker gets the lock without a
 * write to etcd, by a pass like with "handoff=", with its own token.
 *
 * A request gets a kept key only after a linearizable Range of the prefix,
 * sent after the request arrived, has returned that key and no other one, as
 * if the key had just been put.  A watch alone is no proof, because it may be
 * silent while its connection is stuck.
 *
 * A kept key does not delay other clients: the prefix is watched, and as soon
 * as another key appears there, the kept one is released.  The key is
 * released NGX_ETCD_LOCK_MAX_LINGER after it was put in any case, so that
 * even a silent watch does not delay others for longer.
 *
 * Connections to upstreams that linger are a different matter: see
 * ngx_etcd_lock_hold.h.
 */


#ifndef _NGX_ETCD_LOCK_KEEP_H_INCLUDED_
#define _NGX_ETCD_LOCK_KEEP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_worker_locks.h>


/* kept keys per worker and cluster */

#define NGX_ETCD_LOCK_MAX_KEPT  1024


/* Keeps a key that its grant has released.  NGX_DECLINED: remove the key. */
ngx_int_t ngx_etcd_lock_keep(ngx_etcd_lock_permit_t *permit);

/*
 * If a request of this worker waits and a key is kept, asks etcd whether the
 * key may be passed on; the lock is posted when the answer is known.
 */
void ngx_etcd_lock_keep_use(ngx_etcd_lock_t *lock);

/*
 * Returns NGX_OK: the key may be passed on; NGX_AGAIN: the key is kept;
 * NGX_DECLINED: remove the key.
 */
ngx_int_t ngx_etcd_lock_keep_state(ngx_etcd_lock_permit_t *permit);

/* Ends the keeping: the key is passed on or removed. */
void ngx_etcd_lock_keep_end(ngx_etcd_lock_permit_t *permit);


#endif /* _NGX_ETCD_LOCK_KEEP_H_INCLUDED_ */
