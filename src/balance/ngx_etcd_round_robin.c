
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_round_robin.h>
#include <ngx_etcd_pick_eevdf.h>


const ngx_etcd_method_t  ngx_etcd_round_robin_method = {
    .name = ngx_string("round_robin"),
    .needs = NGX_ETCD_NEEDS_TURN,
    .pick = ngx_etcd_pick_eevdf,
};
