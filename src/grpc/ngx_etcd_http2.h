
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
#include <ngx_etcd_http2_conf.h>


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

/* Returns how many calls the peer accepts at once, by its SETTINGS. */
uint32_t ngx_etcd_http2_max_calls(ngx_etcd_http2_t *h2);

/*
 * Returns 1 if the connection has ended.  In done() of a call: the connection
 * took the call with it, and closed() follows unless the owner has closed the
 * connection.
 */
ngx_uint_t ngx_etcd_http2_ended(ngx_etcd_http2_t *h2);

/*
 * Returns 1 if the peer has accepted the connection, and was not ready in time.
 * Valid in closed().
 */
ngx_uint_t ngx_etcd_http2_late(ngx_etcd_http2_t *h2);

/*
 * Returns 1 if the peer complained about the rate of PINGs: the owner should
 * double ping_interval for the next connection.  Valid in draining() and
 * closed().
 */
ngx_uint_t ngx_etcd_http2_too_many_pings(ngx_etcd_http2_t *h2);

/* for gRPC */
ngx_etcd_http2_conf_t *ngx_etcd_http2_conf(ngx_etcd_http2_t *h2);
ngx_log_t *ngx_etcd_http2_log(ngx_etcd_http2_t *h2);


#endif /* _NGX_ETCD_HTTP2_H_INCLUDED_ */
