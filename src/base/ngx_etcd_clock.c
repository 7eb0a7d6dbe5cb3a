
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_clock.h>


void
ngx_etcd_latency_saw(ngx_etcd_latency_t *latency, ngx_msec_t time)
{
    ngx_msec_t  slow;

    slow = ngx_etcd_latency(latency);

    latency->time = ngx_max(time, slow - slow / 4 + time / 4);
    latency->seen = ngx_current_msec;
}


ngx_msec_t
ngx_etcd_latency_attempt(ngx_etcd_latency_t *latency, ngx_msec_t least,
    ngx_msec_t most)
{
    ngx_msec_t  attempt;

    attempt = ngx_etcd_latency(latency) * 2;

    return ngx_max(least, ngx_min(attempt, most));
}


ngx_msec_t
ngx_etcd_latency(ngx_etcd_latency_t *latency)
{
    ngx_msec_t  halves;

    halves = (ngx_current_msec - latency->seen) / NGX_ETCD_LATENCY_HALF;

    return latency->time >> ngx_min(halves, 31);
}
