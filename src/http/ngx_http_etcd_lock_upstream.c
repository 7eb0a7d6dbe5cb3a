
/*
 * Copyright (C) nginx-etcd contributors
 *
 * nginx has no hook for this.  So the request gets another content handler,
 * which gives the upstream a copy of its configuration and another
 * create_request(): the upstream may begin later, when the body was read or
 * the cache is unlocked.  create_request() replaces the output filter of the
 * request to the upstream, and that one, with the first byte, "free" of the
 * peer connection, which whatever has chosen the peer has set by then.  nginx
 * calls "free" when it leaves a peer, before it closes the connection, and
 * accepts that "free" takes the connection away, as the keepalive module does.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_etcd_peer_data.h>
#include <ngx_http_etcd_lock_hold.h>
#include <ngx_http_etcd_lock_upstream.h>


/*
 * Returns 1 if the upstream may still work on the request.  nginx's reader of
 * the answer knows its end: the length of the rest is 0 then, or the connection
 * can be kept alive.
 */

static ngx_uint_t
ngx_http_etcd_lock_upstream_works(ngx_http_upstream_t *u)
{
    ngx_event_pipe_t  *p;
    ngx_connection_t  *c;

    c = u->peer.connection;

    if (c == NULL
        || c->sent == 0
        || c->read->eof
        || c->read->error
        || c->write->error)
    {
        return 0;
    }

    if (u->upgrade) {
        return 1;
    }

    if (u->keepalive) {
        return 0;
    }

    if (!u->header_sent) {
        return 1;
    }

    if (u->buffering) {
        p = u->pipe;

        return p->upstream == NULL || !(p->upstream_done || p->length == 0);
    }

    return u->length != 0;
}


/*
 * Half-closes the connection at once if the request to the upstream is
 * incomplete, at the end of a tunnel, and if this module or nginx does not want
 * the rest of an answer.  After a timeout, and after the client has left, the
 * upstream must be able to work on: some close a half-closed connection, and
 * work on.
 */

static ngx_int_t
ngx_http_etcd_lock_upstream_take(ngx_http_etcd_lock_guard_t *guard,
    ngx_http_upstream_t *u, ngx_msec_t max, ngx_etcd_kept_t *kept)
{
    ngx_uint_t                 half_close;
    ngx_msec_int_t             left;
    ngx_connection_t          *c;
    ngx_http_request_t        *r;
    ngx_http_etcd_lock_ctx_t  *ctx;

    c = u->peer.connection;
    r = guard->request;
    ctx = guard->ctx;

    if (ctx->timer.timer_set) {
        left = (ngx_msec_int_t) (ctx->timer.timer.key - ngx_current_msec);
        max = ngx_min(max, (ngx_msec_t) ngx_max(left, 0));
    }

    half_close = guard->cut
                 || u->upgrade
                 || !u->request_body_sent
                 || !(c->read->timedout || r->connection->error);

    ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                  "etcd: locks are kept until upstream %V has answered, "
                  "for %Mms at most", u->peer.name, max);

    if (ngx_etcd_lock_hold_connection(&ctx->hold, c, u->peer.name, max,
                                      half_close, kept)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    u->peer.connection = NULL;

    return NGX_OK;
}


/* After "worker_shutdown_timeout" nginx closes the client's connection. */

static void
ngx_http_etcd_lock_upstream_free(ngx_peer_connection_t *pc, void *data,
    ngx_uint_t state)
{
    ngx_msec_t                   max;
    ngx_etcd_kept_t              kept;
    ngx_http_request_t          *r;
    ngx_http_upstream_t         *u;
    ngx_etcd_peer_data_t        *pd;
    ngx_http_etcd_lock_guard_t  *guard;

    u = (ngx_http_upstream_t *)
            ((u_char *) pc - offsetof(ngx_http_upstream_t, peer));

    guard = u->output.filter_ctx;
    r = guard->request;

    max = (ngx_http_etcd_lock_upstream_works(u)
           && !guard->ctx->over
           && !r->connection->close)
          ? ngx_http_etcd_lock_hold_max(guard->ctx, u) : 0;

    kept.table = NULL;
    pd = ngx_http_get_module_ctx(r, ngx_http_etcd_module);

    if (max != 0 && pd != NULL) {

        /* the peer of another balancer cannot be kept: it is in the pool */

        ngx_etcd_pick_keep(&pd->pick, &kept);
    }

    guard->free(pc, data, state);

    if (max == 0
        || pc->connection == NULL
        || ngx_http_etcd_lock_upstream_take(guard, u, max, &kept) != NGX_OK)
    {
        ngx_etcd_pick_end(&kept);
    }
}


static void
ngx_http_etcd_lock_upstream_peer(ngx_http_etcd_lock_guard_t *guard,
    ngx_peer_connection_t *pc)
{
    if (pc->free != NULL && pc->free != ngx_http_etcd_lock_upstream_free) {
        guard->free = pc->free;
        pc->free = ngx_http_etcd_lock_upstream_free;
    }
}


static ngx_int_t
ngx_http_etcd_lock_upstream_send(void *data, ngx_chain_t *chain)
{
    ngx_http_etcd_lock_guard_t *guard = data;

    ngx_http_etcd_lock_upstream_peer(guard, &guard->upstream->peer);
    ngx_http_etcd_lock_hold_sent(guard);

    return guard->output_filter(guard->filter_ctx, chain);
}


static ngx_int_t
ngx_http_etcd_lock_upstream_begin(ngx_http_etcd_lock_guard_t *guard)
{
    ngx_http_upstream_t  *u;

    u = guard->upstream;

    if (u->output.output_filter != ngx_http_etcd_lock_upstream_send) {
        guard->output_filter = u->output.output_filter;
        guard->filter_ctx = u->output.filter_ctx;

        if (guard->output_filter == NULL) {
            guard->output_filter = ngx_chain_writer;
            guard->filter_ctx = &u->writer;
        }

        u->output.output_filter = ngx_http_etcd_lock_upstream_send;
        u->output.filter_ctx = guard;
    }

    return ngx_http_etcd_lock_hold_watch(guard);
}


static ngx_int_t
ngx_http_etcd_lock_upstream_create(ngx_http_request_t *r)
{
    ngx_http_etcd_lock_guard_t  *guard;

    guard = ngx_http_etcd_lock_hold_guard(r);

    return (guard->create_request(r) == NGX_OK)
           ? ngx_http_etcd_lock_upstream_begin(guard) : NGX_ERROR;
}


/*
 * Replaces functions of an upstream that the content handler has made.
 * "ignore_client_abort" is set in a copy of the configuration: nginx looks for
 * the client again when it has read an unbuffered body.
 */

static ngx_int_t
ngx_http_etcd_lock_upstream_guard(ngx_http_request_t *r,
    ngx_http_etcd_lock_guard_t *guard)
{
    ngx_http_upstream_t       *u;
    ngx_http_upstream_conf_t  *conf;

    u = r->upstream;

    conf = ngx_palloc(r->pool, sizeof(ngx_http_upstream_conf_t));
    if (conf == NULL) {
        return NGX_ERROR;
    }

    *conf = *u->conf;
    conf->ignore_client_abort = 1;

    guard->watch = !u->conf->ignore_client_abort
                   && !u->conf->store
                   && !r->post_action;
    guard->left = 0;
    guard->cut = 0;
    guard->upstream = u;
    guard->create_request = u->create_request;

    u->conf = conf;
    u->create_request = ngx_http_etcd_lock_upstream_create;

    if (u->cleanup == NULL) {
        return NGX_OK;
    }

    /* the upstream has begun */

    ngx_http_etcd_lock_upstream_peer(guard, &u->peer);

    return ngx_http_etcd_lock_upstream_begin(guard);
}


static ngx_int_t
ngx_http_etcd_lock_upstream_content(ngx_http_request_t *r)
{
    ngx_int_t                    rc;
    ngx_http_upstream_t         *u;
    ngx_http_etcd_lock_guard_t  *guard;

    guard = ngx_http_etcd_lock_hold_guard(r);

    r->content_handler = guard->content_handler;

    rc = guard->content_handler(r);

    u = r->upstream;

    if (rc == NGX_DONE
        && u != NULL
        && u != guard->upstream
        && ngx_http_etcd_lock_hold_max(guard->ctx, u) != 0
        && ngx_http_etcd_lock_upstream_guard(r, guard) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return rc;
}


ngx_int_t
ngx_http_etcd_lock_upstream(ngx_http_request_t *r)
{
    ngx_http_etcd_lock_ctx_t    *ctx;
    ngx_http_etcd_lock_guard_t  *guard;

    ctx = ngx_http_etcd_lock_hold_ctx(r);

    if (ctx == NULL
        || r->content_handler == NULL
        || r->content_handler == ngx_http_etcd_lock_upstream_content)
    {
        return NGX_OK;
    }

    guard = ngx_http_etcd_lock_hold_guard(r);

    if (guard == NULL) {
        guard = ngx_pcalloc(r->pool, sizeof(ngx_http_etcd_lock_guard_t));
        if (guard == NULL) {
            return NGX_ERROR;
        }

        guard->ctx = ctx;
        guard->request = r;
        guard->next = ctx->guards;
        ctx->guards = guard;
    }

    guard->content_handler = r->content_handler;
    r->content_handler = ngx_http_etcd_lock_upstream_content;

    return NGX_OK;
}


void
ngx_http_etcd_lock_upstream_cut(ngx_http_request_t *r)
{
    ngx_http_etcd_lock_guard_t  *guard;

    guard = ngx_http_etcd_lock_hold_guard(r);

    if (guard != NULL) {
        guard->cut = 1;
    }
}
