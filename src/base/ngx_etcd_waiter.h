
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Queues of handlers that are called, once, when something is ready: a channel,
 * or the token.
 */


#ifndef _NGX_ETCD_WAITER_H_INCLUDED_
#define _NGX_ETCD_WAITER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


typedef struct {
    /* set by the owner, the rest zeroed */

    void                       (*handler)(void *data);
    void                        *data;

    /* private */

    ngx_queue_t                  queue;
    unsigned                     waiting:1;
} ngx_etcd_waiter_t;


/* Joins the queue, unless the waiter is in one already. */
void ngx_etcd_waiter_wait(ngx_etcd_waiter_t *waiter, ngx_queue_t *queue);

/* Leaves the queue, if the waiter is in one. */
void ngx_etcd_waiter_forget(ngx_etcd_waiter_t *waiter);

/*
 * Calls each waiter once.  A waiter that queues itself again meanwhile stays in
 * the queue.
 */
void ngx_etcd_waiter_wake_all(ngx_queue_t *queue);

/* Empties the queue without calling the waiters. */
void ngx_etcd_waiter_drop_all(ngx_queue_t *queue);


#endif /* _NGX_ETCD_WAITER_H_INCLUDED_ */
