
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The locks of one request or session, as http and stream share them.  They
 * are found among the cleanups of the pool: what else belongs to a request is
 * cleared by an internal redirect, or gone when it is logged.
 */


#ifndef _NGX_ETCD_LOCK_SLOT_H_INCLUDED_
#define _NGX_ETCD_LOCK_SLOT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_lock.h>
#include <ngx_etcd_lock_segment.h>


typedef struct ngx_etcd_lock_slot_s  ngx_etcd_lock_slot_t;

struct ngx_etcd_lock_slot_s {
    void                        *owner;        /* whose pool may be that of
                                                  others, too */
    ngx_str_t                    key;          /* as a segment */
    ngx_etcd_grant_t             grant;
    ngx_etcd_lock_slot_t        *lender;       /* the owner relies on the lock
                                                  of this slot, and has no
                                                  grant; NULL: it has */
    ngx_uint_t                   lost;         /* ngx_etcd_lock_lost_e */
    ngx_uint_t                   status;       /* where it is lost */
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


/* all of them; the last one has an empty name */
extern ngx_etcd_lock_variable_t  ngx_etcd_lock_variables[];


/* a new one, zeroed but for these; it ends with the pool */
ngx_etcd_lock_slot_t *ngx_etcd_lock_slot_add(ngx_pool_t *pool, void *owner,
    ngx_etcd_lock_conf_t *conf);

/* the last one first, after NULL; NULL: no more */
ngx_etcd_lock_slot_t *ngx_etcd_lock_slot_next(ngx_pool_t *pool,
    ngx_etcd_lock_slot_t *slot);

/* that of a directive; NULL: there is none */
ngx_etcd_lock_slot_t *ngx_etcd_lock_slot_find(ngx_pool_t *pool, void *owner,
    ngx_etcd_lock_conf_t *conf);

/* that of the slot, or of the slot that it relies on */
ngx_etcd_grant_t *ngx_etcd_lock_slot_grant(ngx_etcd_lock_slot_t *slot);

/* 1: it is for that very lock */
ngx_uint_t ngx_etcd_lock_slot_same(ngx_etcd_lock_slot_t *slot,
    ngx_etcd_lock_conf_t *conf, ngx_str_t *key);

/* all that the owner has or waits for, the last one first */
void ngx_etcd_lock_slot_release(ngx_pool_t *pool, void *owner);

/*
 * Whether it lets its owner in: NGX_OK, NGX_AGAIN, NGX_BUSY (others have it),
 * or NGX_DECLINED (it cannot be said, or is lost).
 */
ngx_int_t ngx_etcd_lock_slot_result(ngx_etcd_lock_slot_t *slot);

/* in the log: it is lost */
void ngx_etcd_lock_slot_report(ngx_etcd_lock_slot_t *slot, ngx_log_t *log);


#endif /* _NGX_ETCD_LOCK_SLOT_H_INCLUDED_ */
