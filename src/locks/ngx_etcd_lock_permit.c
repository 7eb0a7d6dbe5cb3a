
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_lock_permit.h>
#include <ngx_etcd_lock_queue_read.h>


void
ngx_etcd_lock_report(ngx_etcd_grant_t *grant, ngx_etcd_refusal_e refusal,
    ngx_log_t *log)
{
    char             *why;
    ngx_uint_t        refused;
    ngx_etcd_lock_t  *lock;

    lock = grant->lock;
    grant->refusal = refusal;

    ngx_etcd_lock_stats_refuse(lock->name->stats, refusal);

    if (grant->state == NGX_ETCD_GRANT_TIMEOUT) {
        (void) ngx_atomic_fetch_add(&lock->name->stats->timeouts, 1);
    }

    refused = ngx_etcd_refusal_due(&lock->name->refusals);

    if (refused == 0) {
        return;
    }

    why = (refusal == NGX_ETCD_REFUSAL_LOCK_HELD) ? "it is held"
          : (refusal == NGX_ETCD_REFUSAL_LOCK_QUEUE_FULL)
            ? "too many requests wait"
            : "etcd has not answered";

    ngx_log_error(NGX_LOG_ERR, log, 0,
                  "etcd cluster \"%V\": lock \"%V\" was not obtained: %s; "
                  "%ui requests wait for it, %ui for all locks; %ui refused",
                  &lock->locks->conf->name, &lock->node.str, why,
                  lock->nwaiters, lock->locks->waiting, refused);
}


/* Ends the wait of a grant. */

void
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
        ngx_etcd_lock_report(grant, (state == NGX_ETCD_GRANT_TIMEOUT)
                                    ? NGX_ETCD_REFUSAL_LOCK_HELD
                                    : NGX_ETCD_REFUSAL_LOCK_UNAVAILABLE,
                             grant->event.log);
    }

    ngx_post_event(&grant->event, &ngx_posted_events);
}


/*
 * Gives the permit to the first waiter.  A shared one may have others already.
 */

static void
ngx_etcd_lock_give(ngx_etcd_lock_permit_t *permit)
{
    ngx_etcd_lock_t   *lock;
    ngx_etcd_grant_t  *grant;

    lock = permit->lock;
    grant = ngx_etcd_lock_first(lock);

    ngx_etcd_lock_decide(grant, NGX_ETCD_GRANT_HELD);

    ngx_queue_insert_tail(&permit->grants, &grant->queue);

    if (permit->ngrants++ == 0) {
        lock->nheld++;
    }

    grant->permit = permit;
    grant->token = (uint64_t) permit->mutex->created;

    if (lock->name->reuse > 1 || lock->name->keep != 0) {
        grant->token = (grant->token << NGX_ETCD_LOCK_TOKEN_BITS)
                       + permit->handoffs;
    }

    ngx_etcd_lock_status_held(lock, 1);
    ngx_etcd_lock_status_holder(permit);

    (void) ngx_atomic_fetch_add(&lock->name->stats->acquired, 1);
}


/* The grant holds its permit no more. */

void
ngx_etcd_lock_permit_return(ngx_etcd_grant_t *grant)
{
    ngx_etcd_lock_t         *lock;
    ngx_etcd_lock_permit_t  *permit;

    permit = grant->permit;
    lock = permit->lock;

    grant->permit = NULL;

    ngx_queue_remove(&grant->queue);

    ngx_etcd_lock_status_held(lock, -1);

    if (--permit->ngrants == 0) {
        lock->nheld--;

    } else {
        ngx_etcd_lock_status_holder(permit);
    }
}


/*
 * The first waiter gets a permit that no grant holds, or, if both are shared,
 * one that others hold.  Other clients wait for the end of an exclusive key:
 * it lets in no more after NGX_ETCD_LOCK_MAX_KEEP.
 */

ngx_int_t
ngx_etcd_lock_permit_next(ngx_etcd_lock_permit_t *permit)
{
    ngx_etcd_lock_t  *lock;

    lock = permit->lock;

    if (lock->nwaiters == 0
        || (!permit->mutex->shared
            && ngx_current_msec - permit->since >= NGX_ETCD_LOCK_MAX_KEEP)
        || ngx_etcd_lock_first(lock)->shared != permit->mutex->shared
        || permit->mutex->state != NGX_ETCD_MUTEX_HELD
        || ngx_etcd_lock_client_left(lock->locks->client) == 0)
    {
        return NGX_DECLINED;
    }

    permit->handoffs += !permit->mutex->shared;

    ngx_etcd_lock_give(permit);

    (void) ngx_atomic_fetch_add(&lock->name->stats->handoffs, 1);

    return NGX_OK;
}


/*
 * Waiters that are first, and share the lock, join the holders of a shared key,
 * unless others wait for the end of that.  While this is not known, the key
 * lets in no more after NGX_ETCD_LOCK_MAX_KEEP.
 */

static void
ngx_etcd_lock_join(ngx_etcd_lock_t *lock)
{
    ngx_int_t                rc;
    ngx_etcd_lock_permit_t  *permit;

    if (lock->nshared == 0) {
        return;
    }

    ngx_etcd_queue_each(permit, &lock->permits, ngx_etcd_lock_permit_t, queue) {

        if (lock->nwaiters == 0 || !ngx_etcd_lock_first(lock)->shared) {
            return;
        }

        if (permit->ngrants == 0 || !permit->mutex->shared) {
            continue;
        }

        rc = ngx_etcd_lock_queue_others(permit->mutex);

        if (rc == NGX_BUSY
            || (rc == NGX_AGAIN
                && ngx_current_msec - permit->since >= NGX_ETCD_LOCK_MAX_KEEP))
        {
            continue;
        }

        while (ngx_etcd_lock_permit_next(permit) == NGX_OK) { /* void */ }
    }
}


static void
ngx_etcd_lock_reuse_timer(ngx_event_t *ev)
{
    ngx_etcd_lock_permit_t  *permit = ev->data;

    permit->over = 1;

    ngx_post_event(&permit->lock->post, &ngx_posted_events);
}


ngx_int_t
ngx_etcd_lock_reuse_keep(ngx_etcd_lock_permit_t *permit)
{
    ngx_msec_t                age;
    ngx_etcd_lock_t          *lock;
    ngx_etcd_worker_locks_t  *locks;

    lock = permit->lock;
    locks = lock->locks;
    age = ngx_current_msec - permit->since;

    if (lock->name->keep == 0
        || permit->handoffs + 1 >= NGX_ETCD_LOCK_MAX_REUSE
        || age >= NGX_ETCD_LOCK_MAX_KEEP
        || ngx_exiting
        || locks->nkept >= NGX_ETCD_LOCK_MAX_KEPT
        || permit->mutex->state != NGX_ETCD_MUTEX_HELD
        || ngx_etcd_lock_queue_others(permit->mutex) == NGX_BUSY)
    {
        return NGX_DECLINED;
    }

    ngx_etcd_lock_queue_watch(&lock->lock_queue);

    if (!lock->lock_queue.watched) {
        return NGX_DECLINED;
    }

    ngx_etcd_lock_status_free(permit);

    permit->kept = 1;
    permit->mine = 0;
    permit->over = 0;
    lock->nkept++;
    locks->nkept++;

    ngx_etcd_event_init_timer(&permit->timer, ngx_etcd_lock_reuse_timer,
                              permit, lock->post.log);

    ngx_add_timer(&permit->timer, ngx_min(lock->name->keep,
                                          NGX_ETCD_LOCK_MAX_KEEP - age));

    return NGX_OK;
}


static void
ngx_etcd_lock_reuse_checked(void *data, ngx_etcd_grpc_status_e status,
    ngx_str_t *text, Etcd__RangeResponse *response)
{
    ngx_etcd_lock_permit_t *permit = data;

    if (status == NGX_ETCD_GRPC_OK) {
        permit->mine = ngx_etcd_lock_queue_alone(permit->mutex, response);
    }

    permit->over = !permit->mine;

    ngx_post_event(&permit->lock->post, &ngx_posted_events);
}


static void
ngx_etcd_lock_reuse_check(ngx_etcd_lock_permit_t *permit)
{
    ngx_etcd_grant_t  *grant;

    ngx_etcd_event_stop(&permit->timer);

    grant = ngx_etcd_lock_first(permit->lock);

    if (grant->shared != permit->mutex->shared
        || ngx_etcd_lock_read_start(&permit->read, &permit->lock->lock_queue,
                                    ngx_etcd_lock_reuse_checked, permit)
           != NGX_OK)
    {
        permit->over = 1;
        ngx_post_event(&permit->lock->post, &ngx_posted_events);
        return;
    }

    grant->asked = 1;
    permit->mine = 0;
}


void
ngx_etcd_lock_reuse_ask(ngx_etcd_lock_t *lock)
{
    ngx_etcd_lock_permit_t  *permit;

    if (lock->nkept == 0 || lock->nwaiters == 0) {
        return;
    }

    ngx_etcd_queue_each(permit, &lock->permits, ngx_etcd_lock_permit_t, queue) {
        if (permit->kept && permit->read == NULL && !permit->over) {
            ngx_etcd_lock_reuse_check(permit);
        }
    }
}


/*
 * Returns NGX_OK: the permit may be passed on; NGX_AGAIN: it is kept;
 * NGX_DECLINED: remove the permit.  A request that came after the read was
 * begun gets a new key.
 */

static ngx_int_t
ngx_etcd_lock_reuse_state(ngx_etcd_lock_permit_t *permit)
{
    ngx_etcd_lock_t  *lock;

    lock = permit->lock;

    if (permit->over || ngx_etcd_lock_queue_others(permit->mutex) == NGX_BUSY) {
        return NGX_DECLINED;
    }

    if (!permit->mine) {
        return NGX_AGAIN;
    }

    return (lock->nwaiters != 0 && ngx_etcd_lock_first(lock)->asked)
           ? NGX_OK : NGX_DECLINED;
}


void
ngx_etcd_lock_reuse_end(ngx_etcd_lock_permit_t *permit)
{
    if (!permit->kept) {
        return;
    }

    permit->kept = 0;
    permit->lock->nkept--;
    permit->lock->locks->nkept--;

    ngx_etcd_event_stop(&permit->timer);
    ngx_etcd_lock_read_end(&permit->read);
}


void
ngx_etcd_lock_permit_remove(ngx_etcd_lock_permit_t *permit)
{
    ngx_etcd_lock_t  *lock;

    lock = permit->lock;

    ngx_queue_remove(&permit->queue);
    lock->npermits--;
    lock->nshared -= permit->mutex->shared;

    ngx_etcd_lock_reuse_end(permit);
    ngx_etcd_lock_status_free(permit);

    ngx_etcd_mutex_release(permit->mutex);
    ngx_free(permit);
}


static void
ngx_etcd_lock_kept(ngx_etcd_lock_permit_t *permit)
{
    ngx_int_t  rc;

    rc = ngx_etcd_lock_reuse_state(permit);

    if (rc == NGX_AGAIN) {
        return;
    }

    ngx_etcd_lock_reuse_end(permit);

    if (rc != NGX_OK || ngx_etcd_lock_permit_next(permit) != NGX_OK) {
        ngx_etcd_lock_permit_remove(permit);
    }
}


static void
ngx_etcd_lock_expire(ngx_etcd_lock_t *lock, ngx_uint_t all,
    ngx_etcd_grant_state_e state)
{
    ngx_etcd_grant_t  *grant, *next;

    ngx_etcd_queue_each_safe(grant, next, &lock->waiters, ngx_etcd_grant_t,
                             queue)
    {
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

    if (lock->nwaiters == 0
        || ngx_etcd_lock_first(lock)->shared != permit->mutex->shared)
    {
        ngx_etcd_lock_permit_remove(permit);
        return;
    }

    permit->since = ngx_current_msec;

    ngx_etcd_lock_give(permit);

    if (permit->mutex->shared) {

        /* the watch tells of those who wait for all that share the lock */

        ngx_etcd_lock_queue_watch(&lock->lock_queue);
        ngx_etcd_lock_join(lock);
    }

    if (lock->nheld >= lock->name->permits) {
        ngx_etcd_lock_expire(lock, 0, NGX_ETCD_GRANT_TIMEOUT);
    }
}


/* The key is gone, or can be: all of its grants are lost. */

void
ngx_etcd_lock_permit_lose(ngx_etcd_lock_permit_t *permit)
{
    ngx_etcd_grant_t  *grant, *next;

    ngx_etcd_queue_each_safe(grant, next, &permit->grants, ngx_etcd_grant_t,
                             queue)
    {
        ngx_etcd_lock_permit_return(grant);

        if (grant->opened) {
            grant->state = NGX_ETCD_GRANT_LOST;

        } else {
            grant->state = NGX_ETCD_GRANT_UNAVAILABLE;
            grant->token = 0;
        }

        ngx_etcd_lock_stats_refuse(grant->lock->name->stats,
                                   NGX_ETCD_REFUSAL_LOCK_LOST);

        ngx_post_event(&grant->event, &ngx_posted_events);
    }

    ngx_etcd_lock_permit_remove(permit);
}


static void
ngx_etcd_lock_permit_changed(ngx_etcd_lock_permit_t *permit)
{
    ngx_uint_t        permanent;
    ngx_etcd_lock_t  *lock;

    lock = permit->lock;

    switch (permit->mutex->state) {

    case NGX_ETCD_MUTEX_HELD:
        if (permit->kept) {
            ngx_etcd_lock_kept(permit);

        } else if (permit->ngrants == 0) {
            ngx_etcd_lock_give_first(permit);
        }

        break;

    case NGX_ETCD_MUTEX_CHECKING:

        /* whether others of a shared key share the lock may not be known yet */

        if (permit->mutex->shared) {
            break;
        }

        /* fall through */

    case NGX_ETCD_MUTEX_WAITING:
        lock->taken = 1;
        ngx_etcd_lock_expire(lock, 0, NGX_ETCD_GRANT_TIMEOUT);
        break;

    case NGX_ETCD_MUTEX_LOST:
        ngx_etcd_lock_permit_lose(permit);
        break;

    case NGX_ETCD_MUTEX_FAILED:
        /* waiters with time left may succeed later, unless it is permanent */

        permanent = !ngx_etcd_backoff_retriable(permit->mutex->status);

        ngx_etcd_lock_permit_remove(permit);
        ngx_etcd_lock_expire(lock, permanent, NGX_ETCD_GRANT_UNAVAILABLE);
        break;

    default:
        break;
    }
}


static ngx_int_t
ngx_etcd_lock_permit_add(ngx_etcd_lock_t *lock)
{
    ngx_etcd_lock_permit_t  *permit;

    permit = ngx_calloc(sizeof(ngx_etcd_lock_permit_t), lock->post.log);
    if (permit == NULL) {
        return NGX_ERROR;
    }

    permit->lock = lock;

    ngx_queue_init(&permit->grants);

    permit->mutex = ngx_etcd_mutex_create(&lock->lock_queue,
                                          ngx_etcd_lock_first(lock)->shared);
    if (permit->mutex == NULL) {
        ngx_free(permit);
        return NGX_ERROR;
    }

    ngx_queue_insert_head(&lock->permits, &permit->queue);
    lock->npermits++;
    lock->nshared += permit->mutex->shared;

    return NGX_OK;
}


/* Adds a permit if it is useful for the waiters, and removes surplus ones. */

void
ngx_etcd_lock_permit_adjust(ngx_etcd_lock_t *lock)
{
    ngx_etcd_lock_permit_t  *permit, *next;

    ngx_etcd_lock_join(lock);

    if (lock->name->shared && lock->nwaiters != 0) {

        /* a permit waits for nobody if who is first wants the other kind */

        ngx_etcd_queue_each_safe(permit, next, &lock->permits,
                                 ngx_etcd_lock_permit_t, queue)
        {
            if (permit->ngrants == 0
                && !permit->kept
                && permit->mutex->shared != ngx_etcd_lock_first(lock)->shared)
            {
                ngx_etcd_lock_permit_remove(permit);
            }
        }
    }

    /*
     * One at a time: if its key has to wait for others, another one would only
     * wait behind it.  A key is not put while the deletion of keys that would
     * be ahead of it is pending.  It is put behind shared keys that are held:
     * from then on other workers let nobody join theirs.
     */

    if (lock->nwaiters != 0
        && lock->npermits == lock->nheld
        && lock->npermits - lock->nshared
           + ngx_etcd_mutex_leaving(&lock->lock_queue)
           < lock->name->permits)
    {
        (void) ngx_etcd_lock_permit_add(lock);
    }

    ngx_etcd_queue_each_safe(permit, next, &lock->permits,
                             ngx_etcd_lock_permit_t, queue)
    {
        if (lock->npermits - lock->nheld - lock->nkept <= lock->nwaiters) {
            break;
        }

        if (permit->ngrants == 0 && !permit->kept) {
            ngx_etcd_lock_permit_remove(permit);
        }
    }

    if (lock->npermits == 0 && lock->nwaiters == 0) {
        ngx_post_event(&lock->post, &ngx_posted_events);
    }
}


void
ngx_etcd_lock_permit_post(ngx_event_t *ev)
{
    ngx_etcd_lock_t         *lock;
    ngx_etcd_lock_permit_t  *permit, *next;

    lock = ev->data;

    ngx_etcd_queue_each_safe(permit, next, &lock->permits,
                             ngx_etcd_lock_permit_t, queue)
    {
        ngx_etcd_lock_permit_changed(permit);
    }

    if (lock->nwaiters != 0 || lock->npermits != 0) {
        ngx_etcd_lock_permit_adjust(lock);
    }

    if (lock->nwaiters == 0 && lock->npermits == 0) {
        ngx_etcd_worker_locks_rest(lock);
    }
}
