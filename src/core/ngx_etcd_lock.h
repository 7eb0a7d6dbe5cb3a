
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Locks of one worker: requests wait in a queue, with as many keys in etcd as
 * are useful, which is one for a lock with one permit.  A held key serves the
 * first request in the queue and then up to "handoff" more before it is
 * released; without "handoff" the transaction that releases the key also puts
 * the next one.  With "linger" the key is kept for a moment before its
 * release.
 *
 * A grant is a request's wait for a lock, or its hold on the lock.  The
 * caller owns the memory of the grant and must end the grant before it frees
 * the memory; afterwards the lock does not refer to the caller, even if etcd
 * has still to be told.
 */


#ifndef _NGX_ETCD_LOCK_H_INCLUDED_
#define _NGX_ETCD_LOCK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_lock_conf.h>


/* ms that a contended lock stays watched after its last use */

#define NGX_ETCD_LOCK_IDLE      10000

/* maximum number of idle locks */

#define NGX_ETCD_LOCK_MAX_IDLE  1024

/* ms to wait for etcd when the worker exits: on QUIT, on TERM */

#define NGX_ETCD_LOCK_RESIGN    1000
#define NGX_ETCD_LOCK_EXIT      100


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


/*
 * Requests the lock of a key made by ngx_etcd_lock_segment(), or of the name
 * alone if the key is empty.  NGX_AGAIN: handler() will be called;
 * NGX_DECLINED: the lock is not available, see "state"; NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_lock_begin(ngx_etcd_grant_t *grant, ngx_str_t *key,
    ngx_log_t *log);

/* Ends the grant in any state; no handler is called afterwards. */
void ngx_etcd_lock_end(ngx_etcd_grant_t *grant);

/* Returns 1 if the lock is held at this moment. */
ngx_uint_t ngx_etcd_lock_held(ngx_etcd_grant_t *grant);

/*
 * Returns 1 if the lock is lost although lost() was not called; lost() will
 * not be called any more.  In a process that was stopped, other events may be
 * handled before the timer that detects the loss.
 */
ngx_uint_t ngx_etcd_lock_found_lost(ngx_etcd_grant_t *grant);


/*
 * Called when the worker shuts down: leases are revoked when no lock is held
 * any more.
 */
void ngx_etcd_lock_shutdown(void);

/* Called when the worker exits. */
void ngx_etcd_lock_stop(ngx_cycle_t *cycle);


#endif /* _NGX_ETCD_LOCK_H_INCLUDED_ */
