
/*
 * Copyright (C) nginx-etcd contributors
 *
 * "etcd_lock_hold upstream": finds out whether the upstream may still work on
 * a request when nginx leaves the upstream, and lets the connection linger in
 * that case.
 *
 * nginx has no hook for this: a request that holds locks gets another content
 * handler and, when the upstream has been set up, other functions of the peer
 * connection.  nginx calls "free" of the peer connection whenever it leaves
 * an upstream, before it closes the connection, and accepts that "free" takes
 * the connection away: the keepalive module does so too.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd_lock_hold.h>
#include <ngx_http_etcd_lock_linger.h>
#include <ngx_http_etcd_lock_response.h>
#include <ngx_etcd_peer_data.h>


/* ms; or the read timeout of the upstream, if longer */

#define NGX_HTTP_ETCD_LOCK_MAX_HOLD  60000


typedef struct ngx_http_etcd_lock_guard_s  ngx_http_etcd_lock_guard_t;


/* of a main request with all its subrequests; the data of a pool cleanup */

typedef struct {
    ngx_http_etcd_lock_guard_t     *guards;
    ngx_http_etcd_lock_linger_t    *linger;    /* NULL: none */
    ngx_uint_t                     *freed;     /* set when the pool is
                                                  destroyed */
} ngx_http_etcd_lock_ctx_t;


/* the replaced functions of one request or subrequest */

struct ngx_http_etcd_lock_guard_s {
    NGX_ETCD_PEER_HEAD
    ngx_http_etcd_lock_guard_t     *next;
    ngx_http_etcd_lock_ctx_t       *ctx;
    ngx_http_request_t             *request;

    ngx_http_handler_pt             content_handler;
    ngx_http_event_handler_pt       write_event_handler;
    ngx_resolver_handler_pt         resolver_handler;

    void                          (*finalize_request)(ngx_http_request_t *r,
                                                      ngx_int_t rc);
    ngx_event_get_peer_pt           get;
    ngx_event_free_peer_pt          free;
    ngx_event_notify_peer_pt        notify;
#if (NGX_SSL || NGX_COMPAT)
    ngx_event_set_peer_session_pt   set_session;
    ngx_event_save_peer_session_pt  save_session;
#endif
    void                           *data;

    unsigned                        done:1;    /* the response is complete */
    unsigned                        cut:1;     /* nginx ends the request */
};


static void ngx_http_etcd_lock_hold_cleanup(void *data);
static ngx_http_etcd_lock_ctx_t *ngx_http_etcd_lock_hold_get_ctx(
    ngx_http_request_t *r);
static ngx_http_etcd_lock_guard_t *ngx_http_etcd_lock_hold_get_guard(
    ngx_http_request_t *r);
static ngx_http_etcd_lock_guard_t *ngx_http_etcd_lock_hold_add_guard(
    ngx_http_request_t *r, ngx_http_etcd_lock_ctx_t *ctx);
static ngx_int_t ngx_http_etcd_lock_hold_content(ngx_http_request_t *r);
static void ngx_http_etcd_lock_hold_later(ngx_http_request_t *r,
    ngx_http_etcd_lock_guard_t *guard);
static void ngx_http_etcd_lock_hold_body(ngx_http_request_t *r);
static void ngx_http_etcd_lock_hold_cache(ngx_http_request_t *r);
static void ngx_http_etcd_lock_hold_resolved(ngx_resolver_ctx_t *ctx);
static void ngx_http_etcd_lock_hold_wrap(ngx_http_upstream_t *u,
    ngx_http_etcd_lock_guard_t *guard);
static void ngx_http_etcd_lock_hold_finalize(ngx_http_request_t *r,
    ngx_int_t rc);
static ngx_int_t ngx_http_etcd_lock_hold_get_peer(ngx_peer_connection_t *pc,
    void *data);
static void ngx_http_etcd_lock_hold_free_peer(ngx_peer_connection_t *pc,
    void *data, ngx_uint_t state);
static void ngx_http_etcd_lock_hold_notify(ngx_peer_connection_t *pc,
    void *data, ngx_uint_t type);
#if (NGX_SSL || NGX_COMPAT)
static ngx_int_t ngx_http_etcd_lock_hold_set_session(ngx_peer_connection_t *pc,
    void *data);
static void ngx_http_etcd_lock_hold_save_session(ngx_peer_connection_t *pc,
    void *data);
#endif
static ngx_msec_t ngx_http_etcd_lock_hold_time(
    ngx_http_etcd_lock_guard_t *guard);
static ngx_uint_t ngx_http_etcd_lock_hold_answered(
    ngx_http_etcd_lock_guard_t *guard);
static ngx_msec_t ngx_http_etcd_lock_hold_max(ngx_http_request_t *r);
static ngx_int_t ngx_http_etcd_lock_hold_linger(
    ngx_http_etcd_lock_guard_t *guard, ngx_msec_t max, ngx_etcd_kept_t *kept);


ngx_int_t
ngx_http_etcd_lock_hold_init(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t  *cln;

    if (ngx_http_etcd_lock_hold_get_ctx(r) != NULL) {
        return NGX_OK;
    }

    cln = ngx_pool_cleanup_add(r->pool, sizeof(ngx_http_etcd_lock_ctx_t));
    if (cln == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(cln->data, sizeof(ngx_http_etcd_lock_ctx_t));

    cln->handler = ngx_http_etcd_lock_hold_cleanup;

    return NGX_OK;
}


static void
ngx_http_etcd_lock_hold_cleanup(void *data)
{
    ngx_http_etcd_lock_ctx_t *ctx = data;

    if (ctx->freed != NULL) {
        *ctx->freed = 1;
    }

    if (ctx->linger != NULL) {
        ngx_http_etcd_lock_linger_detach(ctx->linger);
    }
}


static ngx_http_etcd_lock_ctx_t *
ngx_http_etcd_lock_hold_get_ctx(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t  *cln;

    for (cln = r->pool->cleanup; cln != NULL; cln = cln->next) {
        if (cln->handler == ngx_http_etcd_lock_hold_cleanup) {
            return cln->data;
        }
    }

    return NULL;
}


static ngx_http_etcd_lock_guard_t *
ngx_http_etcd_lock_hold_get_guard(ngx_http_request_t *r)
{
    ngx_http_etcd_lock_ctx_t    *ctx;
    ngx_http_etcd_lock_guard_t  *guard;

    ctx = ngx_http_etcd_lock_hold_get_ctx(r);
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
ngx_http_etcd_lock_hold_end(ngx_http_request_t *r,
    ngx_etcd_request_lock_t *rl)
{
    ngx_http_etcd_lock_ctx_t  *ctx;

    ctx = ngx_http_etcd_lock_hold_get_ctx(r);

    if (ctx != NULL
        && ctx->linger != NULL
        && rl->hold == NGX_ETCD_LOCK_HOLD_UPSTREAM)
    {
        ngx_http_etcd_lock_linger_end(ctx->linger, rl);
        return;
    }

    ngx_etcd_lock_end(&rl->grant);
}


ngx_int_t
ngx_http_etcd_lock_hold_guard(ngx_http_request_t *r)
{
    ngx_http_etcd_lock_ctx_t    *ctx;
    ngx_http_etcd_lock_guard_t  *guard;

    ctx = ngx_http_etcd_lock_hold_get_ctx(r);

    if (ctx == NULL
        || r->content_handler == NULL
        || r->content_handler == ngx_http_etcd_lock_hold_content)
    {
        return NGX_OK;
    }

    guard = ngx_http_etcd_lock_hold_get_guard(r);

    if (guard == NULL) {
        guard = ngx_http_etcd_lock_hold_add_guard(r, ctx);
        if (guard == NULL) {
            return NGX_ERROR;
        }
    }

    guard->content_handler = r->content_handler;
    r->content_handler = ngx_http_etcd_lock_hold_content;

    return NGX_OK;
}


static ngx_http_etcd_lock_guard_t *
ngx_http_etcd_lock_hold_add_guard(ngx_http_request_t *r,
    ngx_http_etcd_lock_ctx_t *ctx)
{
    ngx_http_etcd_lock_guard_t  *guard;

    guard = ngx_pcalloc(r->pool, sizeof(ngx_http_etcd_lock_guard_t));
    if (guard == NULL) {
        return NULL;
    }

    guard->ctx = ctx;
    guard->request = r;
    guard->next = ctx->guards;
    ctx->guards = guard;

    return guard;
}


static ngx_int_t
ngx_http_etcd_lock_hold_content(ngx_http_request_t *r)
{
    ngx_int_t                    rc;
    ngx_http_etcd_lock_guard_t  *guard;

    guard = ngx_http_etcd_lock_hold_get_guard(r);
    if (guard == NULL) {
        return NGX_ERROR;
    }

    r->content_handler = guard->content_handler;

    rc = guard->content_handler(r);

    ngx_http_etcd_lock_hold_attach(r);

    return rc;
}


ngx_int_t
ngx_http_etcd_lock_hold_note(ngx_http_request_t *r)
{
    ngx_http_etcd_lock_ctx_t  *ctx;

    ctx = ngx_http_etcd_lock_hold_get_ctx(r);

    if (ctx == NULL || ngx_http_etcd_lock_hold_get_guard(r) != NULL) {
        return NGX_OK;
    }

    return (ngx_http_etcd_lock_hold_add_guard(r, ctx) != NULL) ? NGX_OK
                                                               : NGX_ERROR;
}


void
ngx_http_etcd_lock_hold_attach(ngx_http_request_t *r)
{
    ngx_resolver_ctx_t          *ctx;
    ngx_http_upstream_t         *u;
    ngx_http_etcd_lock_guard_t  *guard;

    u = r->upstream;
    guard = ngx_http_etcd_lock_hold_get_guard(r);

    if (guard == NULL || u == NULL) {
        return;
    }

    if (u->cleanup == NULL) {
        ngx_http_etcd_lock_hold_later(r, guard);
        return;
    }

    ctx = (u->resolved != NULL) ? u->resolved->ctx : NULL;

    if (ctx == NULL) {
        ngx_http_etcd_lock_hold_wrap(u, guard);

    } else if (ctx->handler != ngx_http_etcd_lock_hold_resolved) {
        guard->resolver_handler = ctx->handler;
        ctx->handler = ngx_http_etcd_lock_hold_resolved;
    }
}


/*
 * The upstream starts when the body was read, or when the cache is unlocked.
 */

static void
ngx_http_etcd_lock_hold_later(ngx_http_request_t *r,
    ngx_http_etcd_lock_guard_t *guard)
{
    if (r->request_body != NULL
        && r->request_body->post_handler == ngx_http_upstream_init)
    {
        r->request_body->post_handler = ngx_http_etcd_lock_hold_body;
    }

#if (NGX_HTTP_CACHE)

    if (r->cache != NULL
        && (r->cache->waiting || r->aio)
        && r->write_event_handler != ngx_http_etcd_lock_hold_cache)
    {
        guard->write_event_handler = r->write_event_handler;
        r->write_event_handler = ngx_http_etcd_lock_hold_cache;
    }

#endif
}


/* Without a reference the request is freed if it ends at once. */

static void
ngx_http_etcd_lock_hold_body(ngx_http_request_t *r)
{
    r->main->count++;

    ngx_http_upstream_init(r);
    ngx_http_etcd_lock_hold_attach(r);

    ngx_http_finalize_request(r, NGX_DONE);
}


static void
ngx_http_etcd_lock_hold_cache(ngx_http_request_t *r)
{
    ngx_http_etcd_lock_guard_t  *guard;

    guard = ngx_http_etcd_lock_hold_get_guard(r);

    r->main->count++;

    guard->write_event_handler(r);
    ngx_http_etcd_lock_hold_attach(r);

    ngx_http_finalize_request(r, NGX_DONE);
}


/* nginx's handler runs posted requests, which may free this request. */

static void
ngx_http_etcd_lock_hold_resolved(ngx_resolver_ctx_t *ctx)
{
    ngx_uint_t                   freed;
    ngx_http_request_t          *r;
    ngx_http_etcd_lock_guard_t  *guard;

    r = ctx->data;
    guard = ngx_http_etcd_lock_hold_get_guard(r);

    freed = 0;
    guard->ctx->freed = &freed;

    guard->resolver_handler(ctx);

    if (freed) {
        return;
    }

    guard->ctx->freed = NULL;

    ngx_http_etcd_lock_hold_attach(r);
}


static void
ngx_http_etcd_lock_hold_wrap(ngx_http_upstream_t *u,
    ngx_http_etcd_lock_guard_t *guard)
{
    ngx_peer_connection_t  *pc;

    pc = &u->peer;

    if (pc->free == ngx_http_etcd_lock_hold_free_peer) {
        return;
    }

    guard->done = 0;
    guard->cut = 0;

    if (u->finalize_request != ngx_http_etcd_lock_hold_finalize) {
        guard->finalize_request = u->finalize_request;
        u->finalize_request = ngx_http_etcd_lock_hold_finalize;
    }

    ngx_etcd_peer_head_copy(guard, pc->data);

    guard->data = pc->data;
    pc->data = guard;

    guard->get = pc->get;
    pc->get = ngx_http_etcd_lock_hold_get_peer;

    guard->free = pc->free;
    pc->free = ngx_http_etcd_lock_hold_free_peer;

    if (pc->notify != NULL) {
        guard->notify = pc->notify;
        pc->notify = ngx_http_etcd_lock_hold_notify;
    }

#if (NGX_SSL || NGX_COMPAT)

    guard->set_session = pc->set_session;
    pc->set_session = ngx_http_etcd_lock_hold_set_session;

    guard->save_session = pc->save_session;
    pc->save_session = ngx_http_etcd_lock_hold_save_session;

#endif
}


/*
 * The end of an upgraded connection does not show that the upstream is done.
 */

static void
ngx_http_etcd_lock_hold_finalize(ngx_http_request_t *r, ngx_int_t rc)
{
    ngx_http_etcd_lock_guard_t  *guard;

    guard = ngx_http_etcd_lock_hold_get_guard(r);

    if (rc == NGX_OK && !r->upstream->upgrade) {
        guard->done = 1;
    }

    guard->finalize_request(r, rc);
}


static ngx_int_t
ngx_http_etcd_lock_hold_get_peer(ngx_peer_connection_t *pc, void *data)
{
    ngx_http_etcd_lock_guard_t *guard = data;

    ngx_int_t  rc;

    rc = guard->get(pc, guard->data);

    ngx_etcd_peer_head_copy(guard, guard->data);

    return rc;
}


static void
ngx_http_etcd_lock_hold_free_peer(ngx_peer_connection_t *pc, void *data,
    ngx_uint_t state)
{
    ngx_http_etcd_lock_guard_t *guard = data;

    ngx_msec_t             max;
    ngx_etcd_kept_t        kept;
    ngx_etcd_peer_data_t  *pd;

    max = ngx_http_etcd_lock_hold_time(guard);
    pd = ngx_http_get_module_ctx(guard->request, ngx_http_etcd_module);

    kept.table = NULL;

    if (max != 0 && pd != NULL) {

        /* the peer of another balancer cannot be kept: it is in the pool */

        ngx_etcd_pick_keep(&pd->pick, &kept);
    }

    guard->free(pc, guard->data, state);

    if (max == 0
        || pc->connection == NULL
        || ngx_http_etcd_lock_hold_linger(guard, max, &kept) != NGX_OK)
    {
        ngx_etcd_pick_end(&kept);
    }
}


static void
ngx_http_etcd_lock_hold_notify(ngx_peer_connection_t *pc, void *data,
    ngx_uint_t type)
{
    ngx_http_etcd_lock_guard_t *guard = data;

    guard->notify(pc, guard->data, type);
}


#if (NGX_SSL || NGX_COMPAT)

static ngx_int_t
ngx_http_etcd_lock_hold_set_session(ngx_peer_connection_t *pc, void *data)
{
    ngx_http_etcd_lock_guard_t *guard = data;

    return guard->set_session(pc, guard->data);
}


static void
ngx_http_etcd_lock_hold_save_session(ngx_peer_connection_t *pc, void *data)
{
    ngx_http_etcd_lock_guard_t *guard = data;

    guard->save_session(pc, guard->data);
}

#endif


/*
 * Returns the time in ms that locks are to be kept because of the upstream;
 * 0: no need.  After "worker_shutdown_timeout" nginx closes the client's
 * connection.
 */

static ngx_msec_t
ngx_http_etcd_lock_hold_time(ngx_http_etcd_lock_guard_t *guard)
{
    ngx_connection_t    *c;
    ngx_http_request_t  *r;

    r = guard->request;
    c = r->upstream->peer.connection;

    if (c == NULL
        || c->sent == 0
        || c->read->eof
        || c->read->error
        || c->write->error
        || guard->done
        || r->connection->close
        || ngx_http_etcd_lock_hold_answered(guard))
    {
        return 0;
    }

    return ngx_http_etcd_lock_hold_max(r);
}


/*
 * Returns 1 if the response was received completely, even if parts of it were
 * not used.
 */

static ngx_uint_t
ngx_http_etcd_lock_hold_answered(ngx_http_etcd_lock_guard_t *guard)
{
    ngx_http_upstream_t            *u;
    ngx_http_etcd_lock_response_t   response;

    u = guard->request->upstream;

    if (u->headers_in.status_n == 0 || u->upgrade) {
        return 0;
    }

    if (!u->header_sent) {
        ngx_http_etcd_lock_response_init(&response, guard->request);

        return ngx_http_etcd_lock_response_ended(&response);
    }

    if (u->buffering) {
        return u->pipe->upstream_done || u->pipe->length == 0;
    }

    return u->length == 0;
}


/* Returns the maximum time of the locks of the request and its parents. */

static ngx_msec_t
ngx_http_etcd_lock_hold_max(ngx_http_request_t *r)
{
    ngx_msec_t                max, time;
    ngx_etcd_request_lock_t  *rl;

    max = 0;
    rl = NULL;

    while ((rl = ngx_etcd_request_lock_next(r->pool, rl)) != NULL) {

        if (rl->hold != NGX_ETCD_LOCK_HOLD_UPSTREAM
            || !ngx_etcd_lock_held(&rl->grant)
            || !ngx_http_etcd_lock_hold_below(r, rl->owner))
        {
            continue;
        }

        time = rl->max_hold;

        if (time == NGX_CONF_UNSET_MSEC) {
            time = ngx_max(r->upstream->conf->read_timeout,
                           NGX_HTTP_ETCD_LOCK_MAX_HOLD);
        }

        max = ngx_max(max, time);
    }

    return max;
}


/*
 * Half-closes the connection to the upstream at once if an upgraded
 * connection has ended, if the request was not sent completely, or if nginx
 * has ended the request.
 */

static ngx_int_t
ngx_http_etcd_lock_hold_linger(ngx_http_etcd_lock_guard_t *guard,
    ngx_msec_t max, ngx_etcd_kept_t *kept)
{
    ngx_uint_t                 half_close;
    ngx_http_upstream_t       *u;
    ngx_http_request_t        *r;
    ngx_http_etcd_lock_ctx_t  *ctx;

    r = guard->request;
    u = r->upstream;
    ctx = guard->ctx;

    if (ctx->linger == NULL) {
        ctx->linger = ngx_http_etcd_lock_linger_create();

        if (ctx->linger == NULL) {
            return NGX_ERROR;
        }
    }

    half_close = (guard->cut || u->upgrade || !u->request_body_sent);

    if (ngx_http_etcd_lock_linger_add(ctx->linger, r, max, half_close, kept)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    u->peer.connection = NULL;

    return NGX_OK;
}


void
ngx_http_etcd_lock_hold_cut(ngx_http_request_t *r)
{
    ngx_http_etcd_lock_ctx_t    *ctx;
    ngx_http_etcd_lock_guard_t  *guard;

    ctx = ngx_http_etcd_lock_hold_get_ctx(r);
    if (ctx == NULL) {
        return;
    }

    for (guard = ctx->guards; guard != NULL; guard = guard->next) {
        if (ngx_http_etcd_lock_hold_below(guard->request, r)) {
            guard->cut = 1;
        }
    }
}


ngx_http_request_t *
ngx_http_etcd_lock_hold_background(ngx_http_request_t *r)
{
    ngx_http_request_t          *sr;
    ngx_http_etcd_lock_ctx_t    *ctx;
    ngx_http_etcd_lock_guard_t  *guard;

    ctx = ngx_http_etcd_lock_hold_get_ctx(r);
    if (ctx == NULL) {
        return NULL;
    }

    for (guard = ctx->guards; guard != NULL; guard = guard->next) {
        sr = guard->request;

        if (sr != r
            && sr->background
            && sr->upstream != NULL
            && sr->upstream->cleanup != NULL
            && ngx_http_etcd_lock_hold_below(sr, r))
        {
            return sr;
        }
    }

    return NULL;
}


ngx_uint_t
ngx_http_etcd_lock_hold_below(ngx_http_request_t *r, ngx_http_request_t *owner)
{
    for ( /* void */ ; r != NULL; r = r->parent) {
        if (r == owner) {
            return 1;
        }
    }

    return 0;
}
