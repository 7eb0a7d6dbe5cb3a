
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_auth.h>
#include <ngx_etcd_channel.h>
#include <ngx_etcd_client.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_history.h>
#include <ngx_etcd_maintenance.h>


/*
 * An answer without members, or from another cluster, is ignored: a removed
 * member may not know the others any more, and an endpoint may have become part
 * of another cluster.
 */

static void
ngx_etcd_auto_sync_merge(ngx_etcd_auto_sync_t *sync,
    Etcd__MemberListResponse *response)
{
    size_t               i, k, n;
    Etcd__Member        *member;
    ngx_etcd_cluster_t  *cluster;

    n = 0;
    cluster = sync->cluster;

    if (response->n_members == 0
        || response->header == NULL
        || (cluster->cluster_id != 0
            && cluster->cluster_id != response->header->cluster_id))
    {
        return;
    }

    for (i = 0; i < response->n_members; i++) {
        member = response->members[i];

        /* a member without a name has not started */

        if (member->name.len == 0 || member->islearner) {
            continue;
        }

        for (k = 0; k < member->n_clienturls; k++) {
            if (n++ < NGX_ETCD_AUTO_SYNC_URLS) {
                ngx_etcd_learn_url(&sync->learn, member->clienturls[k].data,
                                   member->clienturls[k].len);
            }
        }
    }

    ngx_etcd_endpoints_merge_end(&cluster->endpoints,
                                 NGX_ETCD_ENDPOINT_ADVERTISED);

    /* the home may have changed */

    ngx_etcd_channel_settle(cluster->streams);

    cluster->changed(cluster->data);
}


static void
ngx_etcd_auto_sync_done(ngx_etcd_unary_t *unary, ngx_etcd_grpc_status_e status,
    ngx_str_t *text, ProtobufCMessage *response, ngx_pool_t *pool)
{
    ngx_etcd_auto_sync_t  *sync = unary->data;

    ngx_msec_t           interval;
    ngx_etcd_cluster_t  *cluster;

    cluster = sync->cluster;
    interval = cluster->conf->auto_sync;

    if (status == NGX_ETCD_GRPC_OK) {
        ngx_etcd_auto_sync_merge(sync, (Etcd__MemberListResponse *) response);
        ngx_destroy_pool(pool);

    } else {
        ngx_log_error(NGX_LOG_INFO, cluster->log, 0,
                      "etcd cluster \"%V\": no member list: %s: %V",
                      &cluster->conf->name, ngx_etcd_grpc_status_name(status),
                      text);
    }

    /* jitter: clients that started together drift apart */

    ngx_add_timer(&sync->timer,
                  interval - interval / 4 + 1
                  + (ngx_msec_t) ngx_random() % (interval / 2 + 1));
}


static void
ngx_etcd_auto_sync_timer(ngx_event_t *ev)
{
    ngx_etcd_auto_sync_t  *sync;

    sync = ev->data;

    if (!ngx_exiting) {
        ngx_etcd_unary_start(&sync->unary);
    }
}


static ngx_etcd_auto_sync_t *
ngx_etcd_auto_sync_create(ngx_etcd_cluster_t *cluster)
{
    ngx_msec_t             first;
    ngx_etcd_auto_sync_t  *sync;

    sync = ngx_pcalloc(cluster->pool, sizeof(ngx_etcd_auto_sync_t));
    if (sync == NULL) {
        return NULL;
    }

    sync->cluster = cluster;
    sync->learn.cluster = cluster;
    sync->learn.source = NGX_ETCD_ENDPOINT_ADVERTISED;

    etcd__member_list_request__init(&sync->request);

    /* a member that is cut off does not know who was added or removed */

    sync->request.linearizable = 1;

    sync->unary.cluster = cluster;
    sync->unary.method = "/etcdserverpb.Cluster/MemberList";
    sync->unary.name = "member list";
    sync->unary.request = &sync->request.base;
    sync->unary.response = &etcd__member_list_response__descriptor;
    sync->unary.done = ngx_etcd_auto_sync_done;
    sync->unary.data = sync;
    sync->unary.idempotent = 1;

    ngx_etcd_event_init_timer(&sync->timer, ngx_etcd_auto_sync_timer, sync,
                              cluster->log);

    first = ngx_min(cluster->conf->auto_sync, NGX_ETCD_AUTO_SYNC_FIRST);

    ngx_add_timer(&sync->timer, 1 + (ngx_msec_t) ngx_random() % first);

    return sync;
}


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

    if (conf->srv.len != 0) {
        cluster->srv = ngx_etcd_srv_create(cluster);
        if (cluster->srv == NULL) {
            ngx_destroy_pool(pool);
            return NULL;
        }
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
    ngx_uint_t   i;
    ngx_pool_t  *pool;

    if (cluster->srv != NULL) {
        ngx_etcd_srv_destroy(cluster->srv);
    }

    if (cluster->auto_sync != NULL) {
        ngx_etcd_event_stop(&cluster->auto_sync->timer);
        ngx_etcd_unary_cancel(&cluster->auto_sync->unary);
    }

    if (cluster->server_version != NULL) {
        ngx_etcd_waiter_forget(&cluster->server_version->waiter);
        ngx_etcd_grpc_cancel(&cluster->server_version->call);
    }

    ngx_etcd_auth_destroy(cluster->auth);

    ngx_etcd_channel_destroy(cluster->streams);
    ngx_etcd_channel_destroy(cluster->reads);

    ngx_etcd_vote_destroy(cluster->vote);

    for (i = 0; i < NGX_ETCD_ENDPOINTS_MAX; i++) {
        pool = cluster->endpoints.places[i].pool;

        if (pool != NULL) {
            ngx_destroy_pool(pool);
        }
    }

    ngx_etcd_event_stop(&cluster->history.tell);

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
