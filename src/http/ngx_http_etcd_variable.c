
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd_require_leader.h>
#include <ngx_http_etcd_lock.h>
#include <ngx_http_etcd_pin.h>
#include <ngx_http_etcd_upstream.h>
#include <ngx_http_etcd_variable.h>


static ngx_int_t ngx_http_etcd_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);


static ngx_int_t
ngx_http_etcd_member_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_int_t             rc;
    ngx_etcd_peer_t      *peer;
    ngx_etcd_variable_t  *variable;

    variable = (ngx_etcd_variable_t *) data;

    rc = ngx_http_etcd_pin(r, &peer);

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    if (rc == NGX_DECLINED) {
        peer = ngx_etcd_peer_data_peer(ngx_http_etcd_upstream_peer_data(r));
    }

    return variable->member(&variable->name, peer, v, r->pool);
}


static ngx_int_t
ngx_http_etcd_election_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t             *name;
    ngx_etcd_campaign_t   *campaign;
    ngx_etcd_admission_t  *admission;

    name = (ngx_str_t *) data;
    campaign = ngx_etcd_election_variable_campaign(name);

    if (campaign == NULL) {
        v->not_found = 1;
        return NGX_OK;
    }

    admission = ngx_http_etcd_require_leader_admission(r, campaign);

    return ngx_etcd_election_variable_value(name, campaign, admission, v,
                                            r->pool);
}


ngx_int_t
ngx_http_etcd_variable_add(ngx_conf_t *cf)
{
    ngx_etcd_variable_t           *v;
    ngx_http_variable_t           *var;
    ngx_etcd_election_variable_t  *ev;

    for (v = ngx_etcd_variables; v->name.len != 0; v++) {
        var = ngx_http_add_variable(cf, &v->name, NGX_HTTP_VAR_NOCACHEABLE);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = v->member ? ngx_http_etcd_member_variable
                                     : ngx_http_etcd_variable;
        var->data = (uintptr_t) v;
    }

    for (ev = ngx_etcd_election_variables; ev->name.len != 0; ev++) {
        var = ngx_http_add_variable(cf, &ev->name, NGX_HTTP_VAR_NOCACHEABLE
                                                  |NGX_HTTP_VAR_PREFIX);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = ngx_http_etcd_election_variable;
    }

    return ngx_http_etcd_lock_add_variables(cf);
}


static ngx_int_t
ngx_http_etcd_variable(ngx_http_request_t *r, ngx_http_variable_value_t *v,
    uintptr_t data)
{
    ngx_etcd_variable_t  *variable;

    variable = (ngx_etcd_variable_t *) data;

    return variable->request(&variable->name,
                             ngx_http_etcd_upstream_peer_data(r), v, r->pool);
}
