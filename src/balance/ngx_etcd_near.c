
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_near.h>


/* The share of requests that goes to the preferred peers. */

static uint32_t
ngx_etcd_near_share(ngx_etcd_table_t *table)
{
    uint64_t                enough, usable;
    ngx_etcd_peer_group_t  *near;

    near = &table->near;

    usable = near->weight * 100;
    enough = near->whole * NGX_ETCD_PEER_UNIT * table->conf->spill;

    if (usable >= enough) {
        return NGX_ETCD_NEAR_UNIT;
    }

    return (uint32_t) ((double) usable * NGX_ETCD_NEAR_UNIT / (double) enough);
}


static ngx_uint_t
ngx_etcd_near_turn(ngx_etcd_table_t *table, ngx_str_t *key)
{
    uint32_t  share;

    share = ngx_etcd_near_share(table);

    if (share == NGX_ETCD_NEAR_UNIT) {
        return 1;
    }

    /* another hash than the one that chooses among peers */

    if (key->len != 0) {
        return (ngx_murmur_hash2(key->data, key->len) >> 16) < share;
    }

    table->spilled += NGX_ETCD_NEAR_UNIT - share;

    if (table->spilled < NGX_ETCD_NEAR_UNIT) {
        return 1;
    }

    table->spilled -= NGX_ETCD_NEAR_UNIT;

    return 0;
}


ngx_uint_t
ngx_etcd_near_due(ngx_etcd_table_t *table, ngx_str_t *key)
{
    ngx_etcd_peer_group_t  *near;

    near = &table->near;

    /* the weight is that of this moment */

    if (ngx_etcd_peer_group_unwell(near) != 0) {
        ngx_etcd_health_sweep(near, ngx_etcd_table_counts(table));
    }

    if (ngx_etcd_near_turn(table, key)) {
        return 1;
    }

    /*
     * Peers regain weight with picks: without this one, peers that have all
     * failed would have no share, and so no picks.
     */

    near->picks++;

    return 0;
}


uint32_t
ngx_etcd_near_now(ngx_etcd_table_t *table)
{
    ngx_uint_t              counts, i, n;
    ngx_etcd_peer_t        *peer;
    ngx_etcd_peer_group_t  *near;

    near = &table->near;
    counts = ngx_etcd_table_counts(table);

    if (ngx_etcd_peer_group_unwell(near) != 0) {
        ngx_etcd_health_sweep(near, counts);
    }

    /* a request checks a peer with all of its weight only when it picks it */

    i = near->ends[NGX_ETCD_REGION_WHOLE];

    /* a peer that moves swaps places with one that was checked */

    for (n = ngx_min(i, NGX_ETCD_NEAR_LOOK); n > 0; n--) {
        peer = near->peers[--i];

        (void) ngx_etcd_health_usable(near, peer, counts);
    }

    if (ngx_etcd_peer_group_usable(near) == 0) {
        return 0;
    }

    return ngx_etcd_health_swept(&table->primary, counts)
           ? ngx_etcd_near_share(table) : NGX_ETCD_NEAR_UNIT;
}
