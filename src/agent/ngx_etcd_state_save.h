
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Writes one state file: the sets are copied in the event loop, piece by
 * piece; a thread serializes and writes them.  Without threads the event loop
 * does this too, in pieces.
 */


#ifndef _NGX_ETCD_STATE_SAVE_H_INCLUDED_
#define _NGX_ETCD_STATE_SAVE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_conf.h>
#include <ngx_etcd_state.h>
#include <ngx_etcd_atomic_file.h>

#if (NGX_THREADS)
#include <ngx_thread_pool.h>
#endif


typedef struct ngx_etcd_state_save_s  ngx_etcd_state_save_t;


typedef enum {
    NGX_ETCD_STATE_SAVE_LISTING = 0,            /* always in the event loop */
    NGX_ETCD_STATE_SAVE_COPYING,                /* likewise */
    NGX_ETCD_STATE_SAVE_ENCODING,
    NGX_ETCD_STATE_SAVE_WRITING,
    NGX_ETCD_STATE_SAVE_DONE
} ngx_etcd_state_save_state_e;


typedef enum {
    NGX_ETCD_STATE_SAVE_MINE = 0,               /* the event loop */
    NGX_ETCD_STATE_SAVE_THREADED,               /* a thread, exclusively */
    NGX_ETCD_STATE_SAVE_RETURNED          /* the thread has ended */
} ngx_etcd_state_save_holder_e;


/* The marks that tell whether something has changed. */

typedef struct {
    ngx_atomic_uint_t         generation;
    ngx_uint_t                commits;    /* of a prefix with variables: the
                                             revision of its sets */
} ngx_etcd_state_save_mark_t;


struct ngx_etcd_state_save_s {
    ngx_etcd_conf_t            *conf;
    ngx_pool_t                 *pool;
    ngx_log_t                  *log;
    ngx_etcd_state_save_state_e state;
    ngx_int_t                   rc;       /* of the last step */
    ngx_uint_t                  catalog;  /* catalog whose sets are listed */
    uint32_t                    after;    /* the last set that was listed */
    ngx_uint_t                  copied;   /* number of complete snapshots */
    ngx_array_t                 snapshots; /* ngx_etcd_snapshot_t, one a
                                             service, then one a set of
                                             catalogs */
    ngx_etcd_state_save_mark_t *marks;    /* one a service, then one a
                                             catalog */
    ngx_array_t                 known;    /* snapshots to save */
    ngx_array_t                 values;   /* ngx_etcd_state_value_t */
    ngx_uint_t                  values_known;   /* 1: of one map at least */
    ngx_uint_t                  map;      /* to be copied */
    ngx_uint_t                  chain;    /* of it */
    ngx_atomic_uint_t          *changes;  /* of each map, before its copy */
    ngx_etcd_state_text_t       text;
    ngx_etcd_atomic_file_t      file;
    ngx_uint_t                  canceled;
    ngx_atomic_t                holder;   /* ngx_etcd_state_save_holder_e */

    /* the thread has finished */
    void                    (*done)(void *data);
    void                       *data;
#if (NGX_THREADS)
    ngx_thread_task_t           task;
#endif
};


/* NULL: no memory. */
ngx_etcd_state_save_t *ngx_etcd_state_save_create(ngx_etcd_conf_t *conf,
    void (*done)(void *data), void *data, ngx_log_t *log);

/* Frees the save; removes an unfinished file. */
void ngx_etcd_state_save_destroy(ngx_etcd_state_save_t *save);

/*
 * Performs the next step:
 *
 *     NGX_AGAIN     call again,
 *     NGX_BUSY      the zone's mutex was held: call again later,
 *     NGX_OK        the file was saved; if the state is not DONE, no set is
 *                   known, and the old file stays,
 *     NGX_DECLINED  the zone has another owner,
 *     NGX_ERROR     no memory, or see file->failed.
 */
ngx_int_t ngx_etcd_state_save_step(ngx_etcd_state_save_t *save);

/*
 * Passes the remaining steps to a thread, after copying.  NGX_OK: done() will
 * be called; NGX_DECLINED: there are no threads, or the process is no worker.
 */
ngx_int_t ngx_etcd_state_save_post(ngx_etcd_state_save_t *save);


#endif /* _NGX_ETCD_STATE_SAVE_H_INCLUDED_ */
