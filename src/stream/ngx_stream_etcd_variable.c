
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_etcd_lock.h>
#include <ngx_stream_etcd_upstream.h>
#include <ngx_stream_etcd_variable.h>
#include <ngx_stream_etcd_wait.h>


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


ngx_int_t
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
