
/*
 * Copyright (C) nginx-etcd contributors
 *
 * All locks of a worker in one cluster by name, and their shared client,
 * which is created when the first lock is requested.
 *
 * Their holders and waiters are published for the status of all workers.
 * Locks beyond the rows of the table are not shown.
 */


#ifndef _NGX_ETCD_WORKER_LOCKS_H_INCLUDED_
#define _NGX_ETCD_WORKER_LOCKS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_cause.h>
#include <ngx_event.h>
#include <ngx_etcd_lock_client.h>
#include <ngx_etcd_lock_conf.h>
#include <ngx_etcd_lock_table.h>
#include <ngx_etcd_mutex.h>


/*
 * The KEY of a lock is one segment of a path in etcd, of bounded length.
 *
 * Bytes other than letters, digits, and "-_.~" are percent-escaped, and so are
 * the dots of "." and "..".  If the result is longer than 64 bytes, it is cut
 * before the escape or byte that goes beyond 24 bytes, and followed by "~" and
 * the SHA-256 of the KEY, unescaped, in 64 lower case hexadecimal digits.
 *
 * Escaping is injective; a segment with a digest has 65 bytes or more, so no
 * short KEY can be equal to one.
 */

#define NGX_ETCD_LOCK_SEGMENT_PLAIN  64
#define NGX_ETCD_LOCK_SEGMENT_BEGIN  24
#define NGX_ETCD_LOCK_SEGMENT_MAX    (NGX_ETCD_LOCK_SEGMENT_BEGIN + 1 + 64)


/* ms that a contended lock stays watched after its last use */

#define NGX_ETCD_LOCK_IDLE      10000

/* maximum number of idle locks */

#define NGX_ETCD_LOCK_MAX_IDLE  1024

/* ms to wait for etcd when the worker exits: on QUIT, on TERM */

#define NGX_ETCD_LOCK_RESIGN    1000
#define NGX_ETCD_LOCK_EXIT      100

/* ms until the search for a free table of rows is repeated */

#define NGX_ETCD_LOCK_STATUS_AGAIN  1000


/* the worse states come later */

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


typedef struct ngx_etcd_grant_s        ngx_etcd_grant_t;
typedef struct ngx_etcd_lock_s         ngx_etcd_lock_t;
typedef struct ngx_etcd_lock_permit_s  ngx_etcd_lock_permit_t;


/*
 * A grant is a request's wait for a lock, or its hold on the lock.  The caller
 * owns the memory of the grant and must end the grant before it frees the
 * memory; afterwards the lock does not refer to the caller, even if etcd has
 * still to be told.
 */

struct ngx_etcd_grant_s {
    /* set by the caller; other fields must be zero */

    ngx_etcd_lock_conf_t        *conf;

    /* Called from the event loop: the wait is over, see "state". */
    void                       (*handler)(ngx_etcd_grant_t *grant);

    /* Called from the event loop, after handler(): the lock is lost. */
    void                       (*lost)(ngx_etcd_grant_t *grant);

    void                        *owner;        /* the request or session: a
                                                  pool may be shared by
                                                  several */
    ngx_str_t                    key;          /* KEY as a segment; empty: the
                                                  lock of the name alone */

    ngx_uint_t                   shared;       /* with others that share it */

    ngx_etcd_refusal_e           refusal;      /* why it was not obtained */

    /* for http and stream */

    ngx_pool_cleanup_t          *cleanup;
    ngx_uint_t                   on_lost;      /* ngx_etcd_lock_lost_e */
    ngx_uint_t                   status;       /* response status if the lock
                                                  is lost */
    ngx_uint_t                   hold;         /* ngx_etcd_lock_hold_e */
    ngx_msec_t                   max_hold;     /* or NGX_CONF_UNSET_MSEC */
    ngx_uint_t                   changes;      /* of the URI, when the owner has
                                                  last asked for the lock */

    /* read-only for the caller */

    ngx_etcd_grant_state_e       state;
    uint64_t                     token;        /* 0: never held */
    ngx_msec_t                   waited;       /* ms, when not waiting */

    /* private */

    ngx_etcd_lock_t             *lock;
    ngx_etcd_lock_permit_t      *permit;       /* if HELD */
    ngx_queue_t                  queue;        /* if WAITING: of the lock; if
                                                  HELD: of the permit */
    ngx_event_t                  event;        /* calls the handlers */
    ngx_event_t                  timer;
    ngx_msec_t                   since;
    unsigned                     opened:1;     /* handler() was called */
    unsigned                     expired:1;    /* the time limit was reached */
    unsigned                     asked:1;      /* a read was begun to get it a
                                                  kept permit */
};


typedef struct {
    ngx_etcd_conf_t             *conf;
    ngx_etcd_lock_client_t      *client;
    ngx_rbtree_t                 tree;         /* ngx_etcd_lock_t by prefix */
    ngx_rbtree_node_t            sentinel;
    ngx_queue_t                  idle;         /* idle locks, the longest idle
                                                  first */
    ngx_uint_t                   nidle;
    ngx_uint_t                   waiting;      /* number of waiting grants */
    ngx_uint_t                   held;         /* number of held grants */
    ngx_uint_t                   nkept;        /* permits that are kept */
    ngx_etcd_lock_table_t       *table;        /* rows for the status; or
                                                  NULL */
    ngx_msec_t                   claim;        /* time of the last search for a
                                                  table */
    ngx_event_t                  timer;        /* destroys idle locks */
    ngx_event_t                  resign;       /* keeps the worker until etcd
                                                  answers */
} ngx_etcd_worker_locks_t;


struct ngx_etcd_lock_s {
    ngx_str_node_t               node;         /* the string is the prefix */
    ngx_etcd_worker_locks_t     *locks;
    ngx_etcd_lock_name_t        *name;
    ngx_etcd_lock_queue_t        lock_queue;   /* with the pool of the lock */
    ngx_queue_t                  waiters;      /* grants, FIFO */
    ngx_uint_t                   nwaiters;
    ngx_etcd_lock_row_t         *row;          /* row of the waiters; or
                                                  NULL */
    ngx_queue_t                  permits;      /* held or waited for; not more
                                                  than name->permits */
    ngx_uint_t                   npermits;
    ngx_uint_t                   nshared;      /* permits of shared keys */
    ngx_uint_t                   nheld;        /* permits with grants */
    ngx_uint_t                   nkept;        /* permits that are kept */
    ngx_event_t                  post;
    ngx_queue_t                  rest;         /* in worker's locks->idle */
    ngx_msec_t                   since;        /* start of being idle */
    unsigned                     idle:1;
    unsigned                     taken:1;      /* a key of those who wait had
                                                  to wait for other clients */
};


/*
 * A permit to hold the lock, which this worker has or waits for: its key in
 * etcd, and the grant that it serves, or the grants if the key is shared.
 */

struct ngx_etcd_lock_permit_s {
    ngx_queue_t                  queue;
    ngx_etcd_mutex_t            *mutex;
    ngx_etcd_lock_t             *lock;
    ngx_queue_t                  grants;       /* empty: not held */
    ngx_uint_t                   ngrants;
    ngx_uint_t                   handoffs;     /* since the key was put; its
                                                  token does not change while it
                                                  is shared */
    ngx_msec_t                   since;        /* time of first hold */
    ngx_event_t                  timer;        /* a kept one is over */
    ngx_etcd_lock_row_t         *row;          /* row of the holder; or NULL */
    ngx_etcd_lock_read_t        *read;         /* check of a kept key; NULL:
                                                  none is pending */
    unsigned                     kept:1;       /* see ngx_etcd_lock_permit.h */
    unsigned                     mine:1;       /* the read has found this key
                                                  alone */
    unsigned                     over:1;       /* to be removed */
};


/* the grant that has waited for the longest time, where nwaiters is not 0 */
#define ngx_etcd_lock_first(lock)                                             \
    (ngx_queue_data(ngx_queue_head(&(lock)->waiters), ngx_etcd_grant_t, queue))


/* Returns the locks of the cluster in this worker; NULL: no memory. */
ngx_etcd_worker_locks_t *ngx_etcd_worker_locks_get(ngx_etcd_conf_t *conf);

/*
 * Returns the lock of that key, created if needed; NULL: no memory.  post() is
 * called when keys of the lock have changed.
 */
ngx_etcd_lock_t *ngx_etcd_worker_locks_lock(ngx_etcd_worker_locks_t *locks,
    ngx_etcd_lock_name_t *name, ngx_str_t *key, ngx_event_handler_pt post);

/*
 * Called when a lock has neither waiters nor holders; the lock may be freed.
 */
void ngx_etcd_worker_locks_rest(ngx_etcd_lock_t *lock);

/* Called when a lock is used again. */
void ngx_etcd_worker_locks_use(ngx_etcd_lock_t *lock);

/*
 * Called when a grant has ended; a worker that shuts down revokes its leases
 * after the last one.
 */
void ngx_etcd_worker_locks_left(ngx_etcd_worker_locks_t *locks);


/*
 * Called when the worker shuts down: leases are revoked when no lock is held
 * any more.
 */
void ngx_etcd_worker_locks_shutdown(void);

/* Called when the worker exits. */
void ngx_etcd_worker_locks_stop(ngx_cycle_t *cycle);


/* Change the number of grants held or awaited by this worker by n. */
void ngx_etcd_lock_status_held(ngx_etcd_lock_t *lock, ngx_int_t n);
void ngx_etcd_lock_status_waiting(ngx_etcd_lock_t *lock, ngx_int_t n);

/*
 * Shows the holders of the permit, instead of the former ones if there were
 * any.
 */
void ngx_etcd_lock_status_holder(ngx_etcd_lock_permit_t *permit);

/* Removes the holder, if shown. */
void ngx_etcd_lock_status_free(ngx_etcd_lock_permit_t *permit);


#endif /* _NGX_ETCD_WORKER_LOCKS_H_INCLUDED_ */
