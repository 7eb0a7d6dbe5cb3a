
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_counter.h>
#include <ngx_etcd_shared.h>


const uint64_t  ngx_etcd_change_bounds[NGX_ETCD_HISTOGRAM_BOUNDS] = {
    100, 250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 500000,
    2000000
};

const uint64_t  ngx_etcd_answer_bounds[NGX_ETCD_HISTOGRAM_BOUNDS] = {
    1000, 5000, 10000, 25000, 50000, 100000, 250000, 500000, 1000000, 2500000,
    5000000, 10000000
};


void
ngx_etcd_counter_set(ngx_etcd_atomic64_t *word, uint32_t uid, uint32_t n)
{
    uint64_t  value;

    value = __atomic_load_n(word, __ATOMIC_RELAXED);

    while (value >> 32 == uid) {
        if (__atomic_compare_exchange_n(word, &value,
                                        (uint64_t) uid << 32 | n, 1,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        {
            return;
        }
    }
}


ngx_uint_t
ngx_etcd_counter_bits(ngx_etcd_atomic64_t *word, uint32_t uid, uint32_t set,
    uint32_t clear)
{
    uint64_t  old, new;

    old = __atomic_load_n(word, __ATOMIC_RELAXED);

    do {
        new = (old | set) & ~(uint64_t) clear;

        if (old >> 32 != uid || new == old) {
            return 0;
        }

    } while (!__atomic_compare_exchange_n(word, &old, new, 0,
                                          __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));

    return 1;
}


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


void
ngx_etcd_histogram_add(ngx_etcd_histogram_t *histogram, uint64_t us)
{
    ngx_uint_t  i;

    i = ngx_etcd_histogram_place(ngx_etcd_change_bounds, us);

    (void) __atomic_fetch_add(&histogram->counts[i], 1, __ATOMIC_RELAXED);
    (void) __atomic_fetch_add(&histogram->sum, us, __ATOMIC_RELAXED);
}
