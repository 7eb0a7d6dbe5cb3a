
/*
 * Copyright (C) nginx-etcd contributors
 *
 * One key of ours below the prefix of a lock.
 *
 *     PENDING     there is no lease yet, or another key is being put
 *     ACQUIRING   it is being put; whoever finds as many keys as permits
 *                 after that holds one of them: HELD, at once
 *     WAITING     others were there before; who they are the watch shows
 *     CHECKING    they are gone, and the key is read again: HELD, if it is
 *                 still there
 *     HELD        until it is released, or LOST: the key deleted by somebody,
 *                 the lease lost, or its deadline over
 *     FAILED      etcd did not put it, or has not said so
 *
 * A key is named after the lease, as etcd's own clients do it, and a number.
 * That is used again, since etcd remembers every name until it compacts, but
 * only where all that was asked for the key before is known to be over: so
 * whatever is repeated or comes late concerns this key, and no other.  From
 * the moment it is released nobody waits for it: it is deleted for as long as
 * it takes, or until its lease is gone.
 */


#ifndef _NGX_ETCD_MUTEX_H_INCLUDED_
#define _NGX_ETCD_MUTEX_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_lock_queue.h>
#include <ngx_etcd_list.h>


/* ms: what etcd has seemed to lose is looked for again after that */

#define NGX_ETCD_MUTEX_DOUBT  10000

/* ms until a key that could not be deleted is deleted again */

#define NGX_ETCD_MUTEX_AGAIN  1000


typedef struct ngx_etcd_mutex_s  ngx_etcd_mutex_t;

struct ngx_etcd_mutex_s {
    ngx_etcd_lock_queue_key_t    entry;           /* in the lock queue */
    ngx_etcd_grpc_status_e       status;       /* FAILED: why */

    /* its state has changed, though not by the caller; nothing else then */
    void                       (*changed)(ngx_etcd_mutex_t *mutex);
    void                        *data;

    /* private */

    ngx_etcd_lock_session_t     *locks;
    ngx_etcd_lock_queue_t       *lock_queue;   /* NULL: left */
    ngx_queue_t                  age;          /* young ones */
    uint64_t                     since;        /* held; ngx_etcd_clock() */
    int64_t                      lease;
    ngx_rbtree_node_t            number;       /* in its name */
    ngx_etcd_txn_op_t            step;
    ngx_etcd_range_t             read;
    ngx_event_t                  timer;
    unsigned                     stepping:1;
    unsigned                     young:1;
    unsigned                     doubtful:1;   /* it may be put once more */
};


/* wants one of the permits; NULL: no memory */
ngx_etcd_mutex_t *ngx_etcd_mutex_create(ngx_etcd_lock_queue_t *lock_queue,
    void (*changed)(ngx_etcd_mutex_t *mutex), void *data);

/* in any state: it is not the caller's any more, and no handler called */
void ngx_etcd_mutex_release(ngx_etcd_mutex_t *mutex);


/*
 * How many keys of the lock queue etcd was asked to delete and has not
 * answered: a key that is put now might be put before these are gone, unlike
 * keys that will be deleted by the very transaction that puts it.
 */
ngx_uint_t ngx_etcd_mutex_leaving(ngx_etcd_lock_queue_t *lock_queue);


/* for ngx_etcd_lock_client.c: */

/* its key is not there any more */
void ngx_etcd_mutex_gone(ngx_etcd_mutex_t *mutex);

/* it is not young any more */
void ngx_etcd_mutex_grown(ngx_etcd_mutex_t *mutex);

/*
 * No mutex has the key of that number, which existed at that revision: it is
 * deleted.
 */
void ngx_etcd_mutex_found(ngx_etcd_lock_session_t *locks, ngx_str_t *key,
    ngx_uint_t number, int64_t revision);

/* the lease of its key is lost */
void ngx_etcd_mutex_unleased(ngx_etcd_mutex_t *mutex);

/*
 * A queue of released mutexes: their keys go with the lease.  all: also those
 * whose requests are unanswered.
 */
void ngx_etcd_mutex_drop(ngx_queue_t *queue, ngx_uint_t all);


#endif /* _NGX_ETCD_MUTEX_H_INCLUDED_ */
