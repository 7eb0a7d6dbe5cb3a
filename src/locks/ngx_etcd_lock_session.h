
/*
 * Copyright (C) nginx-etcd contributors
 *
 * State that all locks of one process in one cluster share: a client of their
 * own, the session whose lease their keys have, the batch that puts and deletes
 * keys, and the stream that watches their prefixes.
 */


#ifndef _NGX_ETCD_LOCK_SESSION_H_INCLUDED_
#define _NGX_ETCD_LOCK_SESSION_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_lease_ttl.h>
#include <ngx_etcd_session.h>
#include <ngx_etcd_txn_batch.h>
#include <ngx_etcd_watch.h>


/*
 * ms between two checks of what is not known for certain, plus a random time up
 * to as much
 */

#define NGX_ETCD_LOCK_SESSION_TICK  100

/* ms; a key that is held for longer is watched */

#define NGX_ETCD_LOCK_SESSION_YOUNG  100

/*
 * ms, on average, until the deletion of a key is repeated; twice as long after
 * each further failure, DOUBLINGS times at most
 */

#define NGX_ETCD_LOCK_SESSION_AGAIN      1000
#define NGX_ETCD_LOCK_SESSION_DOUBLINGS  3


typedef struct {
    ngx_etcd_cluster_t          *cluster;
    ngx_etcd_watch_stream_t     *stream;
    ngx_etcd_lease_stream_t     *leases;
    ngx_etcd_session_t           session;
    ngx_etcd_txn_batch_t         batch;
    ngx_rbtree_t                 keys;         /* of mutexes, by name */
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
    uint64_t                     serial;       /* last number of a key */
    ngx_str_t                    prefix;       /* of some lock, with the
                                                  namespace; empty: none yet */

    void                       (*ended)(void *data);
    void                        *data;
    unsigned                     again:1;      /* requested after the end */
    unsigned                     searching:1;
    unsigned                     answered:1;   /* the search */
} ngx_etcd_lock_session_t;


/*
 * Tells the prefix of a lock, including the namespace.  The first prefix is
 * kept: a key of that name is the witness of renewals while the key of no held
 * lock can be one.  Without memory, the next prefix is kept.
 */
void ngx_etcd_lock_session_know(ngx_etcd_lock_session_t *locks,
    ngx_str_t *prefix);

/*
 * A lock is wanted, held, or being released from enter() to leave(): meanwhile
 * pauses before attempts to reach etcd are short.
 */
void ngx_etcd_lock_session_enter(ngx_etcd_lock_session_t *locks);
void ngx_etcd_lock_session_leave(ngx_etcd_lock_session_t *locks);

/*
 * Reports that a released key was not deleted, the given number of times before
 * now.  Returns the time, in ms, until the deletion is repeated.
 */
ngx_msec_t ngx_etcd_lock_session_undeleted(ngx_etcd_lock_session_t *locks,
    ngx_str_t *key, ngx_uint_t failures, ngx_etcd_grpc_status_e status,
    ngx_str_t *text);

/* Something is not known for certain, and is checked soon. */
void ngx_etcd_lock_session_check(ngx_etcd_lock_session_t *locks);

/*
 * The lease may have a key of which no mutex knows: the keys of the lease are
 * searched until it is given up.
 */
void ngx_etcd_lock_session_unknown(ngx_etcd_lock_session_t *locks);

/* Returns 1 if the lease is held, and no other client can have its keys now. */
ngx_uint_t ngx_etcd_lock_session_valid(ngx_etcd_lock_session_t *locks);


#endif /* _NGX_ETCD_LOCK_SESSION_H_INCLUDED_ */
