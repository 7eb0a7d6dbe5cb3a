
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A lock queue: all keys below the prefix of one lock, of this client and of
 * others, in the order of their creation.  The first keys, as many as there are
 * permits, hold the lock.
 *
 * A key whose name ends in "-shared" shares the lock: it waits for earlier keys
 * of other names only, which are exclusive.  Who does not know of this, such as
 * etcd's own clients, takes it for an exclusive one and waits longer than it
 * had to, but never less.  The name says it, since it cannot be changed while
 * the key exists, as a value could.
 *
 * The prefix is watched from the time when a key waits, or has been held for a
 * while, until the lock queue is closed.
 *
 * A watch may be silent because nothing happens, or because events are delayed:
 * after a partition, TCP retransmits with pauses of seconds, and an endpoint
 * may lag behind the cluster.  While a key of this client waits and the watch
 * is silent, a linearizable Range reads the first keys of the lock queue.  If
 * the waiting key is among the first, it holds the lock, whatever the watch has
 * reported: keys that are put later have higher create revisions.
 *
 * The lock queues of one process in one cluster share a lock client: a client
 * of their own, the session whose lease their keys have, the batch that puts
 * and deletes keys, and the stream that watches their prefixes.
 */


#ifndef _NGX_ETCD_LOCK_QUEUE_H_INCLUDED_
#define _NGX_ETCD_LOCK_QUEUE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_cause.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_kv.h>
#include <ngx_etcd_mirror.h>
#include <ngx_etcd_mirror_entry.h>
#include <ngx_etcd_session.h>
#include <ngx_etcd_txn_batch.h>
#include <ngx_etcd_watch.h>


/*
 * ms between two checks of what is not known for certain, plus a random time up
 * to as much
 */

#define NGX_ETCD_LOCK_CLIENT_TICK  100

/* ms; a key that is held for longer is watched */

#define NGX_ETCD_LOCK_CLIENT_YOUNG  100

/*
 * ms, on average, until the deletion of a key is repeated; twice as long after
 * each further failure, DOUBLINGS times at most
 */

#define NGX_ETCD_LOCK_CLIENT_AGAIN      1000
#define NGX_ETCD_LOCK_CLIENT_DOUBLINGS  3


typedef struct {
    ngx_etcd_cluster_t          *cluster;
    ngx_etcd_watch_stream_t     *stream;
    ngx_etcd_session_t           session;
    ngx_etcd_txn_batch_t         batch;
    ngx_rbtree_t                 mutexes;      /* by the names of their keys */
    ngx_rbtree_node_t            sentinel;

    ngx_str_t                    name;         /* for logs */
    ngx_queue_t                  lock_queues;  /* of ngx_etcd_lock_queue_t */
    ngx_queue_t                  leaving;      /* of ngx_etcd_mutex_t: released,
                                                  without a lock queue */
    ngx_queue_t                  young;        /* of ngx_etcd_mutex_t: held, not
                                                  watched; oldest first */
    ngx_event_t                  timer;        /* of checks */
    ngx_etcd_lease_ttl_t         search;       /* for keys without a mutex */
    uint64_t                     unknown;      /* ngx_etcd_clock() of the last
                                                  unknown outcome; 0: none since
                                                  the lease is held */
    ngx_msec_t                   searched;     /* when a search has ended */
    ngx_uint_t                   nmutexes;     /* of all lock queues, and
                                                  released ones */
    ngx_uint_t                   nundeleted;   /* released ones, of which a
                                                  deletion has failed */
    ngx_etcd_causes_t            causes;       /* of those failures */
    uint64_t                     serial;       /* last number of a key */
    ngx_str_t                    prefix;       /* of some lock, with the
                                                  namespace; empty: none yet */

    void                       (*ended)(void *data);
    void                        *data;
    unsigned                     again:1;      /* requested after the end */
    unsigned                     searching:1;
    unsigned                     answered:1;   /* the search */
} ngx_etcd_lock_client_t;


typedef enum {
    NGX_ETCD_MUTEX_PENDING = 0,
    NGX_ETCD_MUTEX_ACQUIRING,
    NGX_ETCD_MUTEX_WAITING,
    NGX_ETCD_MUTEX_CHECKING,
    NGX_ETCD_MUTEX_HELD,
    NGX_ETCD_MUTEX_LOST,
    NGX_ETCD_MUTEX_FAILED,
    NGX_ETCD_MUTEX_RELEASING
} ngx_etcd_mutex_state_e;


typedef struct ngx_etcd_mutex_s       ngx_etcd_mutex_t;
typedef struct ngx_etcd_lock_queue_s  ngx_etcd_lock_queue_t;

/* a read of the first keys, see ngx_etcd_lock_read_start() */
typedef struct ngx_etcd_lock_read_s   ngx_etcd_lock_read_t;


/* handlers of a key of this client, for the lock queue */

typedef struct {
    /* PENDING: the key may be put now */
    void                       (*put)(ngx_etcd_mutex_t *mutex);

    /* PENDING: the key cannot be put */
    void                       (*fail)(ngx_etcd_mutex_t *mutex,
                                       ngx_etcd_grpc_status_e status);

    /* WAITING: keys came or went, and the key exists */
    void                       (*look)(ngx_etcd_mutex_t *mutex);

    /* WAITING: a read has found the key among the first ones */
    void                       (*first)(ngx_etcd_mutex_t *mutex);

    /* the key does not exist any more */
    void                       (*gone)(ngx_etcd_mutex_t *mutex);
} ngx_etcd_mutex_handlers_t;


/* a key of this client, see ngx_etcd_mutex.h */

struct ngx_etcd_mutex_s {
    ngx_etcd_mutex_state_e       state;
    ngx_etcd_grpc_status_e       status;       /* of FAILED */
    int64_t                      created;      /* create revision; 0: none */
    ngx_str_t                    key;          /* with the namespace */
    ngx_str_t                    own;          /* without the namespace */

    /* private */

    const ngx_etcd_mutex_handlers_t  *handlers;
    ngx_queue_t                  queue;        /* mutexes or leaving, of the
                                                  queue or of the session */
    ngx_etcd_lock_client_t      *client;
    ngx_etcd_lock_queue_t       *lock_queue;   /* NULL: the mutex has left it */
    ngx_queue_t                  age;          /* in client->young */
    uint64_t                     since;        /* of HELD, ngx_etcd_clock() */
    int64_t                      lease;
    ngx_str_node_t               node;         /* in client->mutexes */
    ngx_uint_t                   number;       /* in the key's name; 0: not
                                                  named */
    ngx_uint_t                   failures;     /* of deletions */
    ngx_etcd_txn_op_t            op;
    ngx_etcd_lock_read_t        *read;         /* of CHECKING */
    ngx_event_t                  timer;        /* of the next deletion */
    unsigned                     shared:1;
    unsigned                     writing:1;
    unsigned                     young:1;
    unsigned                     doubtful:1;   /* etcd may put the key once
                                                  more */
};


/* ms that a watch is silent before its lock queue is read */

#define NGX_ETCD_LOCK_QUEUE_QUIET   250

/* ms until a lock queue is read although its watch is not silent */

#define NGX_ETCD_LOCK_QUEUE_DOUBT   10000

/* ms that a watch may be behind a read */

#define NGX_ETCD_LOCK_QUEUE_LAG     1000


/* reads of a lock queue while a key waits */

typedef struct {
    ngx_etcd_lock_read_t        *asked;        /* NULL: no read is pending */
    ngx_msec_t                   heard;        /* when the watch or a read last
                                                  reported something */
    ngx_msec_t                   read;         /* when a key began to wait, or a
                                                  read was answered */
    ngx_msec_t                   ahead;        /* since when a read is ahead of
                                                  the watch */
    unsigned                     missed:1;     /* "ahead" is set */
} ngx_etcd_lock_queue_poll_t;


/* numbers of keys that are kept for reuse */

#define NGX_ETCD_LOCK_QUEUE_FREE  8


struct ngx_etcd_lock_queue_s {
    /* set by the caller, the rest zeroed */

    ngx_etcd_lock_client_t      *client;
    ngx_str_t                    prefix;       /* without the namespace, with
                                                  the slash; must stay */
    ngx_uint_t                   permits;
    ngx_uint_t                   shared;       /* there are shared keys */
    ngx_pool_t                  *pool;         /* of this lock queue */
    ngx_event_t                 *news;         /* posted when keys of any client
                                                  have come or gone, or the
                                                  state of a key of this client
                                                  has changed */

    /* private */

    ngx_queue_t                  queue;        /* in client->lock_queues */
    ngx_queue_t                  mutexes;      /* of this client */
    ngx_str_t                    from;         /* the range, with the
                                                  namespace */
    ngx_str_t                    to;
    ngx_etcd_mirror_t            mirror;       /* of all keys */
    ngx_queue_t                  leaving;      /* released keys of this
                                                  client */
    ngx_etcd_lock_queue_poll_t   poll;
    ngx_uint_t                   free[NGX_ETCD_LOCK_QUEUE_FREE];
    ngx_uint_t                   nfree;        /* in free[] */
    int64_t                      lease;        /* of the numbers in free[] */
    int64_t                      latest;       /* create revision of their keys,
                                                  the greatest one: a key that
                                                  is put has a greater one,
                                                  unless etcd has another
                                                  history */
    unsigned                     acquiring:1;  /* a key is being put */
    unsigned                     watched:1;
    unsigned                     changed:1;    /* keys have come or gone */
    unsigned                     newer:1;      /* a key of this client was newer
                                                  than the mirror */
    unsigned                     foreign:1;    /* was logged */
};


/*
 * Tells the prefix of a lock, including the namespace.  The first prefix is
 * kept: a key of that name is the witness of renewals while the key of no held
 * lock can be one.  Without memory, the next prefix is kept.
 */
void ngx_etcd_lock_queue_know(ngx_etcd_lock_client_t *client,
    ngx_str_t *prefix);

/*
 * A lock is wanted, held, or being released from enter() to leave(): meanwhile
 * pauses before attempts to reach etcd are short.
 */
void ngx_etcd_lock_client_enter(ngx_etcd_lock_client_t *client);
void ngx_etcd_lock_client_leave(ngx_etcd_lock_client_t *client);

/* Reports that a released key was not deleted, which is repeated later. */
void ngx_etcd_lock_client_undeleted(ngx_etcd_mutex_t *mutex,
    ngx_etcd_grpc_status_e status, ngx_str_t *text);

/* Something is not known for certain, and is checked soon. */
void ngx_etcd_lock_client_check(ngx_etcd_lock_client_t *client);

/*
 * The lease may have a key of which no mutex knows: the keys of the lease are
 * searched until it is given up.
 */
void ngx_etcd_lock_client_unknown(ngx_etcd_lock_client_t *client);

/*
 * Returns the ms for which the lease is held, and no other client can have its
 * keys, even if the lease is not renewed any more.  0: not now.
 */
ngx_msec_t ngx_etcd_lock_client_left(ngx_etcd_lock_client_t *client);


/*
 * Called once, unless the read was ended: the response is NULL unless the
 * status is OK.  All arguments are valid until the handler returns.
 */
typedef void (*ngx_etcd_lock_read_pt)(void *data,
    ngx_etcd_grpc_status_e status, ngx_str_t *text,
    Etcd__RangeResponse *response);

/*
 * Reads the first keys of the lock queue: one more than the permits, or all if
 * there are shared ones.  The caller's pointer is NULL before, and from the
 * call of done() on.  NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_lock_read_start(ngx_etcd_lock_read_t **read,
    ngx_etcd_lock_queue_t *lock_queue, ngx_etcd_lock_read_pt done, void *data);

/* Ends the read, if there is one. */
void ngx_etcd_lock_read_end(ngx_etcd_lock_read_t **read);


/* the end of the name of a shared key */
extern const ngx_str_t  ngx_etcd_lock_queue_shared;

/* Returns 1 if the name is that of a shared key. */
ngx_uint_t ngx_etcd_lock_queue_is_shared(u_char *name, size_t len);


/* Joins the lock queue to the session.  NGX_ERROR: no memory. */
ngx_int_t ngx_etcd_lock_queue_open(ngx_etcd_lock_queue_t *lock_queue);

/*
 * To be called when no key of this client is left.  NGX_AGAIN: not possible
 * now, call again later.  After NGX_OK the caller destroys the pool.
 */
ngx_int_t ngx_etcd_lock_queue_close(ngx_etcd_lock_queue_t *lock_queue);

/* Watches the prefix from now on. */
void ngx_etcd_lock_queue_watch(ngx_etcd_lock_queue_t *lock_queue);

/*
 * Puts the next pending key, unless another one is being put.  If etcd has no
 * room for a lease, all pending keys are refused until it is asked again.
 */
void ngx_etcd_lock_queue_put_next(ngx_etcd_lock_queue_t *lock_queue);

/* Returns NULL if this client has no key in that state. */
ngx_etcd_mutex_t *ngx_etcd_lock_queue_first(ngx_etcd_lock_queue_t *lock_queue,
    ngx_etcd_mutex_state_e state);

/* Returns 1 if the key, which was put, is known to be gone. */
ngx_uint_t ngx_etcd_lock_queue_lost(ngx_etcd_mutex_t *mutex);

/* Returns 1 if the key is among the first ones of its lock queue. */
ngx_uint_t ngx_etcd_lock_queue_won(ngx_etcd_mutex_t *mutex);

/*
 * Tells whether its lock queue has keys that do not share the lock with this
 * one.  NGX_OK: no; NGX_BUSY: yes; NGX_AGAIN: not known.
 */
ngx_int_t ngx_etcd_lock_queue_others(ngx_etcd_mutex_t *mutex);

/* A key waits: the prefix is watched, and read while the watch is silent. */
void ngx_etcd_lock_queue_wait(ngx_etcd_lock_queue_t *lock_queue);

/*
 * Returns 1, once, if the watch is active, but has not reported for
 * NGX_ETCD_LOCK_QUEUE_LAG ms what a read has.
 */
ngx_uint_t ngx_etcd_lock_queue_lags(ngx_etcd_lock_queue_t *lock_queue);

/* Ends a running read. */
void ngx_etcd_lock_queue_stop_read(ngx_etcd_lock_queue_t *lock_queue);


#endif /* _NGX_ETCD_LOCK_QUEUE_H_INCLUDED_ */
