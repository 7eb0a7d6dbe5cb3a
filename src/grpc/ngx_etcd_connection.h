
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A non-blocking byte stream to one address, optionally over TLS.
 */


#ifndef _NGX_ETCD_CONNECTION_H_INCLUDED_
#define _NGX_ETCD_CONNECTION_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_ssl.h>


typedef struct ngx_etcd_connection_s  ngx_etcd_connection_t;


/*
 * Handlers are called from the event loop only, never from inside the
 * functions below, with two exceptions: ngx_etcd_connection_flush() calls
 * output(), and calls failed() if sending fails.  Any handler may close the
 * connection.
 */

typedef struct {
    ngx_addr_t                *addr;

    /* NULL: no TLS; otherwise the peer's certificate must match ssl_name */
    ngx_etcd_ssl_t            *ssl;
    ngx_str_t                  ssl_name;

    /* the connection is established, the TLS handshake included */
    void                     (*connected)(void *data);

    /* n > 0 bytes arrived */
    void                     (*received)(void *data, u_char *buf, size_t n);

    /*
     * Returns the number of bytes to send next and sets *buf to them; 0 if
     * there is nothing to send.  The bytes must not change until the next
     * call of output().
     */
    size_t                   (*output)(void *data, u_char **buf);

    /*
     * connecting failed or the peer closed; the connection is closed already
     */
    void                     (*failed)(void *data, ngx_str_t *reason);

    void                      *data;

    /*
     * 0: large buffers, which are not in core dumps; otherwise the bytes of
     * small ones
     */
    size_t                     buffer;
} ngx_etcd_connection_conf_t;


/*
 * Starts to connect.  All memory is allocated from the pool; the pool must
 * outlive the connection and the handler that closes the connection.  The
 * connection has no timeout: the owner closes a connection that takes too
 * long.  Returns NULL if resources are short; a refused connection is
 * reported through failed().
 */
ngx_etcd_connection_t *ngx_etcd_connection_create(
    ngx_etcd_connection_conf_t *conf, ngx_pool_t *pool, ngx_log_t *log);

/*
 * Names the pending action before connected(): "connect()", "TLS handshake".
 */
char *ngx_etcd_connection_action(ngx_etcd_connection_t *conn);

/*
 * Returns 1 if the peer has accepted the connection, whatever came of it; may
 * be called when the connection is closed.
 */
ngx_uint_t ngx_etcd_connection_accepted(ngx_etcd_connection_t *conn);

/*
 * Sends what output() returns; the rest follows when the socket is writable.
 */
void ngx_etcd_connection_flush(ngx_etcd_connection_t *conn);

/* Keeps the connection open while the worker process shuts down. */
void ngx_etcd_connection_stay(ngx_etcd_connection_t *conn);

/*
 * For a process that is about to exit and has left its event loop: sends what
 * output() returns, then waits at most "time" ms for input.
 */
void ngx_etcd_connection_wait(ngx_etcd_connection_t *conn, ngx_msec_t time);

/* May be called again; no handler is called afterwards. */
void ngx_etcd_connection_close(ngx_etcd_connection_t *conn);


#endif /* _NGX_ETCD_CONNECTION_H_INCLUDED_ */
