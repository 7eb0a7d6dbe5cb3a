
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Keys of locks that are kept for a moment after their holder has released
 * them ("linger="): the next request of this worker gets the lock without a
 * write to etcd, by a pass as of "handoff=", with a token of its own.
 *
 * A request is given a kept key only after a linearizable Range of the prefix,
 * sent after the request came, has shown that key and no other: as if the key
 * had just been put.  A watch alone does not say that, since it may be silent
 * while its connection is stuck.
 *
 * A kept key is in nobody's way: the prefix is watched, and as soon as another
 * key is seen there the kept one is given up.  It is given up
 * NGX_ETCD_LOCK_MAX_LINGER after it was put in any case, so that not even a
 * silent watch makes others wait for longer.
 *
 * Nothing of this is about connections to upstreams that linger, which are
 * held locks.
 */


#ifndef _NGX_ETCD_LOCK_KEEP_H_INCLUDED_
#define _NGX_ETCD_LOCK_KEEP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_lockers.h>


/* kept keys of a worker and cluster */

#define NGX_ETCD_LOCK_MAX_KEPT  1024


/*
 * Keeps a key that its grant holds no more.  NGX_DECLINED: it is to be removed.
 */
ngx_int_t ngx_etcd_lock_keep(ngx_etcd_lock_key_t *key);

/*
 * Where somebody of this worker waits and a key is kept, etcd is asked whether
 * it may be passed on; the lock is posted when that is known.
 */
void ngx_etcd_lock_keep_use(ngx_etcd_lock_t *lock);

/*
 * What is to become of it: NGX_OK, it may be passed on; NGX_AGAIN, it is kept;
 * NGX_DECLINED, it is to be removed.
 */
ngx_int_t ngx_etcd_lock_keep_state(ngx_etcd_lock_key_t *key);

/* it is passed on, or removed: it is not kept any more */
void ngx_etcd_lock_keep_end(ngx_etcd_lock_key_t *key);


#endif /* _NGX_ETCD_LOCK_KEEP_H_INCLUDED_ */
