
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_lock.h>
#include <ngx_etcd_lock_linger.h>
#include <ngx_etcd_worker_locks.h>


/* Ends the wait of a grant. */

static void
ngx_etcd_lock_decide(ngx_etcd_grant_t *grant, ngx_etcd_grant_state_e state)
{
    ngx_etcd_lock_t  *lock;

    lock = grant->lock;

    ngx_queue_remove(&grant->queue);

    ngx_etcd_event_stop(&grant->timer);

    grant->state = state;
    grant->waited = ngx_current_msec - grant->since;

    ngx_etcd_lock_status_waiting(lock, -1);

    if (state != NGX_ETCD_GRANT_HELD) {
        ngx_log_error(NGX_LOG_INFO, grant->event.log, 0,
                      "etcd cluster \"%V\": lock \"%V\" was not obtained: %s",
                      &lock->locks->conf->name, &lock->node.str,
                      (state == NGX_ETCD_GRANT_TIMEOUT)
                      ? "it is held" : "etcd has not answered");
    }

    if (state == NGX_ETCD_GRANT_TIMEOUT) {
        (void) ngx_atomic_fetch_add(&lock->name->stats->timeouts, 1);
    }

    ngx_post_event(&grant->event, &ngx_posted_events);
}


/* Gives the permit to the first waiter. */

static void
ngx_etcd_lock_give(ngx_etcd_lock_permit_t *permit)
{
    ngx_queue_t       *q;
    ngx_etcd_lock_t   *lock;
    ngx_etcd_grant_t  *grant;

    lock = permit->lock;

    q = ngx_queue_head(&lock->waiters);
    grant = ngx_queue_data(q, ngx_etcd_grant_t, queue);

    ngx_etcd_lock_decide(grant, NGX_ETCD_GRANT_HELD);

    grant->permit = permit;
    grant->token = (uint64_t) permit->mutex->created;

    if (lock->name->handoff != 0 || lock->name->linger != 0) {
        grant->token = (grant->token << NGX_ETCD_LOCK_TOKEN_BITS)
                       + permit->handoffs;
    }

    if (permit->grant == NULL) {
        ngx_etcd_lock_status_held(lock, 1);
    }

    permit->grant = grant;

    ngx_etcd_lock_status_holder(permit);

    (void) ngx_atomic_fetch_add(&lock->name->stats->acquired, 1);
}


static ngx_int_t
ngx_etcd_lock_next(ngx_etcd_lock_permit_t *permit)
{
    ngx_etcd_lock_t  *lock;

    lock = permit->lock;

    if (lock->nwaiters == 0
        || permit->mutex->state != NGX_ETCD_MUTEX_HELD
        || !ngx_etcd_lock_client_valid(lock->locks->client))
    {
        return NGX_DECLINED;
    }

    permit->handoffs++;

    ngx_etcd_lock_give(permit);

    (void) ngx_atomic_fetch_add(&lock->name->stats->handoffs, 1);

    return NGX_OK;
}


static void
ngx_etcd_lock_remove_permit(ngx_etcd_lock_permit_t *permit)
{
    ngx_etcd_lock_t  *lock;

    lock = permit->lock;

    ngx_queue_remove(&permit->queue);
    lock->npermits--;

    ngx_etcd_lock_linger_end(permit);

    if (permit->grant != NULL) {
        ngx_etcd_lock_status_free(permit);
        ngx_etcd_lock_status_held(lock, -1);
    }

    ngx_etcd_mutex_release(permit->mutex);
    ngx_free(permit);
}


static void
ngx_etcd_lock_lingering(ngx_etcd_lock_permit_t *permit)
{
    ngx_int_t  rc;

    rc = ngx_etcd_lock_linger_state(permit);

    if (rc == NGX_AGAIN) {
        return;
    }

    ngx_etcd_lock_linger_end(permit);

    if (rc != NGX_OK || ngx_etcd_lock_next(permit) != NGX_OK) {
        ngx_etcd_lock_remove_permit(permit);
    }
}


static void
ngx_etcd_lock_expire(ngx_etcd_lock_t *lock, ngx_uint_t all,
    ngx_etcd_grant_state_e state)
{
    ngx_queue_t       *q, *next;
    ngx_etcd_grant_t  *grant;

    for (q = ngx_queue_head(&lock->waiters);
         q != ngx_queue_sentinel(&lock->waiters);
         q = next)
    {
        next = ngx_queue_next(q);
        grant = ngx_queue_data(q, ngx_etcd_grant_t, queue);

        if (all || grant->expired) {
            ngx_etcd_lock_decide(grant, state);
        }
    }
}


static void
ngx_etcd_lock_give_first(ngx_etcd_lock_permit_t *permit)
{
    ngx_etcd_lock_t  *lock;

    lock = permit->lock;

    if (lock->nwaiters == 0) {
        ngx_etcd_lock_remove_permit(permit);
        return;
    }

    permit->since = ngx_current_msec;

    ngx_etcd_lock_give(permit);

    if (lock->nheld >= lock->name->permits) {
        ngx_etcd_lock_expire(lock, 0, NGX_ETCD_GRANT_TIMEOUT);
    }
}


static void
ngx_etcd_lock_lose(ngx_etcd_grant_t *grant)
{
    grant->permit = NULL;

    if (grant->opened) {
        grant->state = NGX_ETCD_GRANT_LOST;

    } else {
        grant->state = NGX_ETCD_GRANT_UNAVAILABLE;
        grant->token = 0;
    }

    (void) ngx_atomic_fetch_add(&grant->lock->name->stats->lost, 1);

    ngx_post_event(&grant->event, &ngx_posted_events);
}


static void
ngx_etcd_lock_permit_changed(ngx_etcd_lock_permit_t *permit)
{
    ngx_uint_t         permanent;
    ngx_etcd_lock_t   *lock;
    ngx_etcd_grant_t  *grant;

    lock = permit->lock;

    switch (permit->mutex->state) {

    case NGX_ETCD_MUTEX_HELD:
        if (permit->lingers) {
            ngx_etcd_lock_lingering(permit);

        } else if (permit->grant == NULL) {
            ngx_etcd_lock_give_first(permit);
        }

        break;

    case NGX_ETCD_MUTEX_WAITING:
    case NGX_ETCD_MUTEX_CHECKING:
        ngx_etcd_lock_expire(lock, 0, NGX_ETCD_GRANT_TIMEOUT);
        break;

    case NGX_ETCD_MUTEX_LOST:
        grant = permit->grant;

        ngx_etcd_lock_remove_permit(permit);

        if (grant != NULL) {
            ngx_etcd_lock_lose(grant);
        }

        break;

    case NGX_ETCD_MUTEX_FAILED:
        /* waiters with time left may succeed later, unless it is permanent */

        permanent = !ngx_etcd_backoff_retriable(permit->mutex->status);

        ngx_etcd_lock_remove_permit(permit);
        ngx_etcd_lock_expire(lock, permanent, NGX_ETCD_GRANT_UNAVAILABLE);
        break;

    default:
        break;
    }
}


static ngx_int_t
ngx_etcd_lock_add_permit(ngx_etcd_lock_t *lock)
{
    ngx_etcd_lock_permit_t  *permit;

    permit = ngx_calloc(sizeof(ngx_etcd_lock_permit_t), lock->post.log);
    if (permit == NULL) {
        return NGX_ERROR;
    }

    permit->lock = lock;

    permit->mutex = ngx_etcd_mutex_create(&lock->lock_queue);
    if (permit->mutex == NULL) {
        ngx_free(permit);
        return NGX_ERROR;
    }

    ngx_queue_insert_head(&lock->permits, &permit->queue);
    lock->npermits++;

    return NGX_OK;
}


static void
ngx_etcd_lock_surplus(ngx_etcd_lock_t *lock)
{
    ngx_queue_t             *q, *next;
    ngx_etcd_lock_permit_t  *permit;

    for (q = ngx_queue_head(&lock->permits);
         q != ngx_queue_sentinel(&lock->permits);
         q = next)
    {
        if (lock->npermits - lock->nheld - lock->nlingering <= lock->nwaiters) {
            return;
        }

        next = ngx_queue_next(q);
        permit = ngx_queue_data(q, ngx_etcd_lock_permit_t, queue);

        if (permit->grant == NULL && !permit->lingers) {
            ngx_etcd_lock_remove_permit(permit);
        }
    }
}


/*
 * Puts as many keys as are useful for the waiters, and deletes surplus keys.
 */

static void
ngx_etcd_lock_advance(ngx_etcd_lock_t *lock)
{
    /*
     * One key at a time: if that key has to wait for others, another one would
     * only wait behind it.  A key is not put while the deletion of keys that
     * would be ahead of it is pending.
     */

    if (lock->nwaiters != 0
        && lock->npermits == lock->nheld
        && lock->npermits + ngx_etcd_mutex_leaving(&lock->lock_queue)
           < lock->name->permits)
    {
        (void) ngx_etcd_lock_add_permit(lock);
    }

    ngx_etcd_lock_surplus(lock);

    if (lock->npermits == 0 && lock->nwaiters == 0) {
        ngx_post_event(&lock->post, &ngx_posted_events);
    }
}


static void
ngx_etcd_lock_post(ngx_event_t *ev)
{
    ngx_queue_t      *q, *next;
    ngx_etcd_lock_t  *lock;

    lock = ev->data;

    for (q = ngx_queue_head(&lock->permits);
         q != ngx_queue_sentinel(&lock->permits);
         q = next)
    {
        next = ngx_queue_next(q);
        ngx_etcd_lock_permit_changed(ngx_queue_data(q, ngx_etcd_lock_permit_t,
                                                    queue));
    }

    if (lock->nwaiters != 0 || lock->npermits != 0) {
        ngx_etcd_lock_advance(lock);
    }

    if (lock->nwaiters == 0 && lock->npermits == 0) {
        ngx_etcd_worker_locks_rest(lock);
    }
}


/* Returns 1 if etcd has reported other holders. */

static ngx_uint_t
ngx_etcd_lock_contended(ngx_etcd_lock_t *lock)
{
    ngx_queue_t             *q;
    ngx_etcd_lock_permit_t  *permit;

    for (q = ngx_queue_head(&lock->permits);
         q != ngx_queue_sentinel(&lock->permits);
         q = ngx_queue_next(q))
    {
        permit = ngx_queue_data(q, ngx_etcd_lock_permit_t, queue);

        if (permit->mutex->state == NGX_ETCD_MUTEX_WAITING
            || permit->mutex->state == NGX_ETCD_MUTEX_CHECKING)
        {
            return 1;
        }
    }

    return 0;
}


static ngx_int_t
ngx_etcd_lock_refuse(ngx_etcd_grant_t *grant)
{
    grant->state = NGX_ETCD_GRANT_TIMEOUT;

    (void) ngx_atomic_fetch_add(&grant->lock->name->stats->timeouts, 1);

    return NGX_DECLINED;
}


/* A lock that is no longer held is lost; the client will detect that soon. */

static void
ngx_etcd_lock_prove(ngx_etcd_grant_t *grant)
{
    ngx_etcd_lock_t         *lock;
    ngx_etcd_lock_permit_t  *permit;

    if (grant->state != NGX_ETCD_GRANT_HELD || ngx_etcd_lock_held(grant)) {
        return;
    }

    permit = grant->permit;
    lock = grant->lock;

    ngx_etcd_lock_lose(grant);
    ngx_delete_posted_event(&grant->event);

    ngx_etcd_lock_remove_permit(permit);
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

    ngx_etcd_lock_advance(lock);
}


static void
ngx_etcd_lock_wait(ngx_etcd_grant_t *grant, ngx_log_t *log)
{
    ngx_etcd_lock_t  *lock;

    lock = grant->lock;

    grant->state = NGX_ETCD_GRANT_WAITING;
    grant->since = ngx_current_msec;
    grant->opened = 0;
    grant->expired = (grant->conf->wait == 0);

    ngx_memzero(&grant->event, sizeof(ngx_event_t));
    ngx_memzero(&grant->timer, sizeof(ngx_event_t));

    ngx_etcd_event_init(&grant->event, ngx_etcd_lock_event, grant, log);
    ngx_etcd_event_init(&grant->timer, ngx_etcd_lock_timer, grant, log);

    ngx_add_timer(&grant->timer,
                  grant->expired ? lock->locks->conf->client.request_timeout
                                 : grant->conf->wait);

    ngx_queue_insert_tail(&lock->waiters, &grant->queue);
    ngx_etcd_lock_status_waiting(lock, 1);
}


static ngx_int_t
ngx_etcd_lock_enter(ngx_etcd_grant_t *grant, ngx_log_t *log)
{
    ngx_etcd_conf_t          *ecf;
    ngx_etcd_lock_t          *lock;
    ngx_etcd_worker_locks_t  *locks;

    lock = grant->lock;
    locks = lock->locks;
    ecf = locks->conf;

    if (grant->conf->wait == 0
        && ((lock->npermits >= lock->name->permits
             && lock->nwaiters >= lock->npermits - lock->nheld)
            || ngx_etcd_lock_contended(lock)))
    {
        ngx_log_error(NGX_LOG_INFO, log, 0,
                      "etcd cluster \"%V\": lock \"%V\" is held",
                      &ecf->name, &lock->node.str);

        return ngx_etcd_lock_refuse(grant);
    }

    if (lock->nwaiters >= grant->conf->queue
        || locks->waiting >= ecf->lock_waiters)
    {
        ngx_log_error(NGX_LOG_ERR, log, 0,
                      "etcd cluster \"%V\": lock \"%V\": too many requests "
                      "wait: %ui for this lock, %ui for all locks", &ecf->name,
                      &lock->node.str, lock->nwaiters, locks->waiting);

        return ngx_etcd_lock_refuse(grant);
    }

    ngx_etcd_lock_client_start(locks->client);
    ngx_etcd_worker_locks_use(lock);

    ngx_etcd_lock_wait(grant, log);
    ngx_etcd_lock_linger_use(lock);
    ngx_etcd_lock_advance(lock);

    return NGX_AGAIN;
}


ngx_int_t
ngx_etcd_lock_begin(ngx_etcd_grant_t *grant, ngx_log_t *log)
{
    ngx_int_t                 rc;
    ngx_etcd_lock_t          *lock;
    ngx_etcd_lock_name_t     *name;
    ngx_etcd_worker_locks_t  *locks;

    name = grant->conf->name;

    locks = ngx_etcd_worker_locks_get(name->cluster);
    if (locks == NULL) {
        return NGX_ERROR;
    }

    lock = ngx_etcd_worker_locks_lock(locks, name, &grant->key,
                                      ngx_etcd_lock_post);
    if (lock == NULL) {
        return NGX_ERROR;
    }

    grant->lock = lock;

    rc = ngx_etcd_lock_enter(grant, log);

    if (rc != NGX_AGAIN) {
        grant->lock = NULL;
        ngx_post_event(&lock->post, &ngx_posted_events);
    }

    return rc;
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

    switch (grant->state) {

    case NGX_ETCD_GRANT_WAITING:
        grant->state = NGX_ETCD_GRANT_NONE;

        ngx_queue_remove(&grant->queue);
        ngx_etcd_lock_status_waiting(lock, -1);
        ngx_etcd_lock_advance(lock);
        break;

    case NGX_ETCD_GRANT_HELD:
        permit = grant->permit;

        grant->state = NGX_ETCD_GRANT_ENDED;
        grant->permit = NULL;

        if ((permit->handoffs >= lock->name->handoff
             || ngx_etcd_lock_next(permit) != NGX_OK)
            && ngx_etcd_lock_linger(permit) != NGX_OK)
        {
            ngx_etcd_lock_remove_permit(permit);
        }

        ngx_etcd_lock_linger_use(lock);
        ngx_etcd_lock_advance(lock);
        break;

    default:
        break;
    }

    ngx_etcd_worker_locks_left(grant->conf->name->cluster->worker_locks);
}


ngx_uint_t
ngx_etcd_lock_held(ngx_etcd_grant_t *grant)
{
    return grant->state == NGX_ETCD_GRANT_HELD
           && ngx_etcd_lock_client_valid(grant->lock->locks->client);
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
