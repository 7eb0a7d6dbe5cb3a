
/*
 * Copyright (C) nginx-etcd contributors
 *
 * One HTTP/2 connection to one endpoint, as a client: an nghttp2 session
 * on a non-blocking connection of nginx's event loop.
 */


#ifndef _NGX_ETCD_HTTP2_H_INCLUDED_
#define _NGX_ETCD_HTTP2_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_ssl.h>


typedef struct ngx_etcd_http2_s  ngx_etcd_http2_t;


/*
 * What the owner of a connection sets.  Everything pointed to must outlive
 * the connection.  All times are milliseconds.
 *
 * Handlers are never called from inside ngx_etcd_http2_connect().  Any of
 * them may call ngx_etcd_http2_close() or start and cancel calls.
 */

typedef struct {
    ngx_addr_t                *addr;
    ngx_str_t                  authority;          /* ":authority" */
    ngx_str_t                  name;               /* identity in logs */
    ngx_etcd_ssl_t            *ssl;                /* NULL: ":scheme" http */
    ngx_str_t                  ssl_name;           /* whom the peer is to be */

    ngx_msec_t                 connect_timeout;    /* until SETTINGS came */
    ngx_msec_t                 ping_interval;      /* 0: never ping */
    ngx_msec_t                 ping_timeout;
    size_t                     max_message_size;   /* of one gRPC message */

    /* the peer's SETTINGS arrived: calls may be started */
    void                     (*ready)(void *data);

    /* something was received: the peer was alive at ngx_current_msec */
    void                     (*alive)(void *data);

    /*
     * A PING was answered: the peer was alive at some time after that reading
     * of ngx_etcd_clock(), when it was sent.  alive() follows.
     */
    void                     (*pong)(void *data, uint64_t sent);

    /*
     * GOAWAY arrived: no new call is accepted.  Calls that the peer did not
     * take have ended already as "unprocessed"; the others go on, and the
     * connection closes itself, with closed(), when the last has ended.
     */
    void                     (*draining)(void *data);

    /*
     * The connection failed or was closed by the peer, or the worker process
     * is shutting down (ngx_exiting).  Every call on it has ended before, with
     * UNAVAILABLE; the object is freed on return.
     */
    void                     (*closed)(void *data, ngx_str_t *reason);

    void                      *data;
} ngx_etcd_http2_conf_t;


/*
 * Starts to connect.  NULL when that fails at once (no memory, no sockets,
 * an address that cannot be reached): the reason was logged at "info".
 * A refused connection is reported through closed().
 */
ngx_etcd_http2_t *ngx_etcd_http2_connect(ngx_etcd_http2_conf_t *conf,
    ngx_log_t *log);

/*
 * Closes at the owner's wish: calls still open end with UNAVAILABLE before
 * this returns, closed() is not called.  Memory is released later when this
 * was called from a handler.
 */
void ngx_etcd_http2_close(ngx_etcd_http2_t *h2);

/*
 * For a worker process that shuts down and has something to say first: the
 * connection is not closed because of that any more.
 */
void ngx_etcd_http2_stay(ngx_etcd_http2_t *h2);

/*
 * For a process that is about to exit and has left its event loop: sends what
 * is queued and waits so long for something to be received.
 */
void ngx_etcd_http2_wait(ngx_etcd_http2_t *h2, ngx_msec_t time);

/* 1 while a new call would be accepted: ready, no GOAWAY, ids left */
ngx_uint_t ngx_etcd_http2_usable(ngx_etcd_http2_t *h2);

/*
 * 1 if the peer complained about the rate of PINGs: the next connection is
 * to double its ping_interval.  To be asked in draining() and closed().
 */
ngx_uint_t ngx_etcd_http2_too_many_pings(ngx_etcd_http2_t *h2);


#endif /* _NGX_ETCD_HTTP2_H_INCLUDED_ */
