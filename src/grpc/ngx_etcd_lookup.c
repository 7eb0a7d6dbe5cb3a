
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_lookup.h>


static void
ngx_etcd_lookup_ready(ngx_event_t *ev)
{
    ngx_etcd_lookup_t  *lookup;

    lookup = ev->data;
    lookup->done(lookup->data);
}


static void
ngx_etcd_lookup_fail(ngx_etcd_lookup_t *lookup, char *reason)
{
    u_char  *p;

    p = ngx_snprintf(lookup->buf, NGX_ETCD_LOOKUP_REASON,
                     "\"%V%s%V\" could not be resolved: %s",
                     &lookup->service, lookup->service.len ? "." : "",
                     &lookup->name, reason);

    lookup->reason.data = lookup->buf;
    lookup->reason.len = p - lookup->buf;

    ngx_post_event(&lookup->ready, &ngx_posted_events);
}


/*
 * ngx_resolve_name() calls this handler before it returns if the answer is
 * cached.
 */

static void
ngx_etcd_lookup_handler(ngx_resolver_ctx_t *ctx)
{
    ngx_etcd_lookup_t  *lookup;

    lookup = ctx->data;
    lookup->ctx = NULL;

    if (ctx->nsrvs != 0) {

        /* records were found, whatever became of the addresses of targets */

        lookup->valid = ctx->valid;
        lookup->targets(lookup->data, ctx->srvs, ctx->nsrvs);

        ngx_post_event(&lookup->ready, &ngx_posted_events);

    } else if (ctx->state == NGX_OK) {
        lookup->valid = ctx->valid;
        lookup->found(lookup->data, ctx->addrs, ctx->naddrs);

        ngx_post_event(&lookup->ready, &ngx_posted_events);

    } else {
        lookup->missing = (ctx->state == NGX_RESOLVE_NXDOMAIN);
        ngx_etcd_lookup_fail(lookup, ngx_resolver_strerror(ctx->state));
    }

    ngx_resolve_name_done(ctx);
}


void
ngx_etcd_lookup_start(ngx_etcd_lookup_t *lookup, ngx_log_t *log)
{
    ngx_resolver_ctx_t  *ctx;

    ngx_str_null(&lookup->reason);
    lookup->missing = 0;

    ngx_etcd_event_init(&lookup->ready, ngx_etcd_lookup_ready, lookup, log);

    ctx = ngx_resolve_start(lookup->resolver, NULL);

    if (ctx == NULL || ctx == NGX_NO_RESOLVER) {
        ngx_etcd_lookup_fail(lookup, ctx ? "no name server is defined"
                                         : "no memory");
        return;
    }

    ctx->name = lookup->name;
    ctx->service = lookup->service;
    ctx->handler = ngx_etcd_lookup_handler;
    ctx->data = lookup;
    ctx->timeout = lookup->timeout;
    ctx->cancelable = 1;

    lookup->ctx = ctx;

    if (ngx_resolve_name(ctx) != NGX_OK) {
        lookup->ctx = NULL;
        ngx_etcd_lookup_fail(lookup, "the resolver failed");
    }
}


void
ngx_etcd_lookup_cancel(ngx_etcd_lookup_t *lookup)
{
    if (lookup->ctx != NULL) {
        ngx_resolve_name_done(lookup->ctx);
        lookup->ctx = NULL;
    }

    ngx_etcd_event_stop(&lookup->ready);
}
