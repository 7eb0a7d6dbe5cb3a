
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_lifetime.h>


static void ngx_etcd_lifetime_done(ngx_etcd_unary_t *unary,
    ngx_etcd_grpc_status_e status, ngx_str_t *text,
    ProtobufCMessage *response, ngx_pool_t *pool);


void
ngx_etcd_lifetime_ask(ngx_etcd_lifetime_t *lifetime)
{
    ngx_etcd_unary_t  *unary;

    etcd__lease_time_to_live_request__init(&lifetime->request);

    lifetime->request.id = lifetime->lease;
    lifetime->request.keys = (lifetime->keys != NULL);

    unary = &lifetime->unary;

    unary->cluster = lifetime->cluster;
    unary->method = "/etcdserverpb.Lease/LeaseTimeToLive";
    unary->name = "time to live";
    unary->request = &lifetime->request.base;
    unary->response = &etcd__lease_time_to_live_response__descriptor;
    unary->timeout = lifetime->timeout;
    unary->idempotent = 1;
    unary->done = ngx_etcd_lifetime_done;
    unary->data = lifetime;

    ngx_etcd_unary_start(unary);
}


void
ngx_etcd_lifetime_cancel(ngx_etcd_lifetime_t *lifetime)
{
    ngx_etcd_unary_cancel(&lifetime->unary);
}


/* seconds; -1: there is no such lease */

static void
ngx_etcd_lifetime_done(ngx_etcd_unary_t *unary, ngx_etcd_grpc_status_e status,
    ngx_str_t *text, ProtobufCMessage *response, ngx_pool_t *pool)
{
    ngx_etcd_lifetime_t *lifetime = unary->data;

    int64_t                         ttl;
    Etcd__LeaseTimeToLiveResponse  *answer;

    ttl = 0;

    if (status == NGX_ETCD_GRPC_OK) {
        answer = (Etcd__LeaseTimeToLiveResponse *) response;
        ttl = answer->ttl;

        if (lifetime->keys != NULL && answer->header != NULL) {
            lifetime->keys(lifetime, answer->keys, answer->n_keys,
                           answer->header->revision);
        }

        ngx_destroy_pool(pool);
    }

    if (ttl <= 0) {
        lifetime->done(lifetime, 0);
        return;
    }

    ttl = ngx_min(ttl, NGX_ETCD_LIFETIME_MAX);

    lifetime->done(lifetime, unary->last + (uint64_t) ttl * 1000);
}
