
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd_client.h>
#include <ngx_http_etcd_lock_upstream.h>
#include <ngx_http_etcd_wait.h>
#include <ngx_http_etcd_upstream.h>
#include <ngx_http_etcd_set.h>


static ngx_int_t
ngx_http_etcd_init_servers(ngx_conf_t *cf, ngx_etcd_upstream_t *upstream,
    ngx_array_t *servers)
{
    ngx_uint_t                   i, n;
    ngx_http_upstream_server_t  *server;
    ngx_etcd_upstream_server_t   added;

    server = servers->elts;
    n = 0;

    for (i = 0; i < servers->nelts; i++) {

        if (ngx_etcd_upstream_is_placeholder(&server[i].name)) {
            continue;
        }

        if (ngx_http_etcd_server_resolves(&server[i])) {
            ngx_etcd_upstream_refuse_name(cf, upstream, &server[i].name);
            return NGX_ERROR;
        }

        ngx_etcd_upstream_server_set(&added, &server[i]);
        added.route = ngx_http_etcd_server_route(&server[i]);

        if (ngx_http_etcd_server_drains(&server[i])) {
            added.attr.down = 0;
            added.attr.drain = 1;
        }

        if (ngx_etcd_upstream_server(cf, upstream, &added) != NGX_OK) {
            return NGX_ERROR;
        }

        server[n++] = server[i];
    }

    servers->nelts = n;

    return NGX_OK;
}


/*
 * Called when there is no table: ends the request with "etcd_unknown_status" or
 * 503.  The request has not been sent: nothing of it is left in the upstream.
 */

static ngx_int_t
ngx_http_etcd_refuse(ngx_http_request_t *r, ngx_etcd_upstream_t *upstream,
    ngx_int_t rc)
{
    ngx_uint_t                 status;
    ngx_etcd_refusal_e         refusal;
    ngx_http_etcd_loc_conf_t  *elcf;

    elcf = ngx_http_get_module_loc_conf(r, ngx_http_etcd_module);

    refusal = ngx_etcd_no_member_table(upstream, rc, r->pool,
                                       r->connection->log);

    status = (refusal == NGX_ETCD_REFUSAL_UNKNOWN)
             ? elcf->unknown_status : NGX_HTTP_SERVICE_UNAVAILABLE;

    ngx_http_etcd_pause_detach(r);
    ngx_http_etcd_pause_release(r);
    ngx_http_finalize_request(r, status);

    return NGX_ERROR;
}


static void
ngx_http_etcd_notify_peer(ngx_peer_connection_t *pc, void *data,
    ngx_uint_t type)
{
    if (ngx_http_etcd_notify_header(type)) {
        ngx_etcd_pick_header(data);
    }
}


/*
 * Counts a try as nginx's $upstream_status and $upstream_response_time have it.
 * Of a failed try nginx sets the status and the time afterwards, unless it is
 * 429, to 502, 503 or 504.  Of a connection that has been upgraded the answer
 * counts, which is not its end.
 */

static void
ngx_http_etcd_count(ngx_etcd_outcome_t *outcome, ngx_etcd_peer_t *peer,
    ngx_http_upstream_t *u, ngx_uint_t failed)
{
    ngx_uint_t                  status;
    ngx_etcd_outcome_try_t      ended;
    ngx_http_upstream_state_t  *state;

    state = u->state;
    status = state->status;

    if (failed && status != NGX_HTTP_TOO_MANY_REQUESTS) {
        status = NGX_HTTP_BAD_GATEWAY;
    }

    ended.sent = state->bytes_sent;
    ended.received = state->bytes_received;
    ended.class = NGX_ETCD_OUTCOME_NONE;
    ended.time = NGX_ETCD_OUTCOME_NO_TIME;

    if (status >= 100 && status < 600) {
        ended.class = status / 100 - 1;

        if (status == NGX_HTTP_SWITCHING_PROTOCOLS) {
            ended.time = state->header_time;

        } else if (state->response_time != NGX_ETCD_OUTCOME_NO_TIME) {
            ended.time = state->response_time;

        } else {
            ended.time = ngx_current_msec - u->start_time;
        }
    }

    ngx_etcd_outcome_count(outcome, ngx_etcd_peer_answers(peer), &ended);
}


/* Without a status nobody knows whether the peer would have answered. */

static void
ngx_http_etcd_free_peer(ngx_peer_connection_t *pc, void *data,
    ngx_uint_t state)
{
    ngx_etcd_pick_t *pick = data;

    ngx_uint_t              failed, status;
    ngx_http_upstream_t    *u;
    ngx_etcd_upstream_t    *upstream;
    ngx_etcd_eject_conf_t  *eject;

    if (pick->peer == NULL) {
        return;
    }

    u = (ngx_http_upstream_t *)
            ((u_char *) pc - offsetof(ngx_http_upstream_t, peer));

    upstream = ngx_etcd_peer_data_of(pick)->upstream;
    eject = upstream->eject;
    failed = (state & NGX_PEER_FAILED) != 0;
    status = u->state->status;

    ngx_http_etcd_count(ngx_etcd_peer_data_outcome(pick), pick->peer, u,
                        failed);

    if (ngx_etcd_upstream_observes(upstream) && (failed || status != 0)) {
        ngx_etcd_peer_data_answered(pick, failed
                                          || (eject != NULL
                                              && ngx_etcd_eject_status(eject,
                                                                   status)));
    }

    ngx_etcd_pick_free(pc, data, state);
}


/*
 * An ngx_etcd_peer_user_t's close(), in any state of the request, which ends as
 * if the connection to the peer had failed, without another try.
 */

static void
ngx_http_etcd_close(void *data)
{
    ngx_http_request_t *r = data;

    if (r->upstream->cleanup == NULL) {
        return;
    }

    ngx_etcd_peer_data_cut(ngx_http_etcd_upstream_peer_data(r),
                           r->upstream->peer.name, r->pool, r->connection->log);

    ngx_http_etcd_upstream_cut(r, NGX_HTTP_BAD_GATEWAY);
}


/*
 * There was a member when the request passed the etcd_wait phase, but a body
 * may have been read since then, and other workers change the zone at any
 * time.  nginx cannot wait in the connect step: the first peer is picked
 * here.
 */

static ngx_int_t
ngx_http_etcd_first_peer(ngx_http_request_t *r, ngx_etcd_peer_data_t *pd)
{
    ngx_uint_t                 again;
    ngx_http_etcd_loc_conf_t  *elcf;

    elcf = ngx_http_get_module_loc_conf(r, ngx_http_etcd_module);

    /* requests to this location may not wait for that upstream */

    if (elcf->wait == NULL || elcf->wait->service != pd->upstream->service) {
        return NGX_OK;
    }

    again = 0;

    if (ngx_etcd_pin_owned(pd, r->upstream)) {

        /* a cached value would be the same in the next build */

        if (!ngx_etcd_pin_complete(pd)) {
            return NGX_OK;
        }

        again = !ngx_etcd_pin_leads(pd);
    }

    if (!again
        && !ngx_http_etcd_wait_yields(r, pd->table)
        && ngx_etcd_pick_early(&r->upstream->peer, &pd->pick) == NGX_OK)
    {
        return NGX_OK;
    }

    if (ngx_http_etcd_wait_peer(r, pd->table, again) != NGX_AGAIN) {
        return NGX_OK;
    }

    /* the request will be built again, for the leader at that time */

    if (ngx_etcd_pin_owned(pd, r->upstream)) {
        pd->pin.wanted = ngx_max(pd->pin.wanted, pd->pin.reads);
        pd->pin.reads = 0;

        ngx_etcd_peer_data_unpin(pd);
    }

    return NGX_ERROR;
}


static ngx_int_t
ngx_http_etcd_init_peer(ngx_http_request_t *r,
    ngx_http_upstream_srv_conf_t *us)
{
    ngx_int_t                  rc;
    ngx_etcd_table_t          *table;
    ngx_etcd_peer_data_t      *pd;
    ngx_http_etcd_srv_conf_t  *escf;

    escf = ngx_http_conf_upstream_srv_conf(us, ngx_http_etcd_module);

    pd = ngx_http_get_module_ctx(r, ngx_http_etcd_module);

    if (ngx_etcd_pin_owned(pd, r->upstream)) {
        ngx_etcd_peer_data_connect(pd, &r->upstream->peer, r->pool);
        r->upstream->peer.get = ngx_etcd_pin_get;

    } else {
        table = ngx_etcd_pattern_values_table(escf->upstream.service,
                                              ngx_http_etcd_set_value, r, &rc);

        if (table == NULL) {
            return ngx_http_etcd_refuse(r, &escf->upstream, rc);
        }

        ngx_etcd_table_follow(table);

        pd = ngx_etcd_peer_data_create(&escf->upstream, table,
                                       &r->upstream->peer, r->pool);
        if (pd == NULL) {
            return NGX_ERROR;
        }

        ngx_http_set_ctx(r, pd, ngx_http_etcd_module);
    }

    ngx_etcd_peer_head_set(&pd->pick,
                           (ngx_http_upstream_rr_peers_t *) us->peer.data,
                           escf->none);
    ngx_etcd_peer_owner(&r->upstream->peer, r);

    if (escf->upstream.method->works != NULL) {
        r->upstream->peer.notify = ngx_http_etcd_notify_peer;
        ngx_etcd_peer_notify(&r->upstream->peer,
                             NGX_HTTP_UPSTREAM_NOTIFY_HEADER);
    }

    r->upstream->peer.free = ngx_http_etcd_free_peer;

    if (ngx_etcd_pick_subscribe(&pd->pick, ngx_http_etcd_close, r) != NGX_OK) {
        return NGX_ERROR;
    }

    if (escf->key != NULL
        && ngx_http_complex_value(r, escf->key, &pd->pick.key) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return escf->upstream.service->awaited
           ? ngx_http_etcd_first_peer(r, pd) : NGX_OK;
}


static ngx_int_t
ngx_http_etcd_init_upstream(ngx_conf_t *cf, ngx_http_upstream_srv_conf_t *us)
{
    ngx_http_etcd_srv_conf_t      *escf;
    ngx_http_upstream_rr_peers_t  *peers;

    escf = ngx_http_conf_upstream_srv_conf(us, ngx_http_etcd_module);

    if (ngx_http_etcd_init_servers(cf, &escf->upstream, us->servers)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    /*
     * "zone" copies nginx's own list of peers and other modules read it: an
     * empty list must exist, and a peer for those that read the current one.
     */

    peers = ngx_pcalloc(cf->pool, sizeof(ngx_http_upstream_rr_peers_t));
    if (peers == NULL) {
        return NGX_ERROR;
    }

    peers->name = &us->host;

    /* "sticky" calls this function instead of nginx */

    escf->upstream.service->rules.sids =
        (NGX_ETCD_HAVE_SID
         && us->peer.init_upstream != ngx_http_etcd_init_upstream);

    escf->none = ngx_pcalloc(cf->pool,
                             sizeof(ngx_http_upstream_rr_peer_t));
    if (escf->none == NULL) {
        return NGX_ERROR;
    }

    us->peer.data = peers;
    us->peer.init = ngx_http_etcd_init_peer;

    ngx_etcd_upstream_done(&escf->upstream);

    return NGX_OK;
}


char *
ngx_http_etcd_upstream_members(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_etcd_srv_conf_t *escf = conf;

    char                          *rv;
    ngx_http_upstream_server_t    *server;
    ngx_http_upstream_srv_conf_t  *uscf;

    uscf = ngx_http_conf_get_module_srv_conf(cf, ngx_http_upstream_module);

    rv = ngx_etcd_upstream_members(cf, &escf->upstream, &uscf->host, 0,
                                   ngx_http_get_variable_index);

    if (rv != NGX_CONF_OK || escf->upstream.service->line.next != NULL) {
        return rv;
    }

    if (uscf->peer.init_upstream != NULL) {
        return "must be before \"keepalive\" and \"sticky\", and cannot be "
               "used with another balancing method: use \"etcd_balance\"";
    }

    uscf->peer.init_upstream = ngx_http_etcd_init_upstream;

    uscf->flags = NGX_HTTP_UPSTREAM_CREATE
                  |NGX_HTTP_UPSTREAM_WEIGHT
                  |NGX_HTTP_UPSTREAM_MAX_CONNS
                  |NGX_HTTP_UPSTREAM_MAX_FAILS
                  |NGX_HTTP_UPSTREAM_FAIL_TIMEOUT
                  |NGX_HTTP_UPSTREAM_DOWN
                  |NGX_HTTP_UPSTREAM_BACKUP;

    server = ngx_array_push(uscf->servers);
    if (server == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_memzero(server, sizeof(ngx_http_upstream_server_t));

    server->name = ngx_etcd_upstream_placeholder_name;
    server->addrs = ngx_etcd_upstream_placeholder(cf);
    server->naddrs = 1;
    server->weight = 1;

    return server->addrs ? NGX_CONF_OK : NGX_CONF_ERROR;
}


char *
ngx_http_etcd_upstream_balance(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_etcd_srv_conf_t *escf = conf;

    char  *rv;

    rv = ngx_etcd_upstream_balance(cf, cmd, conf);

    if (rv != NGX_CONF_OK || escf->upstream.key.data == NULL) {
        return rv;
    }

    escf->key = ngx_http_etcd_set_compile(cf, &escf->upstream.key);

    return (escf->key != NULL) ? NGX_CONF_OK : NGX_CONF_ERROR;
}


char *
ngx_http_etcd_upstream_checks(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_etcd_srv_conf_t *escf = conf;

    ngx_http_upstream_srv_conf_t  *uscf;

    uscf = ngx_http_conf_get_module_srv_conf(cf, ngx_http_upstream_module);

    return ngx_etcd_upstream_checks(cf, &escf->upstream, &uscf->host);
}


/* If nginx waits for the thread in order to terminate the request, it can. */

static void
ngx_http_etcd_upstream_written(ngx_http_request_t *r)
{
    ngx_http_finalize_request(r, r->connection->error ? NGX_ERROR : NGX_OK);
}


/*
 * A background subrequest, which nobody waits for, ends alone: an error would
 * end the main request as well.
 */

void
ngx_http_etcd_upstream_cut(ngx_http_request_t *r, ngx_int_t status)
{
    ngx_connection_t     *c;
    ngx_http_upstream_t  *u;

    c = r->connection;
    u = r->upstream;

    ngx_http_set_log_request(c->log, r);

    u->keepalive = 0;

    /* there is no state yet while the name of the upstream is looked up */

    if (!u->header_sent && u->state != NULL) {
        u->state->status = status;
    }

    ngx_http_etcd_lock_upstream_cut(r);

    r->main->count++;
    (*u->cleanup)(r);

    if (r->background) {

        if (!u->header_sent) {
            r->headers_out.status = status;
        }

        if (r->aio) {

            /* a thread still writes a part of the response to a file */

            r->write_event_handler = ngx_http_etcd_upstream_written;

        } else {
            ngx_http_finalize_request(r, NGX_OK);
        }

    } else if (u->header_sent) {
        r->keepalive = 0;
        ngx_http_finalize_request(r, NGX_ERROR);

    } else {
        ngx_http_etcd_client_skip_body(r);
        ngx_http_finalize_request(r, status);
    }

    ngx_http_run_posted_requests(c);
}


ngx_etcd_peer_data_t *
ngx_http_etcd_upstream_peer_data(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t    *cln;
    ngx_etcd_peer_data_t  *pd;

    pd = ngx_http_get_module_ctx(r, ngx_http_etcd_module);

    if (pd != NULL || r != r->main || !(r->internal || r->filter_finalize))
    {
        return pd;
    }

    /* an internal redirect has cleared the contexts of the request */

    for (cln = r->pool->cleanup; cln != NULL; cln = cln->next) {
        if (cln->handler == ngx_etcd_peer_data_cleanup) {
            return cln->data;
        }
    }

    return NULL;
}
