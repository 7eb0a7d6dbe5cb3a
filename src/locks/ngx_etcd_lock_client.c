
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_lock_client.h>
#include <ngx_etcd_client.h>
#include <ngx_etcd_mutex.h>
#include <ngx_etcd_clock.h>


static void
ngx_etcd_lock_client_changed(void *data)
{
    /* the state of this client is not displayed */
}


/* Keys that are held for long enough are watched.  Returns 1 if one is not. */

static ngx_uint_t
ngx_etcd_lock_client_watch(ngx_etcd_lock_session_t *locks)
{
    uint64_t           now;
    ngx_queue_t       *q;
    ngx_etcd_mutex_t  *mutex;

    now = ngx_etcd_clock();

    while (!ngx_queue_empty(&locks->young)) {
        q = ngx_queue_head(&locks->young);
        mutex = ngx_queue_data(q, ngx_etcd_mutex_t, age);

        if (now - mutex->since < NGX_ETCD_LOCK_SESSION_YOUNG) {
            return 1;
        }

        ngx_etcd_mutex_grown(mutex);
        ngx_etcd_lock_queue_watch(mutex->lock_queue);
    }

    return 0;
}


/*
 * Reads lock queues in which a key waits while the watch is silent.  One that
 * was read goes to the end of the list: the others come first the next time.
 */

static ngx_uint_t
ngx_etcd_lock_client_read(ngx_etcd_lock_session_t *locks)
{
    ngx_str_t               reason;
    ngx_uint_t              n, lags, more;
    ngx_queue_t            *q, *next, *last;
    ngx_etcd_lock_queue_t  *lock_queue;

    n = 0;
    lags = 0;
    more = 0;

    last = ngx_queue_last(&locks->lock_queues);

    for (q = ngx_queue_head(&locks->lock_queues);
         q != ngx_queue_sentinel(&locks->lock_queues);
         q = next)
    {
        next = (q != last) ? ngx_queue_next(q)
                           : ngx_queue_sentinel(&locks->lock_queues);

        lock_queue = ngx_queue_data(q, ngx_etcd_lock_queue_t, queue);

        lags |= ngx_etcd_lock_queue_lags(lock_queue);
        more |= ngx_etcd_lock_queue_doubtful(lock_queue);

        if (n < NGX_ETCD_LOCK_CLIENT_READS
            && ngx_etcd_lock_queue_read(lock_queue) == NGX_OK)
        {
            ngx_queue_remove(q);
            ngx_queue_insert_tail(&locks->lock_queues, q);
            n++;
        }
    }

    if (lags) {
        ngx_str_set(&reason, "it lags behind the cluster");
        ngx_etcd_watch_stream_leave(locks->stream, &reason);
    }

    return more;
}


static void
ngx_etcd_lock_client_lease_keys(ngx_etcd_lease_ttl_t *search,
    ProtobufCBinaryData *keys, size_t n, int64_t revision)
{
    size_t                    i;
    ngx_str_t                 key;
    ngx_etcd_lock_session_t  *locks = search->data;

    if (revision <= 0) {
        return;
    }

    for (i = 0; i < n; i++) {
        key = ngx_etcd_bytes_str(&keys[i]);
        ngx_etcd_mutex_found(locks, &key, revision);
    }

    locks->answered = 1;
}


/*
 * etcd refuses a put with a revoked lease, however late it comes.  So if no
 * lock is held or waited for, another lease ends the search.
 */

static void
ngx_etcd_lock_client_searched(ngx_etcd_lease_ttl_t *search, uint64_t until)
{
    ngx_etcd_lock_session_t  *locks = search->data;

    locks->searching = 0;
    locks->searched = ngx_current_msec;

    if (locks->answered
        && locks->keys.root == locks->keys.sentinel
        && ngx_etcd_clock() - locks->unknown >= NGX_ETCD_LOCK_CLIENT_LATE)
    {
        ngx_etcd_session_give_up(&locks->session,
                                 "etcd may still process old puts");
    }
}


/*
 * Searches the lease for keys that no mutex knows of.  Returns 1 until the
 * lease is given up.
 */

static ngx_uint_t
ngx_etcd_lock_client_search(ngx_etcd_lock_session_t *locks)
{
    ngx_etcd_lease_ttl_t  *search;

    if (locks->unknown == 0) {
        return 0;
    }

    if (locks->searching
        || ngx_current_msec - locks->searched < NGX_ETCD_LOCK_CLIENT_SEARCH)
    {
        return 1;
    }

    locks->searching = 1;
    locks->answered = 0;

    search = &locks->search;
    search->cluster = locks->cluster;
    search->lease = locks->session.lease.id;
    search->timeout = NGX_ETCD_LOCK_CLIENT_SEARCH;
    search->keys = ngx_etcd_lock_client_lease_keys;
    search->done = ngx_etcd_lock_client_searched;
    search->data = locks;

    ngx_etcd_lease_ttl_ask(search);

    return 1;
}


static void
ngx_etcd_lock_client_search_stop(ngx_etcd_lock_session_t *locks)
{
    locks->unknown = 0;

    if (locks->searching) {
        locks->searching = 0;
        ngx_etcd_lease_ttl_cancel(&locks->search);
    }
}


static void
ngx_etcd_lock_client_check(ngx_event_t *ev)
{
    ngx_uint_t                more;
    ngx_etcd_lock_session_t  *locks = ev->data;

    more = ngx_etcd_lock_client_watch(locks);
    more |= ngx_etcd_lock_client_read(locks);
    more |= ngx_etcd_lock_client_search(locks);

    if (more) {
        ngx_etcd_lock_session_check(locks);
    }
}


/*
 * Returns the held mutex created at that revision, or, if it is 0, the one
 * created last; NULL: none.  Mutexes held for less than
 * NGX_ETCD_LOCK_SESSION_YOUNG ms are ignored: they are likely to be released
 * before a read is answered.
 */

static ngx_etcd_mutex_t *
ngx_etcd_lock_client_youngest(ngx_etcd_lock_session_t *locks, int64_t created)
{
    uint64_t                now;
    ngx_queue_t            *q, *m;
    ngx_etcd_mutex_t       *mutex, *youngest;
    ngx_etcd_lock_queue_t  *lock_queue;

    youngest = NULL;
    now = ngx_etcd_clock();

    for (q = ngx_queue_head(&locks->lock_queues);
         q != ngx_queue_sentinel(&locks->lock_queues);
         q = ngx_queue_next(q))
    {
        lock_queue = ngx_queue_data(q, ngx_etcd_lock_queue_t, queue);

        for (m = ngx_queue_head(&lock_queue->keys);
             m != ngx_queue_sentinel(&lock_queue->keys);
             m = ngx_queue_next(m))
        {
            mutex = ngx_queue_data(m, ngx_etcd_mutex_t, queue);

            if (mutex->state != NGX_ETCD_MUTEX_HELD
                || now - mutex->since < NGX_ETCD_LOCK_SESSION_YOUNG
                || (created != 0 && mutex->created != created)
                || (youngest != NULL
                    && mutex->created <= youngest->created))
            {
                continue;
            }

            youngest = mutex;
        }
    }

    return youngest;
}


/*
 * The youngest held key is the witness for all: a history that has this key has
 * the keys that were put before.
 */

static void
ngx_etcd_lock_client_witness(ngx_etcd_session_t *session, ngx_str_t *key,
    int64_t *created)
{
    ngx_etcd_mutex_t         *mutex;
    ngx_etcd_lock_session_t  *locks;

    locks = session->data;
    mutex = ngx_etcd_lock_client_youngest(locks, 0);

    if (mutex == NULL) {
        *key = locks->prefix;
        *created = 0;
        return;
    }

    *key = mutex->key;
    *created = mutex->created;
}


/* unless the lock was released while its key was read */

static void
ngx_etcd_lock_client_missing(ngx_etcd_session_t *session, int64_t created)
{
    ngx_etcd_mutex_t  *mutex;

    mutex = ngx_etcd_lock_client_youngest(session->data, created);

    if (mutex != NULL) {
        ngx_etcd_mutex_gone(mutex);
    }
}


/* There is a lease, or etcd has no room for one: the lock queues look. */

static void
ngx_etcd_lock_client_advance(ngx_etcd_session_t *session)
{
    ngx_queue_t              *q;
    ngx_etcd_lock_session_t  *locks;

    locks = session->data;

    for (q = ngx_queue_head(&locks->lock_queues);
         q != ngx_queue_sentinel(&locks->lock_queues);
         q = ngx_queue_next(q))
    {
        ngx_etcd_lock_queue_advance(ngx_queue_data(q, ngx_etcd_lock_queue_t,
                                                   queue));
    }
}


static void
ngx_etcd_lock_client_renewed(ngx_etcd_session_t *session)
{
    /* the mutexes read the deadline when they need it */
}


static void
ngx_etcd_lock_client_lease_lost(ngx_etcd_lock_session_t *locks)
{
    ngx_queue_t            *q, *m;
    ngx_etcd_lock_queue_t  *lock_queue;

    for (q = ngx_queue_head(&locks->lock_queues);
         q != ngx_queue_sentinel(&locks->lock_queues);
         q = ngx_queue_next(q))
    {
        lock_queue = ngx_queue_data(q, ngx_etcd_lock_queue_t, queue);

        for (m = ngx_queue_head(&lock_queue->keys);
             m != ngx_queue_sentinel(&lock_queue->keys);
             m = ngx_queue_next(m))
        {
            ngx_etcd_mutex_unleased(ngx_queue_data(m, ngx_etcd_mutex_t,
                                                   queue));
        }

        ngx_etcd_mutex_drop(&lock_queue->leaving, 0);
    }

    ngx_etcd_mutex_drop(&locks->leaving, 0);
}


static void
ngx_etcd_lock_client_lost(ngx_etcd_session_t *session, char *reason)
{
    ngx_etcd_lock_session_t  *locks = session->data;

    ngx_etcd_lock_client_search_stop(locks);
    ngx_etcd_lock_client_lease_lost(locks);
}


ngx_etcd_lock_session_t *
ngx_etcd_lock_client_create(ngx_etcd_cluster_conf_t *conf, time_t ttl,
    ngx_log_t *log)
{
    u_char                   *p;
    ngx_etcd_cluster_t       *cluster;
    ngx_etcd_session_t       *session;
    ngx_etcd_lock_session_t  *locks;

    cluster = ngx_etcd_client_create(conf, ngx_etcd_lock_client_changed, NULL,
                                     log);
    if (cluster == NULL) {
        return NULL;
    }

    locks = ngx_pcalloc(cluster->pool, sizeof(ngx_etcd_lock_session_t));
    if (locks == NULL) {
        goto failed;
    }

    locks->cluster = cluster;

    locks->stream = ngx_etcd_watch_stream_create(cluster);
    locks->leases = ngx_etcd_lease_stream_create(cluster);

    if (locks->stream == NULL || locks->leases == NULL) {
        goto failed;
    }

    p = ngx_pnalloc(cluster->pool, sizeof("etcd cluster \"\": lock") - 1
                                   + conf->name.len);
    if (p == NULL) {
        goto failed;
    }

    locks->name.data = p;
    locks->name.len = ngx_sprintf(p, "etcd cluster \"%V\": lock", &conf->name)
                       - p;

    ngx_etcd_txn_batch_init(&locks->batch, cluster);

    ngx_queue_init(&locks->lock_queues);
    ngx_queue_init(&locks->leaving);
    ngx_queue_init(&locks->young);

    ngx_rbtree_init(&locks->keys, &locks->sentinel,
                    ngx_str_rbtree_insert_value);

    ngx_etcd_event_init_timer(&locks->timer, ngx_etcd_lock_client_check,
                              locks, log);

    session = &locks->session;

    session->leases = locks->leases;
    ngx_str_set(&session->name, "locks");
    session->ttl = ttl;
    session->exclusive = 1;
    session->witness = ngx_etcd_lock_client_witness;
    session->missing = ngx_etcd_lock_client_missing;
    session->held = ngx_etcd_lock_client_advance;
    session->refused = ngx_etcd_lock_client_advance;
    session->renewed = ngx_etcd_lock_client_renewed;
    session->lost = ngx_etcd_lock_client_lost;
    session->data = locks;

    return locks;

failed:

    ngx_etcd_client_destroy(cluster);

    return NULL;
}


void
ngx_etcd_lock_client_destroy(ngx_etcd_lock_session_t *locks)
{
    ngx_queue_t            *q;
    ngx_etcd_lock_queue_t  *lock_queue;

    ngx_etcd_event_stop(&locks->timer);

    ngx_etcd_lock_client_search_stop(locks);

    for (q = ngx_queue_head(&locks->lock_queues);
         q != ngx_queue_sentinel(&locks->lock_queues);
         q = ngx_queue_next(q))
    {
        lock_queue = ngx_queue_data(q, ngx_etcd_lock_queue_t, queue);
        ngx_etcd_mutex_drop(&lock_queue->leaving, 1);
        ngx_etcd_lock_queue_stop_read(lock_queue);
    }

    ngx_etcd_mutex_drop(&locks->leaving, 1);

    ngx_etcd_session_close(&locks->session);
    ngx_etcd_txn_batch_done(&locks->batch);
    ngx_etcd_watch_stream_destroy(locks->stream);

    for (q = ngx_queue_head(&locks->lock_queues);
         q != ngx_queue_sentinel(&locks->lock_queues);
         q = ngx_queue_next(q))
    {
        lock_queue = ngx_queue_data(q, ngx_etcd_lock_queue_t, queue);
        ngx_etcd_mirror_destroy(&lock_queue->mirror);
    }

    ngx_etcd_lease_stream_destroy(locks->leases);
    ngx_etcd_client_destroy(locks->cluster);
}


void
ngx_etcd_lock_client_start(ngx_etcd_lock_session_t *locks)
{
    switch (locks->session.state) {

    case NGX_ETCD_SESSION_CLOSED:
        ngx_etcd_session_start(&locks->session);
        break;

    case NGX_ETCD_SESSION_ENDING:
        locks->again = 1;
        break;

    default:
        break;
    }
}


static void
ngx_etcd_lock_client_ended(void *data)
{
    ngx_etcd_lock_session_t *locks = data;

    ngx_etcd_lock_client_lease_lost(locks);

    if (locks->again) {
        locks->again = 0;
        ngx_etcd_session_start(&locks->session);
        return;
    }

    locks->ended(locks->data);
}


void
ngx_etcd_lock_client_end(ngx_etcd_lock_session_t *locks,
    void (*ended)(void *data),
    void *data)
{
    locks->ended = ended;
    locks->data = data;
    locks->again = 0;

    ngx_etcd_lock_client_search_stop(locks);

    if (locks->session.state == NGX_ETCD_SESSION_ENDING) {
        return;
    }

    /* etcd refuses a put that it processes after the revocation */

    ngx_etcd_session_end(&locks->session, ngx_etcd_lock_client_ended, locks);
}
