
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A grant is a request's wait for a lock, or its hold on the lock.  The
 * caller owns the memory of the grant and must end the grant before it frees
 * the memory; afterwards the lock does not refer to the caller, even if etcd
 * has still to be told.
 */


#ifndef _NGX_ETCD_GRANT_H_INCLUDED_
#define _NGX_ETCD_GRANT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_lock_conf.h>


typedef enum {
    NGX_ETCD_GRANT_NONE = 0,
    NGX_ETCD_GRANT_WAITING,
    NGX_ETCD_GRANT_HELD,
    NGX_ETCD_GRANT_TIMEOUT,          /* no lock in time, or the queue is
                                        full */
    NGX_ETCD_GRANT_UNAVAILABLE,      /* etcd did not answer */
    NGX_ETCD_GRANT_LOST,             /* was held, is lost */
    NGX_ETCD_GRANT_ENDED
} ngx_etcd_grant_state_e;


typedef struct ngx_etcd_grant_s     ngx_etcd_grant_t;
typedef struct ngx_etcd_lock_s      ngx_etcd_lock_t;
typedef struct ngx_etcd_lock_key_s  ngx_etcd_lock_key_t;


struct ngx_etcd_grant_s {
    /* set by the caller; other fields must be zero */

    ngx_etcd_lock_conf_t        *conf;

    /* Called from the event loop: the wait is over, see "state". */
    void                       (*handler)(ngx_etcd_grant_t *grant);

    /* Called from the event loop, after handler(): the lock is lost. */
    void                       (*lost)(ngx_etcd_grant_t *grant);
    void                        *data;

    /* read-only for the caller */

    ngx_etcd_grant_state_e       state;
    uint64_t                     token;        /* 0: never held */
    ngx_msec_t                   waited;       /* ms, when not waiting */

    /* private */

    ngx_etcd_lock_t             *lock;
    ngx_etcd_lock_key_t         *key;          /* if HELD */
    ngx_queue_t                  queue;        /* if WAITING */
    ngx_event_t                  event;        /* calls the handlers */
    ngx_event_t                  timer;
    ngx_msec_t                   since;
    unsigned                     opened:1;     /* handler() was called */
    unsigned                     expired:1;    /* the time limit was reached */
};


#endif /* _NGX_ETCD_GRANT_H_INCLUDED_ */
