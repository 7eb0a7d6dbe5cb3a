
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_histogram.h>


const uint64_t  ngx_etcd_histogram_bounds[NGX_ETCD_HISTOGRAM_BOUNDS] = {
    100, 250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 500000,
    2000000
};


void
ngx_etcd_histogram_add(ngx_etcd_histogram_t *histogram, uint64_t us)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_ETCD_HISTOGRAM_BOUNDS; i++) {
        if (us <= ngx_etcd_histogram_bounds[i]) {
            break;
        }
    }

    (void) __atomic_fetch_add(&histogram->counts[i], 1, __ATOMIC_RELAXED);
    (void) __atomic_fetch_add(&histogram->sum, us, __ATOMIC_RELAXED);
}
