
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_watcher.h>


static void ngx_etcd_gap_replay(ngx_etcd_watch_t *watch);
static ngx_int_t ngx_etcd_gap_read(ngx_etcd_watch_t *watch, int64_t revision);
static void ngx_etcd_gap_done(ngx_etcd_stream_range_t *range,
    ngx_etcd_grpc_status_e status, ngx_str_t *text,
    Etcd__RangeResponse *response);
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


/*
 * Of the open stream's endpoint, which is at that revision, and so need not ask
 * others.  NGX_DECLINED: it cannot be done.
 */

static ngx_int_t
ngx_etcd_gap_read(ngx_etcd_watch_t *watch, int64_t revision)
{
    ngx_int_t                 rc;
    Etcd__RangeRequest        request;
    ngx_etcd_stream_range_t  *range;

    etcd__range_request__init(&request);

    request.key.data = watch->key.data;
    request.key.len = watch->key.len;
    request.range_end.data = watch->range_end.data;
    request.range_end.len = watch->range_end.len;
    request.revision = revision;
    request.limit = NGX_ETCD_GAP_KEYS;
    request.serializable = 1;

    range = &watch->gap.range;

    range->cluster = watch->watcher->cluster;
    range->timeout = NGX_ETCD_GAP_TIME;
    range->done = ngx_etcd_gap_done;
    range->data = watch;

    rc = ngx_etcd_stream_range_start(range, &request);

    if (rc == NGX_OK) {
        watch->gap.revision = revision;
    }

    return rc;
}


void
ngx_etcd_gap_cancel(ngx_etcd_gap_t *gap)
{
    gap->revision = 0;

    ngx_etcd_stream_range_cancel(&gap->range);
}


static void
ngx_etcd_gap_done(ngx_etcd_stream_range_t *range,
    ngx_etcd_grpc_status_e status, ngx_str_t *text,
    Etcd__RangeResponse *response)
{
    int64_t              revision;
    ngx_etcd_watch_t    *watch;
    ngx_etcd_cluster_t  *cluster;

    watch = range->data;
    cluster = range->cluster;

    revision = watch->gap.revision;
    watch->gap.revision = 0;

    ngx_log_error(NGX_LOG_INFO, cluster->log, 0,
                  "etcd cluster \"%V\": prefix \"%V\": read from revision %L "
                  "to %L: %s: %V", &cluster->conf->name, &watch->prefix,
                  watch->revision + 1, revision,
                  ngx_etcd_grpc_status_name(status), text);

    ngx_etcd_gap_close(watch, response, revision);
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

    if (watch->fragments != NULL) {
        ngx_etcd_watch_assembled(watch);
    }

    ngx_etcd_watch_behind(watch, 0);
    ngx_etcd_fresh_ask(&watch->watcher->fresh);
}
