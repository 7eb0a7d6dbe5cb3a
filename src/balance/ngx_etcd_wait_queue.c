
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_gauge.h>
#include <ngx_etcd_wait_queue.h>


static void ngx_etcd_wait_queue_count(ngx_etcd_table_t *table, ngx_int_t n);
static void ngx_etcd_wait_queue_timer(ngx_event_t *ev);
static void ngx_etcd_wait_queue_run(ngx_event_t *ev);


ngx_int_t
ngx_etcd_wait_queue_begin(ngx_etcd_wait_queue_entry_t *entry,
    ngx_etcd_table_t *table, ngx_msec_t timeout, ngx_uint_t limit,
    ngx_log_t *log)
{
    ngx_etcd_wait_queue_cancel(entry);

    if (table->nheld >= limit) {
        return NGX_BUSY;
    }

    entry->table = table;
    entry->since = ngx_current_msec;

    entry->timer.handler = ngx_etcd_wait_queue_timer;
    entry->timer.data = entry;
    entry->timer.log = log;

    /*
     * not cancelable: a worker that shuts down still serves waiting requests
     */

    ngx_add_timer(&entry->timer, timeout);

    ngx_queue_insert_tail(&table->held, &entry->queue);
    ngx_etcd_wait_queue_count(table, 1);

    return NGX_OK;
}


void
ngx_etcd_wait_queue_cancel(ngx_etcd_wait_queue_entry_t *entry)
{
    if (entry->table == NULL) {
        return;
    }

    ngx_queue_remove(&entry->queue);
    ngx_etcd_wait_queue_count(entry->table, -1);

    if (entry->timer.timer_set) {
        ngx_del_timer(&entry->timer);
    }

    entry->table = NULL;
    entry->waited += ngx_current_msec - entry->since;
}


static void
ngx_etcd_wait_queue_count(ngx_etcd_table_t *table, ngx_int_t n)
{
    table->nheld += n;

    /* a set with another id is not this table's set any more */

    if (table->set->object.id == table->set_id && table->set->waiting != NULL) {
        ngx_etcd_gauge_set(table->set->waiting, table->nheld);
    }
}


static void
ngx_etcd_wait_queue_timer(ngx_event_t *ev)
{
    ngx_etcd_wait_queue_entry_t  *entry;

    entry = ev->data;

    ngx_etcd_wait_queue_cancel(entry);

    entry->handler(entry);
}


void
ngx_etcd_wait_queue_wake(ngx_etcd_table_t *table)
{
    if (table->nheld == 0) {
        return;
    }

    table->wake.handler = ngx_etcd_wait_queue_run;
    table->wake.data = table;
    table->wake.log = table->log;

    ngx_post_event(&table->wake, &ngx_posted_events);
}


static void
ngx_etcd_wait_queue_run(ngx_event_t *ev)
{
    ngx_uint_t                    i, n;
    ngx_queue_t                  *q;
    ngx_etcd_table_t             *table;
    ngx_etcd_wait_queue_entry_t  *entry;

    table = ev->data;
    n = ngx_min(table->nheld, NGX_ETCD_WAIT_QUEUE_BATCH);

    ngx_log_debug2(NGX_LOG_DEBUG_EVENT, ev->log, 0,
                   "etcd: %ui of %ui that are held go on", n, table->nheld);

    for (i = 0; i < n; i++) {

        /* a handler may end other waits, and peers may be gone again */

        if (ngx_queue_empty(&table->held) || !ngx_etcd_table_usable(table))
        {
            return;
        }

        q = ngx_queue_head(&table->held);
        entry = ngx_queue_data(q, ngx_etcd_wait_queue_entry_t, queue);

        ngx_etcd_wait_queue_cancel(entry);

        entry->handler(entry);
    }

    if (table->nheld != 0) {
        ngx_post_event(&table->wake, &ngx_posted_next_events);
    }
}
