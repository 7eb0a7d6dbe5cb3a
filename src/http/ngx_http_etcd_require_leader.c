
/*
 * Copyright (C) nginx-etcd contributors
 *
 * etcd_require_leader: a request is admitted in a term, and is not passed to
 * an upstream after the term has ended.  In between nginx may read the body,
 * wait for a cached response or a member, and try another server.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd_client.h>
#include <ngx_http_etcd_require_leader.h>


/* an upstream without a srv_conf: "proxy_pass" to an address */

typedef struct {
    ngx_http_upstream_srv_conf_t    *upstream;
    ngx_http_upstream_init_peer_pt   init_peer;
} ngx_http_etcd_require_leader_upstream_t;


static ngx_http_request_body_filter_pt  ngx_http_next_request_body_filter;


ngx_int_t
ngx_http_etcd_require_leader_handler(ngx_http_request_t *r)
{
    ngx_int_t                   rc;
    ngx_etcd_admission_t       *admission;
    ngx_etcd_require_leader_t  *require;
    ngx_http_etcd_loc_conf_t   *elcf;

    elcf = ngx_http_get_module_loc_conf(r, ngx_http_etcd_module);
    require = &elcf->require_leader;

    if (require->campaign == NULL) {
        return NGX_DECLINED;
    }

    admission = ngx_http_etcd_require_leader_admission(r, require->campaign);

    rc = ngx_etcd_require_leader_enter(require, admission, r->pool, r,
                                       r->connection->log);

    switch (rc) {

    case NGX_OK:
        return NGX_DECLINED;

    case NGX_DECLINED:
        return require->status;

    default:
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
}


ngx_etcd_admission_t *
ngx_http_etcd_require_leader_admission(ngx_http_request_t *r,
    ngx_etcd_campaign_t *campaign)
{
    ngx_etcd_admission_t  *admission;

    for ( /* void */ ; r != NULL; r = r->parent) {
        admission = ngx_etcd_admission_find(r->pool, r, campaign);

        if (admission != NULL) {
            return admission;
        }
    }

    return NULL;
}


static ngx_http_upstream_init_peer_pt
ngx_http_etcd_require_leader_original(ngx_http_request_t *r,
    ngx_http_upstream_srv_conf_t *us)
{
    ngx_uint_t                                i;
    ngx_http_etcd_srv_conf_t                 *escf;
    ngx_http_etcd_main_conf_t                *emcf;
    ngx_http_etcd_require_leader_upstream_t  *wrapped;

    if (us->srv_conf != NULL) {
        escf = ngx_http_conf_upstream_srv_conf(us, ngx_http_etcd_module);
        return escf->init_peer;
    }

    emcf = ngx_http_get_module_main_conf(r, ngx_http_etcd_module);

    wrapped = emcf->wrapped.elts;

    for (i = 0; wrapped[i].upstream != us; i++) { /* void */ }

    return wrapped[i].init_peer;
}


static void
ngx_http_etcd_require_leader_refused(ngx_http_request_t *r)
{
    ngx_http_etcd_loc_conf_t  *elcf;

    elcf = ngx_http_get_module_loc_conf(r, ngx_http_etcd_module);

    r->write_event_handler = ngx_http_request_empty_handler;

    ngx_http_etcd_client_skip_body(r);
    ngx_http_finalize_request(r, elcf->require_leader.status);
}


/*
 * Refuses a request whose term has ended.  For nginx the request has left its
 * upstream already: on the balancer's error nginx drops a reference, as the
 * cleanup of the upstream does.  The try is not logged, since there was none.
 * Without memory the error is handled as usual.
 */

static void
ngx_http_etcd_require_leader_refuse(void *data)
{
    ngx_http_request_t *r = data;

    ngx_http_upstream_t  *u;

    u = r->upstream;

    if (u->cleanup == NULL || ngx_http_post_request(r, NULL) != NGX_OK) {
        return;
    }

    u->state = NULL;

    if (--r->upstream_states->nelts == 0) {
        r->upstream_states = NULL;
    }

    r->main->count += 2;
    (*u->cleanup)(r);

    r->write_event_handler = ngx_http_etcd_require_leader_refused;
}


static ngx_int_t
ngx_http_etcd_require_leader_init_peer(ngx_http_request_t *r,
    ngx_http_upstream_srv_conf_t *us)
{
    ngx_int_t                  rc;
    ngx_etcd_admission_t      *admission;
    ngx_http_etcd_loc_conf_t  *elcf;

    rc = ngx_http_etcd_require_leader_original(r, us)(r, us);

    elcf = ngx_http_get_module_loc_conf(r, ngx_http_etcd_module);

    if (rc != NGX_OK || elcf->require_leader.campaign == NULL) {
        return rc;
    }

    admission = ngx_http_etcd_require_leader_admission(r,
                                           elcf->require_leader.campaign);

    if (admission == NULL) {
        return NGX_OK;
    }

    return ngx_etcd_require_leader_wrap(admission, &r->upstream->peer, r->pool,
                                        ngx_http_etcd_require_leader_refuse,
                                        r);
}


static ngx_int_t
ngx_http_etcd_require_leader_wrap(ngx_http_etcd_main_conf_t *emcf,
    ngx_http_upstream_srv_conf_t *us)
{
    ngx_http_etcd_srv_conf_t                 *escf;
    ngx_http_etcd_require_leader_upstream_t  *wrapped;

    if (us->srv_conf != NULL) {
        escf = ngx_http_conf_upstream_srv_conf(us, ngx_http_etcd_module);
        escf->init_peer = us->peer.init;

    } else {
        wrapped = ngx_array_push(&emcf->wrapped);
        if (wrapped == NULL) {
            return NGX_ERROR;
        }

        wrapped->upstream = us;
        wrapped->init_peer = us->peer.init;
    }

    us->peer.init = ngx_http_etcd_require_leader_init_peer;

    return NGX_OK;
}


/*
 * Called for each part of a body and for its end, after which the request is
 * built at once.
 */

static ngx_int_t
ngx_http_etcd_require_leader_body_filter(ngx_http_request_t *r, ngx_chain_t *in)
{
    ngx_etcd_admission_t      *admission;
    ngx_http_etcd_loc_conf_t  *elcf;

    elcf = ngx_http_get_module_loc_conf(r, ngx_http_etcd_module);

    if (elcf->require_leader.campaign != NULL) {
        admission = ngx_http_etcd_require_leader_admission(r,
                                           elcf->require_leader.campaign);

        if (admission != NULL
            && !ngx_etcd_admission_valid(admission, r->connection->log))
        {
            ngx_http_etcd_client_skip_body(r);
            return elcf->require_leader.status;
        }
    }

    return ngx_http_next_request_body_filter(r, in);
}


ngx_int_t
ngx_http_etcd_require_leader_init(ngx_conf_t *cf)
{
    ngx_uint_t                       i;
    ngx_http_etcd_main_conf_t       *emcf;
    ngx_http_upstream_srv_conf_t   **uscf;
    ngx_http_upstream_main_conf_t   *umcf;

    emcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_etcd_module);
    umcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_upstream_module);

    if (ngx_array_init(&emcf->wrapped, cf->pool, 4,
                       sizeof(ngx_http_etcd_require_leader_upstream_t))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    uscf = umcf->upstreams.elts;

    for (i = 0; i < umcf->upstreams.nelts; i++) {
        if (ngx_http_etcd_require_leader_wrap(emcf, uscf[i]) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    ngx_http_next_request_body_filter = ngx_http_top_request_body_filter;
    ngx_http_top_request_body_filter = ngx_http_etcd_require_leader_body_filter;

    return NGX_OK;
}
