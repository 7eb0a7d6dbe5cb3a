
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_wait_queue.h>


/* Returns the oldest entry for which enough peers are usable, or NULL. */

static ngx_etcd_wait_queue_entry_t *
ngx_etcd_wait_queue_due(ngx_etcd_wait_queue_t *wait_queue)
{
    ngx_uint_t                    missing;
    ngx_queue_t                  *q;
    ngx_etcd_wait_queue_entry_t  *entry;

    missing = NGX_MAX_UINT32_VALUE;

    for (q = ngx_queue_head(&wait_queue->entries);
         q != ngx_queue_sentinel(&wait_queue->entries) && missing != 0;
         q = ngx_queue_next(q))
    {
        entry = ngx_queue_data(q, ngx_etcd_wait_queue_entry_t, queue);

        if (entry->more < missing) {

            if (wait_queue->usable(wait_queue->data, entry->more)) {
                return entry;
            }

            missing = entry->more;
        }
    }

    return NULL;
}


static void
ngx_etcd_wait_queue_run(ngx_event_t *ev)
{
    ngx_uint_t                    i, n;
    ngx_etcd_wait_queue_t        *wait_queue;
    ngx_etcd_wait_queue_entry_t  *entry;

    wait_queue = ev->data;
    n = ngx_min(wait_queue->n, NGX_ETCD_WAIT_QUEUE_BATCH);

    ngx_log_debug2(NGX_LOG_DEBUG_EVENT, ev->log, 0,
                   "etcd: %ui of %ui that are held go on", n, wait_queue->n);

    for (i = 0; i < n; i++) {

        /* a handler may end other waits, and peers may be gone again */

        entry = ngx_etcd_wait_queue_due(wait_queue);
        if (entry == NULL) {
            return;
        }

        ngx_etcd_wait_queue_cancel(entry);

        entry->handler(entry);
    }

    if (wait_queue->n != 0) {
        ngx_post_event(&wait_queue->wake, &ngx_posted_next_events);
    }
}


void
ngx_etcd_wait_queue_init(ngx_etcd_wait_queue_t *wait_queue,
    ngx_etcd_wait_queue_usable_pt usable,
    void (*changed)(void *data, ngx_uint_t n), void *data, ngx_log_t *log)
{
    ngx_queue_init(&wait_queue->entries);

    ngx_etcd_event_init(&wait_queue->wake, ngx_etcd_wait_queue_run, wait_queue,
                        log);

    wait_queue->usable = usable;
    wait_queue->changed = changed;
    wait_queue->data = data;
}


static void
ngx_etcd_wait_queue_timer(ngx_event_t *ev)
{
    ngx_etcd_wait_queue_entry_t  *entry;

    entry = ev->data;

    ngx_etcd_wait_queue_cancel(entry);

    entry->handler(entry);
}


/* A request that has waited before is older than most. */

static void
ngx_etcd_wait_queue_insert(ngx_etcd_wait_queue_t *wait_queue,
    ngx_etcd_wait_queue_entry_t *entry)
{
    ngx_queue_t                  *q;
    ngx_etcd_wait_queue_entry_t  *other;

    if (!entry->begun) {
        entry->begun = 1;
        entry->first = entry->since;

        ngx_queue_insert_tail(&wait_queue->entries, &entry->queue);
        return;
    }

    for (q = ngx_queue_head(&wait_queue->entries);
         q != ngx_queue_sentinel(&wait_queue->entries);
         q = ngx_queue_next(q))
    {
        other = ngx_queue_data(q, ngx_etcd_wait_queue_entry_t, queue);

        if ((ngx_msec_int_t) (other->first - entry->first) > 0) {
            break;
        }
    }

    ngx_queue_insert_tail(q, &entry->queue);
}


static void
ngx_etcd_wait_queue_count(ngx_etcd_wait_queue_t *wait_queue, ngx_int_t n)
{
    wait_queue->n += n;

    if (wait_queue->changed != NULL) {
        wait_queue->changed(wait_queue->data, wait_queue->n);
    }
}


ngx_int_t
ngx_etcd_wait_queue_begin(ngx_etcd_wait_queue_entry_t *entry,
    ngx_etcd_wait_queue_t *wait_queue, ngx_msec_t timeout, ngx_uint_t limit,
    ngx_log_t *log)
{
    ngx_etcd_wait_queue_cancel(entry);

    if (wait_queue->n >= limit) {
        return NGX_BUSY;
    }

    entry->wait_queue = wait_queue;
    entry->since = ngx_current_msec;

    ngx_etcd_event_init(&entry->timer, ngx_etcd_wait_queue_timer, entry, log);

    /*
     * not cancelable: a worker that shuts down still serves waiting requests
     */

    ngx_add_timer(&entry->timer, timeout);

    ngx_etcd_wait_queue_insert(wait_queue, entry);
    ngx_etcd_wait_queue_count(wait_queue, 1);

    return NGX_OK;
}


void
ngx_etcd_wait_queue_cancel(ngx_etcd_wait_queue_entry_t *entry)
{
    if (entry->wait_queue == NULL) {
        return;
    }

    ngx_queue_remove(&entry->queue);
    ngx_etcd_wait_queue_count(entry->wait_queue, -1);

    ngx_etcd_event_stop(&entry->timer);

    entry->wait_queue = NULL;
    entry->waited += ngx_current_msec - entry->since;
}


void
ngx_etcd_wait_queue_move(ngx_etcd_wait_queue_entry_t *entry,
    ngx_etcd_wait_queue_t *wait_queue)
{
    ngx_queue_remove(&entry->queue);
    ngx_etcd_wait_queue_count(entry->wait_queue, -1);

    entry->wait_queue = wait_queue;

    ngx_queue_insert_tail(&wait_queue->entries, &entry->queue);
    ngx_etcd_wait_queue_count(wait_queue, 1);
}


void
ngx_etcd_wait_queue_wake(ngx_etcd_wait_queue_t *wait_queue)
{
    if (wait_queue->n == 0) {
        return;
    }

    ngx_post_event(&wait_queue->wake, &ngx_posted_events);
}
