
/*
 * Copyright (C) nginx-etcd contributors
 *
 * How long a main request holds its locks.
 *
 * With "etcd_lock_hold upstream" an upstream that may still work on the request
 * or on one of its subrequests is waited for.  After the client has left nginx
 * reads the answer to its end, as with "proxy_ignore_client_abort on", and the
 * output filters of this file swallow the answer: the request, and with it the
 * lock, ends when nginx knows that the answer is complete.
 * "etcd_lock_max_hold" limits the time.
 *
 * Connections that nginx itself leaves are those of
 * ngx_http_etcd_lock_upstream.h.
 */


#ifndef _NGX_HTTP_ETCD_LOCK_HOLD_H_INCLUDED_
#define _NGX_HTTP_ETCD_LOCK_HOLD_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_etcd_lock_hold.h>
#include <ngx_http_etcd.h>


typedef struct ngx_http_etcd_lock_guard_s  ngx_http_etcd_lock_guard_t;


/* of a main request with all its subrequests */

typedef struct {
    ngx_http_request_t          *request;
    ngx_http_etcd_lock_guard_t  *guards;
    ngx_etcd_lock_hold_t        *hold;         /* NULL: nginx has left no
                                                  connection */
    ngx_http_upstream_t         *upstream;     /* works after the client has
                                                  left */
    ngx_msec_t                   max;          /* ms; of the timer */
    ngx_event_t                  timer;        /* set when the client has
                                                  left */
    ngx_uint_t                   over;         /* the timer has expired */
} ngx_http_etcd_lock_ctx_t;


/* of one request or subrequest: what its upstream had before */

struct ngx_http_etcd_lock_guard_s {
    ngx_http_etcd_lock_guard_t  *next;
    ngx_http_etcd_lock_ctx_t    *ctx;
    ngx_http_request_t          *request;
    ngx_http_upstream_t         *upstream;     /* NULL: none yet */

    ngx_http_handler_pt          content_handler;
    ngx_int_t                  (*create_request)(ngx_http_request_t *r);
    ngx_output_chain_filter_pt   output_filter;
    void                        *filter_ctx;
    ngx_event_free_peer_pt       free;
    ngx_http_event_handler_pt    write_event_handler;  /* NULL: the body has
                                                          not begun */

    unsigned                     watch:1;      /* a client that half-closes its
                                                  connection has left */
    unsigned                     left:1;       /* the client has left */
    unsigned                     cut:1;        /* this module ends the
                                                  upstream */
};


/*
 * Called before a main request takes its first lock: the locks are given up
 * before the request is logged.
 */
ngx_int_t ngx_http_etcd_lock_hold_init(ngx_http_request_t *r);

/*
 * Gives up all locks that the main request holds or awaits, since it is
 * refused.  It can take them again.
 */
void ngx_http_etcd_lock_hold_release(ngx_http_request_t *r);

/* Returns NULL if the main request has never taken a lock. */
ngx_http_etcd_lock_ctx_t *ngx_http_etcd_lock_hold_ctx(ngx_http_request_t *r);

/* Returns NULL if the request has no guard. */
ngx_http_etcd_lock_guard_t *ngx_http_etcd_lock_hold_guard(
    ngx_http_request_t *r);

/* Returns the time in ms for which locks are to be held; 0: no lock is. */
ngx_msec_t ngx_http_etcd_lock_hold_max(ngx_http_etcd_lock_ctx_t *ctx,
    ngx_http_upstream_t *u);

/*
 * Called when the upstream of a guard begins: looks for a client that leaves.
 */
ngx_int_t ngx_http_etcd_lock_hold_watch(ngx_http_etcd_lock_guard_t *guard);

/*
 * Called when a part of the request is sent: nginx has another read handler
 * while it reads an unbuffered body.
 */
void ngx_http_etcd_lock_hold_sent(ngx_http_etcd_lock_guard_t *guard);

void ngx_http_etcd_lock_hold_filters(void);


#endif /* _NGX_HTTP_ETCD_LOCK_HOLD_H_INCLUDED_ */
