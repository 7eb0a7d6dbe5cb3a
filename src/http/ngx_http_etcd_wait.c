
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd_client.h>
#include <ngx_http_etcd_require_leader.h>
#include <ngx_http_etcd_set.h>
#include <ngx_http_etcd_wait.h>


/*
 * nginx looks at the side of the stream that it reads from.  A client of HTTP/3
 * that has sent its whole request may cancel the side that nginx writes to.
 */

static void
ngx_http_etcd_pause_write(ngx_http_request_t *r)
{
    if (ngx_http_etcd_client_left(r)) {
        r->connection->error = 1;
        ngx_http_finalize_request(r, NGX_HTTP_CLIENT_CLOSED_REQUEST);
        return;
    }

    if (ngx_handle_write_event(r->connection->write, 0) != NGX_OK) {
        ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
    }
}


void
ngx_http_etcd_pause(ngx_http_request_t *r)
{
    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_etcd_pause_write;
}


ngx_uint_t
ngx_http_etcd_pause_active(ngx_http_request_t *r)
{
    return r->write_event_handler == ngx_http_etcd_pause_write;
}


ngx_uint_t
ngx_http_etcd_pause_lasts(ngx_http_request_t *r, ngx_uint_t changes)
{
    return ngx_http_etcd_pause_active(r) && r->uri_changes == changes;
}


void
ngx_http_etcd_pause_end(ngx_http_request_t *r)
{
    ngx_connection_t  *c;

    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    r->read_event_handler = ngx_http_block_reading;
    r->write_event_handler = ngx_http_core_run_phases;

    ngx_http_core_run_phases(r);

    ngx_http_run_posted_requests(c);
}


void
ngx_http_etcd_pause_detach(ngx_http_request_t *r)
{
    ngx_http_upstream_t  *u;

    u = r->upstream;

    *u->cleanup = NULL;
    u->cleanup = NULL;
    u->state = NULL;

    /* the request is built again: this would be taken for its body */
    u->request_bufs = NULL;

    /* no balancer was called */
    u->peer.get = NULL;

    if (r->upstream_states->nelts != 0) {
        r->upstream_states->nelts--;

    } else {
        r->upstream_states = NULL;
    }

    r->main->count++;
}


void
ngx_http_etcd_pause_restart(ngx_http_request_t *r)
{
#if (NGX_HTTP_CACHE)

    ngx_http_cache_t  *c;

    c = r->cache;

    /* a request that bypasses the cache has no node */

    if (c != NULL && (c->node == NULL || c->updating)) {
        ngx_http_file_cache_free(c, NULL);
        r->cache = NULL;
    }

#endif

    ngx_http_upstream_init(r);
}


void
ngx_http_etcd_pause_release(ngx_http_request_t *r)
{
#if (NGX_HTTP_CACHE)

    if (r->cache != NULL) {
        ngx_http_file_cache_free(r->cache, NULL);
    }

#endif
}


/* the wait of a request or subrequest for one upstream */

typedef struct {
    ngx_http_request_t         *request;
    ngx_etcd_service_conf_t    *service;
    ngx_etcd_wait_queue_entry_t entry;
    ngx_uint_t                  peer;      /* waiting for a peer, not in a
                                              phase */
    ngx_uint_t                  changes;   /* "uri_changes" of the request */
} ngx_http_etcd_wait_ctx_t;


/* Returns 1 if the request was waiting; it does not continue. */

static ngx_uint_t
ngx_http_etcd_wait_end(ngx_http_etcd_wait_ctx_t *ctx)
{
    if (ctx->entry.wait_queue == NULL) {
        return 0;
    }

    ngx_etcd_wait_queue_cancel(&ctx->entry);

    if (ctx->peer && ctx->request->uri_changes == ctx->changes) {
        ngx_http_etcd_pause_release(ctx->request);
    }

    return 1;
}


static void
ngx_http_etcd_wait_cleanup(void *data)
{
    ngx_http_etcd_wait_ctx_t *ctx = data;

    (void) ngx_http_etcd_wait_end(ctx);
}


static void
ngx_http_etcd_wait_mark(void *data)
{
    /* void: marks the data as those of a wait */
}


/*
 * Returns the next wait in the list of the pool, which a request and its
 * subrequests share, and which is there when they are logged; *cln is where
 * the search begins.  NULL: no other one.
 */

static ngx_http_etcd_wait_ctx_t *
ngx_http_etcd_wait_next(ngx_pool_cleanup_t **cln)
{
    ngx_pool_cleanup_t  *mark;

    for (mark = *cln; mark != NULL; mark = mark->next) {

        if (mark->handler == ngx_http_etcd_wait_mark) {
            *cln = mark->next;
            return mark->data;
        }
    }

    return NULL;
}


static ngx_http_etcd_wait_ctx_t *
ngx_http_etcd_wait_find_ctx(ngx_http_request_t *r,
    ngx_etcd_service_conf_t *service, ngx_msec_t *waited)
{
    ngx_pool_cleanup_t        *cln;
    ngx_http_etcd_wait_ctx_t  *ctx, *found;

    found = NULL;
    *waited = 0;
    cln = r->pool->cleanup;

    while ((ctx = ngx_http_etcd_wait_next(&cln)) != NULL) {

        if (ctx->service != service) {
            continue;
        }

        *waited = ngx_max(*waited, ctx->entry.waited);

        if (ctx->request == r) {
            found = ctx;
        }
    }

    return found;
}


/* Runs the phase again, which proceeds or fails as without a wait. */

static void
ngx_http_etcd_wait_over(ngx_etcd_wait_queue_entry_t *entry)
{
    ngx_int_t                  rc;
    ngx_connection_t          *c;
    ngx_http_request_t        *r;
    ngx_http_etcd_wait_ctx_t  *ctx;

    ctx = entry->data;
    r = ctx->request;

    if (!ngx_http_etcd_pause_lasts(r, ctx->changes)) {
        return;
    }

    if (!ctx->peer) {
        ngx_http_etcd_pause_end(r);
        return;
    }

    /* calls the balancer again; this nginx may not lead any more */

    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    r->read_event_handler = ngx_http_block_reading;
    r->write_event_handler = ngx_http_request_empty_handler;

    rc = ngx_http_etcd_require_leader_handler(r);

    if (rc == NGX_DECLINED) {

        /* nginx's content handlers count, too: the request may end at once */

        r->main->count++;

        ngx_http_etcd_pause_restart(r);

        ngx_http_finalize_request(r, NGX_DONE);

    } else {
        ngx_http_etcd_pause_release(r);
        ngx_http_etcd_client_skip_body(r);
        ngx_http_finalize_request(r, rc);
    }

    ngx_http_run_posted_requests(c);
}


/*
 * An internal redirect clears the contexts of a request: waits are found in
 * the list of the pool.  A request with its subrequests and redirects waits no
 * longer for an upstream than a single request.
 */

static ngx_http_etcd_wait_ctx_t *
ngx_http_etcd_wait_get_ctx(ngx_http_request_t *r,
    ngx_etcd_service_conf_t *service, ngx_msec_t *waited)
{
    ngx_pool_cleanup_t        *mark;
    ngx_http_cleanup_t        *cln;
    ngx_http_etcd_wait_ctx_t  *ctx;

    ctx = ngx_http_etcd_wait_find_ctx(r, service, waited);

    if (ctx != NULL) {
        return ctx;
    }

    mark = ngx_pool_cleanup_add(r->pool, sizeof(ngx_http_etcd_wait_ctx_t));
    if (mark == NULL) {
        return NULL;
    }

    cln = ngx_http_cleanup_add(r, 0);
    if (cln == NULL) {
        return NULL;
    }

    ctx = mark->data;
    ngx_memzero(ctx, sizeof(ngx_http_etcd_wait_ctx_t));

    mark->handler = ngx_http_etcd_wait_mark;

    cln->handler = ngx_http_etcd_wait_cleanup;
    cln->data = ctx;

    ctx->request = r;
    ctx->service = service;
    ctx->entry.handler = ngx_http_etcd_wait_over;
    ctx->entry.data = ctx;

    return ctx;
}


/*
 * NGX_AGAIN, NGX_DECLINED and NGX_BUSY are those of ngx_etcd_wait_begin().
 * Without a table the request waits for its set.
 */

static ngx_int_t
ngx_http_etcd_wait_begin(ngx_http_request_t *r, ngx_etcd_wait_t *wait,
    ngx_etcd_table_t *table, ngx_etcd_wait_queue_t *queue, ngx_uint_t peer)
{
    ngx_msec_t                 waited;
    ngx_http_etcd_wait_ctx_t  *ctx;

    ctx = ngx_http_etcd_wait_get_ctx(r, wait->service, &waited);
    if (ctx == NULL) {
        return NGX_ERROR;
    }

    ctx->peer = peer;
    ctx->changes = r->uri_changes;

    /* detect a client that closes the connection */

    if (ngx_http_etcd_client_watch(r) != NGX_OK) {
        return NGX_ERROR;
    }

    ctx->entry.waited = waited;

    if (table == NULL) {
        return ngx_etcd_wait_loading(wait, &ctx->entry, r->pool,
                                     r->connection->log);
    }

    return ngx_etcd_wait_begin(wait, table, queue, &ctx->entry, r->pool,
                               r->connection->log);
}


ngx_int_t
ngx_http_etcd_wait_handler(ngx_http_request_t *r)
{
    ngx_int_t                  rc;
    ngx_etcd_table_t          *table;
    ngx_http_etcd_loc_conf_t  *elcf;

    elcf = ngx_http_get_module_loc_conf(r, ngx_http_etcd_module);

    if (elcf->wait == NULL) {
        return NGX_DECLINED;
    }

    table = ngx_etcd_pattern_values_table(elcf->wait->service,
                                          ngx_http_etcd_set_value, r, &rc);

    /* a set that does not exist is refused later */

    if (table == NULL && rc != NGX_BUSY) {
        return NGX_DECLINED;
    }

    if (table != NULL && !ngx_etcd_wait_needed(elcf->wait, table)) {

        /* a connection is waited for when the request is ready for it */

        return ngx_etcd_wait_refuses(elcf->wait, table, r->pool,
                                     r->connection->log)
               ? NGX_HTTP_SERVICE_UNAVAILABLE : NGX_DECLINED;
    }

    rc = ngx_http_etcd_wait_begin(r, elcf->wait, table,
                                  table ? &table->wait_queue : NULL, 0);

    if (rc == NGX_BUSY) {
        return NGX_HTTP_SERVICE_UNAVAILABLE;
    }

    if (rc == NGX_AGAIN) {
        ngx_http_etcd_pause(r);
    }

    return rc;
}


ngx_msec_t
ngx_http_etcd_wait_time(ngx_http_request_t *r)
{
    ngx_msec_t                 waited;
    ngx_pool_cleanup_t        *cln;
    ngx_http_etcd_wait_ctx_t  *ctx;

    waited = 0;
    cln = r->pool->cleanup;

    while ((ctx = ngx_http_etcd_wait_next(&cln)) != NULL) {
        if (ctx->request == r) {
            waited += ctx->entry.waited;
        }
    }

    return waited;
}


ngx_uint_t
ngx_http_etcd_wait_yields(ngx_http_request_t *r, ngx_etcd_table_t *table)
{
    ngx_msec_t                 waited;
    ngx_http_etcd_loc_conf_t  *elcf;
    ngx_http_etcd_wait_ctx_t  *ctx;

    elcf = ngx_http_get_module_loc_conf(r, ngx_http_etcd_module);

    if (!ngx_etcd_wait_yields(elcf->wait, table, NULL)) {
        return 0;
    }

    ctx = ngx_http_etcd_wait_find_ctx(r, elcf->wait->service, &waited);

    return ctx == NULL || ngx_etcd_wait_yields(elcf->wait, table, &ctx->entry);
}


ngx_int_t
ngx_http_etcd_wait_peer(ngx_http_request_t *r, ngx_etcd_table_t *table,
    ngx_uint_t again)
{
    ngx_uint_t                 needed;
    ngx_etcd_wait_queue_t     *queue;
    ngx_http_etcd_loc_conf_t  *elcf;

    elcf = ngx_http_get_module_loc_conf(r, ngx_http_etcd_module);

    queue = ngx_etcd_wait_queue(elcf->wait, table);
    needed = (queue != NULL);

    if (!needed) {

        if (!again) {
            return NGX_DECLINED;
        }

        queue = &table->wait_queue;
    }

    if (ngx_http_etcd_wait_begin(r, elcf->wait, table, queue, 1) != NGX_AGAIN) {
        return NGX_DECLINED;
    }

    if (!needed) {
        ngx_etcd_wait_queue_wake(queue);
    }

    ngx_http_etcd_pause_detach(r);

    ngx_http_etcd_pause(r);

    return NGX_AGAIN;
}


ngx_uint_t
ngx_http_etcd_wait_abandon(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t        *cln;
    ngx_http_etcd_wait_ctx_t  *ctx;

    cln = r->pool->cleanup;

    while ((ctx = ngx_http_etcd_wait_next(&cln)) != NULL) {
        if (ctx->request == r && ngx_http_etcd_wait_end(ctx)) {
            return 1;
        }
    }

    return 0;
}
