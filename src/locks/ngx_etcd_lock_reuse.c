
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_lock_queue_read.h>
#include <ngx_etcd_lock_reuse.h>


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


/* A request that came after the read was begun gets a new key. */

ngx_int_t
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
