
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The fewest connections for its weight, over all workers; round robin among
 * equals.
 *
 * What a worker knows of a peer's connections is exact when it has just picked
 * it, or is done with it, and whenever it looks.  It looks at the one that it
 * is about to pick, until there is one with no more than it thought: nobody is
 * picked for having had few connections (unless other workers have picked 256
 * of those that would be next, since this one did).  And it looks at
 * NGX_ETCD_LEAST_CONN_LOOKS others before every pick, in turn.
 *
 * So with up to that many peers the one picked has the fewest of all.  With n
 * of them, a peer whose connections other workers have closed may be passed
 * over for up to n / NGX_ETCD_LEAST_CONN_LOOKS picks of this worker.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_balance.h>
#include <ngx_etcd_health.h>


#define NGX_ETCD_LEAST_CONN_LOOKS  10


static ngx_etcd_peer_t *ngx_etcd_least_conn_pick(ngx_etcd_pick_t *pick,
    ngx_etcd_tier_t *tier);
static void ngx_etcd_least_conn_look(ngx_etcd_tier_t *tier);
static void ngx_etcd_least_conn_taken(ngx_etcd_pick_t *pick,
    ngx_etcd_tier_t *tier, ngx_etcd_peer_t *peer, ngx_uint_t conns);
static void ngx_etcd_least_conn_freed(ngx_etcd_tier_t *tier,
    ngx_etcd_peer_t *peer);


const ngx_etcd_method_t  ngx_etcd_method_least_conn = {
    ngx_string("least_conn"),
    ngx_null_string,
    NGX_ETCD_NEEDS_TURN|NGX_ETCD_NEEDS_CONNS,
    ngx_etcd_least_conn_pick,
    ngx_etcd_least_conn_taken,
    NULL,
    NULL,
    ngx_etcd_least_conn_freed
};


static ngx_etcd_peer_t *
ngx_etcd_least_conn_pick(ngx_etcd_pick_t *pick, ngx_etcd_tier_t *tier)
{
    ngx_etcd_least_conn_look(tier);

    return ngx_etcd_pick_turn(pick, tier);
}


static void
ngx_etcd_least_conn_look(ngx_etcd_tier_t *tier)
{
    ngx_uint_t        i, n, conns;
    ngx_etcd_peer_t  *peer;

    n = ngx_etcd_tier_usable(tier);

    for (i = ngx_min(n, NGX_ETCD_LEAST_CONN_LOOKS); i != 0; i--) {

        if (tier->cursor >= n) {
            tier->cursor = 0;
        }

        peer = tier->peers[tier->cursor++];
        conns = ngx_etcd_peer_conns(peer);

        if (conns != ngx_etcd_turn_conns(&peer->turn)) {
            ngx_etcd_turn_load(&tier->turn, &peer->turn, conns);
        }
    }
}


static void
ngx_etcd_least_conn_taken(ngx_etcd_pick_t *pick, ngx_etcd_tier_t *tier,
    ngx_etcd_peer_t *peer, ngx_uint_t conns)
{
    if (ngx_etcd_turn_taken_by(&peer->turn)) {
        ngx_etcd_turn_load(&tier->turn, &peer->turn, conns);
    }
}


static void
ngx_etcd_least_conn_freed(ngx_etcd_tier_t *tier, ngx_etcd_peer_t *peer)
{
    if (ngx_etcd_turn_taken_by(&peer->turn)) {
        ngx_etcd_turn_load(&tier->turn, &peer->turn,
                           ngx_etcd_peer_conns(peer));
    }
}
