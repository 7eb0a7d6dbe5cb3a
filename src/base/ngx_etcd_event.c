
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_event.h>


void
ngx_etcd_waiter_wait(ngx_etcd_waiter_t *waiter, ngx_queue_t *queue)
{
    if (!waiter->waiting) {
        waiter->waiting = 1;
        ngx_queue_insert_tail(queue, &waiter->queue);
    }
}


void
ngx_etcd_waiter_forget(ngx_etcd_waiter_t *waiter)
{
    if (waiter->waiting) {
        waiter->waiting = 0;
        ngx_queue_remove(&waiter->queue);
    }
}


/* Takes the first waiter off the queue; NULL: the queue is empty. */

static ngx_etcd_waiter_t *
ngx_etcd_waiter_next(ngx_queue_t *queue)
{
    ngx_queue_t        *q;
    ngx_etcd_waiter_t  *waiter;

    if (ngx_queue_empty(queue)) {
        return NULL;
    }

    q = ngx_queue_head(queue);
    waiter = ngx_queue_data(q, ngx_etcd_waiter_t, queue);

    ngx_etcd_waiter_forget(waiter);

    return waiter;
}


void
ngx_etcd_waiter_wake_all(ngx_queue_t *queue)
{
    ngx_queue_t         waiters;
    ngx_etcd_waiter_t  *waiter;

    if (ngx_queue_empty(queue)) {
        return;
    }

    /* a waiter that queues itself again meanwhile is called the next time */

    ngx_queue_init(&waiters);
    ngx_queue_add(&waiters, queue);
    ngx_queue_init(queue);

    while ((waiter = ngx_etcd_waiter_next(&waiters)) != NULL) {
        waiter->handler(waiter->data);
    }
}


void
ngx_etcd_waiter_drop_all(ngx_queue_t *queue)
{
    while (ngx_etcd_waiter_next(queue) != NULL) { /* void */ }
}
