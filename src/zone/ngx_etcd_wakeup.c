
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_wakeup.h>

#include <sys/eventfd.h>


ngx_fd_t
ngx_etcd_wakeup_create(ngx_log_t *log)
{
    ngx_fd_t  fd;

    fd = eventfd(0, EFD_CLOEXEC|EFD_NONBLOCK);

    if (fd == -1) {
        ngx_log_error(NGX_LOG_WARN, log, ngx_errno,
                      "etcd: eventfd() failed, workers are woken by a timer");
        return NGX_ETCD_WAKEUP_NONE;
    }

    return fd;
}


ngx_int_t
ngx_etcd_wakeup_listen(ngx_cycle_t *cycle, ngx_fd_t fd,
    ngx_event_handler_pt handler, void *data)
{
    ngx_event_t       *rev;
    ngx_connection_t  *c;

    if (fd == NGX_ETCD_WAKEUP_NONE || !(ngx_event_flags & NGX_USE_CLEAR_EVENT))
    {
        return NGX_DECLINED;
    }

    c = ngx_get_connection(fd, cycle->log);

    if (c == NULL) {
        return NGX_ERROR;
    }

    c->data = data;
    c->idle = 1;

    rev = c->read;
    rev->handler = handler;
    rev->log = cycle->log;

    /*
     * Like the master's channel, the connection stays until the worker exits:
     * requests that are still served follow changes, and nginx does not
     * report an open socket.
     */

    rev->channel = 1;

    if (ngx_add_event(rev, NGX_READ_EVENT, NGX_CLEAR_EVENT) != NGX_OK) {
        ngx_free_connection(c);
        return NGX_ERROR;
    }

    return NGX_OK;
}


void
ngx_etcd_wakeup_signal(ngx_fd_t fd, ngx_log_t *log)
{
    uint64_t  one;

    if (fd == NGX_ETCD_WAKEUP_NONE) {
        return;
    }

    one = 1;

    if (write(fd, &one, sizeof(uint64_t)) == -1 && ngx_errno != NGX_EAGAIN) {
        ngx_log_error(NGX_LOG_ERR, log, ngx_errno,
                      "etcd: write() to eventfd failed");
    }
}
