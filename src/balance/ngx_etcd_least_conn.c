
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_least_conn.h>
#include <ngx_etcd_pick_eevdf.h>


#define NGX_ETCD_LEAST_CONN_LOOKS  10


static ngx_etcd_peer_t *ngx_etcd_least_conn_pick(ngx_etcd_pick_t *pick,
    ngx_etcd_peer_group_t *group);
static void ngx_etcd_least_conn_taken(ngx_etcd_pick_t *pick,
    ngx_etcd_peer_group_t *group, ngx_etcd_peer_t *peer, ngx_uint_t conns);
static void ngx_etcd_least_conn_freed(ngx_etcd_peer_group_t *group,
    ngx_etcd_peer_t *peer);


const ngx_etcd_method_t  ngx_etcd_least_conn_method = {
    .name = ngx_string("least_conn"),
    .needs = NGX_ETCD_NEEDS_TURN|NGX_ETCD_NEEDS_CONNS,
    .pick = ngx_etcd_least_conn_pick,
    .taken = ngx_etcd_least_conn_taken,
    .freed = ngx_etcd_least_conn_freed,
};


static void
ngx_etcd_least_conn_look(ngx_etcd_peer_group_t *group)
{
    ngx_uint_t        i, n, conns;
    ngx_etcd_peer_t  *peer;

    n = ngx_etcd_peer_group_usable(group);

    for (i = ngx_min(n, NGX_ETCD_LEAST_CONN_LOOKS); i != 0; i--) {

        if (group->cursor >= n) {
            group->cursor = 0;
        }

        peer = group->peers[group->cursor++];
        conns = ngx_etcd_peer_conns(peer);

        if (conns != ngx_etcd_eevdf_conns(&peer->eevdf)) {
            ngx_etcd_eevdf_load(&group->eevdf, &peer->eevdf, conns);
        }
    }
}


static ngx_etcd_peer_t *
ngx_etcd_least_conn_pick(ngx_etcd_pick_t *pick, ngx_etcd_peer_group_t *group)
{
    ngx_etcd_least_conn_look(group);

    return ngx_etcd_pick_eevdf(pick, group);
}


static void
ngx_etcd_least_conn_taken(ngx_etcd_pick_t *pick, ngx_etcd_peer_group_t *group,
    ngx_etcd_peer_t *peer, ngx_uint_t conns)
{
    if (ngx_etcd_eevdf_taken_by(&peer->eevdf)) {
        ngx_etcd_eevdf_load(&group->eevdf, &peer->eevdf, conns);
    }
}


static void
ngx_etcd_least_conn_freed(ngx_etcd_peer_group_t *group, ngx_etcd_peer_t *peer)
{
    if (ngx_etcd_eevdf_taken_by(&peer->eevdf)) {
        ngx_etcd_eevdf_load(&group->eevdf, &peer->eevdf,
                            ngx_etcd_peer_conns(peer));
    }
}
