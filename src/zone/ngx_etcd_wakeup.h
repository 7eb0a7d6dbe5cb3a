
/*
 * Copyright (C) nginx-etcd contributors
 *
 * One eventfd of the whole instance, made by the master: a write to it wakes
 * every worker, since all of them watch it edge-triggered and none reads it.
 */


#ifndef _NGX_ETCD_WAKEUP_H_INCLUDED_
#define _NGX_ETCD_WAKEUP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_ETCD_WAKEUP_NONE  -1


/* in the master; NGX_ETCD_WAKEUP_NONE and a log line when it cannot be had */
ngx_fd_t ngx_etcd_wakeup_create(ngx_log_t *log);

/*
 * In a worker: the handler gets the event, its data being a connection whose
 * own data is what was passed.  It is called, too, with the connection's close
 * set, when the worker begins to shut down.  NGX_DECLINED where the event
 * method is not edge-triggered: then there is only the timer.
 */
ngx_int_t ngx_etcd_wakeup_listen(ngx_cycle_t *cycle, ngx_fd_t fd,
    ngx_event_handler_pt handler, void *data);

void ngx_etcd_wakeup_signal(ngx_fd_t fd, ngx_log_t *log);


#endif /* _NGX_ETCD_WAKEUP_H_INCLUDED_ */
