
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_gauge.h>
#include <ngx_etcd_hold.h>


static void ngx_etcd_hold_count(ngx_etcd_table_t *table, ngx_int_t n);
static void ngx_etcd_hold_timer(ngx_event_t *ev);
static void ngx_etcd_hold_run(ngx_event_t *ev);


ngx_int_t
ngx_etcd_hold_begin(ngx_etcd_hold_t *hold, ngx_etcd_table_t *table,
    ngx_msec_t timeout, ngx_uint_t limit, ngx_log_t *log)
{
    ngx_etcd_hold_cancel(hold);

    if (table->nheld >= limit) {
        return NGX_BUSY;
    }

    hold->table = table;
    hold->since = ngx_current_msec;

    hold->timer.handler = ngx_etcd_hold_timer;
    hold->timer.data = hold;
    hold->timer.log = log;

    /*
     * not cancelable: a worker that shuts down still serves waiting requests
     */

    ngx_add_timer(&hold->timer, timeout);

    ngx_queue_insert_tail(&table->held, &hold->queue);
    ngx_etcd_hold_count(table, 1);

    return NGX_OK;
}


void
ngx_etcd_hold_cancel(ngx_etcd_hold_t *hold)
{
    if (hold->table == NULL) {
        return;
    }

    ngx_queue_remove(&hold->queue);
    ngx_etcd_hold_count(hold->table, -1);

    if (hold->timer.timer_set) {
        ngx_del_timer(&hold->timer);
    }

    hold->table = NULL;
    hold->waited += ngx_current_msec - hold->since;
}


static void
ngx_etcd_hold_count(ngx_etcd_table_t *table, ngx_int_t n)
{
    table->nheld += n;

    /* a set with another id is not this table's set any more */

    if (table->set->object.id == table->set_id && table->set->waiting != NULL) {
        ngx_etcd_gauge_set(table->set->waiting, table->nheld);
    }
}


static void
ngx_etcd_hold_timer(ngx_event_t *ev)
{
    ngx_etcd_hold_t  *hold;

    hold = ev->data;

    ngx_etcd_hold_cancel(hold);

    hold->handler(hold);
}


void
ngx_etcd_hold_wake(ngx_etcd_table_t *table)
{
    if (table->nheld == 0) {
        return;
    }

    table->wake.handler = ngx_etcd_hold_run;
    table->wake.data = table;
    table->wake.log = table->log;

    ngx_post_event(&table->wake, &ngx_posted_events);
}


static void
ngx_etcd_hold_run(ngx_event_t *ev)
{
    ngx_queue_t       *q;
    ngx_uint_t         i, n;
    ngx_etcd_hold_t   *hold;
    ngx_etcd_table_t  *table;

    table = ev->data;
    n = ngx_min(table->nheld, NGX_ETCD_HOLD_BATCH);

    ngx_log_debug2(NGX_LOG_DEBUG_EVENT, ev->log, 0,
                   "etcd: %ui of %ui that are held go on", n, table->nheld);

    for (i = 0; i < n; i++) {

        /* a handler may end other waits, and peers may be gone again */

        if (ngx_queue_empty(&table->held) || !ngx_etcd_table_usable(table))
        {
            return;
        }

        q = ngx_queue_head(&table->held);
        hold = ngx_queue_data(q, ngx_etcd_hold_t, queue);

        ngx_etcd_hold_cancel(hold);

        hold->handler(hold);
    }

    if (table->nheld != 0) {
        ngx_post_event(&table->wake, &ngx_posted_next_events);
    }
}
