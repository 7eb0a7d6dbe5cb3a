
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd_module.h>


static ngx_int_t ngx_http_etcd_variable_member_key(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_etcd_variable_member_revision(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_etcd_variable_revision(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_etcd_variable_staleness(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_etcd_peer_t *ngx_http_etcd_last_peer(ngx_http_request_t *r);
static ngx_etcd_conf_t *ngx_http_etcd_cluster(ngx_http_request_t *r);
static ngx_int_t ngx_http_etcd_variable_number(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uint64_t number);


static ngx_http_variable_t  ngx_http_etcd_variables[] = {

    { ngx_string("etcd_member_key"), NULL,
      ngx_http_etcd_variable_member_key, 0,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("etcd_member_revision"), NULL,
      ngx_http_etcd_variable_member_revision, 0,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("etcd_revision"), NULL,
      ngx_http_etcd_variable_revision, 0,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("etcd_staleness"), NULL,
      ngx_http_etcd_variable_staleness, 0,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

      ngx_http_null_variable
};


ngx_int_t
ngx_http_etcd_add_variables(ngx_conf_t *cf)
{
    ngx_http_variable_t  *var, *v;

    for (v = ngx_http_etcd_variables; v->name.len; v++) {
        var = ngx_http_add_variable(cf, &v->name, v->flags);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = v->get_handler;
        var->data = v->data;
    }

    return NGX_OK;
}


static ngx_etcd_peer_t *
ngx_http_etcd_last_peer(ngx_http_request_t *r)
{
    ngx_http_etcd_ctx_t  *ctx;

    ctx = ngx_http_etcd_get_ctx(r);

    if (ctx == NULL || ctx->pick.ntried == 0) {
        return NULL;
    }

    return ctx->pick.tried[ctx->pick.ntried - 1].peer;
}


static ngx_int_t
ngx_http_etcd_variable_member_key(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_etcd_peer_t  *peer;

    peer = ngx_http_etcd_last_peer(r);

    if (peer == NULL || peer->key.len == 0) {
        v->not_found = 1;
        return NGX_OK;
    }

    v->len = peer->key.len;
    v->data = peer->key.data;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}


static ngx_int_t
ngx_http_etcd_variable_member_revision(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_etcd_peer_t  *peer;

    peer = ngx_http_etcd_last_peer(r);

    return ngx_http_etcd_variable_number(r, v,
                                         peer ? peer->create_revision : 0);
}


/* what the request was routed by, or what is known now */

static ngx_int_t
ngx_http_etcd_variable_revision(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    uint64_t              revision;
    ngx_etcd_conf_t      *cluster;
    ngx_http_etcd_ctx_t  *ctx;

    ctx = ngx_http_etcd_get_ctx(r);

    if (ctx != NULL) {
        revision = ctx->pick.revision;

        /* no change was ever seen: what the prefix was found empty at */

        if (revision == 0) {
            revision = ctx->upstream->service->set->revision;
        }

    } else {
        cluster = ngx_http_etcd_cluster(r);
        revision = cluster ? cluster->zone.sh->cluster.revision : 0;
    }

    return ngx_http_etcd_variable_number(r, v, revision);
}


static ngx_int_t
ngx_http_etcd_variable_staleness(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    u_char           *p;
    ngx_int_t         ms;
    ngx_etcd_conf_t  *cluster;

    cluster = ngx_http_etcd_cluster(r);
    ms = cluster ? ngx_etcd_conf_staleness(cluster) : -1;

    if (ms < 0) {
        v->not_found = 1;
        return NGX_OK;
    }

    p = ngx_pnalloc(r->pool, NGX_INT_T_LEN + 4);
    if (p == NULL) {
        return NGX_ERROR;
    }

    v->len = ngx_sprintf(p, "%i.%03i", ms / 1000, ms % 1000) - p;
    v->data = p;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}


/* of the request's upstream, or the first one of the configuration */

static ngx_etcd_conf_t *
ngx_http_etcd_cluster(ngx_http_request_t *r)
{
    ngx_etcd_conf_t      **clusters;
    ngx_http_etcd_ctx_t   *ctx;
    ngx_etcd_main_conf_t  *emcf;

    ctx = ngx_http_etcd_get_ctx(r);

    if (ctx != NULL) {
        return ctx->upstream->cluster;
    }

    emcf = (ngx_etcd_main_conf_t *) ngx_get_conf(ngx_cycle->conf_ctx,
                                                 ngx_etcd_module);

    clusters = emcf->clusters.elts;

    return emcf->clusters.nelts ? clusters[0] : NULL;
}


static ngx_int_t
ngx_http_etcd_variable_number(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uint64_t number)
{
    u_char  *p;

    if (number == 0) {
        v->not_found = 1;
        return NGX_OK;
    }

    p = ngx_pnalloc(r->pool, NGX_INT64_LEN);
    if (p == NULL) {
        return NGX_ERROR;
    }

    v->len = ngx_sprintf(p, "%uL", number) - p;
    v->data = p;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}
