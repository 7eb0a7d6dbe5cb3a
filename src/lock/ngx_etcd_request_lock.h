
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The locks of one request or session; common to http and stream.  They are
 * found in the cleanup list of the pool, because an internal redirect clears
 * the contexts of a request, and contexts are gone when the request is
 * logged.
 */


#ifndef _NGX_ETCD_LOCK_SLOT_H_INCLUDED_
#define _NGX_ETCD_LOCK_SLOT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_lock.h>
#include <ngx_etcd_lock_segment.h>


typedef struct ngx_etcd_lock_slot_s  ngx_etcd_lock_slot_t;

struct ngx_etcd_lock_slot_s {
    void                        *owner;        /* the request or session: a
                                                  pool may be shared by
                                                  several */
    ngx_str_t                    key;          /* KEY as a segment */
    ngx_etcd_grant_t             grant;
    ngx_etcd_lock_slot_t        *lender;       /* slot of another owner with
                                                  the lock that this owner
                                                  uses; NULL: own grant */
    ngx_uint_t                   lost;         /* ngx_etcd_lock_lost_e */
    ngx_uint_t                   status;       /* response status if the lock
                                                  is lost */
    ngx_uint_t                   hold;         /* ngx_etcd_lock_hold_e */
    ngx_msec_t                   max_hold;     /* or NGX_CONF_UNSET_MSEC */
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
 * Adds a zeroed slot with these fields set; the slot is released with the
 * pool.
 */
ngx_etcd_lock_slot_t *ngx_etcd_lock_slot_add(ngx_pool_t *pool, void *owner,
    ngx_etcd_lock_conf_t *conf);

/* Iterates over slots, the newest first, starting with NULL; NULL: no more. */
ngx_etcd_lock_slot_t *ngx_etcd_lock_slot_next(ngx_pool_t *pool,
    ngx_etcd_lock_slot_t *slot);

/* Returns the slot of a directive; NULL: there is none. */
ngx_etcd_lock_slot_t *ngx_etcd_lock_slot_find(ngx_pool_t *pool, void *owner,
    ngx_etcd_lock_conf_t *conf);

/* Returns the grant of the slot or of its lender. */
ngx_etcd_grant_t *ngx_etcd_lock_slot_grant(ngx_etcd_lock_slot_t *slot);

/* Returns 1 if the slot is for that lock and key. */
ngx_uint_t ngx_etcd_lock_slot_same(ngx_etcd_lock_slot_t *slot,
    ngx_etcd_lock_conf_t *conf, ngx_str_t *key);

/* Releases all locks that the owner holds or awaits, the newest first. */
void ngx_etcd_lock_slot_release(ngx_pool_t *pool, void *owner);

/*
 * Returns NGX_OK: the lock is held; NGX_AGAIN: wait; NGX_BUSY: others hold
 * the lock; NGX_DECLINED: unknown, or lost.
 */
ngx_int_t ngx_etcd_lock_slot_result(ngx_etcd_lock_slot_t *slot);

/* Logs the loss of the lock. */
void ngx_etcd_lock_slot_report(ngx_etcd_lock_slot_t *slot, ngx_log_t *log);


#endif /* _NGX_ETCD_LOCK_SLOT_H_INCLUDED_ */
