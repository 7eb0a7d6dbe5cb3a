
/*
 * Copyright (C) nginx-etcd contributors
 *
 * etcd_require_leader: a connection is admitted in a term, and is not
 * connected to a server after the term has ended.  In between nginx may
 * resolve an address and try another server.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_etcd_require_leader.h>


/* an upstream without a srv_conf: "proxy_pass" to an address */

typedef struct {
    ngx_stream_upstream_srv_conf_t    *upstream;
    ngx_stream_upstream_init_peer_pt   init_peer;
} ngx_stream_etcd_require_leader_upstream_t;


ngx_int_t
ngx_stream_etcd_require_leader_handler(ngx_stream_session_t *s)
{
    ngx_int_t                    rc;
    ngx_pool_t                  *pool;
    ngx_etcd_admission_t        *admission;
    ngx_etcd_require_leader_t   *require;
    ngx_stream_etcd_srv_conf_t  *escf;

    escf = ngx_stream_get_module_srv_conf(s, ngx_stream_etcd_module);
    require = &escf->require_leader;

    if (require->campaign == NULL) {
        return NGX_DECLINED;
    }

    pool = s->connection->pool;

    admission = ngx_etcd_admission_find(pool, s, require->campaign);

    rc = ngx_etcd_require_leader_enter(require, admission, pool, s,
                                       s->connection->log);

    switch (rc) {

    case NGX_OK:
        return NGX_DECLINED;

    case NGX_DECLINED:
        return NGX_STREAM_SERVICE_UNAVAILABLE;

    default:
        return NGX_ERROR;
    }
}


static ngx_stream_upstream_init_peer_pt
ngx_stream_etcd_require_leader_original(ngx_stream_session_t *s,
    ngx_stream_upstream_srv_conf_t *us)
{
    ngx_uint_t                                  i;
    ngx_stream_etcd_srv_conf_t                 *escf;
    ngx_stream_etcd_main_conf_t                *emcf;
    ngx_stream_etcd_require_leader_upstream_t  *wrapped;

    if (us->srv_conf != NULL) {
        escf = ngx_stream_conf_upstream_srv_conf(us, ngx_stream_etcd_module);
        return escf->init_peer;
    }

    emcf = ngx_stream_get_module_main_conf(s, ngx_stream_etcd_module);

    wrapped = emcf->wrapped.elts;

    for (i = 0; wrapped[i].upstream != us; i++) { /* void */ }

    return wrapped[i].init_peer;
}


static ngx_int_t
ngx_stream_etcd_require_leader_init_peer(ngx_stream_session_t *s,
    ngx_stream_upstream_srv_conf_t *us)
{
    ngx_int_t                    rc;
    ngx_etcd_admission_t        *admission;
    ngx_stream_etcd_srv_conf_t  *escf;

    rc = ngx_stream_etcd_require_leader_original(s, us)(s, us);

    escf = ngx_stream_get_module_srv_conf(s, ngx_stream_etcd_module);

    if (rc != NGX_OK || escf->require_leader.campaign == NULL) {
        return rc;
    }

    admission = ngx_etcd_admission_find(s->connection->pool, s,
                                        escf->require_leader.campaign);

    if (admission == NULL) {
        return NGX_OK;
    }

    return ngx_etcd_require_leader_wrap(admission, &s->upstream->peer,
                                        s->connection->pool, NULL, NULL);
}


static ngx_int_t
ngx_stream_etcd_require_leader_wrap(ngx_stream_etcd_main_conf_t *emcf,
    ngx_stream_upstream_srv_conf_t *us)
{
    ngx_stream_etcd_srv_conf_t                 *escf;
    ngx_stream_etcd_require_leader_upstream_t  *wrapped;

    if (us->srv_conf != NULL) {
        escf = ngx_stream_conf_upstream_srv_conf(us, ngx_stream_etcd_module);
        escf->init_peer = us->peer.init;

    } else {
        wrapped = ngx_array_push(&emcf->wrapped);
        if (wrapped == NULL) {
            return NGX_ERROR;
        }

        wrapped->upstream = us;
        wrapped->init_peer = us->peer.init;
    }

    us->peer.init = ngx_stream_etcd_require_leader_init_peer;

    return NGX_OK;
}


ngx_int_t
ngx_stream_etcd_require_leader_init(ngx_conf_t *cf)
{
    ngx_uint_t                         i;
    ngx_stream_etcd_main_conf_t       *emcf;
    ngx_stream_upstream_srv_conf_t   **uscf;
    ngx_stream_upstream_main_conf_t   *umcf;

    emcf = ngx_stream_conf_get_module_main_conf(cf, ngx_stream_etcd_module);
    umcf = ngx_stream_conf_get_module_main_conf(cf,
                                                ngx_stream_upstream_module);

    if (ngx_array_init(&emcf->wrapped, cf->pool, 4,
                       sizeof(ngx_stream_etcd_require_leader_upstream_t))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    uscf = umcf->upstreams.elts;

    for (i = 0; i < umcf->upstreams.nelts; i++) {
        if (ngx_stream_etcd_require_leader_wrap(emcf, uscf[i]) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}
