
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_cluster.h>


ngx_uint_t
ngx_etcd_cluster_local(ngx_etcd_cluster_conf_t *conf)
{
    ngx_uint_t            i;
    ngx_etcd_endpoint_t  *endpoint;

    endpoint = conf->endpoints.elts;

    for (i = 0; i < conf->endpoints.nelts; i++) {
        if (endpoint[i].local) {
            return 1;
        }
    }

    return 0;
}


void
ngx_etcd_cluster_prove(ngx_etcd_cluster_t *cluster, uint64_t time)
{
    if (cluster->current) {
        cluster->proved = ngx_max(cluster->proved, time);
    }
}


ngx_msec_t
ngx_etcd_cluster_ping_interval(ngx_etcd_cluster_t *cluster)
{
    return cluster->conf->ping_interval
           << ngx_min(cluster->too_many_pings, NGX_ETCD_CLUSTER_PINGS);
}
