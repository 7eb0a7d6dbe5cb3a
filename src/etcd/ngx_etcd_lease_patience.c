
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_lease_patience.h>
#include <ngx_etcd_clock.h>


uint64_t
ngx_etcd_lease_patience(ngx_etcd_lease_patience_t *patience, uint64_t sent,
    uint64_t deadline, ngx_msec_t ttl)
{
    uint64_t  first, left, limit;

    first = ngx_max(ttl / 6, NGX_ETCD_LEASE_PATIENCE);
    left = (deadline > sent) ? deadline - sent : 0;
    limit = (left > first) ? left - first : 0;

    return sent + ngx_max(first, ngx_min(first << ngx_min(patience->misses, 4),
                                         limit));
}


void
ngx_etcd_lease_patience_missed(ngx_etcd_lease_patience_t *patience,
    ngx_msec_t ttl)
{
    patience->misses++;
    patience->ttl = ttl;
    patience->prompt = 0;
}


/* a prompt renewal takes half of the first time, or less */

void
ngx_etcd_lease_patience_proved(ngx_etcd_lease_patience_t *patience,
    uint64_t sent)
{
    if (patience->misses == 0) {
        return;
    }

    if (ngx_etcd_clock() - sent > patience->ttl / 12) {
        patience->prompt = 0;
        return;
    }

    if (++patience->prompt == NGX_ETCD_LEASE_PROMPT) {
        patience->misses = 0;
    }
}
