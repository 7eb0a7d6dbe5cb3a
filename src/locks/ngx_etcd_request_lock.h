
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The locks of one request or session; common to http and stream.  They are
 * found in the cleanup list of the pool, because an internal redirect clears
 * the contexts of a request, and contexts are gone when the request is
 * logged.
 */


#ifndef _NGX_ETCD_REQUEST_LOCK_H_INCLUDED_
#define _NGX_ETCD_REQUEST_LOCK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_lock.h>


typedef struct ngx_etcd_request_lock_s  ngx_etcd_request_lock_t;

struct ngx_etcd_request_lock_s {
    void                        *owner;        /* the request or session: a
                                                  pool may be shared by
                                                  several */
    ngx_str_t                    key;          /* KEY as a segment */
    ngx_etcd_grant_t             grant;
    ngx_uint_t                   lost;         /* ngx_etcd_lock_lost_e */
    ngx_uint_t                   status;       /* response status if the lock
                                                  is lost */
    ngx_uint_t                   hold;         /* ngx_etcd_lock_hold_e */
    ngx_msec_t                   max_hold;     /* or NGX_CONF_UNSET_MSEC */
    ngx_uint_t                   changes;      /* for http */
    ngx_pool_cleanup_t          *cleanup;
};


typedef ngx_int_t (*ngx_etcd_lock_variable_pt)(ngx_str_t *name,
    ngx_pool_t *pool, void *owner, ngx_variable_value_t *v);

typedef struct {
    ngx_str_t                    name;
    ngx_etcd_lock_variable_pt    get;
} ngx_etcd_lock_variable_t;


/* the last one has an empty name */
extern ngx_etcd_lock_variable_t  ngx_etcd_lock_variables[];


/*
 * Adds a zeroed request lock with these fields set, which is released with the
 * pool.
 */
ngx_etcd_request_lock_t *ngx_etcd_request_lock_add(ngx_pool_t *pool,
    void *owner, ngx_etcd_lock_conf_t *conf);

/*
 * Iterates over request locks, the newest first, starting with NULL; NULL: no
 * more.
 */
ngx_etcd_request_lock_t *ngx_etcd_request_lock_next(ngx_pool_t *pool,
    ngx_etcd_request_lock_t *rl);

/* Returns the request lock of a directive; NULL: there is none. */
ngx_etcd_request_lock_t *ngx_etcd_request_lock_find(ngx_pool_t *pool,
    void *owner, ngx_etcd_lock_conf_t *conf);

/* Returns 1 if the request lock is for that lock and key. */
ngx_uint_t ngx_etcd_request_lock_same(ngx_etcd_request_lock_t *rl,
    ngx_etcd_lock_conf_t *conf, ngx_str_t *key);

/* Releases all locks that the owner holds or awaits, the newest first. */
void ngx_etcd_request_lock_release(ngx_pool_t *pool, void *owner);

/* The part of http or stream in taking the locks of an owner. */

typedef struct {
    void                        *owner;
    ngx_pool_t                  *pool;
    ngx_log_t                   *log;

    /* evaluates KEY of a lock */
    ngx_int_t                  (*value)(void *owner, void *key,
                                        ngx_str_t *value);

    /*
     * Adds a request lock with that key, which is empty if the lock has none,
     * and begins its grant; or finds one that the owner may use.  NULL: no
     * memory, or the owner may not take the lock.
     */
    ngx_etcd_request_lock_t   *(*take)(void *owner, ngx_etcd_lock_conf_t *conf,
                                       ngx_str_t *key);

    /* NGX_OK: the lock is held; else what the phase returns */
    ngx_int_t                  (*result)(void *owner,
                                         ngx_etcd_request_lock_t *rl);
} ngx_etcd_request_lock_owner_t;

/*
 * Takes the locks of an array of ngx_etcd_lock_conf_t one after another.  May
 * be called again: an owner has one request lock for a directive.  All keys
 * are checked first: an owner that is refused for the key of one lock takes
 * none of the others.
 *
 *     NGX_OK        all locks are held
 *     NGX_ERROR     take() has failed, or no memory
 *     NGX_DECLINED  a key is empty, which was logged
 *     other         what result() returned
 */
ngx_int_t ngx_etcd_request_lock_take(ngx_etcd_request_lock_owner_t *owner,
    ngx_array_t *locks);

/*
 * Returns NGX_OK: the lock is held; NGX_AGAIN: wait; NGX_BUSY: others hold
 * the lock; NGX_DECLINED: unknown, or lost.
 */
ngx_int_t ngx_etcd_request_lock_result(ngx_etcd_request_lock_t *rl);

/* Logs the loss of the lock. */
void ngx_etcd_request_lock_report(ngx_etcd_request_lock_t *rl,
    ngx_log_t *log);


#endif /* _NGX_ETCD_REQUEST_LOCK_H_INCLUDED_ */
