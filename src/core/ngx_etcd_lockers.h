
/*
 * Copyright (C) nginx-etcd contributors
 *
 * All locks of a worker in one cluster, by their names, and the client that
 * they share: made when the first lock is asked for.
 */


#ifndef _NGX_ETCD_LOCKERS_H_INCLUDED_
#define _NGX_ETCD_LOCKERS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_lock.h>
#include <ngx_etcd_lock_segment.h>
#include <ngx_etcd_lock_table.h>
#include <ngx_etcd_mutex.h>


typedef struct {
    ngx_etcd_conf_t             *conf;
    ngx_etcd_locker_t           *client;
    ngx_rbtree_t                 tree;         /* of ngx_etcd_lock_t */
    ngx_rbtree_node_t            sentinel;
    ngx_queue_t                  idle;         /* likewise, the longest first */
    ngx_uint_t                   nidle;
    ngx_uint_t                   waiting;      /* grants */
    ngx_uint_t                   held;         /* likewise */
    ngx_uint_t                   nkept;        /* keys */
    ngx_etcd_lock_table_t       *table;        /* what is shown; or NULL */
    ngx_msec_t                   claim;        /* when it was looked for */
    ngx_event_t                  timer;        /* looks for idle ones */
    ngx_event_t                  resign;       /* keeps the process until
                                                  etcd has answered */
    unsigned                     claimed:1;    /* it was */
} ngx_etcd_lockers_t;


struct ngx_etcd_lock_s {
    ngx_str_node_t               node;         /* its string is the prefix */
    ngx_etcd_lockers_t          *lockers;
    ngx_etcd_lock_name_t        *name;
    ngx_pool_t                  *pool;
    ngx_etcd_contest_t           contest;
    ngx_queue_t                  waiters;      /* grants, the first first */
    ngx_uint_t                   nwaiters;
    ngx_etcd_lock_row_t         *row;          /* shows these; or NULL */
    ngx_queue_t                  keys;         /* of ngx_etcd_lock_key_t */
    ngx_uint_t                   nkeys;
    ngx_uint_t                   nheld;        /* of these */
    ngx_uint_t                   nkept;        /* likewise, by nobody */
    ngx_event_t                  post;
    ngx_queue_t                  rest;         /* idle ones */
    ngx_msec_t                   since;        /* idle */
    unsigned                     idle:1;
};


struct ngx_etcd_lock_key_s {
    ngx_queue_t                  queue;
    ngx_etcd_mutex_t            *mutex;
    ngx_etcd_lock_t             *lock;
    ngx_etcd_grant_t            *grant;        /* NULL: it is not held yet */
    ngx_uint_t                   passes;       /* from one to the next */
    ngx_msec_t                   since;        /* it was first held */
    ngx_event_t                  timer;        /* kept: the end of that */
    ngx_etcd_lock_row_t         *row;          /* shows the grant; or NULL */
    ngx_etcd_range_t             range;        /* kept: is it there? */
    unsigned                     kept:1;       /* ngx_etcd_lock_keep.h */
    unsigned                     asking:1;     /* likewise: the range is */
    unsigned                     mine:1;       /* it is there, and alone */
    unsigned                     over:1;       /* it is to be removed */
};


/* those of the cluster; NULL: no memory */
ngx_etcd_lockers_t *ngx_etcd_lockers_get(ngx_etcd_conf_t *conf);

/* the lock of that key, made if there is none; NULL: no memory */
ngx_etcd_lock_t *ngx_etcd_lockers_lock(ngx_etcd_lockers_t *lockers,
    ngx_etcd_lock_name_t *name, ngx_str_t *key, ngx_event_handler_pt post,
    void (*left)(void *data), void (*seen)(void *data));

/* nobody waits for it or holds it; it may be gone after that */
void ngx_etcd_lockers_rest(ngx_etcd_lock_t *lock);

/* it is used again */
void ngx_etcd_lockers_use(ngx_etcd_lock_t *lock);

/* one grant less that waits, or is held: in a worker that exits, the last? */
void ngx_etcd_lockers_left(ngx_etcd_lockers_t *lockers);


#endif /* _NGX_ETCD_LOCKERS_H_INCLUDED_ */
