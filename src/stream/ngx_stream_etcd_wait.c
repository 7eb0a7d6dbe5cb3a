
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_etcd_catalog.h>
#include <ngx_stream_etcd_pause.h>
#include <ngx_stream_etcd_wait.h>


typedef struct {
    ngx_stream_session_t       *session;
    ngx_etcd_wait_queue_entry_t entry;
} ngx_stream_etcd_wait_ctx_t;


static ngx_stream_etcd_wait_ctx_t *ngx_stream_etcd_wait_get_ctx(
    ngx_stream_session_t *s);
static ngx_stream_etcd_wait_ctx_t *ngx_stream_etcd_wait_find_ctx(
    ngx_stream_session_t *s);
static void ngx_stream_etcd_wait_cleanup(void *data);
static void ngx_stream_etcd_wait_over(ngx_etcd_wait_queue_entry_t *entry);


char *
ngx_stream_etcd_wait(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_stream_etcd_srv_conf_t *escf = conf;

    return ngx_etcd_wait_conf(cf, &escf->wait, 1);
}


ngx_int_t
ngx_stream_etcd_wait_handler(ngx_stream_session_t *s)
{
    ngx_int_t                    rc;
    ngx_etcd_table_t            *table;
    ngx_stream_etcd_srv_conf_t  *escf;
    ngx_stream_etcd_wait_ctx_t  *ctx;

    escf = ngx_stream_get_module_srv_conf(s, ngx_stream_etcd_module);

    if (escf->wait == NULL) {
        return NGX_DECLINED;
    }

    table = ngx_stream_etcd_catalog_table(s, escf->wait->service, &rc);

    /* a set that does not exist is refused later */

    if (table == NULL || !ngx_etcd_wait_needed(table)) {
        return NGX_DECLINED;
    }

    ctx = ngx_stream_etcd_wait_get_ctx(s);
    if (ctx == NULL) {
        return NGX_ERROR;
    }

    rc = ngx_etcd_wait_begin(escf->wait, table, &ctx->entry, ctx->entry.waited,
                             s->connection->log);

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


ngx_uint_t
ngx_stream_etcd_wait_for(ngx_stream_session_t *s,
    ngx_etcd_service_conf_t *service)
{
    ngx_stream_etcd_srv_conf_t  *escf;

    escf = ngx_stream_get_module_srv_conf(s, ngx_stream_etcd_module);

    return escf->wait != NULL && escf->wait->service == service;
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


static void
ngx_stream_etcd_wait_cleanup(void *data)
{
    ngx_stream_etcd_wait_ctx_t *ctx = data;

    ngx_etcd_wait_queue_cancel(&ctx->entry);
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
