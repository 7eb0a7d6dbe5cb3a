
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_backoff.h>


ngx_msec_t
ngx_etcd_backoff(ngx_etcd_cluster_t *cluster, ngx_uint_t failures)
{
    ngx_msec_t  max, limit;

    limit = cluster->urgent ? NGX_ETCD_BACKOFF_URGENT : NGX_ETCD_BACKOFF_MAX;

    max = NGX_ETCD_BACKOFF_BASE << ngx_min(failures, 10);
    max = ngx_min(max, limit);

    return 1 + (ngx_msec_t) ngx_random() % max;
}


ngx_msec_t
ngx_etcd_backoff_around(ngx_msec_t mean)
{
    return mean / 2 + (ngx_msec_t) ngx_random() % mean;
}


void
ngx_etcd_backoff_hasten(ngx_event_t *timer)
{
    ngx_msec_int_t  left;

    left = (ngx_msec_int_t) (timer->timer.key - ngx_current_msec);

    if (!timer->timer_set || left <= NGX_ETCD_BACKOFF_URGENT) {
        return;
    }

    ngx_add_timer(timer, 1 + (ngx_msec_t) ngx_random()
                         % NGX_ETCD_BACKOFF_URGENT);
}


ngx_uint_t
ngx_etcd_backoff_retriable(ngx_etcd_grpc_status_e status)
{
    return status == NGX_ETCD_GRPC_UNAVAILABLE
           || status == NGX_ETCD_GRPC_DEADLINE_EXCEEDED
           || status == NGX_ETCD_GRPC_RESOURCE_EXHAUSTED
           || status == NGX_ETCD_GRPC_CANCELLED
           || status == NGX_ETCD_GRPC_UNKNOWN
           || status == NGX_ETCD_GRPC_INTERNAL;
}
