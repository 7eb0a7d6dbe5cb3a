
/*
 * Copyright (C) nginx-etcd contributors
 *
 * One state file in the making: the sets are copied in the event loop, a
 * piece at a time; a thread makes a text of them and writes it, or, where
 * there are no threads, the event loop does, in pieces too.
 */


#ifndef _NGX_ETCD_SAVE_H_INCLUDED_
#define _NGX_ETCD_SAVE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_module.h>
#include <ngx_etcd_state.h>
#include <ngx_etcd_state_file.h>

#if (NGX_THREADS)
#include <ngx_thread_pool.h>
#endif


typedef struct ngx_etcd_save_s  ngx_etcd_save_t;


typedef enum {
    NGX_ETCD_SAVE_COPYING = 0,            /* always in the event loop */
    NGX_ETCD_SAVE_ENCODING,
    NGX_ETCD_SAVE_WRITING,
    NGX_ETCD_SAVE_DONE
} ngx_etcd_save_state_e;


typedef enum {
    NGX_ETCD_SAVE_MINE = 0,               /* of the event loop */
    NGX_ETCD_SAVE_THREADED,               /* nobody else may touch it */
    NGX_ETCD_SAVE_RETURNED                /* its thread has ended with it */
} ngx_etcd_save_holder_e;


struct ngx_etcd_save_s {
    ngx_etcd_conf_t          *conf;
    ngx_pool_t               *pool;
    ngx_log_t                *log;
    ngx_etcd_save_state_e     state;
    ngx_int_t                 rc;         /* of the last step */
    ngx_uint_t                copied;     /* snapshots that are complete */
    ngx_array_t               snapshots;  /* of ngx_etcd_snapshot_t, one of
                                             each service */
    ngx_array_t               known;      /* those that are worth it */
    ngx_array_t               values;     /* of ngx_etcd_state_value_t, one of
                                             each of the configuration */
    ngx_etcd_state_text_t     text;
    ngx_etcd_state_file_t     file;
    ngx_uint_t                canceled;
    ngx_atomic_t              holder;     /* ngx_etcd_save_holder_e */

    /* a thread has made its last step */
    void                    (*done)(void *data);
    void                     *data;
#if (NGX_THREADS)
    ngx_thread_task_t         task;
#endif
};


/* NULL: no memory */
ngx_etcd_save_t *ngx_etcd_save_create(ngx_etcd_conf_t *conf,
    void (*done)(void *data), void *data, ngx_log_t *log);

/* a file that was not finished leaves nothing behind */
void ngx_etcd_save_destroy(ngx_etcd_save_t *save);

/*
 * Does some more:
 *
 *     NGX_AGAIN     there is more to do,
 *     NGX_BUSY      likewise, but not at once: the zone's mutex was not free,
 *     NGX_OK        the file is there; where the state is not DONE, nothing
 *                   is known of any set, and what was there stays,
 *     NGX_DECLINED  the zone is somebody else's now,
 *     NGX_ERROR     of memory, or as the file says.
 */
ngx_int_t ngx_etcd_save_step(ngx_etcd_save_t *save);

/*
 * Lets a thread do the rest, once everything is copied: NGX_OK, done() will
 * be called; NGX_DECLINED, there are no threads, or this is no worker.
 */
ngx_int_t ngx_etcd_save_post(ngx_etcd_save_t *save);


#endif /* _NGX_ETCD_SAVE_H_INCLUDED_ */
