
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd_module.h>


static ngx_int_t ngx_http_etcd_init_upstream(ngx_conf_t *cf,
    ngx_http_upstream_srv_conf_t *us);
static ngx_int_t ngx_http_etcd_init_server(ngx_conf_t *cf,
    ngx_etcd_upstream_t *upstream, ngx_http_upstream_server_t *server);
static ngx_int_t ngx_http_etcd_init_peer(ngx_http_request_t *r,
    ngx_http_upstream_srv_conf_t *us);
static ngx_int_t ngx_http_etcd_get_peer(ngx_peer_connection_t *pc,
    void *data);
static void ngx_http_etcd_free_peer(ngx_peer_connection_t *pc, void *data,
    ngx_uint_t state);
static void ngx_http_etcd_cleanup(void *data);
#if (NGX_HTTP_SSL)
static ngx_int_t ngx_http_etcd_set_session(ngx_peer_connection_t *pc,
    void *data);
static void ngx_http_etcd_save_session(ngx_peer_connection_t *pc, void *data);
#endif


/* a server that is none, known by the address of its name */

static ngx_str_t  ngx_http_etcd_placeholder = ngx_string("etcd_members");


char *
ngx_http_etcd_members(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_etcd_srv_conf_t *escf = conf;

    char                          *rv;
    ngx_addr_t                    *addr;
    ngx_http_upstream_server_t    *server;
    ngx_http_upstream_srv_conf_t  *uscf;

    uscf = ngx_http_conf_get_module_srv_conf(cf, ngx_http_upstream_module);

    rv = ngx_etcd_upstream_members(cf, &escf->upstream, &uscf->host, 0);

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    if (uscf->peer.init_upstream != NULL) {
        return "must be before \"keepalive\", and cannot be used with "
               "another balancing method: use \"etcd_balance\"";
    }

    uscf->peer.init_upstream = ngx_http_etcd_init_upstream;

    uscf->flags = NGX_HTTP_UPSTREAM_CREATE
                  |NGX_HTTP_UPSTREAM_WEIGHT
                  |NGX_HTTP_UPSTREAM_MAX_CONNS
                  |NGX_HTTP_UPSTREAM_MAX_FAILS
                  |NGX_HTTP_UPSTREAM_FAIL_TIMEOUT
                  |NGX_HTTP_UPSTREAM_DOWN
                  |NGX_HTTP_UPSTREAM_BACKUP;

    /*
     * A block without a server is refused, here and by native methods: it is
     * for ngx_http_etcd_upstream_check() to say what is wrong with those.
     */

    addr = ngx_palloc(cf->pool, sizeof(ngx_addr_t));
    server = ngx_array_push(uscf->servers);

    if (addr == NULL
        || server == NULL
        || ngx_parse_addr(cf->pool, addr, (u_char *) "0.0.0.0", 7) != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    addr->name = ngx_http_etcd_placeholder;

    ngx_memzero(server, sizeof(ngx_http_upstream_server_t));

    server->name = ngx_http_etcd_placeholder;
    server->addrs = addr;
    server->naddrs = 1;
    server->weight = 1;

    return NGX_CONF_OK;
}


char *
ngx_http_etcd_balance(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_etcd_srv_conf_t *escf = conf;

    return ngx_etcd_upstream_balance(cf, &escf->upstream);
}


char *
ngx_http_etcd_allow(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_etcd_srv_conf_t *escf = conf;

    return ngx_etcd_upstream_allow(cf, &escf->upstream);
}


static ngx_int_t
ngx_http_etcd_init_upstream(ngx_conf_t *cf, ngx_http_upstream_srv_conf_t *us)
{
    ngx_uint_t                     i, n;
    ngx_http_etcd_srv_conf_t      *escf;
    ngx_http_upstream_server_t    *server;
    ngx_http_upstream_rr_peers_t  *peers;

    escf = ngx_http_conf_upstream_srv_conf(us, ngx_http_etcd_module);

    server = us->servers->elts;
    n = 0;

    for (i = 0; i < us->servers->nelts; i++) {

        if (server[i].name.data == ngx_http_etcd_placeholder.data) {
            continue;
        }

        if (ngx_http_etcd_init_server(cf, &escf->upstream, &server[i])
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        server[n++] = server[i];
    }

    us->servers->nelts = n;

    /*
     * "zone" copies nginx's own list of peers, and other modules walk it: it
     * is there, and empty
     */

    peers = ngx_pcalloc(cf->pool, sizeof(ngx_http_upstream_rr_peers_t));
    if (peers == NULL) {
        return NGX_ERROR;
    }

    peers->name = &us->host;

    us->peer.data = peers;
    us->peer.init = ngx_http_etcd_init_peer;

    ngx_etcd_upstream_done(&escf->upstream);

    escf->initialized = 1;

    return NGX_OK;
}


static ngx_int_t
ngx_http_etcd_init_server(ngx_conf_t *cf, ngx_etcd_upstream_t *upstream,
    ngx_http_upstream_server_t *server)
{
    ngx_uint_t              i;
    ngx_etcd_member_attr_t  attr;

    ngx_memzero(&attr, sizeof(ngx_etcd_member_attr_t));

    attr.weight = ngx_min(server->weight, NGX_ETCD_MEMBER_MAX_WEIGHT);
    attr.max_fails = server->max_fails;
    attr.max_conns = server->max_conns;
    attr.fail_timeout = server->fail_timeout;
    attr.down = server->down;
    attr.backup = server->backup;

    for (i = 0; i < server->naddrs; i++) {
        if (ngx_etcd_upstream_server(cf, upstream, &server->addrs[i], &attr)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_etcd_upstream_check(ngx_conf_t *cf)
{
    ngx_uint_t                       i;
    ngx_etcd_upstream_t             *upstream;
    ngx_http_etcd_srv_conf_t        *escf;
    ngx_http_upstream_srv_conf_t   **uscfp;
    ngx_http_upstream_main_conf_t   *umcf;

    umcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_upstream_module);

    uscfp = umcf->upstreams.elts;

    for (i = 0; i < umcf->upstreams.nelts; i++) {

        if (uscfp[i]->srv_conf == NULL) {
            continue;
        }

        escf = ngx_http_conf_upstream_srv_conf(uscfp[i],
                                               ngx_http_etcd_module);
        upstream = &escf->upstream;

        if (upstream->service == NULL) {

            if (upstream->method != NULL || upstream->allow != NULL) {
                ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                              "upstream \"%V\" in %s:%ui has \"%s\" without "
                              "\"etcd_members\"",
                              &uscfp[i]->host, uscfp[i]->file_name,
                              uscfp[i]->line,
                              upstream->method ? "etcd_balance"
                                               : "etcd_allow");
                return NGX_ERROR;
            }

            continue;
        }

        if (!escf->initialized) {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "\"etcd_members\" in %s:%ui is replaced by another "
                          "balancing method in upstream \"%V\": use "
                          "\"etcd_balance\"",
                          upstream->file, upstream->line, &uscfp[i]->host);
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_etcd_init_peer(ngx_http_request_t *r,
    ngx_http_upstream_srv_conf_t *us)
{
    ngx_uint_t                 tries;
    ngx_http_upstream_t       *u;
    ngx_pool_cleanup_t        *cln;
    ngx_etcd_upstream_t       *upstream;
    ngx_http_etcd_ctx_t       *ctx;
    ngx_http_etcd_srv_conf_t  *escf;

    escf = ngx_http_conf_upstream_srv_conf(us, ngx_http_etcd_module);
    upstream = &escf->upstream;

    /* names and keys of peers are used until the request was logged */

    cln = ngx_pool_cleanup_add(r->pool, sizeof(ngx_http_etcd_ctx_t));
    if (cln == NULL) {
        return NGX_ERROR;
    }

    ctx = cln->data;
    ngx_memzero(ctx, sizeof(ngx_http_etcd_ctx_t));

    cln->handler = ngx_http_etcd_cleanup;

    ctx->upstream = upstream;

    tries = ngx_etcd_pick_init(&ctx->pick, &upstream->service->table,
                               upstream->method, &us->host, r->pool);

    ngx_http_set_ctx(r, ctx, ngx_http_etcd_module);

    u = r->upstream;

    u->peer.data = ctx;
    u->peer.get = ngx_http_etcd_get_peer;
    u->peer.free = ngx_http_etcd_free_peer;
    u->peer.tries = ngx_max(tries, 1);
#if (NGX_HTTP_SSL)
    u->peer.set_session = ngx_http_etcd_set_session;
    u->peer.save_session = ngx_http_etcd_save_session;
#endif

    return NGX_OK;
}


static ngx_int_t
ngx_http_etcd_get_peer(ngx_peer_connection_t *pc, void *data)
{
    ngx_http_etcd_ctx_t *ctx = data;

    return ngx_etcd_pick_get(&ctx->pick, pc);
}


static void
ngx_http_etcd_free_peer(ngx_peer_connection_t *pc, void *data,
    ngx_uint_t state)
{
    ngx_http_etcd_ctx_t *ctx = data;

    ngx_etcd_pick_free(&ctx->pick, pc, state);
}


#if (NGX_HTTP_SSL)

static ngx_int_t
ngx_http_etcd_set_session(ngx_peer_connection_t *pc, void *data)
{
    ngx_http_etcd_ctx_t *ctx = data;

    return ngx_etcd_pick_set_session(&ctx->pick, pc);
}


static void
ngx_http_etcd_save_session(ngx_peer_connection_t *pc, void *data)
{
    ngx_http_etcd_ctx_t *ctx = data;

    ngx_etcd_pick_save_session(&ctx->pick, pc);
}

#endif


static void
ngx_http_etcd_cleanup(void *data)
{
    ngx_http_etcd_ctx_t *ctx = data;

    ngx_etcd_pick_done(&ctx->pick);
}


ngx_http_etcd_ctx_t *
ngx_http_etcd_get_ctx(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t   *cln;
    ngx_http_etcd_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r, ngx_http_etcd_module);

    if (ctx != NULL || r != r->main || !(r->internal || r->filter_finalize)) {
        return ctx;
    }

    /* an internal redirect has reset the request's contexts */

    for (cln = r->pool->cleanup; cln != NULL; cln = cln->next) {
        if (cln->handler == ngx_http_etcd_cleanup) {
            return cln->data;
        }
    }

    return NULL;
}
