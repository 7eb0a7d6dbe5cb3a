
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd_client.h>
#include <ngx_http_etcd_lock_hold.h>


/* ms; or the read timeout of the upstream, if longer */

#define NGX_HTTP_ETCD_LOCK_MAX_HOLD  60000


static ngx_http_output_header_filter_pt  ngx_http_next_header_filter;
static ngx_http_output_body_filter_pt    ngx_http_next_body_filter;


static void
ngx_http_etcd_lock_hold_end(ngx_http_etcd_lock_ctx_t *ctx)
{
    ngx_etcd_grant_t    *grant;
    ngx_http_request_t  *r;

    r = ctx->request;

    ngx_etcd_grant_each(grant, r->pool, r) {

        if (ctx->hold != NULL && grant->hold == NGX_ETCD_LOCK_HOLD_UPSTREAM) {
            ngx_etcd_lock_hold_add(ctx->hold, grant);

        } else {
            ngx_etcd_lock_end(grant);
        }
    }
}


/* nginx's own cleanups of upstreams were added later, and have run. */

static void
ngx_http_etcd_lock_hold_cleanup(void *data)
{
    ngx_http_etcd_lock_ctx_t *ctx = data;

    if (ctx->timer.timer_set) {
        ngx_del_timer(&ctx->timer);
    }

    ngx_http_etcd_lock_hold_end(ctx);

    if (ctx->hold != NULL) {
        ngx_etcd_lock_hold_detach(ctx->hold);
        ctx->hold = NULL;
    }
}


ngx_http_etcd_lock_ctx_t *
ngx_http_etcd_lock_hold_ctx(ngx_http_request_t *r)
{
    ngx_http_cleanup_t  *cln;

    for (cln = r->main->cleanup; cln != NULL; cln = cln->next) {
        if (cln->handler == ngx_http_etcd_lock_hold_cleanup) {
            return cln->data;
        }
    }

    return NULL;
}


ngx_http_etcd_lock_guard_t *
ngx_http_etcd_lock_hold_guard(ngx_http_request_t *r)
{
    ngx_http_etcd_lock_ctx_t    *ctx;
    ngx_http_etcd_lock_guard_t  *guard;

    ctx = ngx_http_etcd_lock_hold_ctx(r);
    if (ctx == NULL) {
        return NULL;
    }

    for (guard = ctx->guards; guard != NULL; guard = guard->next) {
        if (guard->request == r) {
            break;
        }
    }

    return guard;
}


void
ngx_http_etcd_lock_hold_release(ngx_http_request_t *r)
{
    ngx_http_etcd_lock_ctx_t  *ctx;

    ctx = ngx_http_etcd_lock_hold_ctx(r);

    if (ctx != NULL) {
        ngx_http_etcd_lock_hold_end(ctx);
        ngx_etcd_grant_forget(r->main->pool, r->main);
    }
}


ngx_msec_t
ngx_http_etcd_lock_hold_max(ngx_http_etcd_lock_ctx_t *ctx,
    ngx_http_upstream_t *u)
{
    ngx_msec_t           max, time;
    ngx_etcd_grant_t    *grant;
    ngx_http_request_t  *r;

    max = 0;
    r = ctx->request;

    ngx_etcd_grant_each(grant, r->pool, r) {

        if (grant->hold != NGX_ETCD_LOCK_HOLD_UPSTREAM
            || !ngx_etcd_lock_held(grant))
        {
            continue;
        }

        time = grant->max_hold;

        if (time == NGX_CONF_UNSET_MSEC) {
            time = ngx_max(u->conf->read_timeout, NGX_HTTP_ETCD_LOCK_MAX_HOLD);
        }

        max = ngx_max(max, time);
    }

    return max;
}


/*
 * The end of an upstream, which is one of the cleanups, gives back the
 * reference.
 */

static void
ngx_http_etcd_lock_hold_abort(ngx_http_request_t *r)
{
    r->main->count++;

    ngx_http_finalize_request(r, NGX_HTTP_CLIENT_CLOSED_REQUEST);
}


static void
ngx_http_etcd_lock_hold_over(ngx_event_t *ev)
{
    ngx_connection_t          *c;
    ngx_http_request_t        *r;
    ngx_http_etcd_lock_ctx_t  *ctx;

    ctx = ev->data;
    r = ctx->request;
    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    if (ngx_http_etcd_lock_hold_max(ctx, ctx->upstream) != 0) {
        ngx_log_error(NGX_LOG_WARN, c->log, 0,
                      "etcd: locks are released although upstream %V has not "
                      "answered for %Mms", ctx->upstream->peer.name, ctx->max);
    }

    ctx->over = 1;

    ngx_http_etcd_lock_hold_abort(r);
    ngx_http_run_posted_requests(c);
}


ngx_int_t
ngx_http_etcd_lock_hold_init(ngx_http_request_t *r)
{
    ngx_http_cleanup_t        *cln;
    ngx_http_etcd_lock_ctx_t  *ctx;

    if (ngx_http_etcd_lock_hold_ctx(r) != NULL) {
        return NGX_OK;
    }

    cln = ngx_http_cleanup_add(r, sizeof(ngx_http_etcd_lock_ctx_t));
    if (cln == NULL) {
        return NGX_ERROR;
    }

    ctx = cln->data;
    ngx_memzero(ctx, sizeof(ngx_http_etcd_lock_ctx_t));

    cln->handler = ngx_http_etcd_lock_hold_cleanup;

    ctx->request = r;
    ctx->timer.handler = ngx_http_etcd_lock_hold_over;
    ctx->timer.data = ctx;
    ctx->timer.log = r->connection->log;

    return NGX_OK;
}


/* nginx is between the beginning and the end of this upstream. */

static ngx_uint_t
ngx_http_etcd_lock_hold_active(ngx_http_etcd_lock_guard_t *guard)
{
    ngx_http_upstream_t  *u;

    u = guard->request->upstream;

    return u != NULL && u == guard->upstream && u->cleanup != NULL;
}


/*
 * Returns 1 if the client has left.  The longest hold is the only limit for the
 * upstream then.
 */

static ngx_uint_t
ngx_http_etcd_lock_hold_left(ngx_http_etcd_lock_guard_t *guard)
{
    ngx_connection_t          *c, *pc;
    ngx_http_request_t        *r;
    ngx_http_upstream_t       *u;
    ngx_http_etcd_lock_ctx_t  *ctx;

    r = guard->request;
    c = r->connection;
    u = r->upstream;
    ctx = guard->ctx;

    if (!c->error && !(guard->watch && ngx_http_etcd_client_left(r))) {
        return 0;
    }

    c->error = 1;

    /* nothing is sent any more: a writer must not wait for the client */

    c->write->ready = 1;
    c->write->delayed = 0;

    if (guard->left) {
        return 1;
    }

    guard->left = 1;

    if (!ctx->timer.timer_set) {
        ctx->upstream = u;
        ctx->max = ngx_http_etcd_lock_hold_max(ctx, u);

        ngx_log_error(NGX_LOG_INFO, c->log, 0,
                      "etcd: the client has left, locks are kept until "
                      "upstream %V has answered, for %Mms at most",
                      u->peer.name, ctx->max);

        ngx_add_timer(&ctx->timer, ctx->max);
    }

    u->conf->read_timeout = ctx->max;

    if (u->pipe != NULL) {
        u->pipe->read_timeout = ctx->max;
    }

    pc = u->peer.connection;

    if (pc != NULL && pc->read->timer_set) {
        ngx_add_timer(pc->read, ctx->max);
    }

    return 1;
}


static void
ngx_http_etcd_lock_hold_read(ngx_http_request_t *r)
{
    ngx_http_upstream_t         *u;
    ngx_http_etcd_lock_guard_t  *guard;

    guard = ngx_http_etcd_lock_hold_guard(r);

    if (guard == NULL
        || guard->left
        || !ngx_http_etcd_lock_hold_active(guard)
        || !ngx_http_etcd_client_left(r))
    {
        return;
    }

    u = r->upstream;

    if (!u->header_sent
        && (u->peer.connection == NULL || u->peer.connection->sent == 0))
    {
        /* the upstream has no part of the request, and is still needed */

        r->connection->error = 1;
        ngx_http_etcd_lock_hold_abort(r);
        return;
    }

    (void) ngx_http_etcd_lock_hold_left(guard);

    if (guard->write_event_handler != NULL) {
        guard->write_event_handler(r);
    }
}


static void
ngx_http_etcd_lock_hold_write(ngx_http_request_t *r)
{
    ngx_connection_t            *c;
    ngx_http_etcd_lock_guard_t  *guard;

    c = r->connection;
    guard = ngx_http_etcd_lock_hold_guard(r);

    if (guard == NULL || !ngx_http_etcd_lock_hold_active(guard)) {
        return;
    }

    if (c->write->timedout) {
        c->write->timedout = 0;
        c->timedout = 1;
        c->error = 1;

        ngx_connection_error(c, NGX_ETIMEDOUT, "client timed out");
    }

    if (guard->write_event_handler == NULL) {
        ngx_http_etcd_lock_hold_read(r);
        return;
    }

    (void) ngx_http_etcd_lock_hold_left(guard);

    guard->write_event_handler(r);
}


void
ngx_http_etcd_lock_hold_sent(ngx_http_etcd_lock_guard_t *guard)
{
    if (guard->watch && !guard->request->reading_body) {
        guard->request->read_event_handler = ngx_http_etcd_lock_hold_read;
    }
}


ngx_int_t
ngx_http_etcd_lock_hold_watch(ngx_http_etcd_lock_guard_t *guard)
{
    guard->write_event_handler = NULL;

    if (!guard->watch) {
        return NGX_OK;
    }

    ngx_http_etcd_lock_hold_sent(guard);

    guard->request->write_event_handler = ngx_http_etcd_lock_hold_write;

    return ngx_http_etcd_client_watch(guard->request);
}


/* Returns 1 if nobody wants the answer any more. */

static ngx_uint_t
ngx_http_etcd_lock_hold_unwanted(ngx_http_etcd_lock_guard_t *guard)
{
    return guard->left
           || (ngx_http_etcd_lock_hold_active(guard)
               && ngx_http_etcd_lock_hold_left(guard));
}


static ngx_int_t
ngx_http_etcd_lock_hold_header_filter(ngx_http_request_t *r)
{
    ngx_int_t                    rc;
    ngx_http_etcd_lock_guard_t  *guard;

    guard = ngx_http_etcd_lock_hold_guard(r);

    if (guard == NULL || guard->upstream == NULL) {
        return ngx_http_next_header_filter(r);
    }

    if (guard->upstream->upgrade) {

        /* a tunnel has no end but that of its client */

        return guard->left ? NGX_ERROR : ngx_http_next_header_filter(r);
    }

    if (!ngx_http_etcd_lock_hold_unwanted(guard)) {
        rc = ngx_http_next_header_filter(r);

        if (rc != NGX_ERROR || !ngx_http_etcd_lock_hold_unwanted(guard)) {
            return rc;
        }
    }

    if (r == r->main) {
        r->headers_out.status = NGX_HTTP_CLIENT_CLOSED_REQUEST;
    }

    return NGX_OK;
}


/*
 * Marks the buffers as sent.  Those that are on their way to the client are
 * forgotten, and not used again: frames of HTTP/2 still point to them.
 */

static ngx_int_t
ngx_http_etcd_lock_hold_swallow(ngx_http_upstream_t *u, ngx_pool_t *pool,
    ngx_chain_t *in)
{
    ngx_buf_t  *b;

    if (u->buffering) {

        if (u->pipe->busy != NULL) {
            u->pipe->busy = NULL;
            u->pipe->allocated = 0;
        }

    } else if (u->busy_bufs != NULL) {
        u->busy_bufs = NULL;

        b = &u->buffer;

        b->start = ngx_palloc(pool, u->conf->buffer_size);
        if (b->start == NULL) {
            return NGX_ERROR;
        }

        b->pos = b->start;
        b->last = b->start;
        b->end = b->start + u->conf->buffer_size;
    }

    for ( /* void */ ; in != NULL; in = in->next) {
        b = in->buf;

        b->pos = b->last;
        b->file_pos = b->file_last;
    }

    return NGX_OK;
}


/* nginx has set its own write handler by the time when the body begins. */

static ngx_int_t
ngx_http_etcd_lock_hold_body_filter(ngx_http_request_t *r, ngx_chain_t *in)
{
    ngx_int_t                    rc;
    ngx_http_etcd_lock_guard_t  *guard;

    guard = ngx_http_etcd_lock_hold_guard(r);

    if (guard == NULL || guard->upstream == NULL || guard->upstream->upgrade) {
        return ngx_http_next_body_filter(r, in);
    }

    if (ngx_http_etcd_lock_hold_active(guard)
        && guard->upstream->header_sent
        && r->write_event_handler != ngx_http_etcd_lock_hold_write)
    {
        guard->write_event_handler = r->write_event_handler;
        r->write_event_handler = ngx_http_etcd_lock_hold_write;

        ngx_http_etcd_lock_hold_sent(guard);
    }

    if (!ngx_http_etcd_lock_hold_unwanted(guard)) {
        rc = ngx_http_next_body_filter(r, in);

        if (rc != NGX_ERROR || !ngx_http_etcd_lock_hold_unwanted(guard)) {
            return rc;
        }
    }

    return ngx_http_etcd_lock_hold_swallow(guard->upstream, r->pool, in);
}


void
ngx_http_etcd_lock_hold_filters(void)
{
    ngx_http_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_http_etcd_lock_hold_header_filter;

    ngx_http_next_body_filter = ngx_http_top_body_filter;
    ngx_http_top_body_filter = ngx_http_etcd_lock_hold_body_filter;
}
