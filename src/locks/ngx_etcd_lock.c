
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_lock.h>
#include <ngx_etcd_lock_permit.h>


/*
 * Returns 1 if etcd has reported other holders: a shared key that is being read
 * may not wait for any.
 */

static ngx_uint_t
ngx_etcd_lock_contended(ngx_etcd_lock_t *lock)
{
    ngx_etcd_mutex_t       *mutex;
    ngx_etcd_lock_queue_t  *lock_queue;

    lock_queue = &lock->lock_queue;
    mutex = ngx_etcd_lock_queue_first(lock_queue, NGX_ETCD_MUTEX_CHECKING);

    return (mutex != NULL && !mutex->shared)
           || ngx_etcd_lock_queue_first(lock_queue, NGX_ETCD_MUTEX_WAITING)
              != NULL;
}


/*
 * Returns 1 if a grant would have to wait for others, as far as is known: it is
 * exclusive, and all permits are held or wanted; or it is shared, and others
 * hold the lock alone, or wait for that.
 */

static ngx_uint_t
ngx_etcd_lock_busy(ngx_etcd_lock_t *lock, ngx_uint_t shared)
{
    ngx_etcd_grant_t        *grant;
    ngx_etcd_lock_permit_t  *permit;

    if (ngx_etcd_lock_contended(lock)) {
        return 1;
    }

    if (!shared) {
        return lock->npermits >= lock->name->permits
               && lock->nwaiters >= lock->npermits - lock->nheld;
    }

    ngx_etcd_queue_each(grant, &lock->waiters, ngx_etcd_grant_t, queue) {
        if (!grant->shared) {
            return 1;
        }
    }

    ngx_etcd_queue_each(permit, &lock->permits, ngx_etcd_lock_permit_t, queue) {
        if (permit->ngrants != 0
            && (!permit->mutex->shared
                || ngx_etcd_lock_queue_others(permit->mutex) == NGX_BUSY))
        {
            return 1;
        }
    }

    return 0;
}


/*
 * Returns 1 if too many requests wait.  Those for which there is a permit, as
 * far as is known, only wait for the answer of etcd.
 */

static ngx_uint_t
ngx_etcd_lock_full(ngx_etcd_grant_t *grant)
{
    ngx_uint_t        queue, permits;
    ngx_etcd_lock_t  *lock;

    lock = grant->lock;
    queue = grant->conf->queue;
    permits = lock->name->permits;

    if (lock->nwaiters == 0) {
        lock->taken = 0;
    }

    if (lock->nwaiters < queue) {
        return 0;
    }

    if (lock->taken) {
        return 1;
    }

    if (grant->shared && !ngx_etcd_lock_busy(lock, 1)) {
        return 0;
    }

    return lock->nheld >= permits
           || lock->nwaiters - queue >= permits - lock->nheld;
}


static ngx_int_t
ngx_etcd_lock_refuse(ngx_etcd_grant_t *grant, ngx_etcd_refusal_e refusal,
    ngx_log_t *log)
{
    grant->state = NGX_ETCD_GRANT_TIMEOUT;

    ngx_etcd_lock_report(grant, refusal, log);

    ngx_post_event(&grant->lock->post, &ngx_posted_events);
    grant->lock = NULL;

    return NGX_DECLINED;
}


/* A lock that is no longer held is lost; the client will detect that soon. */

static void
ngx_etcd_lock_prove(ngx_etcd_grant_t *grant)
{
    ngx_etcd_lock_t  *lock;

    if (grant->state != NGX_ETCD_GRANT_HELD || ngx_etcd_lock_held(grant)) {
        return;
    }

    lock = grant->lock;

    ngx_etcd_lock_permit_lose(grant->permit);
    ngx_delete_posted_event(&grant->event);

    ngx_post_event(&lock->post, &ngx_posted_events);
}


static void
ngx_etcd_lock_event(ngx_event_t *ev)
{
    ngx_etcd_grant_t  *grant;

    grant = ev->data;

    if (grant->opened) {
        grant->lost(grant);
        return;
    }

    ngx_etcd_lock_prove(grant);

    grant->opened = 1;
    grant->handler(grant);
}


/*
 * The time to wait for other holders is over; if it is not known yet whether
 * there are any, etcd gets more time to answer.
 */

static void
ngx_etcd_lock_timer(ngx_event_t *ev)
{
    ngx_msec_t         limit, waited;
    ngx_etcd_lock_t   *lock;
    ngx_etcd_grant_t  *grant;

    grant = ev->data;
    lock = grant->lock;

    limit = lock->locks->conf->client.request_timeout;
    waited = ngx_current_msec - grant->since;

    if (lock->nheld >= lock->name->permits || ngx_etcd_lock_contended(lock)) {
        ngx_etcd_lock_decide(grant, NGX_ETCD_GRANT_TIMEOUT);

    } else if (waited >= limit) {
        ngx_etcd_lock_decide(grant, NGX_ETCD_GRANT_UNAVAILABLE);

    } else {
        grant->expired = 1;
        ngx_add_timer(&grant->timer, limit - waited);
        return;
    }

    ngx_etcd_lock_permit_adjust(lock);
}


static void
ngx_etcd_lock_wait(ngx_etcd_grant_t *grant, ngx_log_t *log)
{
    ngx_etcd_lock_t  *lock;

    lock = grant->lock;

    grant->state = NGX_ETCD_GRANT_WAITING;
    grant->since = ngx_current_msec;
    grant->expired = (grant->conf->wait == 0);

    ngx_etcd_event_init(&grant->event, ngx_etcd_lock_event, grant, log);
    ngx_etcd_event_init(&grant->timer, ngx_etcd_lock_timer, grant, log);

    ngx_add_timer(&grant->timer,
                  grant->expired ? lock->locks->conf->client.request_timeout
                                 : grant->conf->wait);

    ngx_queue_insert_tail(&lock->waiters, &grant->queue);
    ngx_etcd_lock_status_waiting(lock, 1);
}


ngx_int_t
ngx_etcd_lock_begin(ngx_etcd_grant_t *grant, ngx_log_t *log)
{
    ngx_etcd_lock_t          *lock;
    ngx_etcd_lock_name_t     *name;
    ngx_etcd_worker_locks_t  *locks;

    name = grant->conf->name;

    locks = ngx_etcd_worker_locks_get(name->cluster);
    if (locks == NULL) {
        return NGX_ERROR;
    }

    lock = ngx_etcd_worker_locks_lock(locks, name, &grant->key,
                                      ngx_etcd_lock_permit_post);
    if (lock == NULL) {
        return NGX_ERROR;
    }

    grant->lock = lock;

    if (grant->conf->wait == 0 && ngx_etcd_lock_busy(lock, grant->shared)) {
        return ngx_etcd_lock_refuse(grant, NGX_ETCD_REFUSAL_LOCK_HELD, log);
    }

    if (ngx_etcd_lock_full(grant)
        || locks->waiting >= name->cluster->lock_waiters)
    {
        return ngx_etcd_lock_refuse(grant, NGX_ETCD_REFUSAL_LOCK_QUEUE_FULL,
                                    log);
    }

    ngx_etcd_lock_client_start(locks->client);
    ngx_etcd_worker_locks_use(lock);

    ngx_etcd_lock_wait(grant, log);
    ngx_etcd_lock_reuse_ask(lock);
    ngx_etcd_lock_permit_adjust(lock);

    if (grant->state == NGX_ETCD_GRANT_HELD) {
        ngx_delete_posted_event(&grant->event);
        grant->opened = 1;
        return NGX_OK;
    }

    return NGX_AGAIN;
}


void
ngx_etcd_lock_end(ngx_etcd_grant_t *grant)
{
    ngx_etcd_lock_t         *lock;
    ngx_etcd_lock_permit_t  *permit;

    /* a grant that neither waits nor holds may outlive its lock */

    lock = grant->lock;

    if (lock == NULL) {
        return;
    }

    ngx_etcd_event_stop(&grant->event);
    ngx_etcd_event_stop(&grant->timer);

    grant->lock = NULL;

    if (grant->state == NGX_ETCD_GRANT_WAITING) {
        grant->state = NGX_ETCD_GRANT_NONE;
        grant->waited = ngx_current_msec - grant->since;

        ngx_queue_remove(&grant->queue);
        ngx_etcd_lock_status_waiting(lock, -1);
        ngx_etcd_lock_permit_adjust(lock);

    } else if (grant->state == NGX_ETCD_GRANT_HELD) {
        permit = grant->permit;

        grant->state = NGX_ETCD_GRANT_ENDED;

        ngx_etcd_lock_permit_return(grant);

        /* others wait for the end of a shared key that no waiter has joined */

        if (permit->ngrants == 0
            && (permit->mutex->shared
                || permit->handoffs + 1 >= lock->name->reuse
                || ngx_etcd_lock_permit_next(permit) != NGX_OK)
            && ngx_etcd_lock_reuse_keep(permit) != NGX_OK)
        {
            ngx_etcd_lock_permit_remove(permit);
        }

        ngx_etcd_lock_reuse_ask(lock);
        ngx_etcd_lock_permit_adjust(lock);
    }

    ngx_etcd_worker_locks_left(grant->conf->name->cluster->worker_locks);
}


ngx_uint_t
ngx_etcd_lock_held(ngx_etcd_grant_t *grant)
{
    return grant->state == NGX_ETCD_GRANT_HELD
           && ngx_etcd_lock_client_left(grant->lock->locks->client) != 0;
}


ngx_uint_t
ngx_etcd_lock_found_lost(ngx_etcd_grant_t *grant)
{
    if (grant->opened && grant->state == NGX_ETCD_GRANT_HELD) {
        ngx_etcd_lock_prove(grant);
        return grant->state == NGX_ETCD_GRANT_LOST;
    }

    if (grant->state == NGX_ETCD_GRANT_LOST && grant->event.posted) {
        ngx_delete_posted_event(&grant->event);
        return 1;
    }

    return 0;
}
