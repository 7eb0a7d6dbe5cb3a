
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The grants of one request or session (ngx_etcd_worker_locks.h); common to
 * http and stream.  They are found in the cleanup list of the pool, because an
 * internal redirect clears the contexts of a request, and contexts are gone
 * when the request is logged.
 */


#ifndef _NGX_ETCD_GRANT_H_INCLUDED_
#define _NGX_ETCD_GRANT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_lock.h>


typedef ngx_int_t (*ngx_etcd_lock_variable_pt)(ngx_str_t *name,
    ngx_pool_t *pool, void *owner, ngx_variable_value_t *v);

typedef struct {
    ngx_str_t                    name;
    ngx_etcd_lock_variable_pt    get;
} ngx_etcd_lock_variable_t;


/* the last one has an empty name */
extern ngx_etcd_lock_variable_t  ngx_etcd_lock_variables[];


/* Adds a zeroed grant with these fields set, which is ended with the pool. */
ngx_etcd_grant_t *ngx_etcd_grant_add(ngx_pool_t *pool, void *owner,
    ngx_etcd_lock_conf_t *conf, ngx_str_t *key, ngx_uint_t shared);

/*
 * Iterates over the grants of the owner, the newest first, starting with NULL;
 * NULL: no more.
 */
ngx_etcd_grant_t *ngx_etcd_grant_next(ngx_pool_t *pool, void *owner,
    ngx_etcd_grant_t *grant);

/* Likewise, as a loop. */
#define ngx_etcd_grant_each(grant, pool, owner)                               \
    for (grant = ngx_etcd_grant_next(pool, owner, NULL);                      \
         grant != NULL;                                                       \
         grant = ngx_etcd_grant_next(pool, owner, grant))

/* Returns the grant of a directive; NULL: there is none, or only forgotten. */
ngx_etcd_grant_t *ngx_etcd_grant_find(ngx_pool_t *pool, void *owner,
    ngx_etcd_lock_conf_t *conf);

/* Ends all grants of the owner, the newest first. */
void ngx_etcd_grant_release(ngx_pool_t *pool, void *owner);

/*
 * Called when the grants of an owner that is refused have ended: those that
 * were held are as if they had never been, and their locks can be taken again.
 * Such a grant has the state NONE.
 */
void ngx_etcd_grant_forget(ngx_pool_t *pool, void *owner);

/* The part of http or stream in taking the locks of an owner. */

typedef struct {
    void                        *owner;
    ngx_pool_t                  *pool;
    ngx_log_t                   *log;
    ngx_uint_t                   changes;      /* of the URI; 0: it has none */

    /* evaluates KEY of a lock, and "shared=" */
    ngx_int_t                  (*value)(void *owner, void *key,
                                        ngx_str_t *value);

    /*
     * Adds a grant for that key, which is empty if the lock has none, and
     * begins it; or finds one that the owner may use.  NULL: no
     * memory, or the owner may not take the lock.
     */
    ngx_etcd_grant_t          *(*take)(void *owner, ngx_etcd_lock_conf_t *conf,
                                       ngx_str_t *key, ngx_uint_t shared);

    ngx_etcd_grant_t            *grant;        /* of NGX_AGAIN */
} ngx_etcd_grant_owner_t;

/*
 * Takes the locks of an array of ngx_etcd_lock_conf_t one after another.  May
 * be called again: an owner has one grant for a directive.  All keys and
 * grants are checked first: an owner that is refused for the key of one lock,
 * or was refused that lock before, takes none of the others.
 *
 *     NGX_OK        all locks are held
 *     NGX_ERROR     take() has failed, or no memory
 *     NGX_ABORT     a key is empty, which was logged
 *     other         what ngx_etcd_grant_result() says of the first lock that is
 *                   not held
 */
ngx_int_t ngx_etcd_grant_take(ngx_etcd_grant_owner_t *owner,
    ngx_array_t *locks);

/*
 * Returns NGX_OK: the lock is held; NGX_AGAIN: wait; NGX_BUSY: others hold
 * the lock; NGX_DECLINED: unknown, or lost.
 */
ngx_int_t ngx_etcd_grant_result(ngx_etcd_grant_t *grant);

/*
 * Logs the loss of the lock.  Returns 1 if it ends the owner that has the pool;
 * it is the refusal of the owner then.
 */
ngx_uint_t ngx_etcd_grant_report(ngx_etcd_grant_t *grant, ngx_pool_t *pool,
    ngx_log_t *log);

/*
 * Logs newly found losses.  Returns the first grant whose loss ends its owner;
 * NULL: none, or it was already reported.
 */
ngx_etcd_grant_t *ngx_etcd_grant_lost(ngx_pool_t *pool, void *owner,
    ngx_log_t *log);

/*
 * Returns the ms for which the owner holds all locks that it has got even if no
 * lease is renewed any more.  0: it holds none, or has lost one.
 */
ngx_msec_t ngx_etcd_grant_left(ngx_pool_t *pool, void *owner);


#endif /* _NGX_ETCD_GRANT_H_INCLUDED_ */
