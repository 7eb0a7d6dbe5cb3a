
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_round_robin.h>
#include <ngx_etcd_pick_eevdf.h>


const ngx_etcd_method_t  ngx_etcd_round_robin_method = {
    ngx_string("round_robin"),
    ngx_null_string,
    NGX_ETCD_NEEDS_TURN,
    ngx_etcd_pick_eevdf,
    NULL,
    NULL,
    NULL,
    NULL
};
