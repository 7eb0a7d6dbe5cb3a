
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Permits that linger for a moment after their holder has released them
 * ("linger="): the next request of this worker gets the lock without a write
 * to etcd, by a handoff like with "handoff=", with its own token.
 *
 * A request gets a lingering permit only after a linearizable Range of the
 * prefix, sent after the request arrived, has returned its key and no other
 * one, as if the key had just been put.  A watch alone is no proof, because it
 * may be silent while its connection is stuck.
 *
 * A lingering key does not delay other clients: the prefix is watched, and as
 * soon as another key appears there, the permit is released.  The key is
 * released NGX_ETCD_LOCK_MAX_LINGER after it was put in any case, so that
 * even a silent watch does not delay others for longer.
 *
 * Connections to upstreams that linger are a different matter: see
 * ngx_etcd_lock_hold.h.
 */


#ifndef _NGX_ETCD_LOCK_LINGER_H_INCLUDED_
#define _NGX_ETCD_LOCK_LINGER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_worker_locks.h>


/* lingering permits per worker and cluster */

#define NGX_ETCD_LOCK_MAX_LINGERING  1024


/*
 * Begins with a permit that its grant has released.  NGX_DECLINED: remove the
 * permit.
 */
ngx_int_t ngx_etcd_lock_linger(ngx_etcd_lock_permit_t *permit);

/*
 * If a request of this worker waits and a permit lingers, asks etcd whether the
 * permit may be handed on; the lock is posted when the answer is known.
 */
void ngx_etcd_lock_linger_use(ngx_etcd_lock_t *lock);

/*
 * Returns NGX_OK: the permit may be handed on; NGX_AGAIN: it lingers on;
 * NGX_DECLINED: remove the permit.
 */
ngx_int_t ngx_etcd_lock_linger_state(ngx_etcd_lock_permit_t *permit);

/* The permit, if it lingers, is handed on or removed now. */
void ngx_etcd_lock_linger_end(ngx_etcd_lock_permit_t *permit);


#endif /* _NGX_ETCD_LOCK_LINGER_H_INCLUDED_ */
