
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Requests and sessions of this worker that wait for a usable peer in a
 * table, for a connection to one, or for a set that is not known yet.  A
 * request that waits again takes its former place.
 */


#ifndef _NGX_ETCD_WAIT_QUEUE_H_INCLUDED_
#define _NGX_ETCD_WAIT_QUEUE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>


/* requests resumed at once; then other events of the worker are handled */

#define NGX_ETCD_WAIT_QUEUE_BATCH  64


typedef struct ngx_etcd_wait_queue_entry_s  ngx_etcd_wait_queue_entry_t;

/* returns 1 while a peer is usable, and "more" others are */
typedef ngx_uint_t (*ngx_etcd_wait_queue_usable_pt)(void *data,
    ngx_uint_t more);


typedef struct {
    ngx_queue_t                entries;       /* the oldest first */
    ngx_uint_t                 n;
    ngx_event_t                wake;          /* posted: a peer is usable */

    ngx_etcd_wait_queue_usable_pt  usable;

    /* called after each change of the number of entries, or NULL */
    void                     (*changed)(void *data, ngx_uint_t n);
    void                      *data;
} ngx_etcd_wait_queue_t;


/*
 * A waiting request or session, zeroed except for handler and data.  The
 * caller owns the memory and must cancel before freeing it.
 */

struct ngx_etcd_wait_queue_entry_s {
    ngx_queue_t                queue;
    ngx_etcd_wait_queue_t     *wait_queue;    /* NULL: not waiting */
    ngx_event_t                timer;
    ngx_msec_t                 since;
    ngx_msec_t                 first;         /* begin of the first wait, of
                                                 any queue */
    ngx_uint_t                 begun;
    ngx_msec_t                 waited;        /* ms, total of completed
                                                 waits */
    ngx_uint_t                 more;          /* peers that must be usable
                                                 besides the first */
    uint64_t                   hash;          /* of the set that a queue
                                                 without a table waits for */

    /*
     * called once, from the event loop: peers are usable, or the time is over
     */
    void                     (*handler)(ngx_etcd_wait_queue_entry_t *entry);
    void                      *data;
};


/* Initializes a zeroed queue. */
void ngx_etcd_wait_queue_init(ngx_etcd_wait_queue_t *wait_queue,
    ngx_etcd_wait_queue_usable_pt usable,
    void (*changed)(void *data, ngx_uint_t n), void *data, ngx_log_t *log);

/*
 * Starts waiting, for at most "timeout" ms, if fewer than "limit" wait in the
 * queue.  NGX_OK, or NGX_BUSY.
 */
ngx_int_t ngx_etcd_wait_queue_begin(ngx_etcd_wait_queue_entry_t *entry,
    ngx_etcd_wait_queue_t *wait_queue, ngx_msec_t timeout, ngx_uint_t limit,
    ngx_log_t *log);

/* the oldest; the queue must not be empty */

#define ngx_etcd_wait_queue_first(q)                                          \
    (ngx_queue_data(ngx_queue_head(&(q)->entries),                            \
                    ngx_etcd_wait_queue_entry_t, queue))

/* Moves an entry that waits to another queue, at its end. */
void ngx_etcd_wait_queue_move(ngx_etcd_wait_queue_entry_t *entry,
    ngx_etcd_wait_queue_t *wait_queue);

/* Has no effect if not waiting. */
void ngx_etcd_wait_queue_cancel(ngx_etcd_wait_queue_entry_t *entry);

/*
 * There is a usable peer: resumes those that wait for no more, oldest first.
 */
void ngx_etcd_wait_queue_wake(ngx_etcd_wait_queue_t *wait_queue);


#endif /* _NGX_ETCD_WAIT_QUEUE_H_INCLUDED_ */
