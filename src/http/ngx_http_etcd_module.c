
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_etcd_version.h>
#include <ngx_http_etcd.h>
#include <ngx_etcd_variable.h>
#include <ngx_http_etcd_require_leader.h>
#include <ngx_http_etcd_lock.h>
#include <ngx_http_etcd_lock_serve.h>
#include <ngx_http_etcd_lock_upstream.h>
#include <ngx_http_etcd_output.h>
#include <ngx_http_etcd_session.h>
#include <ngx_http_etcd_set.h>
#include <ngx_http_etcd_status.h>
#include <ngx_http_etcd_upstream.h>
#include <ngx_http_etcd_variable.h>
#include <ngx_http_etcd_wait.h>


static ngx_int_t ngx_http_etcd_add_variables(ngx_conf_t *cf);
static ngx_int_t ngx_http_etcd_init(ngx_conf_t *cf);
static void *ngx_http_etcd_create_main_conf(ngx_conf_t *cf);
static void *ngx_http_etcd_create_srv_conf(ngx_conf_t *cf);
static void *ngx_http_etcd_create_loc_conf(ngx_conf_t *cf);
static char *ngx_http_etcd_merge_loc_conf(ngx_conf_t *cf, void *parent,
    void *child);


/* not used, but needed: see ngx_etcd_version.h */
const char  *const ngx_http_etcd_version = ngx_etcd_version;


static ngx_conf_enum_t  ngx_http_etcd_lock_lost[] = {
    { ngx_string("close"), NGX_ETCD_LOCK_CLOSE },
    { ngx_string("continue"), NGX_ETCD_LOCK_CONTINUE },
    { ngx_null_string, 0 }
};


static ngx_conf_enum_t  ngx_http_etcd_lock_hold[] = {
    { ngx_string("upstream"), NGX_ETCD_LOCK_HOLD_UPSTREAM },
    { ngx_string("client"), NGX_ETCD_LOCK_HOLD_CLIENT },
    { ngx_null_string, 0 }
};


static ngx_conf_num_bounds_t  ngx_http_etcd_status_bounds = {
    ngx_conf_check_num_bounds, 400, 599
};


static ngx_conf_num_bounds_t  ngx_http_etcd_ping_bounds = {
    ngx_conf_check_num_bounds, 1, -1
};


static ngx_command_t  ngx_http_etcd_commands[] = {

    { ngx_string("etcd_members"),
      NGX_HTTP_UPS_CONF|NGX_CONF_1MORE,
      ngx_http_etcd_upstream_members,
      NGX_HTTP_SRV_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("etcd_leader"),
      NGX_HTTP_UPS_CONF|NGX_CONF_1MORE,
      ngx_http_etcd_upstream_members,
      NGX_HTTP_SRV_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("etcd_balance"),
      NGX_HTTP_UPS_CONF|NGX_CONF_TAKE123,
      ngx_http_etcd_upstream_balance,
      NGX_HTTP_SRV_CONF_OFFSET,
      offsetof(ngx_http_etcd_srv_conf_t, upstream),
      NULL },

    { ngx_string("etcd_allow"),
      NGX_HTTP_UPS_CONF|NGX_CONF_1MORE,
      ngx_etcd_upstream_allow,
      NGX_HTTP_SRV_CONF_OFFSET,
      offsetof(ngx_http_etcd_srv_conf_t, upstream),
      NULL },

    { ngx_string("etcd_prefer"),
      NGX_HTTP_UPS_CONF|NGX_CONF_TAKE12,
      ngx_etcd_upstream_prefer,
      NGX_HTTP_SRV_CONF_OFFSET,
      offsetof(ngx_http_etcd_srv_conf_t, upstream),
      NULL },

    { ngx_string("etcd_guard"),
      NGX_HTTP_UPS_CONF|NGX_CONF_1MORE,
      ngx_etcd_upstream_guard,
      NGX_HTTP_SRV_CONF_OFFSET,
      offsetof(ngx_http_etcd_srv_conf_t, upstream),
      NULL },

    { ngx_string("etcd_eject"),
      NGX_HTTP_UPS_CONF|NGX_CONF_1MORE,
      ngx_etcd_upstream_eject,
      NGX_HTTP_SRV_CONF_OFFSET,
      offsetof(ngx_http_etcd_srv_conf_t, upstream),
      NULL },

    { ngx_string("etcd_check"),
      NGX_HTTP_UPS_CONF|NGX_CONF_ANY,
      ngx_http_etcd_upstream_checks,
      NGX_HTTP_SRV_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("etcd_unknown_status"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_num_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_etcd_loc_conf_t, unknown_status),
      &ngx_http_etcd_status_bounds },

    { ngx_string("etcd_wait"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1234
                        |NGX_CONF_TAKE5,
      ngx_etcd_wait_conf,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_etcd_loc_conf_t, wait),
      NULL },

    { ngx_string("etcd_require_leader"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_HTTP_LIF_CONF
                        |NGX_CONF_TAKE12,
      ngx_etcd_require_leader_require,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_etcd_loc_conf_t, require_leader),
      NULL },

    { ngx_string("etcd_set"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_2MORE,
      ngx_http_etcd_set,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("etcd_lock"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_1MORE,
      ngx_http_etcd_lock,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("etcd_lock_status"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_num_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_etcd_loc_conf_t, lock_status),
      &ngx_http_etcd_status_bounds },

    { ngx_string("etcd_lock_unavailable_status"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_num_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_etcd_loc_conf_t, lock_unavailable),
      &ngx_http_etcd_status_bounds },

    { ngx_string("etcd_lock_lost"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_enum_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_etcd_loc_conf_t, lock_lost),
      &ngx_http_etcd_lock_lost },

    { ngx_string("etcd_lock_hold"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_enum_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_etcd_loc_conf_t, lock_hold),
      &ngx_http_etcd_lock_hold },

    { ngx_string("etcd_lock_max_hold"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_etcd_loc_conf_t, lock_max_hold),
      NULL },

    { ngx_string("etcd_lock_serve"),
      NGX_HTTP_LOC_CONF|NGX_CONF_NOARGS,
      ngx_http_etcd_lock_serve,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("etcd_lock_serve_ping"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_etcd_loc_conf_t, lock_serve_ping),
      &ngx_http_etcd_ping_bounds },

    { ngx_string("etcd_status"),
      NGX_HTTP_LOC_CONF|NGX_CONF_NOARGS|NGX_CONF_TAKE12,
      ngx_http_etcd_status,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_etcd_module_ctx = {
    ngx_http_etcd_add_variables,           /* preconfiguration */
    ngx_http_etcd_init,                    /* postconfiguration */

    ngx_http_etcd_create_main_conf,        /* create main configuration */
    NULL,                                  /* init main configuration */

    ngx_http_etcd_create_srv_conf,         /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_etcd_create_loc_conf,         /* create location configuration */
    ngx_http_etcd_merge_loc_conf           /* merge location configuration */
};


ngx_module_t  ngx_http_etcd_module = {
    NGX_MODULE_V1,
    &ngx_http_etcd_module_ctx,             /* module context */
    ngx_http_etcd_commands,                /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    NULL,                                  /* init module */
    NULL,                                  /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    NULL,                                  /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


static void *
ngx_http_etcd_create_main_conf(ngx_conf_t *cf)
{
    ngx_http_etcd_main_conf_t  *emcf;

    emcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_etcd_main_conf_t));
    if (emcf == NULL) {
        return NULL;
    }

    return emcf;
}


static void *
ngx_http_etcd_create_srv_conf(ngx_conf_t *cf)
{
    return ngx_pcalloc(cf->pool, sizeof(ngx_http_etcd_srv_conf_t));
}


static void *
ngx_http_etcd_create_loc_conf(ngx_conf_t *cf)
{
    ngx_http_etcd_loc_conf_t  *elcf;

    elcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_etcd_loc_conf_t));
    if (elcf == NULL) {
        return NULL;
    }

    elcf->wait = NGX_CONF_UNSET_PTR;
    elcf->unknown_status = NGX_CONF_UNSET_UINT;
    elcf->locks = NGX_CONF_UNSET_PTR;
    elcf->lock_status = NGX_CONF_UNSET_UINT;
    elcf->lock_unavailable = NGX_CONF_UNSET_UINT;
    elcf->lock_lost = NGX_CONF_UNSET_UINT;
    elcf->lock_hold = NGX_CONF_UNSET_UINT;
    elcf->lock_max_hold = NGX_CONF_UNSET_MSEC;
    elcf->lock_serve = NGX_CONF_UNSET_PTR;
    elcf->lock_serve_ping = NGX_CONF_UNSET_MSEC;
    elcf->status.members = NGX_CONF_UNSET_UINT;
    ngx_etcd_require_leader_init(&elcf->require_leader);

    return elcf;
}


static char *
ngx_http_etcd_merge_loc_conf(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_http_etcd_loc_conf_t *prev = parent;
    ngx_http_etcd_loc_conf_t *conf = child;

    ngx_http_etcd_main_conf_t  *emcf;

    emcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_etcd_module);

    ngx_conf_merge_ptr_value(conf->wait, prev->wait, NULL);
    ngx_conf_merge_uint_value(conf->unknown_status, prev->unknown_status, 404);
    ngx_conf_merge_ptr_value(conf->locks, prev->locks, NULL);
    ngx_conf_merge_uint_value(conf->lock_status, prev->lock_status,
                              NGX_ETCD_LOCK_STATUS);
    ngx_conf_merge_uint_value(conf->lock_unavailable, prev->lock_unavailable,
                              NGX_ETCD_LOCK_UNAVAILABLE);
    ngx_conf_merge_uint_value(conf->lock_lost, prev->lock_lost,
                              NGX_ETCD_LOCK_CLOSE);
    ngx_conf_merge_uint_value(conf->lock_hold, prev->lock_hold,
                              NGX_ETCD_LOCK_HOLD_UPSTREAM);
    ngx_conf_merge_msec_value(conf->lock_max_hold, prev->lock_max_hold,
                              NGX_CONF_UNSET_MSEC);
    ngx_conf_merge_msec_value(conf->lock_serve_ping, prev->lock_serve_ping,
                              NGX_ETCD_LOCK_SERVE_PING);
    ngx_etcd_require_leader_merge(&conf->require_leader, &prev->require_leader);
    ngx_http_etcd_status_merge(cf, &prev->status, &conf->status);

    /* requests do not pay for features that no location uses */

    if (conf->locks != NULL) {
        emcf->locks = 1;
    }

    if (conf->require_leader.campaign != NULL) {
        emcf->require_leader = 1;
    }

    if (conf->locks != NULL || conf->wait != NULL
        || conf->require_leader.campaign != NULL)
    {
        emcf->checks = 1;
    }

    if ((conf->locks != NULL
         && ngx_http_etcd_lock_check(cf, conf->locks) != NGX_CONF_OK)
        || ngx_http_etcd_lock_serve_merge(cf, prev, conf) != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    return (ngx_etcd_set_use_inherit(&conf->sets, prev->sets) == NGX_OK)
           ? NGX_CONF_OK : NGX_CONF_ERROR;
}


static ngx_int_t
ngx_http_etcd_precontent(ngx_http_request_t *r)
{
    ngx_int_t                  rc;
    ngx_http_etcd_loc_conf_t  *elcf;

    elcf = ngx_http_get_module_loc_conf(r, ngx_http_etcd_module);

    rc = ngx_http_etcd_lock_serve_refuse(r);

    if (rc != NGX_DECLINED) {
        return rc;
    }

    /* check again after each wait */

    rc = ngx_http_etcd_require_leader_handler(r);

    if (rc != NGX_DECLINED) {
        return rc;
    }

    rc = ngx_http_etcd_wait_handler(r);

    if (rc != NGX_DECLINED) {
        return rc;
    }

    if (elcf->locks != NULL) {
        rc = ngx_http_etcd_lock_handler(r);

        if (rc != NGX_DECLINED) {
            return rc;
        }

    } else if (r == r->main && !r->internal) {
        return NGX_DECLINED;
    }

    /* a redirect keeps its locks, a subrequest runs under those */

    return (ngx_http_etcd_lock_upstream(r) == NGX_OK) ? NGX_DECLINED
                                                      : NGX_ERROR;
}


static ngx_int_t
ngx_http_etcd_add_variables(ngx_conf_t *cf)
{
    if (ngx_http_etcd_variable_add(cf) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_etcd_lock_add_variables(cf);
}


static ngx_int_t
ngx_http_etcd_init(ngx_conf_t *cf)
{
    ngx_http_handler_pt        *handler;
    ngx_http_etcd_main_conf_t  *emcf;
    ngx_http_core_main_conf_t  *cmcf;

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);
    emcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_etcd_module);

    /*
     * The check runs after access control: a refused client neither learns
     * about the leader nor takes a place in a queue.  The PRECONTENT phase also
     * runs for subrequests.
     */

    if (emcf->checks) {
        handler = ngx_array_push(
                      &cmcf->phases[NGX_HTTP_PRECONTENT_PHASE].handlers);
        if (handler == NULL) {
            return NGX_ERROR;
        }

        *handler = ngx_http_etcd_precontent;
    }

    if (emcf->locks) {
        ngx_http_etcd_lock_add_filters();
    }

    if (emcf->require_leader
        && ngx_http_etcd_require_leader_init(cf) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ngx_etcd_variable_prefixes(cf, 0, &cmcf->variables_keys->keys,
                                   &cmcf->prefix_variables)
        != NGX_OK
        || ngx_http_etcd_set_check(cf) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_http_etcd_session_init(cf);

    return ngx_etcd_election_variable_used(cf, &cmcf->variables);
}
