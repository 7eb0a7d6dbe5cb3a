
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_random.h>
#include <ngx_etcd_pick.h>


static ngx_etcd_peer_t *ngx_etcd_random_pick(ngx_etcd_pick_t *pick,
    ngx_etcd_peer_group_t *group);


const ngx_etcd_method_t  ngx_etcd_random_method = {
    .name = ngx_string("random"),
    .needs = NGX_ETCD_NEEDS_SUMS,
    .pick = ngx_etcd_random_pick,
};


/* Compares connections per weight. */

static ngx_uint_t
ngx_etcd_random_better(ngx_etcd_peer_group_t *group, ngx_etcd_peer_t *one,
    ngx_etcd_peer_t *two)
{
    return (uint64_t) ngx_etcd_peer_load(one) * two->weight
           < (uint64_t) ngx_etcd_peer_load(two) * one->weight;
}


static ngx_etcd_peer_t *
ngx_etcd_random_pick(ngx_etcd_pick_t *pick, ngx_etcd_peer_group_t *group)
{
    return ngx_etcd_pick_best_of_two(pick, group, ngx_etcd_random_better);
}
