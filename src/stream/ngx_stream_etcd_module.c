
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_etcd_version.h>
#include <ngx_stream_etcd.h>
#include <ngx_etcd_variable.h>
#include <ngx_stream_etcd_require_leader.h>
#include <ngx_stream_etcd_lock.h>
#include <ngx_stream_etcd_set.h>
#include <ngx_stream_etcd_upstream.h>
#include <ngx_stream_etcd_wait.h>


static ngx_int_t ngx_stream_etcd_variable_add(ngx_conf_t *cf);
static ngx_int_t ngx_stream_etcd_init(ngx_conf_t *cf);
static void *ngx_stream_etcd_create_main_conf(ngx_conf_t *cf);
static void *ngx_stream_etcd_create_srv_conf(ngx_conf_t *cf);
static char *ngx_stream_etcd_merge_srv_conf(ngx_conf_t *cf, void *parent,
    void *child);


/* not used, but needed: see ngx_etcd_version.h */
const char  *const ngx_stream_etcd_version = ngx_etcd_version;


static ngx_conf_enum_t  ngx_stream_etcd_lock_lost[] = {
    { ngx_string("close"), NGX_ETCD_LOCK_CLOSE },
    { ngx_string("continue"), NGX_ETCD_LOCK_CONTINUE },
    { ngx_null_string, 0 }
};


static ngx_command_t  ngx_stream_etcd_commands[] = {

    { ngx_string("etcd_members"),
      NGX_STREAM_UPS_CONF|NGX_CONF_1MORE,
      ngx_stream_etcd_upstream_members,
      NGX_STREAM_SRV_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("etcd_leader"),
      NGX_STREAM_UPS_CONF|NGX_CONF_1MORE,
      ngx_stream_etcd_upstream_members,
      NGX_STREAM_SRV_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("etcd_balance"),
      NGX_STREAM_UPS_CONF|NGX_CONF_TAKE123,
      ngx_stream_etcd_upstream_balance,
      NGX_STREAM_SRV_CONF_OFFSET,
      offsetof(ngx_stream_etcd_srv_conf_t, upstream),
      NULL },

    { ngx_string("etcd_allow"),
      NGX_STREAM_UPS_CONF|NGX_CONF_1MORE,
      ngx_etcd_upstream_allow,
      NGX_STREAM_SRV_CONF_OFFSET,
      offsetof(ngx_stream_etcd_srv_conf_t, upstream),
      NULL },

    { ngx_string("etcd_prefer"),
      NGX_STREAM_UPS_CONF|NGX_CONF_TAKE12,
      ngx_etcd_upstream_prefer,
      NGX_STREAM_SRV_CONF_OFFSET,
      offsetof(ngx_stream_etcd_srv_conf_t, upstream),
      NULL },

    { ngx_string("etcd_guard"),
      NGX_STREAM_UPS_CONF|NGX_CONF_1MORE,
      ngx_etcd_upstream_guard,
      NGX_STREAM_SRV_CONF_OFFSET,
      offsetof(ngx_stream_etcd_srv_conf_t, upstream),
      NULL },

    { ngx_string("etcd_eject"),
      NGX_STREAM_UPS_CONF|NGX_CONF_1MORE,
      ngx_etcd_upstream_eject,
      NGX_STREAM_SRV_CONF_OFFSET,
      offsetof(ngx_stream_etcd_srv_conf_t, upstream),
      &ngx_stream_etcd_module },

    { ngx_string("etcd_check"),
      NGX_STREAM_UPS_CONF|NGX_CONF_ANY,
      ngx_stream_etcd_upstream_checks,
      NGX_STREAM_SRV_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("etcd_wait"),
      NGX_STREAM_MAIN_CONF|NGX_STREAM_SRV_CONF|NGX_CONF_TAKE1234
                          |NGX_CONF_TAKE5,
      ngx_etcd_wait_conf,
      NGX_STREAM_SRV_CONF_OFFSET,
      offsetof(ngx_stream_etcd_srv_conf_t, wait),
      &ngx_stream_etcd_module },

    { ngx_string("etcd_require_leader"),
      NGX_STREAM_MAIN_CONF|NGX_STREAM_SRV_CONF|NGX_CONF_TAKE1,
      ngx_etcd_require_leader_require,
      NGX_STREAM_SRV_CONF_OFFSET,
      offsetof(ngx_stream_etcd_srv_conf_t, require_leader),
      NULL },

    { ngx_string("etcd_set"),
      NGX_STREAM_MAIN_CONF|NGX_STREAM_SRV_CONF|NGX_CONF_2MORE,
      ngx_stream_etcd_set,
      NGX_STREAM_SRV_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("etcd_lock"),
      NGX_STREAM_MAIN_CONF|NGX_STREAM_SRV_CONF|NGX_CONF_1MORE,
      ngx_stream_etcd_lock,
      NGX_STREAM_SRV_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("etcd_lock_lost"),
      NGX_STREAM_MAIN_CONF|NGX_STREAM_SRV_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_enum_slot,
      NGX_STREAM_SRV_CONF_OFFSET,
      offsetof(ngx_stream_etcd_srv_conf_t, lock_lost),
      &ngx_stream_etcd_lock_lost },

      ngx_null_command
};


static ngx_stream_module_t  ngx_stream_etcd_module_ctx = {
    ngx_stream_etcd_variable_add,         /* preconfiguration */
    ngx_stream_etcd_init,                  /* postconfiguration */

    ngx_stream_etcd_create_main_conf,      /* create main configuration */
    NULL,                                  /* init main configuration */

    ngx_stream_etcd_create_srv_conf,       /* create server configuration */
    ngx_stream_etcd_merge_srv_conf         /* merge server configuration */
};


ngx_module_t  ngx_stream_etcd_module = {
    NGX_MODULE_V1,
    &ngx_stream_etcd_module_ctx,           /* module context */
    ngx_stream_etcd_commands,              /* module directives */
    NGX_STREAM_MODULE,                       /* module type */
    NULL,                                  /* init master */
    NULL,                                  /* init module */
    NULL,                                  /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    NULL,                                  /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


static ngx_int_t
ngx_stream_etcd_member_variable(ngx_stream_session_t *s,
    ngx_stream_variable_value_t *v, uintptr_t data)
{
    ngx_etcd_peer_t      *peer;
    ngx_etcd_variable_t  *variable;

    variable = (ngx_etcd_variable_t *) data;

    peer = ngx_etcd_peer_data_peer(ngx_stream_etcd_upstream_peer_data(s));

    return variable->member(&variable->name, peer, v, s->connection->pool);
}


static ngx_int_t
ngx_stream_etcd_election_variable(ngx_stream_session_t *s,
    ngx_stream_variable_value_t *v, uintptr_t data)
{
    ngx_str_t            *name;
    ngx_pool_t           *pool;
    ngx_etcd_campaign_t  *campaign;

    name = (ngx_str_t *) data;
    pool = s->connection->pool;
    campaign = ngx_etcd_election_variable_campaign(name);

    if (campaign == NULL) {
        v->not_found = 1;
        return NGX_OK;
    }

    return ngx_etcd_election_variable_value(name, campaign,
                                    ngx_etcd_admission_find(pool, s, campaign),
                                            v, pool);
}


static ngx_int_t
ngx_stream_etcd_variable(ngx_stream_session_t *s,
    ngx_stream_variable_value_t *v, uintptr_t data)
{
    ngx_etcd_variable_t  *variable;

    variable = (ngx_etcd_variable_t *) data;

    if (variable->wait != NULL) {
        return variable->wait(&variable->name, ngx_stream_etcd_wait_time(s), v,
                              s->connection->pool);
    }

    return variable->request(&variable->name,
                             ngx_stream_etcd_upstream_peer_data(s), v,
                             s->connection->pool);
}


static ngx_int_t
ngx_stream_etcd_variable_add(ngx_conf_t *cf)
{
    ngx_etcd_variable_t           *v;
    ngx_stream_variable_t         *var;
    ngx_etcd_election_variable_t  *ev;

    for (v = ngx_etcd_variables; v->name.len != 0; v++) {
        var = ngx_stream_add_variable(cf, &v->name, NGX_STREAM_VAR_NOCACHEABLE);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = v->member ? ngx_stream_etcd_member_variable
                                     : ngx_stream_etcd_variable;
        var->data = (uintptr_t) v;
    }

    for (ev = ngx_etcd_election_variables; ev->name.len != 0; ev++) {
        var = ngx_stream_add_variable(cf, &ev->name, NGX_STREAM_VAR_NOCACHEABLE
                                                  |NGX_STREAM_VAR_PREFIX);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = ngx_stream_etcd_election_variable;
    }

    return ngx_stream_etcd_lock_add_variables(cf);
}


static void *
ngx_stream_etcd_create_main_conf(ngx_conf_t *cf)
{
    return ngx_pcalloc(cf->pool, sizeof(ngx_stream_etcd_main_conf_t));
}


static void *
ngx_stream_etcd_create_srv_conf(ngx_conf_t *cf)
{
    ngx_stream_etcd_srv_conf_t  *escf;

    escf = ngx_pcalloc(cf->pool, sizeof(ngx_stream_etcd_srv_conf_t));
    if (escf == NULL) {
        return NULL;
    }

    escf->wait = NGX_CONF_UNSET_PTR;
    escf->locks = NGX_CONF_UNSET_PTR;
    escf->lock_lost = NGX_CONF_UNSET_UINT;
    ngx_etcd_require_leader_init(&escf->require_leader);

    return escf;
}


static char *
ngx_stream_etcd_merge_srv_conf(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_stream_etcd_srv_conf_t *prev = parent;
    ngx_stream_etcd_srv_conf_t *conf = child;

    ngx_stream_etcd_main_conf_t  *emcf;

    ngx_conf_merge_ptr_value(conf->wait, prev->wait, NULL);
    ngx_conf_merge_ptr_value(conf->locks, prev->locks, NULL);
    ngx_conf_merge_uint_value(conf->lock_lost, prev->lock_lost,
                              NGX_ETCD_LOCK_CLOSE);
    ngx_etcd_require_leader_merge(&conf->require_leader, &prev->require_leader);

    emcf = ngx_stream_conf_get_module_main_conf(cf, ngx_stream_etcd_module);

    if (conf->locks != NULL) {
        emcf->locks = 1;
    }

    if (conf->require_leader.campaign != NULL) {
        emcf->require_leader = 1;
    }

    return (ngx_etcd_set_use_inherit(&conf->sets, prev->sets) == NGX_OK)
           ? NGX_CONF_OK : NGX_CONF_ERROR;
}


/*
 * NGX_DECLINED: the session may proceed; NGX_DONE: the session is paused, and
 * this function is called again afterwards.
 */

static ngx_int_t
ngx_stream_etcd_admit(ngx_stream_session_t *s,
    ngx_stream_etcd_srv_conf_t *escf)
{
    ngx_int_t  rc;

    /* check again after each wait */

    rc = ngx_stream_etcd_require_leader_handler(s);

    if (rc != NGX_DECLINED) {
        return rc;
    }

    rc = ngx_stream_etcd_wait_handler(s);

    if (rc != NGX_DECLINED || escf->locks == NULL) {
        return rc;
    }

    return ngx_stream_etcd_lock_handler(s);
}


static void
ngx_stream_etcd_content(ngx_stream_session_t *s)
{
    ngx_int_t                    rc;
    ngx_stream_etcd_srv_conf_t  *escf;

    escf = ngx_stream_get_module_srv_conf(s, ngx_stream_etcd_module);

    rc = ngx_stream_etcd_admit(s, escf);

    switch (rc) {

    case NGX_DECLINED:
        escf->content(s);
        break;

    case NGX_DONE:
        break;

    case NGX_ERROR:
        ngx_stream_finalize_session(s, NGX_STREAM_INTERNAL_SERVER_ERROR);
        break;

    default:
        ngx_stream_finalize_session(s, rc);
    }

    ngx_stream_etcd_reserve_release();
}


/*
 * A condition checked in a phase may no longer hold when the proxy starts:
 * "ssl_preread" waits as long as the client likes.  Therefore the content
 * handlers of servers are wrapped, and the conditions are checked right
 * before the proxy or another content handler starts.
 */

static void
ngx_stream_etcd_wrap_servers(ngx_conf_t *cf)
{
    ngx_uint_t                     i;
    ngx_stream_etcd_srv_conf_t    *escf;
    ngx_stream_core_srv_conf_t   **cscf;
    ngx_stream_core_main_conf_t   *cmcf;

    cmcf = ngx_stream_conf_get_module_main_conf(cf, ngx_stream_core_module);

    cscf = cmcf->servers.elts;

    for (i = 0; i < cmcf->servers.nelts; i++) {
        escf = cscf[i]->ctx->srv_conf[ngx_stream_etcd_module.ctx_index];

        if (escf->require_leader.campaign == NULL
            && escf->wait == NULL
            && escf->locks == NULL)
        {
            continue;
        }

        escf->content = cscf[i]->handler;
        cscf[i]->handler = ngx_stream_etcd_content;
    }
}


static ngx_int_t
ngx_stream_etcd_init(ngx_conf_t *cf)
{
    ngx_stream_handler_pt        *handler;
    ngx_stream_etcd_main_conf_t  *emcf;
    ngx_stream_core_main_conf_t  *cmcf;

    cmcf = ngx_stream_conf_get_module_main_conf(cf, ngx_stream_core_module);
    emcf = ngx_stream_conf_get_module_main_conf(cf, ngx_stream_etcd_module);

    /* sessions do not pay for features that no server uses */

    if (emcf->locks) {
        handler = ngx_array_push(&cmcf->phases[NGX_STREAM_LOG_PHASE].handlers);
        if (handler == NULL) {
            return NGX_ERROR;
        }

        *handler = ngx_stream_etcd_lock_log;

        ngx_stream_etcd_lock_add_filter();
    }

    if (emcf->require_leader
        && ngx_stream_etcd_require_leader_init(cf) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_stream_etcd_wrap_servers(cf);

    if (ngx_etcd_variable_prefixes(cf, 1, &cmcf->variables_keys->keys,
                                   &cmcf->prefix_variables)
        != NGX_OK
        || ngx_stream_etcd_set_check(cf) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_etcd_election_variable_used(cf, &cmcf->variables);
}
