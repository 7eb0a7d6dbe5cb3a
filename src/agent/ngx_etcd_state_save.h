
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Writes one state file: the event loop makes the text (ngx_etcd_state.h),
 * piece by piece; a thread writes it.  Without threads the event loop does this
 * too, in pieces.
 */


#ifndef _NGX_ETCD_STATE_SAVE_H_INCLUDED_
#define _NGX_ETCD_STATE_SAVE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_atomic_file.h>
#include <ngx_etcd_commit.h>
#include <ngx_etcd_conf.h>
#include <ngx_etcd_service.h>
#include <ngx_etcd_state.h>

#if (NGX_THREADS)
#include <ngx_thread_pool.h>
#endif


typedef struct ngx_etcd_state_save_s  ngx_etcd_state_save_t;


typedef enum {
    NGX_ETCD_STATE_SAVE_LISTING = 0,            /* always in the event loop */
    NGX_ETCD_STATE_SAVE_COPYING,                /* likewise */
    NGX_ETCD_STATE_SAVE_SEALING,
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


/* A set that is to be saved. */

typedef struct {
    ngx_etcd_member_set_t    *set;
    uint32_t                  id;         /* of a set that may be removed
                                             meanwhile; 0: it stays */
    ngx_etcd_service_conf_t  *service;    /* of all sets of a catalog */
    ngx_str_t                 prefix;
    ngx_str_t                 pattern;    /* the prefix with variables */
    uint64_t                  since;      /* in place of the set's revision */
} ngx_etcd_state_save_set_t;


/* The set that is being copied. */

typedef struct {
    ngx_uint_t                set;        /* of all to be saved */
    ngx_uint_t                piece;      /* slots and entries; 0: the set is
                                             not begun */
    ngx_uint_t                commits;    /* when it was begun */
    uint64_t                  revision;
    size_t                    start;      /* of its text */
    size_t                    members;    /* likewise */
    ngx_etcd_entry_walk_t     walk;
} ngx_etcd_state_save_current_t;


struct ngx_etcd_state_save_s {
    ngx_etcd_conf_t            *conf;
    ngx_pool_t                 *pool;
    ngx_log_t                  *log;
    ngx_etcd_state_save_state_e state;
    ngx_int_t                   rc;       /* of the last step */
    ngx_etcd_state_save_mark_t *marks;    /* one a service, then one a
                                             catalog */
    ngx_atomic_uint_t          *changes;  /* of each map, before its copy */

    ngx_uint_t                  catalog;  /* catalog whose sets are listed */
    uint32_t                    after;    /* the last set that was listed */
    ngx_array_t                 sets;     /* ngx_etcd_state_save_set_t, one a
                                             service, then one a set of
                                             catalogs */
    ngx_uint_t                  known;    /* there is something to save */

    ngx_etcd_state_save_current_t  current;
    ngx_uint_t                  copied;   /* slots and entries, in this step */

    ngx_uint_t                  map;      /* at hand, of values */
    ngx_uint_t                  chain;    /* of it */

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
 * Passes the remaining steps, after copying, to a thread.  NGX_OK: done() will
 * be called; NGX_DECLINED: there are no threads, or the process is no worker.
 */
ngx_int_t ngx_etcd_state_save_post(ngx_etcd_state_save_t *save);


#endif /* _NGX_ETCD_STATE_SAVE_H_INCLUDED_ */
