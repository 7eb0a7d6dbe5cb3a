
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>
#include <ngx_etcd_connection.h>
#include <ngx_etcd_secret.h>
#include <ngx_etcd_tls.h>

#include <poll.h>


#define NGX_ETCD_CONNECTION_INPUT   65536
#define NGX_ETCD_CONNECTION_OUTPUT  32768

/* recv() calls per event: a long answer must not delay client requests */
#define NGX_ETCD_CONNECTION_ROUNDS  4

#define NGX_ETCD_CONNECTION_REASON  NGX_ETCD_TLS_REASON


typedef enum {
    ngx_etcd_connection_connecting = 0,
    ngx_etcd_connection_handshake,
    ngx_etcd_connection_established,
    ngx_etcd_connection_closed
} ngx_etcd_connection_state_e;


struct ngx_etcd_connection_s {
    ngx_etcd_connection_state_e   state;
    ngx_etcd_connection_conf_t    conf;

    ngx_connection_t             *connection;
    ngx_etcd_tls_t               *tls;
    ngx_pool_t                   *pool;
    ngx_log_t                    *log;

    u_char                       *in;
    size_t                        nin;
    ngx_buf_t                    *out;

    /* bytes returned by output() that did not fit into the buffer */
    u_char                       *rest;
    size_t                        nrest;

    /* posted when connect() fails at once: reports the error in "err" */
    ngx_event_t                   refused;
    ngx_err_t                     err;

    unsigned                      accepted:1;
};


static ngx_int_t ngx_etcd_connection_progress(ngx_etcd_connection_t *conn);
static void ngx_etcd_connection_read_handler(ngx_event_t *rev);


/* Passwords and tokens of etcd pass through both buffers. */

static void *
ngx_etcd_connection_palloc(ngx_etcd_connection_t *conn, size_t size)
{
    return conn->conf.buffer ? ngx_palloc(conn->pool, size)
                             : ngx_etcd_secret_palloc(conn->pool, size);
}


static ngx_buf_t *
ngx_etcd_connection_buf(ngx_etcd_connection_t *conn, size_t size)
{
    ngx_buf_t  *b;

    b = ngx_calloc_buf(conn->pool);
    if (b == NULL) {
        return NULL;
    }

    b->start = ngx_etcd_connection_palloc(conn, size);
    if (b->start == NULL) {
        return NULL;
    }

    b->pos = b->start;
    b->last = b->start;
    b->end = b->start + size;
    b->temporary = 1;

    return b;
}


static void
ngx_etcd_connection_fail(ngx_etcd_connection_t *conn, char *reason)
{
    ngx_str_t  text;

    text.data = (u_char *) reason;
    text.len = ngx_strlen(reason);

    ngx_log_debug2(NGX_LOG_DEBUG_EVENT, conn->log, 0,
                   "etcd connection to %V failed: %V",
                   &conn->conf.addr->name, &text);

    ngx_etcd_connection_close(conn);

    conn->conf.failed(conn->conf.data, &text);
}


static void
ngx_etcd_connection_error(ngx_etcd_connection_t *conn, ngx_err_t err,
    char *what)
{
    u_char  *p, *last;
    u_char   reason[NGX_ETCD_CONNECTION_REASON];
    u_char   text[NGX_ETCD_CONNECTION_REASON];

    last = reason + NGX_ETCD_CONNECTION_REASON - 1;

    /* Prefer the TLS reason: on a TLS error recv() fails without errno. */

    if (conn->tls != NULL && conn->tls->reason.len != 0) {
        *ngx_slprintf(reason, last, "%V", &conn->tls->reason) = '\0';
        ngx_etcd_connection_fail(conn, (char *) reason);
        return;
    }

    p = ngx_slprintf(reason, last, "%s failed", what);

    if (err) {
        *ngx_strerror(err, text, sizeof(text) - 1) = '\0';
        p = ngx_slprintf(p, last, " (%d: %s)", (int) err, text);
    }

    *p = '\0';

    ngx_etcd_connection_fail(conn, (char *) reason);
}


static void
ngx_etcd_connection_refused_handler(ngx_event_t *ev)
{
    ngx_etcd_connection_t  *conn;

    conn = ev->data;

    ngx_etcd_connection_error(conn, conn->err, "connect()");
}


static ngx_int_t
ngx_etcd_connection_connected(ngx_etcd_connection_t *conn)
{
    int                err;
    socklen_t          len;
    ngx_connection_t  *c;

    c = conn->connection;

    err = 0;
    len = sizeof(int);

    /* Linux sets err; Solaris makes getsockopt() fail (from nginx). */

    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, (void *) &err, &len) == -1) {
        err = ngx_socket_errno;
    }

    if (err) {
        ngx_etcd_connection_error(conn, err, "connect()");
        return NGX_ERROR;
    }

    conn->accepted = 1;

    if (ngx_tcp_nodelay(c) != NGX_OK) {
        ngx_etcd_connection_fail(conn, "could not set TCP_NODELAY");
        return NGX_ERROR;
    }

    if (conn->conf.ssl == NULL) {
        return NGX_OK;
    }

    conn->tls = ngx_etcd_tls_create(conn->conf.ssl, conn->conf.addr,
                                    &conn->conf.ssl_name, c);
    if (conn->tls == NULL) {
        ngx_etcd_connection_fail(conn, "could not start TLS");
        return NGX_ERROR;
    }

    conn->state = ngx_etcd_connection_handshake;

    return NGX_OK;
}


static void
ngx_etcd_connection_write_handler(ngx_event_t *wev)
{
    ngx_connection_t       *c;
    ngx_etcd_connection_t  *conn;

    c = wev->data;
    conn = c->data;

    if (ngx_etcd_connection_progress(conn) != NGX_OK) {
        return;
    }

    ngx_etcd_connection_flush(conn);
}


static ngx_int_t
ngx_etcd_connection_handshaken(ngx_etcd_connection_t *conn)
{
    ngx_int_t          rc;
    ngx_connection_t  *c;

    c = conn->connection;

    rc = ngx_etcd_tls_handshake(conn->tls, c);

    if (rc == NGX_ERROR) {
        ngx_etcd_connection_error(conn, 0, "TLS handshake");
        return NGX_ERROR;
    }

    c->read->handler = ngx_etcd_connection_read_handler;
    c->write->handler = ngx_etcd_connection_write_handler;

    if (rc == NGX_OK) {

        /* OpenSSL may hold bytes that came with the end of the handshake */

        ngx_post_event(c->read, &ngx_posted_next_events);
    }

    return rc;
}


/*
 * NGX_OK: bytes may be sent and received; NGX_ERROR: the connection is
 * closed.
 */

static ngx_int_t
ngx_etcd_connection_progress(ngx_etcd_connection_t *conn)
{
    ngx_int_t  rc;

    if (conn->state == ngx_etcd_connection_connecting) {
        rc = ngx_etcd_connection_connected(conn);

        if (rc != NGX_OK) {
            return rc;
        }
    }

    if (conn->state == ngx_etcd_connection_handshake) {
        rc = ngx_etcd_connection_handshaken(conn);

        if (rc != NGX_OK) {
            return rc;
        }
    }

    if (conn->state == ngx_etcd_connection_established) {
        return NGX_OK;
    }

    conn->state = ngx_etcd_connection_established;

    ngx_log_debug1(NGX_LOG_DEBUG_EVENT, conn->log, 0,
                   "etcd connection to %V is established",
                   &conn->conf.addr->name);

    conn->conf.connected(conn->conf.data);

    return conn->connection ? NGX_OK : NGX_ERROR;
}


static void
ngx_etcd_connection_read(ngx_etcd_connection_t *conn)
{
    ssize_t            n;
    ngx_uint_t         i;
    ngx_event_t       *rev;
    ngx_connection_t  *c;

    c = conn->connection;
    rev = c->read;

    for (i = 0; i < NGX_ETCD_CONNECTION_ROUNDS; i++) {

        /* a TLS error leaves errno as it was: clear it */

        ngx_set_socket_errno(0);

        n = c->recv(c, conn->in, conn->nin);

        if (n == NGX_AGAIN) {
            break;
        }

        if (n == NGX_ERROR) {
            ngx_etcd_connection_error(conn, ngx_socket_errno, "recv()");
            return;
        }

        if (n == 0) {
            ngx_etcd_connection_fail(conn, "connection closed by peer");
            return;
        }

        conn->conf.received(conn->conf.data, conn->in, n);

        if (conn->connection == NULL) {
            return;
        }

        if (!rev->ready) {
            break;
        }
    }

    if (rev->ready) {
        ngx_post_event(rev, &ngx_posted_next_events);
        return;
    }

    if (ngx_handle_read_event(rev, 0) != NGX_OK) {
        ngx_etcd_connection_fail(conn, "could not wait for a read event");
    }
}


static void
ngx_etcd_connection_read_handler(ngx_event_t *rev)
{
    ngx_connection_t       *c;
    ngx_etcd_connection_t  *conn;

    c = rev->data;
    conn = c->data;

    if (c->close) {
        ngx_etcd_connection_fail(conn, "worker process is shutting down");
        return;
    }

    if (ngx_etcd_connection_progress(conn) != NGX_OK) {
        return;
    }

    ngx_etcd_connection_read(conn);
}


static void
ngx_etcd_connection_setup(ngx_etcd_connection_t *conn, ngx_connection_t *c)
{
    if (fcntl(c->fd, F_SETFD, FD_CLOEXEC) == -1) {
        ngx_log_error(NGX_LOG_ALERT, conn->log, ngx_errno,
                      "fcntl(FD_CLOEXEC) failed");
    }

    conn->log->connection = c->number;
    conn->connection = c;

    c->data = conn;
    c->pool = conn->pool;
    c->log = conn->log;
    c->read->log = conn->log;
    c->write->log = conn->log;
    c->read->handler = ngx_etcd_connection_read_handler;
    c->write->handler = ngx_etcd_connection_write_handler;

    /* a worker that shuts down does not wait for an idle connection */
    c->idle = 1;
}


static ngx_int_t
ngx_etcd_connection_open(ngx_etcd_connection_t *conn)
{
    ngx_int_t               rc;
    ngx_log_t               log;
    ngx_peer_connection_t   peer;

    ngx_memzero(&peer, sizeof(ngx_peer_connection_t));

    /*
     * The owner logs an outage once: suppress the core's "connect() failed".
     */

    log = *conn->log;
    log.log_level = ngx_min(log.log_level, NGX_LOG_ALERT);

    peer.sockaddr = conn->conf.addr->sockaddr;
    peer.socklen = conn->conf.addr->socklen;
    peer.name = &conn->conf.addr->name;
    peer.get = ngx_event_get_peer;
    peer.log = &log;
    peer.log_error = NGX_ERROR_INFO;

    ngx_set_socket_errno(0);

    rc = ngx_event_connect_peer(&peer);

    if (rc == NGX_DECLINED) {
        conn->err = ngx_socket_errno;
        ngx_etcd_event_init(&conn->refused,
                            ngx_etcd_connection_refused_handler, conn,
                            conn->log);

        ngx_post_event(&conn->refused, &ngx_posted_next_events);

        return NGX_OK;
    }

    if (rc != NGX_OK && rc != NGX_AGAIN) {
        ngx_log_error(NGX_LOG_INFO, conn->log, 0,
                      "could not create a connection to %V",
                      &conn->conf.addr->name);
        return NGX_ERROR;
    }

    ngx_etcd_connection_setup(conn, peer.connection);

    if (rc == NGX_OK) {
        ngx_post_event(peer.connection->write, &ngx_posted_next_events);
    }

    return NGX_OK;
}


ngx_etcd_connection_t *
ngx_etcd_connection_create(ngx_etcd_connection_conf_t *conf, ngx_pool_t *pool,
    ngx_log_t *log)
{
    ngx_etcd_connection_t  *conn;

    conn = ngx_pcalloc(pool, sizeof(ngx_etcd_connection_t));
    if (conn == NULL) {
        return NULL;
    }

    conn->conf = *conf;
    conn->pool = pool;
    conn->log = log;

    conn->nin = conf->buffer ? conf->buffer : NGX_ETCD_CONNECTION_INPUT;

    conn->in = ngx_etcd_connection_palloc(conn, conn->nin);
    if (conn->in == NULL) {
        return NULL;
    }

    conn->out = ngx_etcd_connection_buf(conn, conf->buffer
                                              ? conf->buffer
                                              : NGX_ETCD_CONNECTION_OUTPUT);
    if (conn->out == NULL) {
        return NULL;
    }

    if (ngx_etcd_connection_open(conn) != NGX_OK) {
        return NULL;
    }

    return conn;
}


char *
ngx_etcd_connection_action(ngx_etcd_connection_t *conn)
{
    return (conn->state == ngx_etcd_connection_handshake) ? "TLS handshake"
                                                          : "connect()";
}


ngx_uint_t
ngx_etcd_connection_accepted(ngx_etcd_connection_t *conn)
{
    return conn->accepted;
}


static size_t
ngx_etcd_connection_fill(ngx_etcd_connection_t *conn)
{
    size_t      n;
    ngx_buf_t  *b;

    b = conn->out;

    b->pos = b->start;
    b->last = b->start;

    while (b->last < b->end) {

        if (conn->nrest == 0) {
            conn->nrest = conn->conf.output(conn->conf.data, &conn->rest);

            if (conn->nrest == 0) {
                break;
            }
        }

        n = ngx_min(conn->nrest, (size_t) (b->end - b->last));

        b->last = ngx_cpymem(b->last, conn->rest, n);
        conn->rest += n;
        conn->nrest -= n;
    }

    return b->last - b->pos;
}


void
ngx_etcd_connection_flush(ngx_etcd_connection_t *conn)
{
    ssize_t            n;
    ngx_buf_t         *b;
    ngx_event_t       *wev;
    ngx_connection_t  *c;

    if (conn->state != ngx_etcd_connection_established) {
        return;
    }

    c = conn->connection;
    wev = c->write;
    b = conn->out;

    while (wev->ready) {

        if (b->pos == b->last) {
            n = ngx_etcd_connection_fill(conn);

            /* output() may have closed the connection */

            if (conn->connection == NULL) {
                return;
            }

            if (n == 0) {
                break;
            }
        }

        ngx_set_socket_errno(0);

        n = c->send(c, b->pos, b->last - b->pos);

        if (n == NGX_ERROR) {
            ngx_etcd_connection_error(conn, ngx_socket_errno, "send()");
            return;
        }

        if (n == NGX_AGAIN) {
            break;
        }

        b->pos += n;
    }

    if (ngx_handle_write_event(wev, 0) != NGX_OK) {
        ngx_etcd_connection_fail(conn, "could not wait for a write event");
    }
}


void
ngx_etcd_connection_stay(ngx_etcd_connection_t *conn)
{
    if (conn->connection != NULL) {
        conn->connection->idle = 0;
    }
}


void
ngx_etcd_connection_wait(ngx_etcd_connection_t *conn, ngx_msec_t time)
{
    ngx_event_t    *rev;
    struct pollfd   pfd;

    ngx_etcd_connection_flush(conn);

    if (conn->connection == NULL) {
        return;
    }

    pfd.fd = conn->connection->fd;
    pfd.events = POLLIN;

    if (poll(&pfd, 1, (int) time) != 1) {
        return;
    }

    /* the fields as the event modules set them for a readable socket */

    rev = conn->connection->read;
    rev->ready = 1;
    rev->available = -1;

    rev->handler(rev);
}


void
ngx_etcd_connection_close(ngx_etcd_connection_t *conn)
{
    conn->state = ngx_etcd_connection_closed;

    ngx_etcd_event_stop(&conn->refused);

    if (conn->tls != NULL) {
        ngx_etcd_tls_close(conn->tls, conn->connection);
        conn->tls = NULL;
    }

    if (conn->connection) {
        ngx_close_connection(conn->connection);
        conn->connection = NULL;
    }
}
