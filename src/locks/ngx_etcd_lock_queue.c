
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_cluster.h>
#include <ngx_etcd_client.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_lock_queue.h>
#include <ngx_etcd_str.h>


struct ngx_etcd_lock_read_s {
    ngx_etcd_range_t         range;
    ngx_etcd_lock_read_t   **read;             /* the caller's pointer */
    ngx_etcd_lock_read_pt    done;
    void                    *data;
};


void
ngx_etcd_lock_client_enter(ngx_etcd_lock_client_t *client)
{
    if (client->nmutexes++ == 0) {
        ngx_etcd_client_hasten(client->cluster);
        ngx_etcd_session_hasten(&client->session);
    }
}


void
ngx_etcd_lock_client_leave(ngx_etcd_lock_client_t *client)
{
    if (--client->nmutexes == 0) {
        client->cluster->urgent = 0;
    }
}


/*
 * The reason for which etcd refuses one deletion mostly concerns all of them:
 * one line in the log is enough, and requests become rarer.
 */

void
ngx_etcd_lock_client_undeleted(ngx_etcd_mutex_t *mutex,
    ngx_etcd_grpc_status_e status, ngx_str_t *text)
{
    ngx_uint_t               level;
    ngx_msec_t               pause;
    ngx_etcd_lock_client_t  *client;

    client = mutex->client;

    level = ngx_etcd_cause_level(&client->causes, status, text);

    ngx_log_error(level, client->cluster->log, 0,
                  "etcd cluster \"%V\": key \"%V\" of a lock was not "
                  "deleted: %s: %V, trying again", &client->cluster->conf->name,
                  ngx_etcd_shown(&mutex->key),
                  ngx_etcd_grpc_status_name(status), text);

    client->nundeleted += (mutex->failures == 0);

    pause = NGX_ETCD_LOCK_CLIENT_AGAIN
            << ngx_min(mutex->failures, NGX_ETCD_LOCK_CLIENT_DOUBLINGS);

    mutex->failures++;

    ngx_add_timer(&mutex->timer, ngx_etcd_backoff_around(pause));
}


void
ngx_etcd_lock_client_check(ngx_etcd_lock_client_t *client)
{
    if (!client->timer.timer_set) {
        ngx_add_timer(&client->timer,
                      NGX_ETCD_LOCK_CLIENT_TICK
                      + (ngx_msec_t) ngx_random()
                        % NGX_ETCD_LOCK_CLIENT_TICK);
    }
}


void
ngx_etcd_lock_client_unknown(ngx_etcd_lock_client_t *client)
{
    if (client->unknown == 0) {
        client->searched = ngx_current_msec;
    }

    client->unknown = ngx_etcd_clock();

    ngx_etcd_lock_client_check(client);
}


ngx_msec_t
ngx_etcd_lock_client_left(ngx_etcd_lock_client_t *client)
{
    uint64_t  now;

    now = ngx_etcd_clock();

    return (client->session.state == NGX_ETCD_SESSION_HELD
            && !client->cluster->history.foreign
            && client->session.lease.deadline > now)
           ? (ngx_msec_t) (client->session.lease.deadline - now) : 0;
}


void
ngx_etcd_lock_queue_know(ngx_etcd_lock_client_t *client, ngx_str_t *prefix)
{
    if (client->prefix.len == 0) {
        client->prefix.data = ngx_pstrdup(client->cluster->pool, prefix);
        client->prefix.len = client->prefix.data ? prefix->len : 0;
    }
}


static void
ngx_etcd_lock_read_done(ngx_etcd_range_t *range, ngx_etcd_grpc_status_e status,
    ngx_str_t *text, Etcd__RangeResponse *response, ngx_pool_t *pool)
{
    ngx_etcd_lock_read_t  *read = range->data;

    *read->read = NULL;

    read->done(read->data, status, text, response);

    if (status == NGX_ETCD_GRPC_OK) {
        ngx_destroy_pool(pool);
    }

    ngx_free(read);
}


/* one more than the permits detects equal create revisions */

ngx_int_t
ngx_etcd_lock_read_start(ngx_etcd_lock_read_t **read,
    ngx_etcd_lock_queue_t *lock_queue, ngx_etcd_lock_read_pt done, void *data)
{
    ngx_etcd_cluster_t    *cluster;
    Etcd__RangeRequest    *request;
    ngx_etcd_lock_read_t  *new;

    cluster = lock_queue->client->cluster;

    new = ngx_calloc(sizeof(ngx_etcd_lock_read_t), cluster->log);
    if (new == NULL) {
        return NGX_ERROR;
    }

    request = &new->range.request;

    etcd__range_request__init(request);

    request->key = ngx_etcd_bytes(&lock_queue->from);
    request->range_end = ngx_etcd_bytes(&lock_queue->to);
    request->limit = lock_queue->shared ? 0
                                        : (int64_t) lock_queue->permits + 1;
    request->sort_target = ETCD__RANGE_REQUEST__SORT_TARGET__CREATE;
    request->sort_order = ETCD__RANGE_REQUEST__SORT_ORDER__ASCEND;
    request->keys_only = 1;

    new->range.cluster = cluster;
    new->range.done = ngx_etcd_lock_read_done;
    new->range.data = new;

    new->read = read;
    new->done = done;
    new->data = data;

    *read = new;

    ngx_etcd_range_start(&new->range);

    return NGX_OK;
}


void
ngx_etcd_lock_read_end(ngx_etcd_lock_read_t **read)
{
    if (*read != NULL) {
        ngx_etcd_range_cancel(&(*read)->range);
        ngx_free(*read);
        *read = NULL;
    }
}


const ngx_str_t  ngx_etcd_lock_queue_shared = ngx_string("-shared");


ngx_uint_t
ngx_etcd_lock_queue_is_shared(u_char *name, size_t len)
{
    size_t  n;

    n = ngx_etcd_lock_queue_shared.len;

    return len > n
           && ngx_memcmp(name + len - n, ngx_etcd_lock_queue_shared.data, n)
              == 0;
}


/*
 * Returns 1 if the name is not LEASE or LEASE-NUMBER in hexadecimal digits, or
 * such a one of a shared key.
 */

static ngx_uint_t
ngx_etcd_lock_queue_foreign(ngx_etcd_lock_queue_t *lock_queue, ngx_str_t *key)
{
    size_t   i, len, digits;
    u_char  *p;

    digits = 0;
    p = key->data;
    len = key->len;

    if (ngx_etcd_lock_queue_is_shared(p, len)) {
        len -= ngx_etcd_lock_queue_shared.len;
    }

    for (i = lock_queue->prefix.len; i < len; i++) {

        if (p[i] == '-' && digits != 0) {
            digits = 0;
            continue;
        }

        if (((p[i] < '0' || p[i] > '9') && (p[i] < 'a' || p[i] > 'f'))
            || ++digits > 16)
        {
            return 1;
        }
    }

    return digits == 0;
}


/* the watch has reported something */

static void
ngx_etcd_lock_queue_heard(ngx_etcd_lock_queue_t *lock_queue)
{
    lock_queue->poll.heard = ngx_current_msec;
    lock_queue->poll.missed = 0;
}


static void
ngx_etcd_lock_queue_changed(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry)
{
    ngx_etcd_lock_queue_t *lock_queue = mirror->data;

    ngx_etcd_cluster_t  *cluster;

    lock_queue->changed = 1;

    ngx_etcd_lock_queue_heard(lock_queue);

    if (lock_queue->foreign
        || !ngx_etcd_lock_queue_foreign(lock_queue, &entry->key)
        || ngx_etcd_candidate_decimal(&entry->key, entry->lease,
                                      lock_queue->prefix.len))
    {
        return;
    }

    lock_queue->foreign = 1;
    cluster = lock_queue->client->cluster;

    ngx_log_error(NGX_LOG_ERR, cluster->log, 0,
                  "etcd cluster \"%V\": lock \"%V\": key \"%V\" is not named "
                  "after a lease, and counts as one that holds the lock or "
                  "waits for it", &cluster->conf->name, &lock_queue->prefix,
                  ngx_etcd_shown(&entry->key));
}


/* the deletion of a key of this client is valid even if the list is not */

static void
ngx_etcd_lock_queue_removed(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry)
{
    ngx_etcd_mutex_t       *mutex;
    ngx_etcd_lock_queue_t  *lock_queue;

    lock_queue = mirror->data;
    lock_queue->changed = 1;

    ngx_etcd_lock_queue_heard(lock_queue);

    ngx_etcd_queue_each(mutex, &lock_queue->mutexes, ngx_etcd_mutex_t, queue) {

        if (ngx_etcd_str_equal(&mutex->own, &entry->key)
            && mutex->created != 0
            && mutex->created < entry->mod_revision)
        {
            mutex->handlers->gone(mutex);
            break;
        }
    }
}


/*
 * Finds keys of this client that are missing though the mirror is newer.  After
 * a restore the mirror may be older than a key at first.
 */

static void
ngx_etcd_lock_queue_missing(ngx_etcd_lock_queue_t *lock_queue)
{
    ngx_etcd_mutex_t  *mutex, *next;

    lock_queue->newer = 0;

    ngx_etcd_queue_each_safe(mutex, next, &lock_queue->mutexes,
                             ngx_etcd_mutex_t, queue)
    {
        if (mutex->created == 0) {
            continue;
        }

        if (!ngx_etcd_mirror_covers(&lock_queue->mirror, mutex->created)) {
            lock_queue->newer = 1;

        } else if (ngx_etcd_lock_queue_lost(mutex)) {
            mutex->handlers->gone(mutex);
        }
    }
}


static void
ngx_etcd_lock_queue_complete(ngx_etcd_mirror_t *mirror, int64_t revision)
{
    ngx_etcd_mutex_t       *mutex;
    ngx_etcd_lock_queue_t  *lock_queue;

    lock_queue = mirror->data;

    if (mirror->relisted) {
        ngx_etcd_lock_queue_heard(lock_queue);

    } else if (!lock_queue->changed && !lock_queue->newer) {
        return;
    }

    lock_queue->changed = 0;

    ngx_etcd_lock_queue_missing(lock_queue);

    ngx_etcd_queue_each(mutex, &lock_queue->mutexes, ngx_etcd_mutex_t, queue) {
        if (mutex->state == NGX_ETCD_MUTEX_WAITING) {
            mutex->handlers->look(mutex);
        }
    }

    ngx_post_event(lock_queue->news, &ngx_posted_events);
}


ngx_int_t
ngx_etcd_lock_queue_open(ngx_etcd_lock_queue_t *lock_queue)
{
    ngx_etcd_mirror_t       *mirror;
    ngx_etcd_lock_client_t  *client;

    client = lock_queue->client;

    if (ngx_etcd_kv_key(&lock_queue->from, lock_queue->pool,
                        &client->cluster->conf->key_namespace,
                        &lock_queue->prefix)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    lock_queue->to = ngx_etcd_range_prefix_end(lock_queue->pool,
                                               &lock_queue->from);

    if (lock_queue->to.data == NULL) {
        return NGX_ERROR;
    }

    mirror = &lock_queue->mirror;

    mirror->name = client->name;
    mirror->entries.ordered = 1;
    mirror->changed = ngx_etcd_lock_queue_changed;
    mirror->removed = ngx_etcd_lock_queue_removed;
    mirror->complete = ngx_etcd_lock_queue_complete;
    mirror->data = lock_queue;

    mirror->watch.range.prefix = lock_queue->prefix;
    mirror->watch.prompt = 1;
    mirror->watch.pool = lock_queue->pool;

    ngx_etcd_mirror_init(mirror, client->cluster->log);

    ngx_queue_init(&lock_queue->mutexes);
    ngx_queue_init(&lock_queue->leaving);
    ngx_queue_insert_tail(&client->lock_queues, &lock_queue->queue);

    ngx_etcd_lock_queue_know(client, &lock_queue->from);

    return NGX_OK;
}


void
ngx_etcd_lock_queue_stop_read(ngx_etcd_lock_queue_t *lock_queue)
{
    ngx_etcd_lock_read_end(&lock_queue->poll.asked);

    lock_queue->poll.missed = 0;
}


ngx_int_t
ngx_etcd_lock_queue_close(ngx_etcd_lock_queue_t *lock_queue)
{
    if (!ngx_queue_empty(&lock_queue->mutexes)
        || !ngx_queue_empty(&lock_queue->leaving)
        || lock_queue->acquiring
        || ngx_etcd_mirror_stop(&lock_queue->mirror) != NGX_OK)
    {
        return NGX_AGAIN;
    }

    ngx_etcd_lock_queue_stop_read(lock_queue);

    ngx_queue_remove(&lock_queue->queue);

    return NGX_OK;
}


void
ngx_etcd_lock_queue_watch(ngx_etcd_lock_queue_t *lock_queue)
{
    /* without memory, the next waiting key tries again */

    if (!lock_queue->watched) {
        lock_queue->watched = (ngx_etcd_mirror_start(&lock_queue->mirror,
                                                     lock_queue->client->stream)
                            == NGX_OK);
    }
}


void
ngx_etcd_lock_queue_put_next(ngx_etcd_lock_queue_t *lock_queue)
{
    ngx_etcd_mutex_t    *mutex;
    ngx_etcd_session_t  *session;

    session = &lock_queue->client->session;

    if (session->state == NGX_ETCD_SESSION_WAITING && session->full) {

        ngx_etcd_queue_each(mutex, &lock_queue->mutexes, ngx_etcd_mutex_t,
                            queue)
        {
            if (mutex->state == NGX_ETCD_MUTEX_PENDING) {
                mutex->handlers->fail(mutex,
                                      NGX_ETCD_GRPC_FAILED_PRECONDITION);
            }
        }

        return;
    }

    /*
     * One key at a time: keys put by one transaction have the same create
     * revision, which leaves their order open.
     */

    if (lock_queue->acquiring || session->state != NGX_ETCD_SESSION_HELD) {
        return;
    }

    mutex = ngx_etcd_lock_queue_first(lock_queue, NGX_ETCD_MUTEX_PENDING);

    if (mutex != NULL) {
        mutex->handlers->put(mutex);
    }
}


ngx_etcd_mutex_t *
ngx_etcd_lock_queue_first(ngx_etcd_lock_queue_t *lock_queue,
    ngx_etcd_mutex_state_e state)
{
    ngx_etcd_mutex_t  *mutex;

    ngx_etcd_queue_each(mutex, &lock_queue->mutexes, ngx_etcd_mutex_t, queue) {
        if (mutex->state == state) {
            return mutex;
        }
    }

    return NULL;
}


/* Returns the key as the watch has reported it; NULL: it has not. */

static ngx_etcd_mirror_entry_t *
ngx_etcd_lock_queue_own(ngx_etcd_mutex_t *mutex)
{
    ngx_etcd_mirror_entry_t  *own;

    own = ngx_etcd_mirror_find(&mutex->lock_queue->mirror, &mutex->own);

    return (own != NULL && own->create_revision == mutex->created) ? own : NULL;
}


ngx_uint_t
ngx_etcd_lock_queue_lost(ngx_etcd_mutex_t *mutex)
{
    return ngx_etcd_mirror_covers(&mutex->lock_queue->mirror, mutex->created)
           && ngx_etcd_lock_queue_own(mutex) == NULL;
}


ngx_uint_t
ngx_etcd_lock_queue_won(ngx_etcd_mutex_t *mutex)
{
    ngx_uint_t                before;
    ngx_etcd_mirror_t        *mirror;
    ngx_etcd_mirror_entry_t  *own, *other;

    mirror = &mutex->lock_queue->mirror;

    /* a state with the own key has all earlier keys as well */

    own = ngx_etcd_lock_queue_own(mutex);

    if (!mirror->synced || own == NULL) {
        return 0;
    }

    before = 0;

    for (other = ngx_etcd_mirror_first(mirror);
         other != NULL && other->create_revision <= mutex->created;
         other = ngx_etcd_mirror_next(mirror, other))
    {
        if (mutex->shared
            && ngx_etcd_lock_queue_is_shared(other->key.data, other->key.len))
        {
            continue;
        }

        if (other->create_revision < mutex->created
            || (other != own
                && ngx_memn2cmp(other->key.data, own->key.data, other->key.len,
                                own->key.len) < 0))
        {
            before++;
        }

        if (before == mutex->lock_queue->permits) {
            return 0;
        }
    }

    return 1;
}


ngx_int_t
ngx_etcd_lock_queue_others(ngx_etcd_mutex_t *mutex)
{
    ngx_etcd_mirror_t        *mirror;
    ngx_etcd_mirror_entry_t  *other;

    mirror = &mutex->lock_queue->mirror;

    if (!mirror->synced || ngx_etcd_lock_queue_own(mutex) == NULL) {
        return NGX_AGAIN;
    }

    if (!mutex->shared) {
        return (mirror->entries.n == 1) ? NGX_OK : NGX_BUSY;
    }

    for (other = ngx_etcd_mirror_first(mirror);
         other != NULL;
         other = ngx_etcd_mirror_next(mirror, other))
    {
        if (!ngx_etcd_lock_queue_is_shared(other->key.data, other->key.len)) {
            return NGX_BUSY;
        }
    }

    return NGX_OK;
}


void
ngx_etcd_lock_queue_wait(ngx_etcd_lock_queue_t *lock_queue)
{
    ngx_etcd_lock_queue_watch(lock_queue);
    ngx_etcd_lock_queue_heard(lock_queue);

    lock_queue->poll.read = ngx_current_msec;

    ngx_etcd_lock_client_check(lock_queue->client);
}


ngx_uint_t
ngx_etcd_lock_queue_lags(ngx_etcd_lock_queue_t *lock_queue)
{
    ngx_etcd_lock_queue_poll_t  *poll;

    poll = &lock_queue->poll;

    if (!poll->missed
        || ngx_current_msec - poll->ahead < NGX_ETCD_LOCK_QUEUE_LAG)
    {
        return 0;
    }

    poll->missed = 0;

    return lock_queue->watched
           && ngx_etcd_watch_active(&lock_queue->mirror.watch);
}
