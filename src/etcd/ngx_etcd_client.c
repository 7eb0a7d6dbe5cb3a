
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_auth.h>
#include <ngx_etcd_auto_sync.h>
#include <ngx_etcd_channel.h>
#include <ngx_etcd_client.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_history.h>
#include <ngx_etcd_maintenance.h>


ngx_etcd_cluster_t *
ngx_etcd_client_create(ngx_etcd_cluster_conf_t *conf,
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

    ngx_etcd_endpoints_init(&cluster->endpoints, &conf->endpoints, log);

    cluster->streams = ngx_pcalloc(pool, sizeof(ngx_etcd_channel_t));
    cluster->reads = ngx_pcalloc(pool, sizeof(ngx_etcd_channel_t));
    cluster->vote = ngx_etcd_vote_create(cluster);

    if (cluster->streams == NULL
        || cluster->reads == NULL
        || cluster->vote == NULL)
    {
        ngx_destroy_pool(pool);
        return NULL;
    }

    ngx_etcd_channel_init(cluster->streams, cluster, "streams",
                          ngx_etcd_endpoints_home(&cluster->endpoints));
    ngx_etcd_channel_init(cluster->reads, cluster, "reads", NULL);

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
ngx_etcd_client_destroy(ngx_etcd_cluster_t *cluster)
{
    if (cluster->auto_sync != NULL) {
        ngx_etcd_auto_sync_destroy(cluster->auto_sync);
    }

    if (cluster->server_version != NULL) {
        ngx_etcd_server_version_destroy(cluster->server_version);
    }

    ngx_etcd_auth_destroy(cluster->auth);

    ngx_etcd_channel_destroy(cluster->streams);
    ngx_etcd_channel_destroy(cluster->reads);

    ngx_etcd_vote_destroy(cluster->vote);

    ngx_etcd_endpoints_done(&cluster->endpoints);
    ngx_etcd_history_done(cluster);

    ngx_destroy_pool(cluster->pool);
}


void
ngx_etcd_client_linger(ngx_etcd_cluster_t *cluster)
{
    cluster->lingers = 1;

    ngx_etcd_channel_linger(cluster->streams);
    ngx_etcd_channel_linger(cluster->reads);
}


void
ngx_etcd_client_hasten(ngx_etcd_cluster_t *cluster)
{
    cluster->urgent = 1;

    ngx_etcd_channel_hasten(cluster->streams);
    ngx_etcd_channel_hasten(cluster->reads);
}


void
ngx_etcd_client_wait(ngx_etcd_cluster_t *cluster, ngx_uint_t *done,
    ngx_msec_t time)
{
    uint64_t           now, end;
    ngx_etcd_http2_t  *h2;

    now = ngx_etcd_clock();
    end = now + time;

    while (!*done && now < end) {
        h2 = ngx_etcd_channel_get(cluster->reads);

        if (h2 == NULL) {
            return;
        }

        ngx_etcd_http2_wait(h2, (ngx_msec_t) (end - now));
        now = ngx_etcd_clock();
    }
}
