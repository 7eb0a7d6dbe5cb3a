
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Requests of all workers that wait for a connection, since the members of a
 * set are at max_conns.
 *
 * Each worker has a queue of its own for a table, and writes into the set how
 * many requests wait in it and since when the oldest one does.  A worker in
 * which a connection ends gives the connection to the oldest request:
 *
 *     to one of its own, unless one of another worker is older by more than
 *     NGX_ETCD_CONN_QUEUE_AHEAD ms,
 *     otherwise it wakes the other workers, of which the one whose request is
 *     the oldest takes the connection.
 *
 * A worker that has been woken and does not take the connection within
 * NGX_ETCD_CONN_QUEUE_STUCK ms is passed over until its queue changes.  A
 * worker without a row of its own does not write, and is not woken by others.
 */


#ifndef _NGX_ETCD_CONN_QUEUE_H_INCLUDED_
#define _NGX_ETCD_CONN_QUEUE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_table.h>
#include <ngx_etcd_wait_queue.h>


#define NGX_ETCD_CONN_QUEUE_AHEAD  10     /* ms */
#define NGX_ETCD_CONN_QUEUE_STUCK  100    /* ms */

/* ms: a check for connections that nobody has notified of */

#define NGX_ETCD_CONN_QUEUE_CHECK  250


typedef struct {
    ngx_etcd_wait_queue_t       requests;     /* must be the first field */
    ngx_etcd_table_t           *table;
    ngx_queue_t                 link;         /* queues of this worker that are
                                                 not empty */
    ngx_event_t                 offer;        /* posted: there may be a
                                                 connection */
    ngx_event_t                 check;        /* timer, while requests wait */

    uint64_t                    woken;        /* the row that was */
    ngx_msec_t                  since;        /* when it was woken */
} ngx_etcd_conn_queue_t;


/*
 * Called when a worker starts, before tables exist; the worker is woken by
 * that eventfd.  NGX_OK or NGX_ERROR.
 */
ngx_int_t ngx_etcd_conn_queue_start(ngx_cycle_t *cycle, ngx_fd_t wakeup);

/*
 * Returns the queue of the table, which is made if there is none.  NULL: no
 * memory.
 */
ngx_etcd_wait_queue_t *ngx_etcd_conn_queue_get(ngx_etcd_table_t *table);

/* Returns 1 if a request that comes now would find a peer in the table. */
ngx_uint_t ngx_etcd_conn_queue_usable(ngx_etcd_table_t *table);

/* Called before ngx_etcd_table_done(). */
void ngx_etcd_conn_queue_done(ngx_etcd_table_t *table);

/*
 * Called in a table with conf->queue: a connection to a peer has ended, for
 * which requests wait in the queue of the first line.
 */
void ngx_etcd_conn_queue_freed(ngx_etcd_table_t *table);


#endif /* _NGX_ETCD_CONN_QUEUE_H_INCLUDED_ */
