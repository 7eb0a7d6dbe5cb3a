
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_counter.h>


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
