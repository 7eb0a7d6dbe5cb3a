
/*
 * Copyright (C) nginx-etcd contributors
 *
 * What this worker holds until a table has a peer that may be picked.
 */


#ifndef _NGX_ETCD_HOLD_H_INCLUDED_
#define _NGX_ETCD_HOLD_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_table.h>


/* so many go on at once; others of the worker's events come before the rest */

#define NGX_ETCD_HOLD_BATCH  64


typedef struct ngx_etcd_hold_s  ngx_etcd_hold_t;

/*
 * One of them: zeroed but for handler and data, and owned by the caller, who
 * cancels it before its memory goes.
 */

struct ngx_etcd_hold_s {
    ngx_queue_t                queue;
    ngx_etcd_table_t          *table;         /* NULL: it is not held */
    ngx_event_t                timer;
    ngx_msec_t                 since;
    ngx_msec_t                 waited;        /* ms, in all that are over */

    /* from the event loop, once: there is a peer, or the time is over */
    void                     (*handler)(ngx_etcd_hold_t *hold);
    void                      *data;
};


/*
 * For that many ms at most, if fewer than limit are held for the table:
 * NGX_OK, or NGX_BUSY.
 */
ngx_int_t ngx_etcd_hold_begin(ngx_etcd_hold_t *hold,
    ngx_etcd_table_t *table, ngx_msec_t timeout, ngx_uint_t limit,
    ngx_log_t *log);

/* nothing, if it is not held */
void ngx_etcd_hold_cancel(ngx_etcd_hold_t *hold);

/* the table has become usable: all that are held go on, the oldest first */
void ngx_etcd_hold_wake(ngx_etcd_table_t *table);


#endif /* _NGX_ETCD_HOLD_H_INCLUDED_ */
