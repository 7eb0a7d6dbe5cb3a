
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_lock_linger.h>
#include <ngx_etcd_worker_locks.h>


/* Returns the time in ms that the permit may linger; 0: not at all. */

static ngx_msec_t
ngx_etcd_lock_linger_left(ngx_etcd_lock_permit_t *permit)
{
    ngx_msec_t             age;
    ngx_etcd_lock_name_t  *name;

    name = permit->lock->name;
    age = ngx_current_msec - permit->since;

    if (name->linger == 0
        || permit->handoffs >= NGX_ETCD_LOCK_MAX_HANDOFF
        || age >= NGX_ETCD_LOCK_MAX_LINGER)
    {
        return 0;
    }

    return ngx_min(name->linger, NGX_ETCD_LOCK_MAX_LINGER - age);
}


static ngx_int_t
ngx_etcd_lock_linger_others(ngx_etcd_lock_permit_t *permit)
{
    return ngx_etcd_lock_queue_others(&permit->lock->lock_queue,
                                      &permit->mutex->own,
                                      permit->mutex->created);
}


static void
ngx_etcd_lock_linger_timer(ngx_event_t *ev)
{
    ngx_etcd_lock_permit_t  *permit = ev->data;

    permit->over = 1;

    ngx_post_event(&permit->lock->post, &ngx_posted_events);
}


ngx_int_t
ngx_etcd_lock_linger(ngx_etcd_lock_permit_t *permit)
{
    ngx_msec_t                left;
    ngx_etcd_lock_t          *lock;
    ngx_etcd_worker_locks_t  *locks;

    lock = permit->lock;
    locks = lock->locks;
    left = ngx_etcd_lock_linger_left(permit);

    if (left == 0
        || ngx_exiting
        || locks->nlingering >= NGX_ETCD_LOCK_MAX_LINGERING
        || permit->mutex->state != NGX_ETCD_MUTEX_HELD
        || ngx_etcd_lock_linger_others(permit) == NGX_BUSY)
    {
        return NGX_DECLINED;
    }

    ngx_etcd_lock_queue_watch(&lock->lock_queue);

    if (!lock->lock_queue.watched) {
        return NGX_DECLINED;
    }

    ngx_etcd_lock_status_free(permit);
    ngx_etcd_lock_status_held(lock, -1);

    permit->grant = NULL;
    permit->lingers = 1;
    permit->mine = 0;
    permit->over = 0;
    lock->nlingering++;
    locks->nlingering++;

    ngx_etcd_event_init_timer(&permit->timer, ngx_etcd_lock_linger_timer,
                              permit, lock->post.log);

    ngx_add_timer(&permit->timer, left);

    return NGX_OK;
}


static void
ngx_etcd_lock_linger_checked(ngx_etcd_range_t *range,
    ngx_etcd_grpc_status_e status, ngx_str_t *text,
    Etcd__RangeResponse *response, ngx_pool_t *pool)
{
    Etcd__KeyValue          *kv;
    ngx_etcd_mutex_t        *mutex;
    ngx_etcd_lock_permit_t  *permit;

    permit = range->data;
    mutex = permit->mutex;

    permit->asking = 0;

    if (status == NGX_ETCD_GRPC_OK) {
        kv = (response->n_kvs == 1) ? response->kvs[0] : NULL;

        permit->mine = kv != NULL
                    && kv->create_revision == mutex->created
                    && kv->key.len == mutex->key.len
                    && ngx_memcmp(kv->key.data, mutex->key.data,
                                  kv->key.len)
                       == 0;

        ngx_destroy_pool(pool);
    }

    permit->over = !permit->mine;

    ngx_post_event(&permit->lock->post, &ngx_posted_events);
}


static void
ngx_etcd_lock_linger_check(ngx_etcd_lock_permit_t *permit)
{
    ngx_etcd_range_t       *range;
    Etcd__RangeRequest     *request;
    ngx_etcd_lock_queue_t  *lock_queue;

    ngx_etcd_event_stop(&permit->timer);

    lock_queue = &permit->lock->lock_queue;
    range = &permit->range;

    ngx_memzero(range, sizeof(ngx_etcd_range_t));

    request = &range->request;
    etcd__range_request__init(request);

    request->key = ngx_etcd_bytes(&lock_queue->from);
    request->range_end = ngx_etcd_bytes(&lock_queue->to);
    request->limit = 2;
    request->keys_only = 1;

    range->cluster = lock_queue->client->cluster;
    range->done = ngx_etcd_lock_linger_checked;
    range->data = permit;

    permit->asking = 1;

    ngx_etcd_range_start(range);
}


void
ngx_etcd_lock_linger_use(ngx_etcd_lock_t *lock)
{
    ngx_queue_t             *q;
    ngx_etcd_lock_permit_t  *permit;

    if (lock->nlingering == 0 || lock->nwaiters == 0) {
        return;
    }

    for (q = ngx_queue_head(&lock->permits);
         q != ngx_queue_sentinel(&lock->permits);
         q = ngx_queue_next(q))
    {
        permit = ngx_queue_data(q, ngx_etcd_lock_permit_t, queue);

        if (permit->lingers && !permit->asking && !permit->over) {
            ngx_etcd_lock_linger_check(permit);
        }
    }
}


ngx_int_t
ngx_etcd_lock_linger_state(ngx_etcd_lock_permit_t *permit)
{
    if (permit->over || ngx_etcd_lock_linger_others(permit) == NGX_BUSY) {
        return NGX_DECLINED;
    }

    if (!permit->mine) {
        return NGX_AGAIN;
    }

    return permit->lock->nwaiters ? NGX_OK : NGX_DECLINED;
}


void
ngx_etcd_lock_linger_end(ngx_etcd_lock_permit_t *permit)
{
    if (!permit->lingers) {
        return;
    }

    permit->lingers = 0;
    permit->lock->nlingering--;
    permit->lock->locks->nlingering--;

    ngx_etcd_event_stop(&permit->timer);

    if (permit->asking) {
        permit->asking = 0;
        ngx_etcd_range_cancel(&permit->range);
    }
}
