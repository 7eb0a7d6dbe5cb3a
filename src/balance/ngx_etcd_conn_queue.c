
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_conn_queue.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_zone.h>


/* this worker's queues that are not empty */

static ngx_queue_t  ngx_etcd_conn_queues;
static ngx_fd_t     ngx_etcd_conn_queue_wakeup;


ngx_uint_t
ngx_etcd_conn_queue_usable(ngx_etcd_table_t *table)
{
    ngx_uint_t  counts;

    counts = ngx_etcd_table_counts(table);

    return ngx_etcd_table_ready(table)
           && (ngx_etcd_health_swept(&table->near, counts)
               || ngx_etcd_health_swept(&table->primary, counts)
               || ngx_etcd_health_swept(&table->backup, counts));
}


/*
 * Returns 1 if a peer of a line may be picked now, or none is to be waited for.
 */

static ngx_uint_t
ngx_etcd_conn_queue_available(ngx_etcd_table_t *table)
{
    while (!table->given_up && !ngx_etcd_conn_queue_usable(table)) {
        table = table->conf->next;

        if (table == NULL) {
            return 0;
        }
    }

    return 1;
}


/* A set with another id is not this table's set any more. */

static ngx_etcd_member_set_queue_t *
ngx_etcd_conn_queue_shared(ngx_etcd_table_t *table)
{
    return (table->set->object.id == table->set_id) ? table->set->queue : NULL;
}


/* Returns the bits of other workers in which requests wait. */

static uint64_t
ngx_etcd_conn_queue_others(ngx_etcd_table_t *table)
{
    uint64_t                      bits;
    ngx_etcd_member_set_queue_t  *shared;

    shared = ngx_etcd_conn_queue_shared(table);

    if (shared == NULL) {
        return 0;
    }

    bits = __atomic_load_n(&shared->waits, __ATOMIC_SEQ_CST);

    if (table->zone->row != NGX_ETCD_ZONE_NO_ROW) {
        bits &= ~((uint64_t) 1 << table->zone->row);
    }

    return bits;
}


/*
 * Returns the row of another worker whose oldest request is older than this
 * worker's by more than that number of ms, or 0: this worker's comes first.
 */

static uint64_t
ngx_etcd_conn_queue_oldest(ngx_etcd_conn_queue_t *queue, ngx_msec_int_t ahead)
{
    int32_t   age, oldest;
    uint64_t  bits, row, found;
    uint32_t  now;

    found = 0;
    oldest = -1;
    now = (uint32_t) ngx_current_msec;

    if (queue->requests.n != 0) {
        oldest = now
                 - (uint32_t) ngx_etcd_wait_queue_first(&queue->requests)->first
                 + ahead;
    }

    bits = ngx_etcd_conn_queue_others(queue->table);

    for ( /* void */ ; bits != 0; bits &= bits - 1) {
        row = queue->table->set->queue->rows[__builtin_ctzll(bits)];

        if (row == 0
            || (queue->requests.n != 0
                && row == queue->woken
                && ngx_current_msec - queue->since > NGX_ETCD_CONN_QUEUE_STUCK))
        {
            continue;
        }

        /* the clock of another worker may be ahead */

        age = ngx_max((int32_t) (now - (uint32_t) (row >> 32)), 0);

        if (age > oldest) {
            oldest = age;
            found = row;
        }
    }

    return found;
}


/* Notes that a connection is left to the worker with that row. */

static void
ngx_etcd_conn_queue_yield(ngx_etcd_conn_queue_t *queue, uint64_t oldest)
{
    if (queue->woken != oldest) {
        queue->woken = oldest;
        queue->since = ngx_current_msec;
    }
}


/* The request that is the oldest of all workers' takes the connection. */

static void
ngx_etcd_conn_queue_woken(ngx_event_t *ev)
{
    uint64_t                oldest;
    ngx_queue_t            *q;
    ngx_connection_t       *c;
    ngx_etcd_conn_queue_t  *queue;

    c = ev->data;
    c->close = 0;

    for (q = ngx_queue_head(&ngx_etcd_conn_queues);
         q != ngx_queue_sentinel(&ngx_etcd_conn_queues);
         q = ngx_queue_next(q))
    {
        queue = ngx_queue_data(q, ngx_etcd_conn_queue_t, link);

        if (!ngx_etcd_conn_queue_available(queue->table)) {
            continue;
        }

        oldest = ngx_etcd_conn_queue_oldest(queue, 0);

        if (oldest == 0) {
            ngx_etcd_wait_queue_wake(&queue->requests);

        } else {
            ngx_etcd_conn_queue_yield(queue, oldest);
        }
    }
}


ngx_int_t
ngx_etcd_conn_queue_start(ngx_cycle_t *cycle, ngx_fd_t wakeup)
{
    ngx_queue_init(&ngx_etcd_conn_queues);

    ngx_etcd_conn_queue_wakeup = wakeup;

    return (ngx_etcd_wakeup_listen(cycle, wakeup, ngx_etcd_conn_queue_woken,
                                   NULL)
            == NGX_ERROR)
           ? NGX_ERROR : NGX_OK;
}


static ngx_uint_t
ngx_etcd_conn_queue_turn(void *data, ngx_uint_t more)
{
    ngx_etcd_conn_queue_t *queue = data;

    return ngx_etcd_conn_queue_available(queue->table)
           && ngx_etcd_conn_queue_oldest(queue, NGX_ETCD_CONN_QUEUE_AHEAD)
              == 0;
}


static void
ngx_etcd_conn_queue_changed(void *data, ngx_uint_t n)
{
    ngx_etcd_conn_queue_t *queue = data;

    ngx_uint_t         row;
    ngx_msec_t         since;
    ngx_etcd_table_t  *table;

    table = queue->table;
    row = table->zone->row;

    if (row != NGX_ETCD_ZONE_NO_ROW
        && ngx_etcd_conn_queue_shared(table) != NULL)
    {
        since = n ? ngx_etcd_wait_queue_first(&queue->requests)->first : 0;

        ngx_etcd_member_set_queued(table->set, row, n, since);
    }

    if (n == 0) {
        if (queue->check.timer_set) {
            ngx_del_timer(&queue->check);
            ngx_queue_remove(&queue->link);
        }

    } else if (!queue->check.timer_set) {
        ngx_queue_insert_tail(&ngx_etcd_conn_queues, &queue->link);

        /* a connection may have ended before others knew of this queue */

        ngx_add_timer(&queue->check, 1);
    }

    /* the oldest may have left without a connection that was meant for it */

    if (ngx_etcd_conn_queue_others(table) != 0) {
        ngx_post_event(&queue->offer, &ngx_posted_events);
    }

    ngx_etcd_table_waiting(table, n);
}


static void
ngx_etcd_conn_queue_offer(ngx_event_t *ev)
{
    uint64_t                oldest;
    ngx_etcd_conn_queue_t  *queue;

    queue = ev->data;

    if (!ngx_etcd_conn_queue_available(queue->table)) {
        return;
    }

    oldest = ngx_etcd_conn_queue_oldest(queue, NGX_ETCD_CONN_QUEUE_AHEAD);

    if (oldest == 0) {
        ngx_etcd_wait_queue_wake(&queue->requests);

    } else {
        ngx_etcd_conn_queue_yield(queue, oldest);
        ngx_etcd_wakeup_signal(ngx_etcd_conn_queue_wakeup, ev->log);
    }
}


static void
ngx_etcd_conn_queue_check(ngx_event_t *ev)
{
    ngx_etcd_conn_queue_t  *queue;

    queue = ev->data;

    ngx_etcd_conn_queue_offer(&queue->offer);

    ngx_add_timer(ev, NGX_ETCD_CONN_QUEUE_CHECK);
}


ngx_etcd_wait_queue_t *
ngx_etcd_conn_queue_get(ngx_etcd_table_t *table)
{
    ngx_etcd_conn_queue_t  *queue;

    if (table->conn_queue != NULL) {
        return table->conn_queue;
    }

    queue = ngx_calloc(sizeof(ngx_etcd_conn_queue_t), table->log);
    if (queue == NULL) {
        return NULL;
    }

    queue->table = table;

    ngx_etcd_wait_queue_init(&queue->requests, ngx_etcd_conn_queue_turn,
                             ngx_etcd_conn_queue_changed, queue, table->log);

    ngx_etcd_event_init(&queue->offer, ngx_etcd_conn_queue_offer, queue,
                        table->log);

    ngx_etcd_event_init_timer(&queue->check, ngx_etcd_conn_queue_check, queue,
                              table->log);

    table->conn_queue = &queue->requests;

    return table->conn_queue;
}


void
ngx_etcd_conn_queue_done(ngx_etcd_table_t *table)
{
    ngx_etcd_conn_queue_t  *queue;

    queue = (ngx_etcd_conn_queue_t *) table->conn_queue;

    if (queue == NULL) {
        return;
    }

    ngx_etcd_event_stop(&queue->requests.wake);
    ngx_etcd_event_stop(&queue->offer);

    if (queue->check.timer_set) {
        ngx_del_timer(&queue->check);
        ngx_queue_remove(&queue->link);
    }

    ngx_free(queue);
    table->conn_queue = NULL;
}


void
ngx_etcd_conn_queue_freed(ngx_etcd_table_t *table)
{
    ngx_etcd_conn_queue_t  *queue;

    table = ngx_etcd_table_head(table);

    if ((table->conn_queue == NULL || table->conn_queue->n == 0)
        && ngx_etcd_conn_queue_others(table) == 0)
    {
        return;
    }

    queue = (ngx_etcd_conn_queue_t *) ngx_etcd_conn_queue_get(table);

    if (queue != NULL) {
        ngx_post_event(&queue->offer, &ngx_posted_events);
    }
}
