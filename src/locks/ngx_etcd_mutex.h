
/*
 * Copyright (C) nginx-etcd contributors
 *
 * One key of this client below the prefix of a lock.
 *
 *     PENDING     there is no lease yet, or another key is being put
 *     ACQUIRING   the key is being put: HELD, at once, if there are not more
 *                 keys than permits then, else WAITING
 *     WAITING     earlier keys exist; the watch observes them
 *     CHECKING    the earlier keys are gone, as far as the watch has told, and
 *                 the first keys are read: HELD if it is one of them.  A watch
 *                 that has not noticed another history (ngx_etcd_history.h)
 *                 may not know of all.  A shared key is read at once if there
 *                 are others, since the transaction has only counted them
 *     HELD        until the key is released, or LOST: the key was deleted, its
 *                 lease was lost, or its deadline has passed
 *     FAILED      etcd did not put the key, has no room for a lease, or did not
 *                 answer
 *     RELEASING   the key is being deleted; nobody waits for it
 *
 * A key is named after the lease, like those of etcd's own clients, and a
 * number.  Numbers are used again, because etcd remembers every name until it
 * compacts, but only if all requests for the former key are known to be over: a
 * request that is repeated or late concerns this key, and no other.  A released
 * key is deleted for as long as it takes, or until its lease is gone.
 */


#ifndef _NGX_ETCD_MUTEX_H_INCLUDED_
#define _NGX_ETCD_MUTEX_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_lock_queue.h>


/*
 * Waits for one of the permits, or, by a shared key, for the end of exclusive
 * ones.  Returns NULL if there is no memory.
 */
ngx_etcd_mutex_t *ngx_etcd_mutex_create(ngx_etcd_lock_queue_t *lock_queue,
    ngx_uint_t shared);

/* In any state: the caller must not use the mutex any more. */
void ngx_etcd_mutex_release(ngx_etcd_mutex_t *mutex);


/*
 * Returns the number of keys of the lock queue whose deletion was sent to etcd
 * and not answered: a key that is put now might be put before they are gone.
 * Deletions that are not sent yet do not count, because the transaction that
 * puts a key does them first.
 */
ngx_uint_t ngx_etcd_mutex_leaving(ngx_etcd_lock_queue_t *lock_queue);


/* for the other files of locks: */

/* the key of the mutex does not exist any more */
void ngx_etcd_mutex_gone(ngx_etcd_mutex_t *mutex);

/* the mutex is not among client->young any more */
void ngx_etcd_mutex_grown(ngx_etcd_mutex_t *mutex);

/*
 * The lease has the key at that revision: if the name is LEASE-NUMBER, and no
 * mutex has it, the key is deleted.
 */
void ngx_etcd_mutex_found(ngx_etcd_lock_client_t *client, ngx_str_t *key,
    int64_t revision);

/* the lease of the key is lost */
void ngx_etcd_mutex_unleased(ngx_etcd_mutex_t *mutex);

/*
 * Frees the released mutexes of a queue, whose keys go with the lease.  all:
 * including those whose requests are unanswered.
 */
void ngx_etcd_mutex_drop(ngx_queue_t *queue, ngx_uint_t all);


#endif /* _NGX_ETCD_MUTEX_H_INCLUDED_ */
