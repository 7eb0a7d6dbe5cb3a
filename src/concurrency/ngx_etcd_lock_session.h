
/*
 * Copyright (C) nginx-etcd contributors
 *
 * What all locks of one process in one cluster share: a connection of their
 * own, the session whose lease each of their keys has, the batches that put
 * and delete keys, and the stream that watches their prefixes.
 */


#ifndef _NGX_ETCD_LOCK_SESSION_H_INCLUDED_
#define _NGX_ETCD_LOCK_SESSION_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_txn_batch.h>
#include <ngx_etcd_session.h>
#include <ngx_etcd_sweep.h>
#include <ngx_etcd_watch.h>


/* ms: a key that is held for longer than that is watched */

#define NGX_ETCD_LOCK_SESSION_YOUNG  100


typedef struct {
    ngx_etcd_cluster_t          *cluster;
    ngx_etcd_watch_stream_t     *stream;
    ngx_etcd_lease_stream_t     *leases;
    ngx_etcd_session_t           session;
    ngx_etcd_txn_batch_t         batch;
    ngx_etcd_sweep_t             sweep;        /* for keys of no mutex */

    ngx_str_t                    name;         /* of lock queues, for logs */
    ngx_queue_t                  lock_queues;  /* of ngx_etcd_lock_queue_t */
    ngx_queue_t                  leaving;      /* of ngx_etcd_mutex_t: nobody's
                                                  any more */
    ngx_queue_t                  young;        /* likewise: held, and not
                                                  watched; the oldest first */
    ngx_event_t                  timer;        /* for these */
    ngx_event_t                  poll;         /* ngx_etcd_lock_poll.h */
    ngx_uint_t                   nmutexes;     /* of all lock queues, and those
                                                  that are nobody's */
    uint64_t                     serial;       /* of keys */
    ngx_str_t                    prefix;       /* of a lock, with the namespace;
                                                  empty: none was opened */

    void                       (*ended)(void *data);
    void                        *data;
    unsigned                     again:1;      /* wanted after the end */
} ngx_etcd_lock_session_t;


/*
 * A lock with that prefix, namespace included, is used: its key is read where
 * no lock is held whose key could confirm a renewal.  Without memory, the next
 * lock's.
 */
void ngx_etcd_lock_session_know(ngx_etcd_lock_session_t *locks,
    ngx_str_t *prefix);

/*
 * A lock is wanted, held, or released, until _leave(): attempts to reach etcd
 * follow each other quickly meanwhile.
 */
void ngx_etcd_lock_session_enter(ngx_etcd_lock_session_t *locks);
void ngx_etcd_lock_session_leave(ngx_etcd_lock_session_t *locks);

/* 1: there is a lease, and nobody else can have what it holds, right now */
ngx_uint_t ngx_etcd_lock_session_valid(ngx_etcd_lock_session_t *locks);


#endif /* _NGX_ETCD_LOCK_SESSION_H_INCLUDED_ */
