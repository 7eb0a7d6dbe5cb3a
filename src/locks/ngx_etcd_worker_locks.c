
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_client.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_worker_locks.h>


static void
ngx_etcd_worker_locks_destroy(ngx_etcd_lock_t *lock)
{
    ngx_etcd_worker_locks_use(lock);

    ngx_etcd_event_stop(&lock->post);

    ngx_rbtree_delete(&lock->locks->tree, &lock->node.node);

    ngx_destroy_pool(lock->lock_queue.pool);
}


static void
ngx_etcd_worker_locks_timer(ngx_event_t *ev)
{
    ngx_etcd_lock_t          *lock, *next;
    ngx_etcd_worker_locks_t  *locks;

    locks = ev->data;

    ngx_etcd_queue_each_safe(lock, next, &locks->idle, ngx_etcd_lock_t, rest) {
        if (locks->nidle <= NGX_ETCD_LOCK_MAX_IDLE
            && ngx_current_msec - lock->since < NGX_ETCD_LOCK_IDLE)
        {
            break;
        }

        if (ngx_etcd_lock_queue_close(&lock->lock_queue) == NGX_OK) {
            ngx_etcd_worker_locks_destroy(lock);
        }
    }

    if (locks->nidle != 0) {
        ngx_add_timer(ev, NGX_ETCD_LOCK_IDLE / 10);
    }
}


/* etcd does not answer: the keys will expire with the lease. */

static void
ngx_etcd_worker_locks_resign(ngx_event_t *ev)
{
}


ngx_etcd_worker_locks_t *
ngx_etcd_worker_locks_get(ngx_etcd_conf_t *conf)
{
    ngx_log_t                *log;
    ngx_etcd_worker_locks_t  *locks;

    if (conf->worker_locks != NULL) {
        return conf->worker_locks;
    }

    log = ngx_cycle->log;

    locks = ngx_pcalloc(ngx_cycle->pool, sizeof(ngx_etcd_worker_locks_t));
    if (locks == NULL) {
        return NULL;
    }

    locks->conf = conf;
    locks->claim = ngx_current_msec - NGX_ETCD_LOCK_STATUS_AGAIN;

    ngx_rbtree_init(&locks->tree, &locks->sentinel,
                    ngx_str_rbtree_insert_value);
    ngx_queue_init(&locks->idle);

    ngx_etcd_event_init_timer(&locks->timer, ngx_etcd_worker_locks_timer,
                              locks, log);

    ngx_etcd_event_init(&locks->resign, ngx_etcd_worker_locks_resign, locks,
                        log);

    locks->client = ngx_etcd_lock_client_create(&conf->client, conf->lock_ttl,
                                                log);
    if (locks->client == NULL) {
        return NULL;
    }

    if (ngx_etcd_server_faults_ask(locks->client->cluster, conf) != NGX_OK) {
        ngx_etcd_lock_client_destroy(locks->client);
        return NULL;
    }

    if (ngx_exiting) {
        ngx_etcd_client_linger(locks->client->cluster);
    }

    conf->worker_locks = locks;

    return locks;
}


ngx_etcd_lock_t *
ngx_etcd_worker_locks_lock(ngx_etcd_worker_locks_t *locks,
    ngx_etcd_lock_name_t *name, ngx_str_t *key, ngx_event_handler_pt post)
{
    u_char           *p;
    u_char            buf[NGX_ETCD_LOCK_MAX_NAME + NGX_ETCD_LOCK_SEGMENT_MAX
                          + 2];
    uint32_t          hash;
    ngx_str_t         prefix;
    ngx_pool_t       *pool;
    ngx_etcd_lock_t  *lock;

    p = ngx_sprintf(buf, "%V/", &name->name);

    if (key->len != 0) {
        p = ngx_sprintf(p, "%V/", key);
    }

    prefix.data = buf;
    prefix.len = p - buf;

    hash = ngx_crc32_long(prefix.data, prefix.len);

    lock = (ngx_etcd_lock_t *) ngx_str_rbtree_lookup(&locks->tree, &prefix,
                                                     hash);
    if (lock != NULL) {
        return lock;
    }

    /* one block: the lock, and its prefix or range five times */

    pool = ngx_create_pool(sizeof(ngx_pool_t) + sizeof(ngx_etcd_lock_t)
                           + NGX_ALIGNMENT
                           + 5 * (locks->conf->client.key_namespace.len
                                  + prefix.len + 1),
                           locks->client->cluster->log);
    if (pool == NULL) {
        return NULL;
    }

    lock = ngx_pcalloc(pool, sizeof(ngx_etcd_lock_t));
    p = ngx_pstrdup(pool, &prefix);

    if (lock == NULL || p == NULL) {
        goto failed;
    }

    lock->node.str.data = p;
    lock->node.str.len = prefix.len;
    lock->node.node.key = hash;

    lock->locks = locks;
    lock->name = name;

    ngx_queue_init(&lock->waiters);
    ngx_queue_init(&lock->permits);

    ngx_etcd_event_init(&lock->post, post, lock, locks->client->cluster->log);

    lock->lock_queue.client = locks->client;
    lock->lock_queue.prefix = lock->node.str;
    lock->lock_queue.permits = name->permits;
    lock->lock_queue.shared = name->shared;
    lock->lock_queue.pool = pool;
    lock->lock_queue.news = &lock->post;

    if (ngx_etcd_lock_queue_open(&lock->lock_queue) != NGX_OK) {
        goto failed;
    }

    ngx_rbtree_insert(&locks->tree, &lock->node.node);

    return lock;

failed:

    ngx_destroy_pool(pool);

    return NULL;
}


/* A contended lock is likely to be contended again and stays watched. */

void
ngx_etcd_worker_locks_rest(ngx_etcd_lock_t *lock)
{
    ngx_etcd_worker_locks_t  *locks;

    locks = lock->locks;

    if (!lock->lock_queue.watched
        && ngx_etcd_lock_queue_close(&lock->lock_queue) == NGX_OK)
    {
        ngx_etcd_worker_locks_destroy(lock);
        return;
    }

    if (lock->idle) {
        return;
    }

    lock->idle = 1;
    lock->since = ngx_current_msec;

    ngx_queue_insert_tail(&locks->idle, &lock->rest);
    locks->nidle++;

    if (!locks->timer.timer_set) {
        ngx_add_timer(&locks->timer, NGX_ETCD_LOCK_IDLE);
    }
}


void
ngx_etcd_worker_locks_use(ngx_etcd_lock_t *lock)
{
    if (lock->idle) {
        lock->idle = 0;
        lock->locks->nidle--;
        ngx_queue_remove(&lock->rest);
    }
}


static void
ngx_etcd_worker_locks_ended(void *data)
{
    ngx_etcd_worker_locks_t *locks = data;

    ngx_etcd_event_stop(&locks->resign);
}


void
ngx_etcd_worker_locks_left(ngx_etcd_worker_locks_t *locks)
{
    if (!ngx_exiting || locks->waiting != 0 || locks->held != 0
        || locks->resign.timer_set)
    {
        return;
    }

    ngx_add_timer(&locks->resign, NGX_ETCD_LOCK_RESIGN);

    ngx_etcd_lock_client_end(locks->client, ngx_etcd_worker_locks_ended, locks);
}


void
ngx_etcd_worker_locks_shutdown(void)
{
    ngx_uint_t                i;
    ngx_etcd_conf_t         **ecf;
    ngx_etcd_main_conf_t     *emcf;
    ngx_etcd_worker_locks_t  *locks;

    emcf = ngx_etcd_conf_main(ngx_cycle);
    ecf = emcf->clusters.elts;

    for (i = 0; i < emcf->clusters.nelts; i++) {
        locks = ecf[i]->worker_locks;

        if (locks != NULL) {
            ngx_etcd_client_linger(locks->client->cluster);
            ngx_etcd_worker_locks_left(locks);
        }
    }
}


static void
ngx_etcd_worker_locks_exited(void *data)
{
    ngx_uint_t *done = data;

    *done = 1;
}


void
ngx_etcd_worker_locks_stop(ngx_cycle_t *cycle)
{
    ngx_uint_t                i, done;
    ngx_etcd_conf_t         **ecf;
    ngx_etcd_main_conf_t     *emcf;
    ngx_etcd_worker_locks_t  *locks;

    emcf = ngx_etcd_conf_main(cycle);
    ecf = emcf->clusters.elts;

    for (i = 0; i < emcf->clusters.nelts; i++) {
        locks = ecf[i]->worker_locks;

        if (locks == NULL) {
            continue;
        }

        done = (locks->client->session.state == NGX_ETCD_SESSION_CLOSED);

        if (!done) {
            ngx_etcd_lock_client_end(locks->client,
                                     ngx_etcd_worker_locks_exited, &done);
            ngx_etcd_client_wait(locks->client->cluster, &done,
                                 NGX_ETCD_LOCK_EXIT);
        }

        ngx_etcd_lock_client_destroy(locks->client);
        ngx_etcd_lock_table_leave(locks->table);
        ecf[i]->worker_locks = NULL;
    }
}


void
ngx_etcd_lock_status_held(ngx_etcd_lock_t *lock, ngx_int_t n)
{
    lock->locks->held += n;
    lock->name->held += n;

    ngx_etcd_gauge_set(&lock->name->stats->held, lock->name->held);
}


static void
ngx_etcd_lock_hide(ngx_etcd_lock_t *lock, ngx_etcd_lock_row_t **row)
{
    if (*row != NULL) {
        ngx_etcd_lock_table_remove(lock->locks->table, *row);
        *row = NULL;
    }
}


/* Shows the KEY only: the prefix of the lock is "NAME/" or "NAME/KEY/". */

static ngx_etcd_lock_row_t *
ngx_etcd_lock_status_add(ngx_etcd_lock_t *lock)
{
    ngx_str_t                 key;
    ngx_etcd_worker_locks_t  *locks;

    locks = lock->locks;

    /* all tables may be in use while workers of older configurations run */

    if (locks->table == NULL
        && ngx_current_msec - locks->claim >= NGX_ETCD_LOCK_STATUS_AGAIN)
    {
        locks->claim = ngx_current_msec;
        locks->table = ngx_etcd_lock_table_claim(&locks->conf->zone);
    }

    if (locks->table == NULL) {
        return NULL;
    }

    key = lock->node.str;

    key.data += lock->name->name.len + 1;
    key.len -= lock->name->name.len + 1;

    if (key.len != 0) {
        key.len--;
    }

    return ngx_etcd_lock_table_add(locks->table, lock->name->stats, &key);
}


void
ngx_etcd_lock_status_waiting(ngx_etcd_lock_t *lock, ngx_int_t n)
{
    lock->nwaiters += n;
    lock->locks->waiting += n;
    lock->name->waiting += n;

    ngx_etcd_gauge_set(&lock->name->stats->waiting, lock->name->waiting);

    if (lock->nwaiters == 0) {
        ngx_etcd_lock_hide(lock, &lock->row);
        return;
    }

    if (lock->row == NULL) {
        lock->row = ngx_etcd_lock_status_add(lock);
    }

    if (lock->row != NULL) {
        ngx_etcd_lock_table_show(lock->row, NGX_ETCD_LOCK_ROW_WAITING, 0,
                                 lock->nwaiters,
                                 ngx_etcd_lock_first(lock)->since);
    }
}


void
ngx_etcd_lock_status_holder(ngx_etcd_lock_permit_t *permit)
{
    ngx_etcd_grant_t  *grant;

    if (permit->row == NULL) {
        permit->row = ngx_etcd_lock_status_add(permit->lock);
    }

    if (permit->row != NULL) {
        grant = ngx_queue_data(ngx_queue_head(&permit->grants),
                               ngx_etcd_grant_t, queue);

        ngx_etcd_lock_table_show(permit->row, NGX_ETCD_LOCK_ROW_HELD,
                                 permit->mutex->shared ? permit->ngrants : 0,
                                 grant->token, grant->since + grant->waited);
    }
}


void
ngx_etcd_lock_status_free(ngx_etcd_lock_permit_t *permit)
{
    ngx_etcd_lock_hide(permit->lock, &permit->row);
}
