
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Locks that are kept after their request has ended, because work that they
 * guard may still go on elsewhere.  A grant moves from its request into a
 * hold; all grants of a hold are released together.  etcd and the status see
 * no difference: the lock has the same key, token and holder as before.
 */


#ifndef _NGX_ETCD_LOCK_HOLD_H_INCLUDED_
#define _NGX_ETCD_LOCK_HOLD_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_lock_slot.h>


typedef struct ngx_etcd_lock_hold_s  ngx_etcd_lock_hold_t;

struct ngx_etcd_lock_hold_s {
    /*
     * Set by the caller.  Called from the event loop when the last lock of the
     * hold is lost; the handler may free the hold.
     */
    void                       (*lost)(ngx_etcd_lock_hold_t *hold);
    void                        *data;

    /* private */

    ngx_queue_t                  locks;
};


void ngx_etcd_lock_hold_init(ngx_etcd_lock_hold_t *hold);

/*
 * Moves the lock of the slot into the hold, if the slot holds one.  In any
 * case the slot's own grant has ended afterwards.  A lock that cannot be moved
 * for want of memory is released.
 */
void ngx_etcd_lock_hold_add(ngx_etcd_lock_hold_t *hold,
    ngx_etcd_lock_slot_t *slot);

/* 1: the hold has no lock */
ngx_uint_t ngx_etcd_lock_hold_empty(ngx_etcd_lock_hold_t *hold);

/* releases all locks of the hold, which can be used again */
void ngx_etcd_lock_hold_release(ngx_etcd_lock_hold_t *hold);


#endif /* _NGX_ETCD_LOCK_HOLD_H_INCLUDED_ */
