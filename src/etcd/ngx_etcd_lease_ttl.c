
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_lease_ttl.h>


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


/* the TTL is in seconds; -1: there is no such lease */

static void
ngx_etcd_lease_ttl_done(ngx_etcd_unary_t *unary, ngx_etcd_grpc_status_e status,
    ngx_str_t *text, ProtobufCMessage *response, ngx_pool_t *pool)
{
    ngx_etcd_lease_ttl_t  *lease_ttl = unary->data;

    int64_t                         ttl;
    Etcd__LeaseTimeToLiveResponse  *answer;

    ttl = 0;

    if (status == NGX_ETCD_GRPC_OK) {
        answer = (Etcd__LeaseTimeToLiveResponse *) response;
        ttl = answer->ttl;

        if (lease_ttl->keys != NULL && answer->header != NULL) {
            lease_ttl->keys(lease_ttl, answer->keys, answer->n_keys,
                            answer->header->revision);
        }

        ngx_destroy_pool(pool);
    }

    if (ttl <= 0) {
        lease_ttl->done(lease_ttl, 0);
        return;
    }

    ttl = ngx_min(ttl, NGX_ETCD_LEASE_TTL_MAX);

    lease_ttl->done(lease_ttl, unary->last + (uint64_t) ttl * 1000);
}


void
ngx_etcd_lease_ttl_ask(ngx_etcd_lease_ttl_t *lease_ttl)
{
    ngx_etcd_unary_t  *unary;

    etcd__lease_time_to_live_request__init(&lease_ttl->request);

    lease_ttl->request.id = lease_ttl->lease;
    lease_ttl->request.keys = (lease_ttl->keys != NULL);

    unary = &lease_ttl->unary;

    unary->cluster = lease_ttl->cluster;
    unary->method = "/etcdserverpb.Lease/LeaseTimeToLive";
    unary->name = "time to live";
    unary->request = &lease_ttl->request.base;
    unary->response = &etcd__lease_time_to_live_response__descriptor;
    unary->timeout = lease_ttl->timeout;
    unary->idempotent = 1;
    unary->done = ngx_etcd_lease_ttl_done;
    unary->data = lease_ttl;

    ngx_etcd_unary_start(unary);
}


void
ngx_etcd_lease_ttl_cancel(ngx_etcd_lease_ttl_t *lease_ttl)
{
    ngx_etcd_unary_cancel(&lease_ttl->unary);
}
