
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_lock_poll.h>
#include <ngx_etcd_str.h>


/*
 * Returns 1 if the watch is active, but still has not reported what a poll has.
 */

static ngx_uint_t
ngx_etcd_lock_poll_lags(ngx_etcd_lock_queue_t *lock_queue)
{
    ngx_etcd_lock_queue_poll_t  *poll;

    poll = &lock_queue->poll;

    if (!poll->missed
        || ngx_current_msec - poll->ahead < NGX_ETCD_LOCK_POLL_LAG)
    {
        return 0;
    }

    poll->missed = 0;

    return lock_queue->watched
           && ngx_etcd_watch_active(&lock_queue->mirror.watch);
}


/*
 * Returns a waiting key of this client that holds one of the permits, or NULL.
 */

static ngx_etcd_lock_queue_key_t *
ngx_etcd_lock_poll_first(ngx_etcd_lock_queue_t *lock_queue,
    Etcd__RangeResponse *response)
{
    size_t                      i;
    ngx_uint_t                  before;
    ngx_queue_t                *q;
    Etcd__KeyValue             *kv;
    ngx_etcd_lock_queue_key_t  *key;

    for (q = ngx_queue_head(&lock_queue->keys);
         q != ngx_queue_sentinel(&lock_queue->keys);
         q = ngx_queue_next(q))
    {
        key = ngx_queue_data(q, ngx_etcd_lock_queue_key_t, queue);

        if (key->state != NGX_ETCD_MUTEX_WAITING) {
            continue;
        }

        before = 0;

        for (i = 0; i < response->n_kvs; i++) {
            before += (response->kvs[i]->create_revision <= key->created);
        }

        for (i = 0; i < response->n_kvs; i++) {
            kv = response->kvs[i];

            if (before <= lock_queue->permits
                && kv->create_revision == key->created
                && kv->key.len == key->key.len
                && ngx_memcmp(kv->key.data, key->key.data, kv->key.len) == 0)
            {
                return key;
            }
        }
    }

    return NULL;
}


static void
ngx_etcd_lock_poll_arm(ngx_etcd_lock_session_t *locks)
{
    if (!locks->poll.timer_set) {
        ngx_add_timer(&locks->poll,
                      NGX_ETCD_LOCK_POLL_TICK
                      + (ngx_msec_t) ngx_random() % NGX_ETCD_LOCK_POLL_TICK);
    }
}


static void
ngx_etcd_lock_poll_answer(ngx_etcd_range_t *range,
    ngx_etcd_grpc_status_e status, ngx_str_t *text,
    Etcd__RangeResponse *response, ngx_pool_t *pool)
{
    ngx_etcd_lock_queue_t       *lock_queue;
    ngx_etcd_lock_queue_key_t   *key;
    ngx_etcd_lock_queue_poll_t  *poll;

    lock_queue = range->data;
    poll = &lock_queue->poll;

    poll->asking = 0;
    poll->heard = ngx_current_msec;

    if (status != NGX_ETCD_GRPC_OK) {
        return;
    }

    key = ngx_etcd_lock_poll_first(lock_queue, response);

    ngx_destroy_pool(pool);

    if (key == NULL) {
        return;
    }

    ngx_log_debug2(NGX_LOG_DEBUG_EVENT, lock_queue->locks->cluster->log, 0,
                   "etcd lock: key \"%V\" of revision %L is first by a poll",
                   ngx_etcd_shown(&key->key), key->created);

    if (!poll->missed) {
        poll->missed = 1;
        poll->ahead = ngx_current_msec;
        ngx_etcd_lock_poll_arm(lock_queue->locks);
    }

    key->handlers->first(key);
}


/* the limit is one more than the permits, to detect equal create revisions */

static void
ngx_etcd_lock_poll_ask(ngx_etcd_lock_queue_t *lock_queue)
{
    ngx_etcd_range_t    *range;
    Etcd__RangeRequest  *request;

    range = &lock_queue->poll.range;
    request = &range->request;

    etcd__range_request__init(request);

    request->key = ngx_etcd_bytes(&lock_queue->from);
    request->range_end = ngx_etcd_bytes(&lock_queue->to);
    request->limit = (int64_t) lock_queue->permits + 1;
    request->sort_target = ETCD__RANGE_REQUEST__SORT_TARGET__CREATE;
    request->sort_order = ETCD__RANGE_REQUEST__SORT_ORDER__ASCEND;
    request->keys_only = 1;

    range->cluster = lock_queue->locks->cluster;
    range->done = ngx_etcd_lock_poll_answer;
    range->data = lock_queue;

    lock_queue->poll.asking = 1;

    ngx_etcd_range_start(range);
}


/*
 * A polled lock queue goes to the end of the list: the others come first the
 * next time.
 */

static void
ngx_etcd_lock_queue_poll_timer(ngx_event_t *ev)
{
    ngx_str_t                 reason;
    ngx_uint_t                asked, lags, more;
    ngx_queue_t              *q, *next, *last;
    ngx_etcd_lock_queue_t    *lock_queue;
    ngx_etcd_lock_session_t  *locks;

    locks = ev->data;

    asked = 0;
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

        lags |= ngx_etcd_lock_poll_lags(lock_queue);
        more |= lock_queue->poll.missed;

        if (ngx_etcd_lock_queue_first(lock_queue, NGX_ETCD_MUTEX_WAITING)
            == NULL)
        {
            continue;
        }

        more = 1;

        if (asked == NGX_ETCD_LOCK_POLL_QUEUES
            || lock_queue->poll.asking
            || ngx_current_msec - lock_queue->poll.heard
               < NGX_ETCD_LOCK_POLL_QUIET)
        {
            continue;
        }

        ngx_queue_remove(q);
        ngx_queue_insert_tail(&locks->lock_queues, q);

        ngx_etcd_lock_poll_ask(lock_queue);
        asked++;
    }

    if (more) {
        ngx_etcd_lock_poll_arm(locks);
    }

    if (lags) {
        ngx_str_set(&reason, "it lags behind the cluster");
        ngx_etcd_watch_stream_leave(locks->stream, &reason);
    }
}


void
ngx_etcd_lock_poll_init(ngx_etcd_lock_session_t *locks)
{
    ngx_etcd_event_init_timer(&locks->poll, ngx_etcd_lock_queue_poll_timer,
                              locks, locks->cluster->log);
}


void
ngx_etcd_lock_poll_done(ngx_etcd_lock_session_t *locks)
{
    ngx_queue_t  *q;

    ngx_etcd_event_stop(&locks->poll);

    for (q = ngx_queue_head(&locks->lock_queues);
         q != ngx_queue_sentinel(&locks->lock_queues);
         q = ngx_queue_next(q))
    {
        ngx_etcd_lock_queue_stop_poll(ngx_queue_data(q, ngx_etcd_lock_queue_t,
                                                     queue));
    }
}


void
ngx_etcd_lock_poll_start(ngx_etcd_lock_queue_t *lock_queue)
{
    ngx_etcd_lock_queue_heard(lock_queue);
    ngx_etcd_lock_poll_arm(lock_queue->locks);
}
