
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Locks as one worker has them: those who want one stand in a queue here, with
 * as many keys in etcd as may help, which is one where a lock has one permit.
 * A key that is held serves the first of the queue, and then up to "handoff"
 * others before it is given up; without handoff it is given up by the same
 * transaction that puts the next one.  With "linger" it is kept for a moment
 * before that.
 *
 * A grant is what somebody wants, or has.  It is the caller's, who ends it
 * before its memory goes; from then on nothing of the lock is the caller's
 * concern, whatever etcd has still to be told.
 */


#ifndef _NGX_ETCD_LOCK_H_INCLUDED_
#define _NGX_ETCD_LOCK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_lock_conf.h>


/* ms: a lock that was contended is watched for so long after its last use */

#define NGX_ETCD_LOCK_IDLE      10000

/* so many of these */

#define NGX_ETCD_LOCK_MAX_IDLE  1024

/* ms for etcd to answer when the worker exits, as for agents */

#define NGX_ETCD_LOCK_RESIGN    1000
#define NGX_ETCD_LOCK_EXIT      100


typedef enum {
    NGX_ETCD_GRANT_NONE = 0,
    NGX_ETCD_GRANT_WAITING,
    NGX_ETCD_GRANT_HELD,
    NGX_ETCD_GRANT_TIMEOUT,          /* not within the time, or too many wait */
    NGX_ETCD_GRANT_UNAVAILABLE,      /* etcd has not said */
    NGX_ETCD_GRANT_LOST,             /* it was held */
    NGX_ETCD_GRANT_ENDED
} ngx_etcd_grant_state_e;


typedef struct ngx_etcd_grant_s     ngx_etcd_grant_t;
typedef struct ngx_etcd_lock_s      ngx_etcd_lock_t;
typedef struct ngx_etcd_lock_key_s  ngx_etcd_lock_key_t;


struct ngx_etcd_grant_s {
    /* set by the caller, the rest zeroed */

    ngx_etcd_lock_conf_t        *conf;

    /* from the event loop: it waits no longer, the state says what it has */
    void                       (*handler)(ngx_etcd_grant_t *grant);

    /* likewise, after that: what it had is lost */
    void                       (*lost)(ngx_etcd_grant_t *grant);
    void                        *data;

    /* to be read */

    ngx_etcd_grant_state_e       state;
    uint64_t                     token;        /* 0: it never had one */
    ngx_msec_t                   waited;       /* ms, once it does not wait */

    /* private */

    ngx_etcd_lock_t             *lock;
    ngx_etcd_lock_key_t         *key;          /* held */
    ngx_queue_t                  queue;        /* waiting */
    ngx_event_t                  event;        /* the handlers' */
    ngx_event_t                  timer;
    ngx_msec_t                   since;
    unsigned                     opened:1;     /* the handler was called */
    unsigned                     expired:1;    /* the time to wait is over */
};


/*
 * Asks for the lock of that key, an ngx_etcd_lock_segment(), or of the name
 * alone if it is empty.  NGX_AGAIN: the handler will be called; NGX_DECLINED:
 * it is not to be had, as the state says; NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_lock_begin(ngx_etcd_grant_t *grant, ngx_str_t *key,
    ngx_log_t *log);

/* in any state: no handler is called any more */
void ngx_etcd_lock_end(ngx_etcd_grant_t *grant);

/* 1: it is held, at this very moment */
ngx_uint_t ngx_etcd_lock_held(ngx_etcd_grant_t *grant);

/*
 * 1: what it had is lost, though lost() was not called yet, and will not be.
 * In a process that was stopped much may be there to be done before the timer
 * that would have said so.
 */
ngx_uint_t ngx_etcd_lock_found_lost(ngx_etcd_grant_t *grant);


/* the worker shuts down: leases are given up when nothing is held any more */
void ngx_etcd_lock_shutdown(void);

/* it exits */
void ngx_etcd_lock_stop(ngx_cycle_t *cycle);


#endif /* _NGX_ETCD_LOCK_H_INCLUDED_ */
