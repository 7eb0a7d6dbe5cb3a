
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_etcd_pause.h>


/* The state of a session that waits or has waited. */

typedef struct {
    ngx_event_handler_pt    read;          /* saved handlers */
    ngx_event_handler_pt    write;
    void                  (*gone)(void *data);
    void                   *data;
    ngx_uint_t              paused;
} ngx_stream_etcd_pause_t;


static void
ngx_stream_etcd_pause_cleanup(void *data)
{
    /*
     * the cleanup handler only marks the entry for
     * ngx_stream_etcd_pause_find()
     */
}


static ngx_stream_etcd_pause_t *
ngx_stream_etcd_pause_find(ngx_stream_session_t *s)
{
    ngx_pool_cleanup_t  *cln;

    for (cln = s->connection->pool->cleanup; cln != NULL; cln = cln->next) {
        if (cln->handler == ngx_stream_etcd_pause_cleanup) {
            return cln->data;
        }
    }

    return NULL;
}


/*
 * Data from the client stays unread, possibly in the preread buffer, and
 * hides a following EOF: data sent before EOF is proxied, as without a wait.
 */

static ngx_uint_t
ngx_stream_etcd_pause_closed(ngx_connection_t *c)
{
    int     n;
    u_char  buf[1];

    if (c->buffer != NULL && c->buffer->pos != c->buffer->last) {
        return 0;
    }

#if (NGX_SSL)

    if (c->ssl) {
        n = SSL_peek(c->ssl->connection, buf, 1);

        if (n > 0) {
            return 0;
        }

        n = SSL_get_error(c->ssl->connection, n);
        ERR_clear_error();

        c->read->ready = 0;

        return n != SSL_ERROR_WANT_READ && n != SSL_ERROR_WANT_WRITE;
    }

#endif

    n = recv(c->fd, buf, 1, MSG_PEEK);

    if (n == -1 && ngx_socket_errno == NGX_EAGAIN) {
        c->read->ready = 0;
        return 0;
    }

    return n <= 0;
}


static void
ngx_stream_etcd_pause_read(ngx_event_t *rev)
{
    ngx_uint_t         rc;
    ngx_connection_t  *c;

    c = rev->data;
    rc = NGX_STREAM_OK;

    if (c->close) {
        ngx_log_error(NGX_LOG_INFO, c->log, 0, "shutdown timeout");

    } else if (c->type == SOCK_DGRAM) {

        /* another datagram cannot be buffered: drop it */

        return;

    } else if (ngx_stream_etcd_pause_closed(c)) {
        ngx_log_error(NGX_LOG_INFO, c->log, 0, "client disconnected");

    } else if (ngx_handle_read_event(rev, 0) == NGX_OK) {
        return;

    } else {
        rc = NGX_STREAM_INTERNAL_SERVER_ERROR;
    }

    ngx_stream_etcd_pause_abandon(c->data, rc);
}


static void
ngx_stream_etcd_pause_write(ngx_event_t *wev)
{
    /* a paused session writes nothing */
}


ngx_int_t
ngx_stream_etcd_pause(ngx_stream_session_t *s, void (*gone)(void *data),
    void *data)
{
    ngx_connection_t         *c;
    ngx_pool_cleanup_t       *cln;
    ngx_stream_etcd_pause_t  *pause;

    c = s->connection;
    pause = ngx_stream_etcd_pause_find(s);

    if (pause == NULL) {
        cln = ngx_pool_cleanup_add(c->pool, sizeof(ngx_stream_etcd_pause_t));
        if (cln == NULL) {
            return NGX_ERROR;
        }

        cln->handler = ngx_stream_etcd_pause_cleanup;
        pause = cln->data;
    }

    pause->read = c->read->handler;
    pause->write = c->write->handler;
    pause->gone = gone;
    pause->data = data;

    /*
     * detect a client that closes the connection; datagrams have no
     * connection
     */

    if (c->type == SOCK_STREAM) {

        if (c->read->ready) {
            ngx_post_event(c->read, &ngx_posted_events);

        } else if (ngx_handle_read_event(c->read, 0) != NGX_OK) {
            pause->paused = 0;
            return NGX_ERROR;
        }
    }

    c->read->handler = ngx_stream_etcd_pause_read;
    c->write->handler = ngx_stream_etcd_pause_write;

    pause->paused = 1;

    return NGX_DONE;
}


void
ngx_stream_etcd_pause_end(ngx_stream_session_t *s)
{
    ngx_connection_t         *c;
    ngx_stream_etcd_pause_t  *pause;

    c = s->connection;
    pause = ngx_stream_etcd_pause_find(s);

    pause->paused = 0;

    c->read->handler = pause->read;
    c->write->handler = pause->write;

    ngx_stream_core_run_phases(s);
}


/* Calls gone() here: with TLS the pool may be destroyed much later. */

void
ngx_stream_etcd_pause_abandon(ngx_stream_session_t *s, ngx_uint_t rc)
{
    ngx_stream_etcd_pause_t  *pause;

    pause = ngx_stream_etcd_pause_find(s);

    pause->paused = 0;
    pause->gone(pause->data);

    ngx_stream_finalize_session(s, rc);
}


ngx_uint_t
ngx_stream_etcd_pause_active(ngx_stream_session_t *s)
{
    ngx_stream_etcd_pause_t  *pause;

    pause = ngx_stream_etcd_pause_find(s);

    return pause != NULL && pause->paused;
}
