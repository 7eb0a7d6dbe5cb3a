
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
                     "\"%V\" could not be resolved: %s", &lookup->name,
                     reason);

    lookup->reason.data = lookup->buf;
    lookup->reason.len = p - lookup->buf;

    ngx_post_event(&lookup->ready, &ngx_posted_events);
}


static void
ngx_etcd_lookup_take(ngx_etcd_lookup_t *lookup, ngx_resolver_addr_t *found)
{
    u_char           *name;
    ngx_addr_t       *addr;
    ngx_sockaddr_t   *sockaddr;

    if (found->socklen > sizeof(ngx_sockaddr_t)) {
        return;
    }

    addr = &lookup->addrs[lookup->naddrs];
    name = lookup->names[lookup->naddrs];
    sockaddr = &lookup->sockaddrs[lookup->naddrs];

    ngx_memcpy(sockaddr, found->sockaddr, found->socklen);
    ngx_inet_set_port(&sockaddr->sockaddr, lookup->port);

    addr->sockaddr = &sockaddr->sockaddr;
    addr->socklen = found->socklen;
    addr->name.data = name;
    addr->name.len = ngx_sock_ntop(addr->sockaddr, addr->socklen, name,
                                   NGX_SOCKADDR_STRLEN, 1);

    lookup->naddrs++;
}


/*
 * ngx_resolve_name() calls this handler before it returns if the answer is
 * cached.
 */

static void
ngx_etcd_lookup_handler(ngx_resolver_ctx_t *ctx)
{
    ngx_uint_t          i, n;
    ngx_etcd_lookup_t  *lookup;

    lookup = ctx->data;
    lookup->ctx = NULL;

    if (ctx->state == NGX_OK) {
        lookup->valid = ctx->valid;
    }

    if (ctx->state == NGX_OK && lookup->found != NULL) {
        lookup->found(lookup->data, ctx->addrs, ctx->naddrs);
        ngx_post_event(&lookup->ready, &ngx_posted_events);

    } else if (ctx->state == NGX_OK) {
        n = ngx_min(ctx->naddrs, NGX_ETCD_LOOKUP_ADDRS);

        for (i = 0; i < n; i++) {
            ngx_etcd_lookup_take(lookup, &ctx->addrs[i]);
        }

        ngx_post_event(&lookup->ready, &ngx_posted_events);

    } else {
        ngx_etcd_lookup_fail(lookup, ngx_resolver_strerror(ctx->state));
    }

    ngx_resolve_name_done(ctx);
}


void
ngx_etcd_lookup_start(ngx_etcd_lookup_t *lookup, ngx_log_t *log)
{
    ngx_resolver_ctx_t  *ctx;

    lookup->naddrs = 0;
    ngx_str_null(&lookup->reason);

    ngx_etcd_event_init(&lookup->ready, ngx_etcd_lookup_ready, lookup, log);

    ctx = ngx_resolve_start(lookup->resolver, NULL);

    if (ctx == NULL || ctx == NGX_NO_RESOLVER) {
        ngx_etcd_lookup_fail(lookup, ctx ? "no name server is defined"
                                         : "no memory");
        return;
    }

    ctx->name = lookup->name;
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
