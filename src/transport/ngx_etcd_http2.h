
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
 * Set by the owner of a connection.  Everything pointed to must outlive the
 * connection.  All times are in milliseconds.
 *
 * Handlers are never called from inside ngx_etcd_http2_connect().  Any
 * handler may call ngx_etcd_http2_close() and may start and cancel calls.
 */

typedef struct {
    ngx_addr_t                *addr;
    ngx_str_t                  authority;          /* ":authority" */
    ngx_str_t                  name;               /* identity in logs */
    ngx_etcd_ssl_t            *ssl;                /* NULL: ":scheme" http */
    ngx_str_t                  ssl_name;           /* the name in the
                                                      certificate */

    ngx_msec_t                 connect_timeout;    /* until SETTINGS arrive */
    ngx_msec_t                 ping_interval;      /* 0: never ping */
    ngx_msec_t                 ping_timeout;
    size_t                     max_message_size;   /* of one gRPC message */

    /* the peer's SETTINGS arrived: calls may be started */
    void                     (*ready)(void *data);

    /* something was received: the peer was alive at ngx_current_msec */
    void                     (*alive)(void *data);

    /*
     * A PING was answered.  "sent" is the ngx_etcd_clock() reading at the
     * time the PING was sent: the peer was alive at some time after it.
     * alive() is called next.
     */
    void                     (*pong)(void *data, uint64_t sent);

    /*
     * GOAWAY arrived: no new call is accepted.  The calls that the peer did
     * not accept have already ended as "unprocessed".  The other calls
     * continue; when the last one has ended, the connection closes itself and
     * calls closed().
     */
    void                     (*draining)(void *data);

    /*
     * The connection failed, was closed by the peer, or was closed because
     * the worker process is shutting down (ngx_exiting).  Every call on the
     * connection has already ended with UNAVAILABLE; the object is freed when
     * the handler returns.
     */
    void                     (*closed)(void *data, ngx_str_t *reason);

    void                      *data;
} ngx_etcd_http2_conf_t;


/*
 * Starts to connect.  Returns NULL if that fails at once (no memory, no
 * sockets, an unreachable address); the reason is logged at "info".  A
 * refused connection is reported through closed().
 */
ngx_etcd_http2_t *ngx_etcd_http2_connect(ngx_etcd_http2_conf_t *conf,
    ngx_log_t *log);

/*
 * Closes the connection.  Open calls end with UNAVAILABLE before this
 * function returns; closed() is not called.  If this function is called from
 * a handler, the memory is released later.
 */
void ngx_etcd_http2_close(ngx_etcd_http2_t *h2);

/*
 * Keeps the connection open in a worker process that is shutting down and has
 * requests to finish first.
 */
void ngx_etcd_http2_stay(ngx_etcd_http2_t *h2);

/*
 * For a process that is about to exit and has left its event loop: sends what
 * is queued, then waits at most "time" ms for input.
 */
void ngx_etcd_http2_wait(ngx_etcd_http2_t *h2, ngx_msec_t time);

/*
 * Returns 1 if a new call would be accepted: ready, no GOAWAY, stream ids
 * left.
 */
ngx_uint_t ngx_etcd_http2_usable(ngx_etcd_http2_t *h2);

/*
 * Returns 1 if the peer complained about the rate of PINGs: the owner should
 * double ping_interval for the next connection.  Valid in draining() and
 * closed().
 */
ngx_uint_t ngx_etcd_http2_too_many_pings(ngx_etcd_http2_t *h2);


#endif /* _NGX_ETCD_HTTP2_H_INCLUDED_ */
