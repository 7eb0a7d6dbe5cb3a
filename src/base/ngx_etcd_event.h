
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Events and links that are embedded in an object: posted events, timers, and
 * queues, of objects and of handlers that wait.
 */


#ifndef _NGX_ETCD_EVENT_H_INCLUDED_
#define _NGX_ETCD_EVENT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>


static ngx_inline void
ngx_etcd_event_init(ngx_event_t *ev, ngx_event_handler_pt handler, void *data,
    ngx_log_t *log)
{
    ev->handler = handler;
    ev->data = data;
    ev->log = log;
}


/* The event is a timer for which a worker that exits does not wait. */

static ngx_inline void
ngx_etcd_event_init_timer(ngx_event_t *ev, ngx_event_handler_pt handler,
    void *data, ngx_log_t *log)
{
    ngx_etcd_event_init(ev, handler, data, log);

    ev->cancelable = 1;
}


/* The handler is not called, unless the event is set or posted again. */

static ngx_inline void
ngx_etcd_event_stop(ngx_event_t *ev)
{
    if (ev->timer_set) {
        ngx_del_timer(ev);
    }

    if (ev->posted) {
        ngx_delete_posted_event(ev);
    }
}


/* Sets a timer, or moves it: ngx_add_timer() does not by less than 300 ms. */

static ngx_inline void
ngx_etcd_event_move(ngx_event_t *ev, ngx_msec_t timer)
{
    if (ev->timer_set) {
        ngx_del_timer(ev);
    }

    ngx_add_timer(ev, timer);
}


/*
 * Loops over the objects of an ngx_queue_t, from the first one on.
 */

/*
 * For each object, which has the link in that field.  The body must not remove
 * the object, but may remove others, and add some.
 */
#define ngx_etcd_queue_each(object, queue, type, link)                        \
    for (object = ngx_queue_data(ngx_queue_head(queue), type, link);          \
         &(object)->link != ngx_queue_sentinel(queue);                        \
         object = ngx_queue_data(ngx_queue_next(&(object)->link), type, link))

/*
 * Likewise: the body may remove or free the object, but not the next one, which
 * is a variable of the same type.
 */
#define ngx_etcd_queue_each_safe(object, after, queue, type, link)            \
    for (object = ngx_queue_data(ngx_queue_head(queue), type, link),          \
         after = ngx_queue_data(ngx_queue_next(&(object)->link), type, link); \
         &(object)->link != ngx_queue_sentinel(queue);                        \
         object = after,                                                      \
         after = ngx_queue_data(ngx_queue_next(&(object)->link), type, link))


/*
 * Queues of handlers that are called, once, when something is ready: a channel,
 * or the token.
 */

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


#endif /* _NGX_ETCD_EVENT_H_INCLUDED_ */
