
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A non-blocking stream of bytes to one address, over TLS if it is to be.
 * It knows nothing about what the bytes mean.
 */


#ifndef _NGX_ETCD_CONNECTION_H_INCLUDED_
#define _NGX_ETCD_CONNECTION_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_ssl.h>


typedef struct ngx_etcd_connection_s  ngx_etcd_connection_t;


/*
 * Handlers are called from the event loop only, never from inside of the
 * functions below, with two exceptions: ngx_etcd_connection_flush() calls
 * output(), and failed() when sending fails.  Any of them may close the
 * connection.
 */

typedef struct {
    ngx_addr_t                *addr;

    /* NULL: no TLS; otherwise the peer proves that it is of that name */
    ngx_etcd_ssl_t            *ssl;
    ngx_str_t                  ssl_name;

    /* the connection is established, the TLS handshake included */
    void                     (*connected)(void *data);

    /* n > 0 bytes arrived */
    void                     (*received)(void *data, u_char *buf, size_t n);

    /*
     * Says what to send next: the number of bytes at *buf, which must stay
     * as they are until the next call of output(); 0 if there is nothing.
     */
    size_t                   (*output)(void *data, u_char **buf);

    /* refused, lost or closed by the peer; it is closed already */
    void                     (*failed)(void *data, ngx_str_t *reason);

    void                      *data;
} ngx_etcd_connection_conf_t;


/*
 * Starts to connect.  All memory is of the pool, which must outlive not only
 * the connection but also the handler it is closed in.  There is no timeout
 * here: the owner closes what takes too long.  NULL on a lack of resources;
 * an address that refuses is reported through failed().
 */
ngx_etcd_connection_t *ngx_etcd_connection_create(
    ngx_etcd_connection_conf_t *conf, ngx_pool_t *pool, ngx_log_t *log);

/* what takes time before connected(): "connect()", "TLS handshake" */
char *ngx_etcd_connection_action(ngx_etcd_connection_t *conn);

/* sends what output() gives; what the socket does not take follows later */
void ngx_etcd_connection_flush(ngx_etcd_connection_t *conn);

/* it is not closed when the worker process shuts down */
void ngx_etcd_connection_stay(ngx_etcd_connection_t *conn);

/*
 * For a process that is about to exit and has left its event loop: sends what
 * output() gives and waits so long for something to be received.
 */
void ngx_etcd_connection_wait(ngx_etcd_connection_t *conn, ngx_msec_t time);

/* may be called again; no handler is called after it */
void ngx_etcd_connection_close(ngx_etcd_connection_t *conn);


#endif /* _NGX_ETCD_CONNECTION_H_INCLUDED_ */
