
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_cluster.h>
#include <ngx_etcd_lock_queue_read.h>
#include <ngx_etcd_str.h>


ngx_int_t
ngx_etcd_lock_queue_place(ngx_etcd_mutex_t *mutex,
    Etcd__RangeResponse *response)
{
    size_t           i;
    ngx_int_t        order;
    ngx_uint_t       before, found;
    Etcd__KeyValue  *kv;

    found = 0;
    before = 0;

    for (i = 0; i < response->n_kvs; i++) {
        kv = response->kvs[i];

        if (kv->create_revision > mutex->created) {
            continue;
        }

        order = ngx_memn2cmp(kv->key.data, mutex->key.data, kv->key.len,
                             mutex->key.len);

        if (kv->create_revision == mutex->created && order == 0) {
            found = 1;
            before++;

        } else if (mutex->shared
                   && ngx_etcd_lock_queue_is_shared(kv->key.data, kv->key.len))
        {
            continue;

        } else if (kv->create_revision < mutex->created || order < 0) {
            before++;
        }
    }

    if (found) {
        return (before <= mutex->lock_queue->permits) ? NGX_OK : NGX_AGAIN;
    }

    return (response->more
            || response->header == NULL
            || response->header->revision < mutex->created)
           ? NGX_AGAIN : NGX_DECLINED;
}


ngx_uint_t
ngx_etcd_lock_queue_alone(ngx_etcd_mutex_t *mutex,
    Etcd__RangeResponse *response)
{
    size_t           i;
    ngx_uint_t       found;
    Etcd__KeyValue  *kv;

    found = 0;

    for (i = 0; i < response->n_kvs; i++) {
        kv = response->kvs[i];

        if (kv->create_revision == mutex->created
            && kv->key.len == mutex->key.len
            && ngx_memcmp(kv->key.data, mutex->key.data, kv->key.len) == 0)
        {
            found = 1;

        } else if (!mutex->shared
                   || !ngx_etcd_lock_queue_is_shared(kv->key.data, kv->key.len))
        {
            return 0;
        }
    }

    return found;
}


/* A read is ahead of the watch if it has found that a waiting key holds. */

static void
ngx_etcd_lock_queue_reconcile(ngx_etcd_lock_queue_t *lock_queue,
    Etcd__RangeResponse *response)
{
    ngx_int_t                    rc;
    ngx_etcd_mutex_t            *mutex;
    ngx_etcd_lock_queue_poll_t  *poll;

    poll = &lock_queue->poll;

    ngx_etcd_queue_each(mutex, &lock_queue->mutexes, ngx_etcd_mutex_t, queue) {
        if (mutex->state != NGX_ETCD_MUTEX_WAITING) {
            continue;
        }

        rc = ngx_etcd_lock_queue_place(mutex, response);

        if (rc == NGX_DECLINED) {
            mutex->handlers->gone(mutex);

        } else if (rc == NGX_OK) {

            ngx_log_debug2(NGX_LOG_DEBUG_EVENT,
                           lock_queue->client->cluster->log, 0,
                           "etcd lock: key \"%V\" of revision %L is first by "
                           "a read", ngx_etcd_shown(&mutex->key),
                           mutex->created);

            if (!poll->missed) {
                poll->missed = 1;
                poll->ahead = ngx_current_msec;
                ngx_etcd_lock_client_check(lock_queue->client);
            }

            mutex->handlers->first(mutex);
        }
    }
}


static void
ngx_etcd_lock_queue_read_done(void *data, ngx_etcd_grpc_status_e status,
    ngx_str_t *text, Etcd__RangeResponse *response)
{
    ngx_etcd_lock_queue_t  *lock_queue = data;

    lock_queue->poll.heard = ngx_current_msec;
    lock_queue->poll.read = ngx_current_msec;

    if (status == NGX_ETCD_GRPC_OK) {
        ngx_etcd_lock_queue_reconcile(lock_queue, response);
    }
}


ngx_int_t
ngx_etcd_lock_queue_read(ngx_etcd_lock_queue_t *lock_queue)
{
    ngx_etcd_lock_queue_poll_t  *poll;

    poll = &lock_queue->poll;

    if (poll->asked != NULL
        || (ngx_current_msec - poll->heard < NGX_ETCD_LOCK_QUEUE_QUIET
            && ngx_current_msec - poll->read < NGX_ETCD_LOCK_QUEUE_DOUBT)
        || ngx_etcd_lock_queue_first(lock_queue, NGX_ETCD_MUTEX_WAITING)
           == NULL)
    {
        return NGX_DECLINED;
    }

    /* there may have been no memory for it before */

    ngx_etcd_lock_queue_watch(lock_queue);

    return ngx_etcd_lock_read_start(&poll->asked, lock_queue,
                                    ngx_etcd_lock_queue_read_done, lock_queue);
}
