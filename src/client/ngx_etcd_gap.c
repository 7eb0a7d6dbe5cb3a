
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_watcher.h>
#include <ngx_etcd_auth.h>


static void ngx_etcd_gap_replay(ngx_etcd_watch_t *watch);
static ngx_int_t ngx_etcd_gap_read(ngx_etcd_watch_t *watch, int64_t revision);
static ngx_int_t ngx_etcd_gap_send(ngx_etcd_watch_t *watch);
static ngx_int_t ngx_etcd_gap_message(ngx_etcd_grpc_call_t *call,
    ProtobufCMessage *message, ngx_pool_t *pool);
static void ngx_etcd_gap_done(ngx_etcd_grpc_call_t *call,
    ngx_etcd_grpc_status_e status, ngx_str_t *text);
static void ngx_etcd_gap_close(ngx_etcd_watch_t *watch,
    Etcd__RangeResponse *response, int64_t revision);


/* from its own revision to the one that it is in force from */

void
ngx_etcd_gap_bridge(ngx_etcd_watch_t *watch, Etcd__ResponseHeader *header)
{
    if (!watch->jumped) {
        watch->missed = 0;
        ngx_etcd_watch_catch_up(watch, header);
        return;
    }

    /* a proxy may say anything, but then it does not name the cluster */

    if (header == NULL || header->cluster_id == 0 || header->revision <= 0) {
        ngx_etcd_gap_replay(watch);
        return;
    }

    if (header->revision <= watch->revision) {
        watch->missed = 0;
        ngx_etcd_watch_catch_up(watch, header);
        return;
    }

    ngx_etcd_watch_behind(watch, 1);

    if (ngx_etcd_gap_read(watch, header->revision) != NGX_OK) {
        ngx_etcd_gap_replay(watch);
    }
}


/* created once more, on from its revision */

static void
ngx_etcd_gap_replay(ngx_etcd_watch_t *watch)
{
    ngx_etcd_watch_detach(watch);

    watch->missed = 0;
    ngx_etcd_watch_rest(watch);
}


/* of the open stream's endpoint; NGX_DECLINED: it cannot be done */

static ngx_int_t
ngx_etcd_gap_read(ngx_etcd_watch_t *watch, int64_t revision)
{
    ngx_uint_t             token;
    ngx_keyval_t           md[NGX_ETCD_AUTH_METADATA];
    ngx_etcd_auth_t       *auth;
    ngx_etcd_http2_t      *h2;
    ngx_etcd_cluster_t    *cluster;
    ngx_etcd_grpc_call_t  *call;

    cluster = watch->watcher->cluster;
    auth = cluster->auth;

    h2 = ngx_etcd_channel_get(&cluster->streams);

    if (h2 == NULL || !ngx_etcd_auth_ready(auth)) {
        return NGX_DECLINED;
    }

    call = &watch->gap.call;
    ngx_memzero(call, sizeof(ngx_etcd_grpc_call_t));

    call->method = "/etcdserverpb.KV/Range";
    call->response = &etcd__range_response__descriptor;
    call->timeout = NGX_ETCD_GAP_TIME;
    call->metadata = md;
    call->nmetadata = ngx_etcd_auth_metadata(auth, md, &token);
    call->message = ngx_etcd_gap_message;
    call->done = ngx_etcd_gap_done;
    call->data = watch;

    if (ngx_etcd_grpc_start(h2, call) != NGX_OK) {
        return NGX_DECLINED;
    }

    watch->gap.revision = revision;

    if (ngx_etcd_gap_send(watch) != NGX_OK) {
        ngx_etcd_gap_cancel(&watch->gap);
        return NGX_DECLINED;
    }

    return NGX_OK;
}


/* the endpoint is at that revision, so it need not ask others */

static ngx_int_t
ngx_etcd_gap_send(ngx_etcd_watch_t *watch)
{
    Etcd__RangeRequest  request;

    etcd__range_request__init(&request);

    request.key.data = watch->key.data;
    request.key.len = watch->key.len;
    request.range_end.data = watch->range_end.data;
    request.range_end.len = watch->range_end.len;
    request.revision = watch->gap.revision;
    request.limit = NGX_ETCD_GAP_KEYS;
    request.serializable = 1;

    if (ngx_etcd_grpc_send(&watch->gap.call, &request.base) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_etcd_grpc_end(&watch->gap.call);

    return NGX_OK;
}


void
ngx_etcd_gap_cancel(ngx_etcd_gap_t *gap)
{
    if (gap->revision != 0) {
        gap->revision = 0;
        ngx_etcd_grpc_cancel(&gap->call);
    }

    if (gap->pool != NULL) {
        ngx_destroy_pool(gap->pool);
        gap->pool = NULL;
        gap->response = NULL;
    }
}


static ngx_int_t
ngx_etcd_gap_message(ngx_etcd_grpc_call_t *call, ProtobufCMessage *message,
    ngx_pool_t *pool)
{
    ngx_etcd_gap_t    *gap;
    ngx_etcd_watch_t  *watch;

    watch = call->data;
    gap = &watch->gap;

    if (gap->pool != NULL) {
        return NGX_ERROR;
    }

    gap->response = (Etcd__RangeResponse *) message;
    gap->pool = pool;

    return NGX_DONE;
}


static void
ngx_etcd_gap_done(ngx_etcd_grpc_call_t *call, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    int64_t               revision;
    ngx_pool_t           *pool;
    ngx_etcd_gap_t       *gap;
    ngx_etcd_watch_t     *watch;
    ngx_etcd_cluster_t   *cluster;
    Etcd__RangeResponse  *response;

    watch = call->data;
    gap = &watch->gap;

    revision = gap->revision;
    response = (status == NGX_ETCD_GRPC_OK) ? gap->response : NULL;
    pool = gap->pool;

    gap->revision = 0;
    gap->response = NULL;
    gap->pool = NULL;

    cluster = watch->watcher->cluster;

    ngx_log_error(NGX_LOG_INFO, cluster->log, 0,
                  "etcd cluster \"%V\": prefix \"%V\": read from revision %L "
                  "to %L: %s: %V", &cluster->conf->name, &watch->prefix,
                  watch->revision + 1, revision,
                  ngx_etcd_grpc_status_name(status), text);

    ngx_etcd_gap_close(watch, response, revision);

    if (pool != NULL) {
        ngx_destroy_pool(pool);
    }
}


static void
ngx_etcd_gap_close(ngx_etcd_watch_t *watch, Etcd__RangeResponse *response,
    int64_t revision)
{
    ngx_str_t  text;

    if (response == NULL || response->more) {
        ngx_etcd_gap_replay(watch);
        ngx_etcd_watcher_advance(watch->watcher);
        return;
    }

    /* whoever was away may come back to another history */

    watch->foreign = 1;

    if (ngx_etcd_watch_take(watch, response->kvs, response->n_kvs)
        != NGX_OK)
    {
        ngx_str_set(&text, "the response could not be used");
        ngx_etcd_watch_refused(watch, NGX_ETCD_GRPC_INTERNAL, &text);
        return;
    }

    watch->missed = 0;
    watch->revision = revision;
    watch->listed(watch, revision);
    watch->foreign = 0;

    if (watch->state != NGX_ETCD_WATCH_ACTIVE) {
        return;
    }

    if (watch->fragments != NULL && !watch->partial) {
        ngx_etcd_watch_assembled(watch);
    }

    ngx_etcd_watch_behind(watch, 0);
    ngx_etcd_fresh_ask(&watch->watcher->fresh);
}
