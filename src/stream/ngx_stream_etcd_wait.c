
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_etcd_upstream.h>
#include <ngx_stream_etcd_set.h>
#include <ngx_stream_etcd_wait.h>


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

ngx_uint_t
ngx_stream_etcd_pause_abandon(ngx_stream_session_t *s, ngx_uint_t rc)
{
    ngx_stream_etcd_pause_t  *pause;

    pause = ngx_stream_etcd_pause_find(s);

    if (pause == NULL || !pause->paused) {
        return 0;
    }

    pause->paused = 0;
    pause->gone(pause->data);

    ngx_stream_finalize_session(s, rc);

    return 1;
}


typedef struct {
    ngx_stream_session_t       *session;
    ngx_etcd_wait_queue_entry_t entry;
    ngx_etcd_peer_data_t       *pd;       /* with "full"; NULL: none yet */
} ngx_stream_etcd_wait_ctx_t;


static void
ngx_stream_etcd_wait_cleanup(void *data)
{
    ngx_stream_etcd_wait_ctx_t *ctx = data;

    ngx_etcd_wait_queue_cancel(&ctx->entry);

    ngx_stream_etcd_reserve_forget(ctx->session);
}


static ngx_stream_etcd_wait_ctx_t *
ngx_stream_etcd_wait_find_ctx(ngx_stream_session_t *s)
{
    ngx_pool_cleanup_t          *cln;
    ngx_stream_etcd_wait_ctx_t  *ctx;

    for (cln = s->connection->pool->cleanup; cln != NULL; cln = cln->next) {

        if (cln->handler != ngx_stream_etcd_wait_cleanup) {
            continue;
        }

        ctx = cln->data;

        /* "pass" starts another session on the same connection */

        if (ctx->session == s) {
            return ctx;
        }
    }

    return NULL;
}


ngx_msec_t
ngx_stream_etcd_wait_time(ngx_stream_session_t *s)
{
    ngx_stream_etcd_wait_ctx_t  *ctx;

    ctx = ngx_stream_etcd_wait_find_ctx(s);

    return (ctx != NULL) ? ctx->entry.waited : 0;
}


/*
 * Resumes the session, which is checked again and proceeds or fails as
 * without a wait.
 */

static void
ngx_stream_etcd_wait_over(ngx_etcd_wait_queue_entry_t *entry)
{
    ngx_stream_etcd_wait_ctx_t  *ctx;

    ctx = entry->data;

    ngx_stream_etcd_pause_end(ctx->session);
}


static ngx_stream_etcd_wait_ctx_t *
ngx_stream_etcd_wait_get_ctx(ngx_stream_session_t *s)
{
    ngx_pool_cleanup_t          *cln;
    ngx_stream_etcd_wait_ctx_t  *ctx;

    ctx = ngx_stream_etcd_wait_find_ctx(s);

    if (ctx != NULL) {
        return ctx;
    }

    cln = ngx_pool_cleanup_add(s->connection->pool,
                               sizeof(ngx_stream_etcd_wait_ctx_t));
    if (cln == NULL) {
        return NULL;
    }

    ctx = cln->data;
    ngx_memzero(ctx, sizeof(ngx_stream_etcd_wait_ctx_t));

    cln->handler = ngx_stream_etcd_wait_cleanup;

    ctx->session = s;
    ctx->entry.handler = ngx_stream_etcd_wait_over;
    ctx->entry.data = ctx;

    return ctx;
}


/* Without a table the session waits for its set. */

static ngx_int_t
ngx_stream_etcd_wait_begin(ngx_stream_session_t *s, ngx_etcd_table_t *table,
    ngx_etcd_wait_queue_t *queue)
{
    ngx_int_t                    rc;
    ngx_stream_etcd_srv_conf_t  *escf;
    ngx_stream_etcd_wait_ctx_t  *ctx;

    escf = ngx_stream_get_module_srv_conf(s, ngx_stream_etcd_module);

    ctx = ngx_stream_etcd_wait_get_ctx(s);
    if (ctx == NULL) {
        return NGX_ERROR;
    }

    if (table == NULL) {
        rc = ngx_etcd_wait_loading(escf->wait, &ctx->entry,
                                   s->connection->pool, s->connection->log);

    } else {
        rc = ngx_etcd_wait_begin(escf->wait, table, queue, &ctx->entry,
                                 s->connection->pool, s->connection->log);
    }

    if (rc == NGX_BUSY) {
        return NGX_STREAM_SERVICE_UNAVAILABLE;
    }

    if (rc != NGX_AGAIN) {
        return rc;
    }

    s->connection->log->action = "waiting for a member of the upstream";

    rc = ngx_stream_etcd_pause(s, ngx_stream_etcd_wait_cleanup, ctx);

    if (rc == NGX_ERROR) {
        ngx_etcd_wait_queue_cancel(&ctx->entry);
    }

    return rc;
}


static ngx_stream_upstream_srv_conf_t *
ngx_stream_etcd_wait_upstream(ngx_stream_session_t *s, ngx_etcd_wait_t *wait)
{
    ngx_uint_t                         i;
    ngx_stream_etcd_srv_conf_t        *escf;
    ngx_stream_upstream_srv_conf_t   **uscf;
    ngx_stream_upstream_main_conf_t   *umcf;

    umcf = ngx_stream_get_module_main_conf(s, ngx_stream_upstream_module);
    uscf = umcf->upstreams.elts;

    /* there is one, as ngx_etcd_wait_check() has found the service */

    for (i = 0; wait->module == NULL && i < umcf->upstreams.nelts; i++) {

        if (uscf[i]->srv_conf == NULL) {
            continue;
        }

        escf = ngx_stream_conf_upstream_srv_conf(uscf[i],
                                                 ngx_stream_etcd_module);

        if (escf->upstream.service == wait->service) {
            wait->module = uscf[i];
        }
    }

    return wait->module;
}


static ngx_int_t
ngx_stream_etcd_wait_reserve(ngx_stream_etcd_wait_ctx_t *ctx,
    ngx_etcd_wait_t *wait, ngx_etcd_table_t *table)
{
    ngx_peer_connection_t            pc;
    ngx_stream_session_t            *s;
    ngx_stream_upstream_srv_conf_t  *us;

    s = ctx->session;

    if (ctx->pd == NULL || ctx->pd->table != table) {
        us = ngx_stream_etcd_wait_upstream(s, wait);

        ngx_memzero(&pc, sizeof(ngx_peer_connection_t));

        pc.log = s->connection->log;

        ctx->pd = ngx_stream_etcd_upstream_prepare(s, us, table, &pc);

        if (ctx->pd == NULL) {
            return NGX_ERROR;
        }

        ctx->pd->pick.tries = pc.tries;
    }

    return ngx_stream_etcd_reserve(s, ctx->pd);
}


/*
 * The proxy cannot wait when it picks a peer, and another worker may take the
 * last connection at any time: the connection is reserved here.
 */

static ngx_int_t
ngx_stream_etcd_wait_full(ngx_stream_session_t *s, ngx_etcd_table_t *table)
{
    ngx_int_t                    rc;
    ngx_etcd_wait_queue_t       *queue;
    ngx_stream_etcd_srv_conf_t  *escf;
    ngx_stream_etcd_wait_ctx_t  *ctx;

    escf = ngx_stream_get_module_srv_conf(s, ngx_stream_etcd_module);

    ctx = ngx_stream_etcd_wait_get_ctx(s);
    if (ctx == NULL) {
        return NGX_ERROR;
    }

    if (!ngx_etcd_wait_yields(escf->wait, table, &ctx->entry)) {

        rc = ngx_stream_etcd_wait_reserve(ctx, escf->wait, table);

        if (rc != NGX_BUSY) {
            return (rc == NGX_OK) ? NGX_DECLINED : NGX_ERROR;
        }
    }

    queue = ngx_etcd_wait_queue(escf->wait, table);

    return (queue != NULL) ? ngx_stream_etcd_wait_begin(s, table, queue)
                           : NGX_DECLINED;
}


ngx_int_t
ngx_stream_etcd_wait_handler(ngx_stream_session_t *s)
{
    ngx_int_t                    rc;
    ngx_etcd_table_t            *table;
    ngx_stream_etcd_srv_conf_t  *escf;

    escf = ngx_stream_get_module_srv_conf(s, ngx_stream_etcd_module);

    if (escf->wait == NULL) {
        return NGX_DECLINED;
    }

    table = ngx_etcd_pattern_values_table(escf->wait->service,
                                          ngx_stream_etcd_set_value, s, &rc);

    /* a set that does not exist is refused later */

    if (table == NULL) {
        return (rc == NGX_BUSY) ? ngx_stream_etcd_wait_begin(s, NULL, NULL)
                                : NGX_DECLINED;
    }

    if (ngx_etcd_wait_needed(escf->wait, table)) {
        return ngx_stream_etcd_wait_begin(s, table, &table->wait_queue);
    }

    return escf->wait->full ? ngx_stream_etcd_wait_full(s, table)
                            : NGX_DECLINED;
}
