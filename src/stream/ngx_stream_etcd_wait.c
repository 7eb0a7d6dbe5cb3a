
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_etcd_pause.h>
#include <ngx_stream_etcd_reserve.h>
#include <ngx_stream_etcd_upstream.h>
#include <ngx_stream_etcd_value.h>
#include <ngx_stream_etcd_wait.h>


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
        rc = ngx_etcd_wait_loading(escf->wait, &ctx->entry, ctx->entry.waited,
                                   s->connection->log);

    } else {
        rc = ngx_etcd_wait_begin(escf->wait, table, queue, &ctx->entry,
                                 ctx->entry.waited, s->connection->log);
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
                                          ngx_stream_etcd_value_get, s, &rc);

    /* a set that does not exist is refused later */

    if (table == NULL) {
        return (rc == NGX_BUSY) ? ngx_stream_etcd_wait_begin(s, NULL, NULL)
                                : NGX_DECLINED;
    }

    if (ngx_etcd_wait_needed(table)) {
        return ngx_stream_etcd_wait_begin(s, table, &table->wait_queue);
    }

    return escf->wait->full ? ngx_stream_etcd_wait_full(s, table)
                            : NGX_DECLINED;
}
