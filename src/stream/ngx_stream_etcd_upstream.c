
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_etcd_upstream.h>
#include <ngx_stream_etcd_set.h>


static ngx_stream_session_t  *ngx_stream_etcd_reserve_session;
static ngx_etcd_peer_data_t  *ngx_stream_etcd_reserve_pd;


ngx_int_t
ngx_stream_etcd_reserve(ngx_stream_session_t *s, ngx_etcd_peer_data_t *pd)
{
    ngx_int_t              rc;
    ngx_peer_connection_t  pc;

    ngx_stream_etcd_reserve_release();

    ngx_memzero(&pc, sizeof(ngx_peer_connection_t));

    pc.log = s->connection->log;

    ngx_etcd_pick_restart(&pd->pick);
    pd->pick.table = pd->table;

    rc = ngx_etcd_pick_early(&pc, &pd->pick);

    if (rc == NGX_OK) {
        ngx_stream_etcd_reserve_session = s;
        ngx_stream_etcd_reserve_pd = pd;
    }

    return rc;
}


void
ngx_stream_etcd_reserve_release(void)
{
    ngx_etcd_pick_t  *pick;

    if (ngx_stream_etcd_reserve_session == NULL) {
        return;
    }

    ngx_stream_etcd_reserve_session = NULL;

    pick = &ngx_stream_etcd_reserve_pd->pick;

    pick->early = 0;
    ngx_etcd_pick_undo(pick);
}


void
ngx_stream_etcd_reserve_forget(ngx_stream_session_t *s)
{
    if (ngx_stream_etcd_reserve_session == s) {
        ngx_stream_etcd_reserve_session = NULL;
    }
}


static ngx_int_t
ngx_stream_etcd_init_servers(ngx_conf_t *cf, ngx_etcd_upstream_t *upstream,
    ngx_array_t *servers)
{
    ngx_uint_t                     i, n;
    ngx_etcd_upstream_server_t     added;
    ngx_stream_upstream_server_t  *server;

    server = servers->elts;
    n = 0;

    for (i = 0; i < servers->nelts; i++) {

        if (ngx_etcd_upstream_is_placeholder(&server[i].name)) {
            continue;
        }

        if (ngx_stream_etcd_server_resolves(&server[i])) {
            ngx_etcd_upstream_refuse_name(cf, upstream, &server[i].name);
            return NGX_ERROR;
        }

        ngx_etcd_upstream_server_set(&added, &server[i]);

        if (ngx_etcd_upstream_server(cf, upstream, &added) != NGX_OK) {
            return NGX_ERROR;
        }

        server[n++] = server[i];
    }

    servers->nelts = n;

    return NGX_OK;
}


/*
 * The time in which a client is silent is no latency: over TCP, the latency
 * begins with what was sent last.  The end of a session is no answer.
 */

static void
ngx_stream_etcd_first_byte(ngx_connection_t *c, ngx_etcd_pick_t *pick)
{
    socklen_t        len;
    struct tcp_info  info;

    if (!ngx_etcd_pick_measures(pick) || c->read->eof) {
        return;
    }

    if (c->type == SOCK_STREAM) {
        len = sizeof(struct tcp_info);

        if (getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &len) == -1) {
            return;
        }

        ngx_etcd_pick_began(pick, info.tcpi_last_data_sent);
    }

    ngx_etcd_pick_header(pick);
}


/*
 * A TCP session may be long: the connect counts as success.  For the latency
 * the first byte counts, where nginx tells of it and the kernel knows when
 * the client has spoken last.
 */

static void
ngx_stream_etcd_notify_peer(ngx_peer_connection_t *pc, void *data,
    ngx_uint_t type)
{
    if (ngx_stream_etcd_notify_first_byte(type)) {
        ngx_stream_etcd_first_byte(pc->connection, data);
        return;
    }

    if (type != NGX_STREAM_UPSTREAM_NOTIFY_CONNECT
        || pc->connection->type != SOCK_STREAM)
    {
        return;
    }

    ngx_etcd_peer_data_answered(data, 0);

    ngx_etcd_pick_connected(data, !NGX_STREAM_ETCD_HAVE_FIRST_BYTE
                                  || pc->sockaddr->sa_family == AF_UNIX);
}


/*
 * Counts a session, or a try of one that has failed, by the class of the
 * $status that nginx gives it.  Sessions last as long as clients want them to:
 * the time is that until the member was connected, over UDP until its first
 * datagram came, and of a failed try until it had failed.
 */

static void
ngx_stream_etcd_count(ngx_etcd_outcome_t *outcome, ngx_etcd_peer_t *peer,
    ngx_stream_upstream_t *u, ngx_uint_t failed)
{
    ngx_etcd_outcome_try_t  ended;

    ended.sent = u->peer.connection ? u->peer.connection->sent : 0;
    ended.received = u->received;

    if (failed) {
        ended.class = NGX_STREAM_BAD_GATEWAY / 100 - 1;
        ended.time = ngx_current_msec - u->start_time;

    } else if (u->connected) {
        ended.class = NGX_STREAM_OK / 100 - 1;
        ended.time = (u->peer.type == SOCK_STREAM)
                     ? u->state->connect_time : u->state->first_byte_time;

    } else {
        ended.class = NGX_ETCD_OUTCOME_NONE;
        ended.time = NGX_ETCD_OUTCOME_NO_TIME;
    }

    ngx_etcd_outcome_count(outcome, ngx_etcd_peer_answers(peer), &ended);
}


/* A TCP session was counted when it was connected: it may be long. */

static void
ngx_stream_etcd_free_peer(ngx_peer_connection_t *pc, void *data,
    ngx_uint_t state)
{
    ngx_etcd_pick_t *pick = data;

    ngx_uint_t              failed;
    ngx_stream_upstream_t  *u;

    if (pick->peer == NULL) {
        return;
    }

    u = (ngx_stream_upstream_t *)
            ((u_char *) pc - offsetof(ngx_stream_upstream_t, peer));

    failed = (state & NGX_PEER_FAILED) != 0;

    ngx_stream_etcd_count(ngx_etcd_peer_data_outcome(pick), pick->peer, u,
                          failed);

    if (failed || pc->type != SOCK_STREAM) {
        ngx_etcd_peer_data_answered(pick, failed);
    }

    ngx_etcd_pick_free(pc, data, state);
}


static void
ngx_stream_etcd_connect(ngx_stream_session_t *s,
    ngx_stream_upstream_srv_conf_t *us, ngx_etcd_peer_data_t *pd,
    ngx_peer_connection_t *pc)
{
    ngx_stream_etcd_srv_conf_t  *escf;

    escf = ngx_stream_conf_upstream_srv_conf(us, ngx_stream_etcd_module);

    ngx_etcd_peer_head_set(&pd->pick,
                           (ngx_stream_upstream_rr_peers_t *) us->peer.data,
                           escf->none);
    ngx_etcd_peer_owner(pc, s);

    pc->notify = ngx_stream_etcd_notify_peer;
    ngx_etcd_peer_notify(pc, NGX_STREAM_UPSTREAM_NOTIFY_CONNECT);

    pc->free = ngx_stream_etcd_free_peer;

    ngx_stream_set_ctx(s, pd, ngx_stream_etcd_module);
}


static ngx_int_t
ngx_stream_etcd_init_peer(ngx_stream_session_t *s,
    ngx_stream_upstream_srv_conf_t *us)
{
    ngx_int_t                    rc;
    ngx_etcd_table_t            *table;
    ngx_etcd_peer_data_t        *pd;
    ngx_peer_connection_t       *pc;
    ngx_etcd_service_conf_t     *service;
    ngx_stream_etcd_srv_conf_t  *escf, *server;

    escf = ngx_stream_conf_upstream_srv_conf(us, ngx_stream_etcd_module);

    pc = &s->upstream->peer;

    /* the reserved peer data become those of the balancer */

    if (ngx_stream_etcd_reserve_session == s
        && ngx_stream_etcd_reserve_pd->upstream == &escf->upstream)
    {
        ngx_stream_etcd_reserve_session = NULL;
        pd = ngx_stream_etcd_reserve_pd;

        ngx_etcd_peer_data_attach(pd, pc, pd->pick.tries);
        ngx_stream_etcd_connect(s, us, pd, pc);

        return NGX_OK;
    }

    /*
     * A session that has waited for the upstream has just found a member;
     * another update might find none if other workers change the zone.
     */

    service = escf->upstream.service;
    table = ngx_etcd_pattern_values_table(service, ngx_stream_etcd_set_value, s,
                                          &rc);

    if (table == NULL) {
        if (ngx_etcd_no_member_table(&escf->upstream, rc, s->connection->pool,
                                     s->connection->log)
            == NGX_ETCD_REFUSAL_UNKNOWN)
        {
            ngx_log_error(NGX_LOG_INFO, s->connection->log, 0,
                          "no such set in upstream \"%V\"",
                          &service->name);
        }

        return NGX_ERROR;
    }

    server = ngx_stream_get_module_srv_conf(s, ngx_stream_etcd_module);

    if (server->wait == NULL || server->wait->service != service) {
        ngx_etcd_table_follow(table);
    }

    return ngx_stream_etcd_upstream_prepare(s, us, table, pc) ? NGX_OK
                                                              : NGX_ERROR;
}


static ngx_int_t
ngx_stream_etcd_init_upstream(ngx_conf_t *cf,
    ngx_stream_upstream_srv_conf_t *us)
{
    ngx_stream_etcd_srv_conf_t      *escf;
    ngx_stream_upstream_rr_peers_t  *peers;

    escf = ngx_stream_conf_upstream_srv_conf(us, ngx_stream_etcd_module);

    if (ngx_stream_etcd_init_servers(cf, &escf->upstream, us->servers)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    /*
     * "zone" copies nginx's own list of peers and other modules read it: an
     * empty list must exist, and a peer for those that read the current one.
     */

    peers = ngx_pcalloc(cf->pool, sizeof(ngx_stream_upstream_rr_peers_t));
    if (peers == NULL) {
        return NGX_ERROR;
    }

    peers->name = &us->host;

    escf->none = ngx_pcalloc(cf->pool,
                             sizeof(ngx_stream_upstream_rr_peer_t));
    if (escf->none == NULL) {
        return NGX_ERROR;
    }

    us->peer.data = peers;
    us->peer.init = ngx_stream_etcd_init_peer;

    ngx_etcd_upstream_done(&escf->upstream);

    return NGX_OK;
}


char *
ngx_stream_etcd_upstream_members(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_stream_etcd_srv_conf_t *escf = conf;

    char                            *rv;
    ngx_stream_upstream_server_t    *server;
    ngx_stream_upstream_srv_conf_t  *uscf;

    uscf = ngx_stream_conf_get_module_srv_conf(cf, ngx_stream_upstream_module);

    rv = ngx_etcd_upstream_members(cf, &escf->upstream, &uscf->host, 1,
                                   ngx_stream_get_variable_index);

    if (rv != NGX_CONF_OK || escf->upstream.service->line.next != NULL) {
        return rv;
    }

    if (uscf->peer.init_upstream != NULL) {
        return "cannot be used with another balancing method: use "
               "\"etcd_balance\"";
    }

    uscf->peer.init_upstream = ngx_stream_etcd_init_upstream;

    uscf->flags = NGX_STREAM_UPSTREAM_CREATE
                  |NGX_STREAM_UPSTREAM_WEIGHT
                  |NGX_STREAM_UPSTREAM_MAX_CONNS
                  |NGX_STREAM_UPSTREAM_MAX_FAILS
                  |NGX_STREAM_UPSTREAM_FAIL_TIMEOUT
                  |NGX_STREAM_UPSTREAM_DOWN
                  |NGX_STREAM_UPSTREAM_BACKUP;

    server = ngx_array_push(uscf->servers);
    if (server == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_memzero(server, sizeof(ngx_stream_upstream_server_t));

    server->name = ngx_etcd_upstream_placeholder_name;
    server->addrs = ngx_etcd_upstream_placeholder(cf);
    server->naddrs = 1;
    server->weight = 1;

    return server->addrs ? NGX_CONF_OK : NGX_CONF_ERROR;
}


char *
ngx_stream_etcd_upstream_balance(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_stream_etcd_srv_conf_t *escf = conf;

    char  *rv;

    rv = ngx_etcd_upstream_balance(cf, cmd, conf);

    if (rv != NGX_CONF_OK || escf->upstream.key.data == NULL) {
        return rv;
    }

    escf->key = ngx_stream_etcd_set_compile(cf, &escf->upstream.key);

    return (escf->key != NULL) ? NGX_CONF_OK : NGX_CONF_ERROR;
}


char *
ngx_stream_etcd_upstream_checks(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_stream_etcd_srv_conf_t *escf = conf;

    ngx_stream_upstream_srv_conf_t  *uscf;

    uscf = ngx_stream_conf_get_module_srv_conf(cf, ngx_stream_upstream_module);

    return ngx_etcd_upstream_checks(cf, &escf->upstream, &uscf->host);
}


/* An ngx_etcd_peer_user_t's close(). */

static void
ngx_stream_etcd_close(void *data)
{
    ngx_stream_session_t *s = data;

    ngx_etcd_peer_data_cut(ngx_stream_etcd_upstream_peer_data(s),
                           s->upstream->peer.name, s->connection->pool,
                           s->connection->log);

    ngx_stream_etcd_upstream_cut(s);
}


ngx_etcd_peer_data_t *
ngx_stream_etcd_upstream_prepare(ngx_stream_session_t *s,
    ngx_stream_upstream_srv_conf_t *us, ngx_etcd_table_t *table,
    ngx_peer_connection_t *pc)
{
    ngx_etcd_peer_data_t        *pd;
    ngx_stream_etcd_srv_conf_t  *escf;

    escf = ngx_stream_conf_upstream_srv_conf(us, ngx_stream_etcd_module);

    pd = ngx_etcd_peer_data_create(&escf->upstream, table, pc,
                                   s->connection->pool);
    if (pd == NULL) {
        return NULL;
    }

    ngx_stream_etcd_connect(s, us, pd, pc);

    if (ngx_etcd_pick_subscribe(&pd->pick, ngx_stream_etcd_close, s)
        != NGX_OK)
    {
        return NULL;
    }

    if (escf->key != NULL
        && ngx_stream_complex_value(s, escf->key, &pd->pick.key) != NGX_OK)
    {
        return NULL;
    }

    return pd;
}


/*
 * The proxy can be ended only by its own timeout, which closes both
 * connections at once, in any state and with any buffered data.
 */

void
ngx_stream_etcd_upstream_cut(ngx_stream_session_t *s)
{
    ngx_event_t  *wev;

    /*
     * A UDP session that awaits responses must not count as a failure; it has
     * no upstream connection while the name of the upstream is looked up.
     */

    s->upstream->responses = NGX_MAX_INT_T_VALUE;

    wev = s->connection->write;

    wev->delayed = 0;
    wev->timedout = 1;

    wev->handler(wev);
}
