
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_str.h>
#include <ngx_http_etcd_require_leader.h>
#include <ngx_http_etcd_upstream.h>
#include <ngx_http_etcd_set.h>
#include <ngx_http_etcd_variable.h>
#include <ngx_http_etcd_wait.h>


/*
 * The rewrite module evaluates a text twice: for its length, and again into
 * memory of that length.  A value that changes by itself between the two, as
 * that of a leader or of a clock does, would be written beyond that memory: it
 * stays the same while the module runs for a request.
 */

typedef struct {
    ngx_http_request_t           *request;
    ngx_http_variable_value_t    *slot;         /* in request->variables */
    ngx_http_variable_value_t     value;

    /* the run of the rewrite module in which it was evaluated */

    ngx_uint_t                    turn;
    ngx_int_t                     phase;
    ngx_uint_t                    changes;
} ngx_http_etcd_steady_t;


/*
 * The posted event tells the events that the worker handles apart: it is
 * called when the one at hand has been handled.
 */

static void
ngx_http_etcd_turn_handler(ngx_event_t *ev)
{
    /* void */
}


static ngx_uint_t
ngx_http_etcd_turn(void)
{
    static ngx_uint_t   turn;
    static ngx_event_t  ev;

    if (!ev.posted) {
        ngx_etcd_event_init(&ev, ngx_http_etcd_turn_handler, NULL,
                            ngx_cycle->log);
        ngx_post_event(&ev, &ngx_posted_events);
        turn++;
    }

    return turn;
}


static void
ngx_http_etcd_steady_cleanup(void *data)
{
    /* void: marks the cleanup as that of a value */
}


/* A request and its subrequests share the pool, and so the values' list. */

static ngx_http_etcd_steady_t *
ngx_http_etcd_steady(ngx_http_request_t *r, ngx_http_variable_value_t *v)
{
    ngx_pool_cleanup_t      *cln;
    ngx_http_etcd_steady_t  *steady;

    for (cln = r->pool->cleanup; cln != NULL; cln = cln->next) {
        steady = cln->data;

        if (cln->handler == ngx_http_etcd_steady_cleanup
            && steady->request == r
            && steady->slot == v)
        {
            return steady;
        }
    }

    cln = ngx_pool_cleanup_add(r->pool, sizeof(ngx_http_etcd_steady_t));
    if (cln == NULL) {
        return NULL;
    }

    cln->handler = ngx_http_etcd_steady_cleanup;

    steady = cln->data;

    ngx_memzero(steady, sizeof(ngx_http_etcd_steady_t));

    steady->request = r;
    steady->slot = v;

    return steady;
}


ngx_int_t
ngx_http_etcd_variable_get(ngx_http_request_t *r, ngx_http_variable_value_t *v,
    uintptr_t data, ngx_http_get_variable_pt get)
{
    ngx_int_t                   rc;
    ngx_uint_t                  turn;
    ngx_http_etcd_steady_t     *steady;
    ngx_http_core_main_conf_t  *cmcf;

    cmcf = ngx_http_get_module_main_conf(r, ngx_http_core_module);

    /* texts have indexed variables; a value elsewhere is read once */

    if (v < r->variables
        || v >= r->variables + cmcf->variables.nelts
        || cmcf->phase_engine.handlers[r->phase_handler].checker
           != ngx_http_core_rewrite_phase)
    {
        return get(r, v, data);
    }

    steady = ngx_http_etcd_steady(r, v);
    if (steady == NULL) {
        return NGX_ERROR;
    }

    turn = ngx_http_etcd_turn();

    if (steady->turn == turn
        && steady->phase == r->phase_handler
        && steady->changes == r->uri_changes)
    {
        *v = steady->value;
        return NGX_OK;
    }

    rc = get(r, v, data);

    if (rc == NGX_OK) {
        steady->value = *v;
        steady->turn = turn;
        steady->phase = r->phase_handler;
        steady->changes = r->uri_changes;
    }

    return rc;
}


/* Finds the upstream by name, as nginx does after the request was built. */

static ngx_http_upstream_srv_conf_t *
ngx_http_etcd_pin_find(ngx_http_request_t *r,
    ngx_http_upstream_resolved_t *resolved)
{
    ngx_uint_t                       i;
    ngx_http_upstream_srv_conf_t   **uscf;
    ngx_http_upstream_main_conf_t   *umcf;

    umcf = ngx_http_get_module_main_conf(r, ngx_http_upstream_module);

    uscf = umcf->upstreams.elts;

    for (i = 0; i < umcf->upstreams.nelts; i++) {
        if (((uscf[i]->port == 0 && resolved->no_port)
             || uscf[i]->port == resolved->port)
            && ngx_etcd_str_alike(&uscf[i]->host, &resolved->host))
        {
            return uscf[i];
        }
    }

    return NULL;
}


ngx_int_t
ngx_http_etcd_pin(ngx_http_request_t *r, ngx_etcd_peer_t **peer)
{
    ngx_int_t                      rc;
    ngx_etcd_table_t              *table;
    ngx_http_upstream_t           *u;
    ngx_etcd_peer_data_t          *pd;
    ngx_http_etcd_srv_conf_t      *escf;
    ngx_http_upstream_srv_conf_t  *uscf;

    u = r->upstream;

    /*
     * There must be an upstream whose balancer was not called yet.  If the
     * response has a status, the balancer will not be called, and a header or
     * the log reads the variable; the status of a request before "post_action"
     * does not count.
     */

    if (u == NULL
        || u->conf == NULL
        || u->peer.get != NULL
        || (r->headers_out.status != 0 && !r->post_action))
    {
        return NGX_DECLINED;
    }

    uscf = (u->resolved == NULL) ? u->conf->upstream
                                 : ngx_http_etcd_pin_find(r, u->resolved);

    /* an address in proxy_pass makes an upstream without a srv_conf */

    if (uscf == NULL || uscf->srv_conf == NULL) {
        return NGX_DECLINED;
    }

    escf = ngx_http_conf_upstream_srv_conf(uscf, ngx_http_etcd_module);

    if (escf->upstream.service == NULL) {
        return NGX_DECLINED;
    }

    *peer = NULL;

    if (!ngx_etcd_pin_possible(&escf->upstream)) {
        return NGX_OK;
    }

    pd = ngx_http_get_module_ctx(r, ngx_http_etcd_module);

    if (!ngx_etcd_pin_owned(pd, u)) {
        table = ngx_etcd_pattern_values_table(escf->upstream.service,
                                              ngx_http_etcd_set_value, r, &rc);

        if (table == NULL) {
            return (rc == NGX_DECLINED || rc == NGX_BUSY) ? NGX_OK : NGX_ERROR;
        }

        pd = ngx_etcd_pin_create(&escf->upstream, table, u, r->pool,
                                 r->connection->log);
        if (pd == NULL) {
            return NGX_ERROR;
        }

        ngx_http_set_ctx(r, pd, ngx_http_etcd_module);
    }

    *peer = ngx_etcd_pin_read(pd);

    return NGX_OK;
}


static ngx_int_t
ngx_http_etcd_variable_member(ngx_http_request_t *r,
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
ngx_http_etcd_variable_request(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_etcd_variable_t  *variable;

    variable = (ngx_etcd_variable_t *) data;

    if (variable->wait != NULL) {
        return variable->wait(&variable->name, ngx_http_etcd_wait_time(r), v,
                              r->pool);
    }

    return variable->request(&variable->name,
                             ngx_http_etcd_upstream_peer_data(r), v, r->pool);
}


static ngx_int_t
ngx_http_etcd_variable(ngx_http_request_t *r, ngx_http_variable_value_t *v,
    uintptr_t data)
{
    ngx_etcd_variable_t  *variable;

    variable = (ngx_etcd_variable_t *) data;

    return ngx_http_etcd_variable_get(r, v, data,
                           variable->member ? ngx_http_etcd_variable_member
                                            : ngx_http_etcd_variable_request);
}


static ngx_int_t
ngx_http_etcd_variable_election(ngx_http_request_t *r,
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


static ngx_int_t
ngx_http_etcd_election_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    return ngx_http_etcd_variable_get(r, v, data,
                                      ngx_http_etcd_variable_election);
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

        var->get_handler = ngx_http_etcd_variable;
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

    return NGX_OK;
}
