
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_lock_client.h>
#include <ngx_etcd_client.h>
#include <ngx_etcd_lock_queue_read.h>
#include <ngx_etcd_mutex.h>
#include <ngx_etcd_clock.h>


static void
ngx_etcd_lock_client_changed(void *data)
{
    /* the state of this client is not displayed */
}


/* Keys that are held for long enough are watched.  Returns 1 if one is not. */

static ngx_uint_t
ngx_etcd_lock_client_watch(ngx_etcd_lock_client_t *client)
{
    uint64_t           now;
    ngx_etcd_mutex_t  *mutex, *next;

    now = ngx_etcd_clock();

    ngx_etcd_queue_each_safe(mutex, next, &client->young, ngx_etcd_mutex_t, age)
    {
        if (now - mutex->since < NGX_ETCD_LOCK_CLIENT_YOUNG) {
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
ngx_etcd_lock_client_read(ngx_etcd_lock_client_t *client)
{
    ngx_str_t               reason;
    ngx_uint_t              n, lags, more, over;
    ngx_queue_t            *last;
    ngx_etcd_lock_queue_t  *lock_queue, *next;

    n = 0;
    lags = 0;
    more = 0;

    last = ngx_queue_last(&client->lock_queues);

    ngx_etcd_queue_each_safe(lock_queue, next, &client->lock_queues,
                             ngx_etcd_lock_queue_t, queue)
    {
        over = (&lock_queue->queue == last);

        lags |= ngx_etcd_lock_queue_lags(lock_queue);

        /* a key waits, or the watch is behind a read */

        more |= (lock_queue->poll.missed
                 || ngx_etcd_lock_queue_first(lock_queue,
                                              NGX_ETCD_MUTEX_WAITING)
                    != NULL);

        if (n < NGX_ETCD_LOCK_CLIENT_READS
            && ngx_etcd_lock_queue_read(lock_queue) == NGX_OK)
        {
            ngx_queue_remove(&lock_queue->queue);
            ngx_queue_insert_tail(&client->lock_queues, &lock_queue->queue);
            n++;
        }

        if (over) {
            break;
        }
    }

    if (lags) {
        ngx_str_set(&reason, "it lags behind the cluster");
        ngx_etcd_watch_stream_leave(client->stream, &reason);
    }

    return more;
}


static void
ngx_etcd_lock_client_lease_keys(ngx_etcd_lease_ttl_t *search,
    ProtobufCBinaryData *keys, size_t n, int64_t revision)
{
    size_t                    i;
    ngx_str_t                 key;
    ngx_etcd_lock_client_t  *client = search->data;

    if (revision <= 0) {
        return;
    }

    for (i = 0; i < n; i++) {
        key = ngx_etcd_bytes_str(&keys[i]);
        ngx_etcd_mutex_found(client, &key, revision);
    }

    client->answered = 1;
}


/*
 * etcd refuses a put with a revoked lease, however late it comes.  So if no
 * lock is held or waited for, another lease ends the search.
 */

static void
ngx_etcd_lock_client_searched(ngx_etcd_lease_ttl_t *search, uint64_t until)
{
    ngx_etcd_lock_client_t  *client = search->data;

    client->searching = 0;
    client->searched = ngx_current_msec;

    if (client->answered
        && client->mutexes.root == client->mutexes.sentinel
        && ngx_etcd_clock() - client->unknown >= NGX_ETCD_LOCK_CLIENT_LATE)
    {
        ngx_etcd_session_give_up(&client->session,
                                 "etcd may still process old puts");
    }
}


/*
 * Searches the lease for keys that no mutex knows of.  Returns 1 until the
 * lease is given up.
 */

static ngx_uint_t
ngx_etcd_lock_client_search(ngx_etcd_lock_client_t *client)
{
    ngx_etcd_lease_ttl_t  *search;

    if (client->unknown == 0) {
        return 0;
    }

    if (client->searching
        || ngx_current_msec - client->searched < NGX_ETCD_LOCK_CLIENT_SEARCH)
    {
        return 1;
    }

    client->searching = 1;
    client->answered = 0;

    search = &client->search;
    search->cluster = client->cluster;
    search->lease = client->session.lease.id;
    search->timeout = NGX_ETCD_LOCK_CLIENT_SEARCH;
    search->keys = ngx_etcd_lock_client_lease_keys;
    search->done = ngx_etcd_lock_client_searched;
    search->data = client;

    ngx_etcd_lease_ttl_ask(search);

    return 1;
}


static void
ngx_etcd_lock_client_search_stop(ngx_etcd_lock_client_t *client)
{
    client->unknown = 0;

    if (client->searching) {
        client->searching = 0;
        ngx_etcd_lease_ttl_cancel(&client->search);
    }
}


static void
ngx_etcd_lock_client_timer(ngx_event_t *ev)
{
    ngx_uint_t                more;
    ngx_etcd_lock_client_t  *client = ev->data;

    more = ngx_etcd_lock_client_watch(client);
    more |= ngx_etcd_lock_client_read(client);
    more |= ngx_etcd_lock_client_search(client);

    if (more) {
        ngx_etcd_lock_client_check(client);
    }
}


/*
 * Returns the held mutex created at that revision, or, if it is 0, the one
 * created last; NULL: none.  Mutexes held for less than
 * NGX_ETCD_LOCK_CLIENT_YOUNG ms are ignored: they are likely to be released
 * before a read is answered.
 */

static ngx_etcd_mutex_t *
ngx_etcd_lock_client_youngest(ngx_etcd_lock_client_t *client, int64_t created)
{
    uint64_t                now;
    ngx_etcd_mutex_t       *mutex, *youngest;
    ngx_etcd_lock_queue_t  *lock_queue;

    youngest = NULL;
    now = ngx_etcd_clock();

    ngx_etcd_queue_each(lock_queue, &client->lock_queues, ngx_etcd_lock_queue_t,
                        queue)
    {
        ngx_etcd_queue_each(mutex, &lock_queue->mutexes, ngx_etcd_mutex_t,
                            queue)
        {
            if (mutex->state == NGX_ETCD_MUTEX_HELD
                && now - mutex->since >= NGX_ETCD_LOCK_CLIENT_YOUNG
                && (created == 0 || mutex->created == created)
                && (youngest == NULL || mutex->created > youngest->created))
            {
                youngest = mutex;
            }
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
    ngx_etcd_mutex_t        *mutex;
    ngx_etcd_lock_client_t  *client;

    client = session->data;
    mutex = ngx_etcd_lock_client_youngest(client, 0);

    *key = (mutex != NULL) ? mutex->key : client->prefix;
    *created = (mutex != NULL) ? mutex->created : 0;
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


/*
 * There is a lease, or etcd has no room for one: each lock queue puts its next
 * key, or refuses all.
 */

static void
ngx_etcd_lock_client_put_next(ngx_etcd_session_t *session)
{
    ngx_etcd_lock_queue_t   *lock_queue;
    ngx_etcd_lock_client_t  *client;

    client = session->data;

    ngx_etcd_queue_each(lock_queue, &client->lock_queues, ngx_etcd_lock_queue_t,
                        queue)
    {
        ngx_etcd_lock_queue_put_next(lock_queue);
    }
}


static void
ngx_etcd_lock_client_lease_lost(ngx_etcd_lock_client_t *client)
{
    ngx_etcd_mutex_t       *mutex;
    ngx_etcd_lock_queue_t  *lock_queue;

    ngx_etcd_queue_each(lock_queue, &client->lock_queues, ngx_etcd_lock_queue_t,
                        queue)
    {
        ngx_etcd_queue_each(mutex, &lock_queue->mutexes, ngx_etcd_mutex_t,
                            queue)
        {
            ngx_etcd_mutex_unleased(mutex);
        }

        ngx_etcd_mutex_drop(&lock_queue->leaving, 0);
    }

    ngx_etcd_mutex_drop(&client->leaving, 0);
}


static void
ngx_etcd_lock_client_lost(ngx_etcd_session_t *session, char *reason)
{
    ngx_etcd_lock_client_t  *client = session->data;

    ngx_etcd_lock_client_search_stop(client);
    ngx_etcd_lock_client_lease_lost(client);
}


ngx_etcd_lock_client_t *
ngx_etcd_lock_client_create(ngx_etcd_cluster_conf_t *conf, time_t ttl,
    ngx_log_t *log)
{
    u_char                  *p;
    ngx_etcd_cluster_t      *cluster;
    ngx_etcd_session_t      *session;
    ngx_etcd_lock_client_t  *client;

    cluster = ngx_etcd_client_create(conf, ngx_etcd_lock_client_changed, NULL,
                                     log);
    if (cluster == NULL) {
        return NULL;
    }

    client = ngx_pcalloc(cluster->pool, sizeof(ngx_etcd_lock_client_t));
    if (client == NULL) {
        goto failed;
    }

    client->cluster = cluster;

    session = &client->session;

    client->stream = ngx_etcd_watch_stream_create(cluster);
    session->leases = ngx_etcd_lease_stream_create(cluster);

    if (client->stream == NULL || session->leases == NULL) {
        goto failed;
    }

    p = ngx_pnalloc(cluster->pool, sizeof("etcd cluster \"\": lock") - 1
                                   + conf->name.len);
    if (p == NULL) {
        goto failed;
    }

    client->name.data = p;
    client->name.len = ngx_sprintf(p, "etcd cluster \"%V\": lock", &conf->name)
                       - p;

    ngx_etcd_txn_batch_init(&client->batch, cluster);

    ngx_queue_init(&client->lock_queues);
    ngx_queue_init(&client->leaving);
    ngx_queue_init(&client->young);

    ngx_rbtree_init(&client->mutexes, &client->sentinel,
                    ngx_str_rbtree_insert_value);

    ngx_etcd_event_init_timer(&client->timer, ngx_etcd_lock_client_timer,
                              client, log);

    ngx_str_set(&session->name, "locks");
    session->ttl = ttl;
    session->exclusive = 1;
    session->witness = ngx_etcd_lock_client_witness;
    session->missing = ngx_etcd_lock_client_missing;
    session->held = ngx_etcd_lock_client_put_next;
    session->refused = ngx_etcd_lock_client_put_next;
    session->lost = ngx_etcd_lock_client_lost;
    session->data = client;

    return client;

failed:

    ngx_etcd_client_destroy(cluster);

    return NULL;
}


void
ngx_etcd_lock_client_destroy(ngx_etcd_lock_client_t *client)
{
    ngx_etcd_lock_queue_t  *lock_queue;

    ngx_etcd_event_stop(&client->timer);

    ngx_etcd_lock_client_search_stop(client);

    ngx_etcd_queue_each(lock_queue, &client->lock_queues, ngx_etcd_lock_queue_t,
                        queue)
    {
        ngx_etcd_mutex_drop(&lock_queue->leaving, 1);
        ngx_etcd_lock_queue_stop_read(lock_queue);
    }

    ngx_etcd_mutex_drop(&client->leaving, 1);

    ngx_etcd_session_close(&client->session);
    ngx_etcd_txn_batch_done(&client->batch);
    ngx_etcd_watch_stream_destroy(client->stream);

    ngx_etcd_queue_each(lock_queue, &client->lock_queues, ngx_etcd_lock_queue_t,
                        queue)
    {
        ngx_etcd_mirror_destroy(&lock_queue->mirror);
    }

    ngx_etcd_lease_stream_destroy(client->session.leases);
    ngx_etcd_client_destroy(client->cluster);
}


void
ngx_etcd_lock_client_start(ngx_etcd_lock_client_t *client)
{
    if (client->session.state == NGX_ETCD_SESSION_CLOSED) {
        ngx_etcd_session_start(&client->session);

    } else if (client->session.state == NGX_ETCD_SESSION_ENDING) {
        client->again = 1;
    }
}


static void
ngx_etcd_lock_client_ended(void *data)
{
    ngx_etcd_lock_client_t *client = data;

    ngx_etcd_lock_client_lease_lost(client);

    if (client->again) {
        client->again = 0;
        ngx_etcd_session_start(&client->session);
        return;
    }

    client->ended(client->data);
}


void
ngx_etcd_lock_client_end(ngx_etcd_lock_client_t *client,
    void (*ended)(void *data),
    void *data)
{
    client->ended = ended;
    client->data = data;
    client->again = 0;

    ngx_etcd_lock_client_search_stop(client);

    if (client->session.state == NGX_ETCD_SESSION_ENDING) {
        return;
    }

    /* etcd refuses a put that it processes after the revocation */

    ngx_etcd_session_end(&client->session, ngx_etcd_lock_client_ended, client);
}
