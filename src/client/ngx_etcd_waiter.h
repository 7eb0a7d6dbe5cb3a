
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Those who want to be called, once, when something is ready: a channel, or
 * the token.
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


/* joins the queue, unless it is in one already */
void ngx_etcd_waiter_wait(ngx_etcd_waiter_t *waiter, ngx_queue_t *queue);

/* leaves the queue that it is in, if any */
void ngx_etcd_waiter_forget(ngx_etcd_waiter_t *waiter);

/* calls all that wait now, once; who waits again is left in the queue */
void ngx_etcd_waiter_wake_all(ngx_queue_t *queue);

/* nobody is called */
void ngx_etcd_waiter_drop_all(ngx_queue_t *queue);


#endif /* _NGX_ETCD_WAITER_H_INCLUDED_ */
