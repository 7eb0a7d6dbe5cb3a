
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Permits that are kept for a moment after their request has released them
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


#ifndef _NGX_ETCD_LOCK_REUSE_H_INCLUDED_
#define _NGX_ETCD_LOCK_REUSE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_worker_locks.h>


/* kept permits per worker and cluster */

#define NGX_ETCD_LOCK_MAX_KEPT  1024


/*
 * Keeps a permit that its grant has released.  NGX_DECLINED: remove the permit.
 */
ngx_int_t ngx_etcd_lock_reuse_keep(ngx_etcd_lock_permit_t *permit);

/*
 * If a request of this worker waits and a permit is kept, asks etcd whether the
 * permit may be passed on; the lock is posted when the answer is known.
 */
void ngx_etcd_lock_reuse_ask(ngx_etcd_lock_t *lock);

/*
 * Returns NGX_OK: the permit may be passed on; NGX_AGAIN: it is kept;
 * NGX_DECLINED: remove the permit.
 */
ngx_int_t ngx_etcd_lock_reuse_state(ngx_etcd_lock_permit_t *permit);

/* The permit, if it is kept, is passed on or removed now. */
void ngx_etcd_lock_reuse_end(ngx_etcd_lock_permit_t *permit);


#endif /* _NGX_ETCD_LOCK_REUSE_H_INCLUDED_ */
