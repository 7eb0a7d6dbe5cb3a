
/*
 * Copyright (C) nginx-etcd contributors
 *
 * An eventfd of the whole instance, created by the master.  A write wakes
 * every worker: all workers watch the eventfd edge-triggered and none reads
 * it.
 */


#ifndef _NGX_ETCD_WAKEUP_H_INCLUDED_
#define _NGX_ETCD_WAKEUP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_ETCD_WAKEUP_NONE  -1


/* Called in the master.  On failure logs and returns NGX_ETCD_WAKEUP_NONE. */
ngx_fd_t ngx_etcd_wakeup_create(ngx_log_t *log);

/*
 * Called in a worker.  The handler gets an event with a connection as its
 * data; the connection's data is "data".  The handler is also called with the
 * connection's close flag when the worker begins to shut down.  NGX_DECLINED:
 * the event method is not edge-triggered, and only the timer remains.
 */
ngx_int_t ngx_etcd_wakeup_listen(ngx_cycle_t *cycle, ngx_fd_t fd,
    ngx_event_handler_pt handler, void *data);

void ngx_etcd_wakeup_signal(ngx_fd_t fd, ngx_log_t *log);


#endif /* _NGX_ETCD_WAKEUP_H_INCLUDED_ */
