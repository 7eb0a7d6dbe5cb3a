
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_gauge.h>
#include <ngx_etcd_process.h>


void
ngx_etcd_gauge_set(ngx_etcd_gauge_t *gauge, uint32_t n)
{
    uint64_t  share;

    share = n ? (uint64_t) ngx_pid << 32 | n : 0;

    gauge->shares[ngx_process_slot] = share;
}


ngx_uint_t
ngx_etcd_gauge_sum(ngx_etcd_gauge_t *gauge)
{
    uint64_t    share;
    ngx_uint_t  i, sum;

    sum = 0;

    for (i = 0; i < NGX_MAX_PROCESSES; i++) {
        share = gauge->shares[i];

        if (share != 0 && !ngx_etcd_process_gone((ngx_pid_t) (share >> 32))) {
            sum += (uint32_t) share;
        }
    }

    return sum;
}
