
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Events that are embedded in an object: posted events, and timers.
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


#endif /* _NGX_ETCD_EVENT_H_INCLUDED_ */
