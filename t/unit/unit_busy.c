
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Threads that are busy, as a directive:
 *
 *     thread_pool default threads=1;
 *     etcd_busy FILE;
 *
 * A worker keeps the thread of the pool busy while this file exists, but for a
 * minute at the most.  The thread is busy when FILE.busy exists.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_thread_pool.h>
#include "test_module.h"


#define NGX_ETCD_UNIT_BUSY        60000     /* ms */
#define NGX_ETCD_UNIT_BUSY_PAUSE  10


static char *ngx_etcd_unit_busy(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
static ngx_int_t ngx_etcd_unit_busy_start(ngx_cycle_t *cycle);
static void ngx_etcd_unit_busy_look(ngx_event_t *ev);
static void ngx_etcd_unit_busy_thread(void *data, ngx_log_t *log);
static void ngx_etcd_unit_busy_done(ngx_event_t *ev);


/* of the last configuration that was read */

static ngx_str_t  ngx_etcd_unit_busy_file;
static char       ngx_etcd_unit_busy_mark[NGX_MAX_PATH];

static ngx_event_t       ngx_etcd_unit_busy_event;
static ngx_connection_t  ngx_etcd_unit_busy_connection;


static ngx_command_t  ngx_etcd_unit_busy_commands[] = {

    { ngx_string("etcd_busy"),
      NGX_MAIN_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_etcd_unit_busy,
      0,
      0,
      NULL },

      ngx_null_command
};


test_module_start(ngx_etcd_unit_busy_module, ngx_etcd_unit_busy_commands,
                  ngx_etcd_unit_busy_start);


static char *
ngx_etcd_unit_busy(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t  *value;

    value = cf->args->elts;
    ngx_etcd_unit_busy_file = value[1];

    ngx_snprintf((u_char *) ngx_etcd_unit_busy_mark, NGX_MAX_PATH, "%V.busy%Z",
                 &value[1]);

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_etcd_unit_busy_start(ngx_cycle_t *cycle)
{
    if (ngx_process != NGX_PROCESS_WORKER) {
        return NGX_OK;
    }

    ngx_etcd_unit_busy_connection.fd = -1;

    ngx_etcd_unit_busy_event.handler = ngx_etcd_unit_busy_look;
    ngx_etcd_unit_busy_event.log = cycle->log;
    ngx_etcd_unit_busy_event.data = &ngx_etcd_unit_busy_connection;
    ngx_etcd_unit_busy_event.cancelable = 1;

    ngx_post_event(&ngx_etcd_unit_busy_event, &ngx_posted_events);

    return NGX_OK;
}


static void
ngx_etcd_unit_busy_look(ngx_event_t *ev)
{
    ngx_str_t           name;
    ngx_thread_pool_t  *pool;
    ngx_thread_task_t  *task;

    if (access((char *) ngx_etcd_unit_busy_file.data, F_OK) == -1) {
        ngx_add_timer(ev, NGX_ETCD_UNIT_BUSY_PAUSE);
        return;
    }

    ngx_str_set(&name, "default");

    pool = ngx_thread_pool_get((ngx_cycle_t *) ngx_cycle, &name);
    task = ngx_thread_task_alloc(ngx_cycle->pool, 0);

    if (pool == NULL || task == NULL) {
        ngx_log_error(NGX_LOG_ALERT, ev->log, 0, "no thread to keep busy");
        return;
    }

    task->handler = ngx_etcd_unit_busy_thread;
    task->event.handler = ngx_etcd_unit_busy_done;
    task->event.data = ev;

    (void) ngx_thread_task_post(pool, task);
}


static void
ngx_etcd_unit_busy_thread(void *data, ngx_log_t *log)
{
    ngx_fd_t    fd;
    ngx_msec_t  waited;

    fd = ngx_open_file(ngx_etcd_unit_busy_mark, NGX_FILE_WRONLY,
                       NGX_FILE_CREATE_OR_OPEN, NGX_FILE_DEFAULT_ACCESS);

    if (fd != NGX_INVALID_FILE) {
        (void) ngx_close_file(fd);
    }

    for (waited = 0;
         waited < NGX_ETCD_UNIT_BUSY;
         waited += NGX_ETCD_UNIT_BUSY_PAUSE)
    {
        if (access((char *) ngx_etcd_unit_busy_file.data, F_OK) == -1) {
            break;
        }

        ngx_msleep(NGX_ETCD_UNIT_BUSY_PAUSE);
    }

    (void) ngx_delete_file(ngx_etcd_unit_busy_mark);
}


static void
ngx_etcd_unit_busy_done(ngx_event_t *ev)
{
    ngx_etcd_unit_busy_look(ev->data);
}
