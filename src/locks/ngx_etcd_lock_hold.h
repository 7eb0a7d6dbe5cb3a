
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Locks that are kept after their request has ended, because the work that
 * they protect may still go on elsewhere.  A grant moves from its request
 * into a hold; all grants of a hold are released together.  etcd and the
 * status see no difference: the lock has the same key, token and holder as
 * before.
 */


#ifndef _NGX_ETCD_LOCK_HOLD_H_INCLUDED_
#define _NGX_ETCD_LOCK_HOLD_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_request_lock.h>


typedef struct ngx_etcd_lock_hold_s  ngx_etcd_lock_hold_t;

struct ngx_etcd_lock_hold_s {
    /*
     * Set by the caller.  Called from the event loop when the last lock of
     * the hold is lost; the handler may free the hold.
     */
    void                       (*lost)(ngx_etcd_lock_hold_t *hold);
    void                        *data;

    /* private */

    ngx_queue_t                  locks;
};


void ngx_etcd_lock_hold_init(ngx_etcd_lock_hold_t *hold);

/*
 * Moves the lock of a request into the hold, if the request holds it.  The
 * request's own grant has ended in any case.  A lock that cannot be moved
 * because there is no memory is released.
 */
void ngx_etcd_lock_hold_add(ngx_etcd_lock_hold_t *hold,
    ngx_etcd_request_lock_t *rl);

/* Returns 1 if the hold has no locks. */
ngx_uint_t ngx_etcd_lock_hold_empty(ngx_etcd_lock_hold_t *hold);

/* Releases all locks of the hold, which can be reused. */
void ngx_etcd_lock_hold_release(ngx_etcd_lock_hold_t *hold);


#endif /* _NGX_ETCD_LOCK_HOLD_H_INCLUDED_ */
