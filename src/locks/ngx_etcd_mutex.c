
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_lock_queue_read.h>
#include <ngx_etcd_mutex.h>
#include <ngx_etcd_str.h>


/* LEASE-NUMBER, hexadecimal, and the end of a shared key */

#define NGX_ETCD_MUTEX_NAME_LEN  (16 + 1 + 16 + sizeof("-shared") - 1)


static void ngx_etcd_mutex_check(ngx_etcd_mutex_t *mutex);
static void ngx_etcd_mutex_look(ngx_etcd_mutex_t *mutex);


/* Returns 1 if the lease of the key is the one that is held now. */

static ngx_uint_t
ngx_etcd_mutex_leased(ngx_etcd_mutex_t *mutex)
{
    ngx_etcd_session_t  *session = &mutex->client->session;

    return session->state == NGX_ETCD_SESSION_HELD
           && session->lease.id == mutex->lease;
}


static ngx_str_node_t *
ngx_etcd_mutex_find(ngx_etcd_lock_client_t *client, ngx_str_t *key)
{
    return ngx_str_rbtree_lookup(&client->mutexes, key,
                                 ngx_crc32_long(key->data, key->len));
}


/* The key has that name from now on. */

static void
ngx_etcd_mutex_named(ngx_etcd_mutex_t *mutex, ngx_uint_t number)
{
    mutex->number = number;
    mutex->node.str = mutex->key;
    mutex->node.node.key = ngx_crc32_long(mutex->key.data,
                                          mutex->key.len);

    ngx_rbtree_insert(&mutex->client->mutexes, &mutex->node.node);
}


static void
ngx_etcd_mutex_unnamed(ngx_etcd_mutex_t *mutex)
{
    if (mutex->number != 0) {
        mutex->number = 0;
        ngx_rbtree_delete(&mutex->client->mutexes, &mutex->node.node);
    }
}


static void
ngx_etcd_mutex_free(ngx_etcd_mutex_t *mutex)
{
    ngx_etcd_event_stop(&mutex->timer);

    if (mutex->failures != 0 && --mutex->client->nundeleted == 0) {
        (void) ngx_etcd_cause_forget(&mutex->client->causes);
    }

    ngx_etcd_mutex_unnamed(mutex);
    ngx_etcd_lock_client_leave(mutex->client);

    ngx_free(mutex);
}


/* Frees a released mutex, and tells the lock queue. */

static void
ngx_etcd_mutex_leave(ngx_etcd_mutex_t *mutex)
{
    ngx_etcd_lock_queue_t  *lock_queue;

    lock_queue = mutex->lock_queue;

    ngx_queue_remove(&mutex->queue);

    if (lock_queue != NULL) {
        mutex->lock_queue = NULL;
        ngx_post_event(lock_queue->news, &ngx_posted_events);
    }

    ngx_etcd_mutex_free(mutex);
}


static void
ngx_etcd_mutex_deleted(ngx_etcd_txn_op_t *op, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    ngx_etcd_mutex_t       *mutex;
    ngx_etcd_lock_queue_t  *lock_queue;

    mutex = op->data;
    mutex->writing = 0;

    if (status != NGX_ETCD_GRPC_OK && ngx_etcd_mutex_leased(mutex)) {
        ngx_etcd_lock_client_undeleted(mutex, status, text);
        return;
    }

    lock_queue = mutex->lock_queue;

    /*
     * The key was put once, and is deleted.  A late request for it finds
     * another create revision, so the number can be used again.
     */

    if (lock_queue != NULL
        && mutex->created != 0
        && !mutex->doubtful
        && lock_queue->lease == mutex->lease
        && lock_queue->nfree < NGX_ETCD_LOCK_QUEUE_FREE)
    {
        lock_queue->free[lock_queue->nfree++] = mutex->number;
        lock_queue->latest = ngx_max(lock_queue->latest, mutex->created);
    }

    ngx_etcd_mutex_leave(mutex);
}


static void
ngx_etcd_mutex_delete(ngx_etcd_mutex_t *mutex)
{
    ngx_etcd_txn_op_t  *op;

    if (!ngx_etcd_mutex_leased(mutex)) {
        ngx_etcd_mutex_leave(mutex);
        return;
    }

    op = &mutex->op;

    op->key = mutex->key;
    op->lease = 0;
    op->created = mutex->created;
    op->done = ngx_etcd_mutex_deleted;
    op->data = mutex;

    mutex->writing = 1;

    /*
     * If no key is known to wait, the deletion is sent with the transaction of
     * the next acquire: etcd writes once, and the new key does not find the old
     * one.
     */

    ngx_etcd_txn_batch_add(&mutex->client->batch, op,
                           mutex->lock_queue != NULL
                           && !mutex->lock_queue->watched);
}


static void
ngx_etcd_mutex_timer(ngx_event_t *ev)
{
    ngx_etcd_mutex_delete(ev->data);
}


static void
ngx_etcd_mutex_name(ngx_etcd_mutex_t *mutex)
{
    u_char                 *p;
    ngx_uint_t              number;
    ngx_etcd_lock_queue_t  *lock_queue;

    lock_queue = mutex->lock_queue;

    if (lock_queue->lease != mutex->lease) {
        lock_queue->lease = mutex->lease;
        lock_queue->latest = 0;
        lock_queue->nfree = 0;
    }

    mutex->doubtful = 0;

    do {
        number = lock_queue->nfree ? lock_queue->free[--lock_queue->nfree]
                                   : ++mutex->client->serial;

        p = mutex->own.data + lock_queue->prefix.len;
        p = ngx_sprintf(p, "%xL-%xi", mutex->lease, number);

        if (mutex->shared) {
            p = ngx_cpymem(p, ngx_etcd_lock_queue_shared.data,
                           ngx_etcd_lock_queue_shared.len);
        }

        mutex->key.len = p - mutex->key.data;
        mutex->own.len = p - mutex->own.data;

        /* somebody has put a former key again, and it is still being deleted */

    } while (ngx_etcd_mutex_find(mutex->client, &mutex->key) != NULL);

    ngx_etcd_mutex_named(mutex, number);
}


static void
ngx_etcd_mutex_set_state(ngx_etcd_mutex_t *mutex, ngx_etcd_mutex_state_e state)
{
#if (NGX_DEBUG)

    static char  *names[] = {
        "pending", "acquiring", "waiting", "checking", "held", "lost",
        "failed", "releasing"
    };

    ngx_log_debug4(NGX_LOG_DEBUG_EVENT, mutex->client->cluster->log, 0,
                   "etcd lock: key \"%V\" of revision %L: %s, was %s",
                   ngx_etcd_shown(&mutex->key), mutex->created,
                   names[state], names[mutex->state]);

#endif

    mutex->state = state;
}


/* Stops the read. */

static void
ngx_etcd_mutex_rest(ngx_etcd_mutex_t *mutex)
{
    ngx_etcd_lock_read_end(&mutex->read);
    ngx_etcd_mutex_grown(mutex);
}


/* The key will be put again with another name, behind all other keys. */

static void
ngx_etcd_mutex_again(ngx_etcd_mutex_t *mutex)
{
    ngx_etcd_mutex_rest(mutex);
    ngx_etcd_mutex_unnamed(mutex);

    ngx_etcd_mutex_set_state(mutex, NGX_ETCD_MUTEX_PENDING);
    mutex->created = 0;
}


static void
ngx_etcd_mutex_fail(ngx_etcd_mutex_t *mutex, ngx_etcd_grpc_status_e status)
{
    ngx_etcd_mutex_set_state(mutex, NGX_ETCD_MUTEX_FAILED);
    mutex->status = status;

    ngx_post_event(mutex->lock_queue->news, &ngx_posted_events);
}


static void
ngx_etcd_mutex_refused(ngx_etcd_mutex_t *mutex, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    ngx_etcd_cluster_t  *cluster;

    if (status == NGX_ETCD_GRPC_NOT_FOUND) {
        ngx_etcd_mutex_again(mutex);
        ngx_etcd_session_replace(&mutex->client->session,
                                 "etcd does not have it");
        return;
    }

    cluster = mutex->client->cluster;

    ngx_log_error(NGX_LOG_ERR, cluster->log, 0,
                  "etcd cluster \"%V\": key \"%V\" of a lock was not put: "
                  "%s: %V", &cluster->conf->name,
                  ngx_etcd_shown(&mutex->key),
                  ngx_etcd_grpc_status_name(status), text);

    ngx_etcd_mutex_fail(mutex, status);
}


static void
ngx_etcd_mutex_hold(ngx_etcd_mutex_t *mutex)
{
    ngx_etcd_lock_client_t  *client;

    client = mutex->client;

    if (ngx_etcd_lock_client_left(client) == 0) {
        ngx_etcd_mutex_again(mutex);
        ngx_etcd_session_replace(&client->session, "its deadline has passed");
        return;
    }

    ngx_etcd_mutex_set_state(mutex, NGX_ETCD_MUTEX_HELD);
    mutex->since = ngx_etcd_clock();

    if (!mutex->lock_queue->watched) {
        mutex->young = 1;
        ngx_queue_insert_tail(&client->young, &mutex->age);
        ngx_etcd_lock_client_check(client);
    }

    ngx_post_event(mutex->lock_queue->news, &ngx_posted_events);
}


static void
ngx_etcd_mutex_written(ngx_etcd_txn_op_t *op, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    ngx_etcd_mutex_t       *mutex;
    ngx_etcd_lock_queue_t  *lock_queue;

    mutex = op->data;
    lock_queue = mutex->lock_queue;

    mutex->writing = 0;
    lock_queue->acquiring = 0;

    if (op->unknown) {
        mutex->doubtful = 1;

        if (ngx_etcd_mutex_leased(mutex)) {
            ngx_etcd_lock_client_unknown(mutex->client);
        }
    }

    if (mutex->state == NGX_ETCD_MUTEX_RELEASING) {
        mutex->created = (status == NGX_ETCD_GRPC_OK) ? op->found : 0;
        ngx_etcd_mutex_delete(mutex);

    } else if (!ngx_etcd_mutex_leased(mutex)) {

        /* the lease is lost: the key is gone with it, or will never be put */

        ngx_etcd_mutex_again(mutex);

    } else if (status != NGX_ETCD_GRPC_OK) {
        ngx_etcd_mutex_refused(mutex, status, text);

    } else if (op->found == 0) {
        ngx_etcd_mutex_again(mutex);

    } else if (op->found <= lock_queue->latest) {
        ngx_etcd_mutex_again(mutex);
        ngx_etcd_session_replace(&mutex->client->session,
                                 "etcd has another history");

    } else {
        mutex->created = op->found;

        if (ngx_etcd_lock_queue_lost(mutex)) {

            /* the watch has already reported the deletion */

            ngx_etcd_mutex_gone(mutex);

        } else if (op->count > 0
                   && (uint64_t) op->count <= lock_queue->permits)
        {
            ngx_etcd_mutex_hold(mutex);

        } else {
            ngx_etcd_mutex_set_state(mutex, NGX_ETCD_MUTEX_WAITING);
            ngx_etcd_lock_queue_wait(lock_queue);
            ngx_post_event(lock_queue->news, &ngx_posted_events);

            if (mutex->shared) {
                ngx_etcd_mutex_check(mutex);

            } else {
                ngx_etcd_mutex_look(mutex);
            }
        }
    }

    ngx_etcd_lock_queue_put_next(lock_queue);
}


static void
ngx_etcd_mutex_put(ngx_etcd_mutex_t *mutex)
{
    ngx_etcd_txn_op_t  *op;

    mutex->lease = mutex->client->session.lease.id;
    mutex->created = 0;
    mutex->lock_queue->acquiring = 1;

    ngx_etcd_mutex_name(mutex);
    ngx_etcd_mutex_set_state(mutex, NGX_ETCD_MUTEX_ACQUIRING);

    op = &mutex->op;

    op->key = mutex->key;
    op->from = mutex->lock_queue->from;
    op->to = mutex->lock_queue->to;
    op->lease = mutex->lease;
    op->created = 0;
    op->done = ngx_etcd_mutex_written;
    op->data = mutex;

    mutex->writing = 1;

    ngx_etcd_txn_batch_add(&mutex->client->batch, op, 0);
}


void
ngx_etcd_mutex_grown(ngx_etcd_mutex_t *mutex)
{
    if (mutex->young) {
        mutex->young = 0;
        ngx_queue_remove(&mutex->age);
    }
}


static void
ngx_etcd_mutex_checked(void *data, ngx_etcd_grpc_status_e status,
    ngx_str_t *text, Etcd__RangeResponse *response)
{
    ngx_etcd_mutex_t *mutex = data;

    ngx_int_t  rc;

    if (status != NGX_ETCD_GRPC_OK) {

        /* the key may exist or not: read again while the lease is held */

        ngx_etcd_mutex_set_state(mutex, NGX_ETCD_MUTEX_WAITING);

        if (ngx_etcd_backoff_retriable(status)) {
            ngx_etcd_mutex_look(mutex);

        } else {
            ngx_etcd_mutex_rest(mutex);
            ngx_etcd_mutex_refused(mutex, status, text);
        }

        return;
    }

    rc = ngx_etcd_lock_queue_place(mutex, response);

    if (rc == NGX_OK) {
        ngx_etcd_mutex_rest(mutex);
        ngx_etcd_mutex_hold(mutex);
        return;
    }

    ngx_etcd_mutex_set_state(mutex, NGX_ETCD_MUTEX_WAITING);

    if (rc == NGX_DECLINED) {
        ngx_etcd_mutex_gone(mutex);
        return;
    }

    if (ngx_etcd_lock_queue_won(mutex)) {

        /* etcd has earlier keys of which the watch has not told */

        ngx_etcd_mirror_again(&mutex->lock_queue->mirror, 0);
    }

    ngx_etcd_lock_queue_wait(mutex->lock_queue);
    ngx_post_event(mutex->lock_queue->news, &ngx_posted_events);
}


/* Without memory the lock queue is read, as while the watch is silent. */

static void
ngx_etcd_mutex_check(ngx_etcd_mutex_t *mutex)
{
    if (ngx_etcd_lock_read_start(&mutex->read, mutex->lock_queue,
                                 ngx_etcd_mutex_checked, mutex)
        != NGX_OK)
    {
        ngx_etcd_lock_client_check(mutex->client);
        return;
    }

    ngx_etcd_mutex_set_state(mutex, NGX_ETCD_MUTEX_CHECKING);
}


static void
ngx_etcd_mutex_look(ngx_etcd_mutex_t *mutex)
{
    if (ngx_etcd_lock_queue_won(mutex)) {
        ngx_etcd_mutex_check(mutex);
    }
}


static void
ngx_etcd_mutex_first(ngx_etcd_mutex_t *mutex)
{
    ngx_etcd_mutex_rest(mutex);
    ngx_etcd_mutex_hold(mutex);
}


void
ngx_etcd_mutex_gone(ngx_etcd_mutex_t *mutex)
{
    ngx_etcd_cluster_t  *cluster;

    cluster = mutex->client->cluster;

    switch (mutex->state) {

    case NGX_ETCD_MUTEX_ACQUIRING:
    case NGX_ETCD_MUTEX_WAITING:
    case NGX_ETCD_MUTEX_CHECKING:
        ngx_log_error(NGX_LOG_WARN, cluster->log, 0,
                      "etcd cluster \"%V\": key \"%V\" was deleted while it "
                      "waited for a lock", &cluster->conf->name,
                      ngx_etcd_shown(&mutex->key));

        /* the key exists if it is a former history that does not have it */

        ngx_etcd_lock_client_unknown(mutex->client);
        ngx_etcd_mutex_again(mutex);
        ngx_etcd_lock_queue_put_next(mutex->lock_queue);
        break;

    case NGX_ETCD_MUTEX_HELD:
        ngx_log_error(NGX_LOG_WARN, cluster->log, 0,
                      "etcd cluster \"%V\": key \"%V\" was deleted: its lock "
                      "is lost", &cluster->conf->name,
                      ngx_etcd_shown(&mutex->key));

        ngx_etcd_mutex_rest(mutex);

        ngx_etcd_mutex_set_state(mutex, NGX_ETCD_MUTEX_LOST);
        ngx_post_event(mutex->lock_queue->news, &ngx_posted_events);
        break;

    default:
        break;
    }
}


static const ngx_etcd_mutex_handlers_t  ngx_etcd_mutex_handlers = {
    ngx_etcd_mutex_put,
    ngx_etcd_mutex_fail,
    ngx_etcd_mutex_look,
    ngx_etcd_mutex_first,
    ngx_etcd_mutex_gone
};


ngx_etcd_mutex_t *
ngx_etcd_mutex_create(ngx_etcd_lock_queue_t *lock_queue, ngx_uint_t shared)
{
    u_char            *p;
    ngx_log_t         *log;
    ngx_etcd_mutex_t  *mutex;

    log = lock_queue->client->cluster->log;

    mutex = ngx_calloc(sizeof(ngx_etcd_mutex_t) + lock_queue->from.len
                       + NGX_ETCD_MUTEX_NAME_LEN, log);
    if (mutex == NULL) {
        return NULL;
    }

    p = (u_char *) mutex + sizeof(ngx_etcd_mutex_t);
    ngx_memcpy(p, lock_queue->from.data, lock_queue->from.len);

    mutex->key.data = p;
    mutex->own.data = p + lock_queue->from.len - lock_queue->prefix.len;

    mutex->client = lock_queue->client;
    mutex->lock_queue = lock_queue;
    mutex->handlers = &ngx_etcd_mutex_handlers;
    mutex->shared = shared;

    ngx_etcd_event_init_timer(&mutex->timer, ngx_etcd_mutex_timer, mutex, log);

    ngx_queue_insert_tail(&lock_queue->mutexes, &mutex->queue);

    ngx_etcd_lock_client_enter(lock_queue->client);
    ngx_etcd_lock_queue_put_next(lock_queue);

    return mutex;
}


void
ngx_etcd_mutex_release(ngx_etcd_mutex_t *mutex)
{
    ngx_etcd_lock_queue_t   *lock_queue;
    ngx_etcd_mutex_state_e   state;

    lock_queue = mutex->lock_queue;
    state = mutex->state;

    ngx_etcd_mutex_rest(mutex);
    ngx_queue_remove(&mutex->queue);

    ngx_etcd_mutex_set_state(mutex, NGX_ETCD_MUTEX_RELEASING);

    if (state == NGX_ETCD_MUTEX_ACQUIRING
        && ngx_etcd_txn_batch_withdraw(&mutex->op) == NGX_OK)
    {
        mutex->writing = 0;
        lock_queue->acquiring = 0;
        state = NGX_ETCD_MUTEX_PENDING;
    }

    if (state == NGX_ETCD_MUTEX_PENDING) {
        ngx_etcd_mutex_free(mutex);
        ngx_etcd_lock_queue_put_next(lock_queue);
        return;
    }

    ngx_queue_insert_tail(&lock_queue->leaving, &mutex->queue);

    if (!mutex->writing) {
        ngx_etcd_mutex_delete(mutex);
    }
}


ngx_uint_t
ngx_etcd_mutex_leaving(ngx_etcd_lock_queue_t *lock_queue)
{
    ngx_uint_t         n;
    ngx_etcd_mutex_t  *mutex;

    n = 0;

    ngx_etcd_queue_each(mutex, &lock_queue->leaving, ngx_etcd_mutex_t, queue) {
        n += !ngx_etcd_txn_op_waiting(&mutex->op);
    }

    return n;
}


void
ngx_etcd_mutex_found(ngx_etcd_lock_client_t *client, ngx_str_t *key,
    int64_t revision)
{
    size_t               n;
    u_char              *p, *last;
    u_char               name[sizeof("/-") - 1 + 16];
    ngx_int_t            number;
    ngx_etcd_mutex_t    *mutex;
    ngx_etcd_cluster_t  *cluster;

    cluster = client->cluster;

    n = ngx_sprintf(name, "/%xL-", client->session.lease.id) - name;
    last = key->data + key->len;

    if (ngx_etcd_lock_queue_is_shared(key->data, key->len)) {
        last -= ngx_etcd_lock_queue_shared.len;
    }

    for (p = last; p > key->data && p[-1] != '-'; p--) { /* void */ }

    number = ngx_hextoi(p, last - p);

    if ((size_t) (p - key->data) < n
        || ngx_memcmp(p - n, name, n) != 0
        || number <= 0
        || ngx_etcd_mutex_find(client, key) != NULL)
    {
        return;
    }

    mutex = ngx_calloc(sizeof(ngx_etcd_mutex_t) + key->len, cluster->log);
    if (mutex == NULL) {
        return;
    }

    ngx_log_error(NGX_LOG_NOTICE, cluster->log, 0,
                  "etcd cluster \"%V\": key \"%V\" of a lock was put after its "
                  "request was given up, deleting it", &cluster->conf->name,
                  ngx_etcd_shown(key));

    mutex->state = NGX_ETCD_MUTEX_RELEASING;
    mutex->client = client;
    mutex->lease = client->session.lease.id;
    mutex->op.latest = revision;
    mutex->key.data = (u_char *) mutex + sizeof(ngx_etcd_mutex_t);
    mutex->key.len = key->len;
    ngx_memcpy(mutex->key.data, key->data, key->len);

    ngx_etcd_event_init_timer(&mutex->timer, ngx_etcd_mutex_timer, mutex,
                              cluster->log);
    ngx_etcd_lock_client_enter(client);
    ngx_etcd_mutex_named(mutex, number);

    ngx_queue_insert_tail(&client->leaving, &mutex->queue);

    ngx_etcd_mutex_delete(mutex);
}


void
ngx_etcd_mutex_unleased(ngx_etcd_mutex_t *mutex)
{
    switch (mutex->state) {

    case NGX_ETCD_MUTEX_ACQUIRING:
        if (ngx_etcd_txn_batch_withdraw(&mutex->op) != NGX_OK) {

            /* ngx_etcd_mutex_written() sees the loss */

            return;
        }

        mutex->writing = 0;
        mutex->lock_queue->acquiring = 0;

        /* fall through */

    case NGX_ETCD_MUTEX_WAITING:
    case NGX_ETCD_MUTEX_CHECKING:
        ngx_etcd_mutex_again(mutex);
        break;

    case NGX_ETCD_MUTEX_HELD:
        ngx_etcd_mutex_rest(mutex);

        ngx_etcd_mutex_set_state(mutex, NGX_ETCD_MUTEX_LOST);
        ngx_post_event(mutex->lock_queue->news, &ngx_posted_events);
        break;

    default:
        break;
    }
}


/* the keys go with the lease; mutexes with unanswered requests stay */

void
ngx_etcd_mutex_drop(ngx_queue_t *queue, ngx_uint_t all)
{
    ngx_etcd_mutex_t  *mutex, *next;

    ngx_etcd_queue_each_safe(mutex, next, queue, ngx_etcd_mutex_t, queue) {
        if (!all && mutex->writing
            && ngx_etcd_txn_batch_withdraw(&mutex->op) != NGX_OK)
        {
            continue;
        }

        ngx_etcd_mutex_leave(mutex);
    }
}
