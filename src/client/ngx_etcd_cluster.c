
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_cluster.h>
#include <ngx_etcd_auth.h>
#include <ngx_etcd_auto_sync.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_history.h>


ngx_etcd_cluster_t *
ngx_etcd_cluster_create(ngx_etcd_cluster_conf_t *conf,
    void (*changed)(void *data), void *data, ngx_log_t *log)
{
    ngx_pool_t          *pool;
    ngx_etcd_cluster_t  *cluster;

    pool = ngx_create_pool(4096, log);
    if (pool == NULL) {
        return NULL;
    }

    cluster = ngx_pcalloc(pool, sizeof(ngx_etcd_cluster_t));
    if (cluster == NULL) {
        ngx_destroy_pool(pool);
        return NULL;
    }

    cluster->conf = conf;
    cluster->pool = pool;
    cluster->log = log;
    cluster->changed = changed;
    cluster->data = data;

    ngx_etcd_history_init(cluster);

    ngx_etcd_roster_init(&cluster->roster, &conf->endpoints, log);

    ngx_etcd_channel_init(&cluster->streams, cluster, "streams",
                          ngx_etcd_roster_home(&cluster->roster));
    ngx_etcd_channel_init(&cluster->reads, cluster, "reads", NULL);

    cluster->auth = ngx_etcd_auth_create(cluster);
    if (cluster->auth == NULL) {
        ngx_destroy_pool(pool);
        return NULL;
    }

    if (conf->auto_sync != 0) {
        cluster->auto_sync = ngx_etcd_auto_sync_create(cluster);
        if (cluster->auto_sync == NULL) {
            ngx_destroy_pool(pool);
            return NULL;
        }
    }

    return cluster;
}


void
ngx_etcd_cluster_destroy(ngx_etcd_cluster_t *cluster)
{
    if (cluster->auto_sync != NULL) {
        ngx_etcd_auto_sync_destroy(cluster->auto_sync);
    }

    ngx_etcd_auth_destroy(cluster->auth);

    ngx_etcd_channel_destroy(&cluster->streams);
    ngx_etcd_channel_destroy(&cluster->reads);

    ngx_etcd_roster_done(&cluster->roster);
    ngx_etcd_history_done(cluster);

    ngx_destroy_pool(cluster->pool);
}


void
ngx_etcd_cluster_linger(ngx_etcd_cluster_t *cluster)
{
    cluster->lingers = 1;

    ngx_etcd_channel_linger(&cluster->streams);
    ngx_etcd_channel_linger(&cluster->reads);
}


void
ngx_etcd_cluster_hasten(ngx_etcd_cluster_t *cluster)
{
    cluster->urgent = 1;

    ngx_etcd_channel_hasten(&cluster->streams);
    ngx_etcd_channel_hasten(&cluster->reads);
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


void
ngx_etcd_cluster_wait(ngx_etcd_cluster_t *cluster, ngx_uint_t *done,
    ngx_msec_t time)
{
    uint64_t           now, end;
    ngx_etcd_http2_t  *h2;

    now = ngx_etcd_clock();
    end = now + time;

    while (!*done && now < end) {
        h2 = ngx_etcd_channel_get(&cluster->reads);

        if (h2 == NULL) {
            return;
        }

        ngx_etcd_http2_wait(h2, (ngx_msec_t) (end - now));
        now = ngx_etcd_clock();
    }
}


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


ngx_msec_t
ngx_etcd_backoff(ngx_etcd_cluster_t *cluster, ngx_uint_t failures)
{
    ngx_msec_t  max, limit;

    limit = cluster->urgent ? NGX_ETCD_BACKOFF_URGENT : NGX_ETCD_BACKOFF_MAX;

    max = NGX_ETCD_BACKOFF_BASE << ngx_min(failures, 10);
    max = ngx_min(max, limit);

    return 1 + (ngx_msec_t) ngx_random() % max;
}


ngx_uint_t
ngx_etcd_retriable(ngx_etcd_grpc_status_e status)
{
    return status == NGX_ETCD_GRPC_UNAVAILABLE
           || status == NGX_ETCD_GRPC_DEADLINE_EXCEEDED
           || status == NGX_ETCD_GRPC_RESOURCE_EXHAUSTED
           || status == NGX_ETCD_GRPC_CANCELLED
           || status == NGX_ETCD_GRPC_UNKNOWN
           || status == NGX_ETCD_GRPC_INTERNAL;
}
