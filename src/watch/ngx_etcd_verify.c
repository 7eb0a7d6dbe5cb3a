
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_watcher.h>
#include <ngx_etcd_clock.h>


static void ngx_etcd_verify_timer(ngx_event_t *ev);
static ngx_int_t ngx_etcd_verify_read(ngx_etcd_watch_t *watch);
static ngx_msec_t ngx_etcd_verify_limit(ngx_etcd_watch_t *watch);
static ngx_msec_t ngx_etcd_verify_left(ngx_etcd_watch_t *watch);
static void ngx_etcd_verify_done(ngx_etcd_stream_range_t *range,
    ngx_etcd_grpc_status_e status, ngx_str_t *text,
    Etcd__RangeResponse *response);
static void ngx_etcd_verify_answered(ngx_etcd_watch_t *watch,
    Etcd__RangeResponse *response, uint64_t sent);
static ngx_uint_t ngx_etcd_verify_comparable(ngx_etcd_watch_t *watch,
    Etcd__RangeResponse *response);
static ngx_uint_t ngx_etcd_verify_agrees(ngx_etcd_watch_t *watch,
    Etcd__RangeResponse *response);
static void ngx_etcd_verify_proved(ngx_etcd_watch_t *watch, uint64_t sent);
static void ngx_etcd_verify_behind(ngx_etcd_watch_t *watch,
    Etcd__RangeResponse *response, uint64_t sent);
static void ngx_etcd_verify_failed(ngx_etcd_watch_t *watch,
    ngx_etcd_grpc_status_e status, ngx_str_t *text, uint64_t sent);


void
ngx_etcd_verify_start(ngx_etcd_watch_t *watch)
{
    ngx_event_t  *timer;

    if (watch->verify_interval == 0) {
        return;
    }

    timer = &watch->verify.timer;

    timer->handler = ngx_etcd_verify_timer;
    timer->data = watch;
    timer->log = watch->watcher->cluster->log;
    timer->cancelable = 1;

    ngx_add_timer(timer, 1);
}


void
ngx_etcd_verify_stop(ngx_etcd_watch_t *watch)
{
    ngx_etcd_verify_t  *verify;

    verify = &watch->verify;

    verify->failing = 0;
    verify->behind = 0;
    verify->awaited = 0;

    if (verify->timer.timer_set) {
        ngx_del_timer(&verify->timer);
    }

    verify->sent = 0;
    ngx_etcd_stream_range_cancel(&verify->range);
}


void
ngx_etcd_verify_reached(ngx_etcd_watch_t *watch)
{
    ngx_etcd_verify_t  *verify;

    verify = &watch->verify;

    if (verify->awaited != 0 && watch->revision >= verify->awaited) {
        ngx_etcd_verify_proved(watch, verify->asked);
    }
}


void
ngx_etcd_verify_count(ngx_etcd_watch_t *watch, Etcd__Event *event)
{
    if (event->type == ETCD__EVENT__EVENT_TYPE__DELETE) {
        watch->nkeys--;

    } else if (event->kv->version == 1) {
        watch->nkeys++;
    }
}


static void
ngx_etcd_verify_timer(ngx_event_t *ev)
{
    ngx_etcd_watch_t  *watch;

    watch = ev->data;

    if (ngx_etcd_verify_read(watch) != NGX_OK) {
        ngx_add_timer(ev, NGX_ETCD_VERIFY_AGAIN);
    }
}


/*
 * The answer has one key at most, the newest, and counts all.
 * NGX_DECLINED: not now.
 */

static ngx_int_t
ngx_etcd_verify_read(ngx_etcd_watch_t *watch)
{
    ngx_etcd_verify_t        *verify;
    Etcd__RangeRequest        request;
    ngx_etcd_stream_range_t  *range;

    etcd__range_request__init(&request);

    request.key.data = watch->key.data;
    request.key.len = watch->key.len;
    request.range_end.data = watch->range_end.data;
    request.range_end.len = watch->range_end.len;
    request.min_mod_revision = watch->revision + 1;
    request.sort_target = ETCD__RANGE_REQUEST__SORT_TARGET__MOD;
    request.sort_order = ETCD__RANGE_REQUEST__SORT_ORDER__DESCEND;
    request.limit = 1;
    request.keys_only = 1;

    verify = &watch->verify;
    range = &verify->range;

    range->cluster = watch->watcher->cluster;
    range->timeout = ngx_etcd_verify_left(watch);
    range->done = ngx_etcd_verify_done;
    range->data = watch;

    if (ngx_etcd_stream_range_start(range, &request) != NGX_OK) {
        return NGX_DECLINED;
    }

    verify->sent = ngx_etcd_clock();
    verify->revision = watch->revision;

    return NGX_OK;
}


/* how long an endpoint may fail to answer */

static ngx_msec_t
ngx_etcd_verify_limit(ngx_etcd_watch_t *watch)
{
    ngx_msec_t  limit;

    limit = ngx_max(watch->verify_interval, NGX_ETCD_VERIFY_MIN);

    return ngx_min(limit, watch->watcher->cluster->conf->request_timeout);
}


/* the rest of that time */

static ngx_msec_t
ngx_etcd_verify_left(ngx_etcd_watch_t *watch)
{
    uint64_t    passed;
    ngx_msec_t  limit;

    limit = ngx_etcd_verify_limit(watch);

    if (watch->verify.failing == 0) {
        return limit;
    }

    passed = ngx_etcd_clock() - watch->verify.failing;

    return (passed < limit) ? limit - (ngx_msec_t) passed : 1;
}


/* the watch may be off the stream, or on another one, after this */

static void
ngx_etcd_verify_done(ngx_etcd_stream_range_t *range,
    ngx_etcd_grpc_status_e status, ngx_str_t *text,
    Etcd__RangeResponse *response)
{
    uint64_t           sent;
    ngx_etcd_watch_t  *watch;

    watch = range->data;

    sent = watch->verify.sent;
    watch->verify.sent = 0;

    if (status == NGX_ETCD_GRPC_OK) {
        ngx_etcd_verify_answered(watch, response, sent);

    } else {
        ngx_etcd_verify_failed(watch, status, text, sent);
    }
}


static void
ngx_etcd_verify_answered(ngx_etcd_watch_t *watch,
    Etcd__RangeResponse *response, uint64_t sent)
{
    watch->verify.failing = 0;

    if (ngx_etcd_verify_agrees(watch, response)) {
        ngx_etcd_verify_proved(watch, sent);
        return;
    }

    ngx_etcd_verify_behind(watch, response, sent);
}


static void
ngx_etcd_verify_proved(ngx_etcd_watch_t *watch, uint64_t sent)
{
    uint64_t            passed;
    ngx_msec_t          next;
    ngx_etcd_verify_t  *verify;

    verify = &watch->verify;

    verify->behind = 0;
    verify->awaited = 0;

    passed = ngx_etcd_clock() - sent;
    next = NGX_ETCD_VERIFY_AGAIN;

    if (passed + next < watch->verify_interval) {
        next = watch->verify_interval - (ngx_msec_t) passed;
    }

    /* the answer to a Range that is under way sets the timer */

    if (verify->sent == 0) {
        ngx_add_timer(&verify->timer, next);
    }

    /* as good as the answer to a PING, which is not sent then */

    ngx_etcd_cluster_prove(watch->watcher->cluster, sent);

    watch->verified(watch, sent);
}


/* the answer is of the same history, and not older than the watch */

static ngx_uint_t
ngx_etcd_verify_comparable(ngx_etcd_watch_t *watch,
    Etcd__RangeResponse *response)
{
    uint64_t               id;
    Etcd__ResponseHeader  *header;

    header = response->header;

    /* 0: the watch has met a proxy alone, which names no cluster */

    id = watch->watcher->cluster->cluster_id;

    return header != NULL
           && header->revision >= watch->verify.revision
           && (id == 0 || header->cluster_id == id);
}


/*
 * A watch that has passed the answer's revision since the Range was sent has
 * reported all that the answer counts; the numbers are of different revisions
 * then.
 */

static ngx_uint_t
ngx_etcd_verify_agrees(ngx_etcd_watch_t *watch, Etcd__RangeResponse *response)
{
    if (!ngx_etcd_verify_comparable(watch, response)) {
        return 0;
    }

    if (response->header->revision < watch->revision) {
        return 1;
    }

    return response->count == watch->nkeys
           && (response->n_kvs == 0
               || response->kvs[0]->mod_revision <= watch->revision);
}


static void
ngx_etcd_verify_behind(ngx_etcd_watch_t *watch, Etcd__RangeResponse *response,
    uint64_t sent)
{
    ngx_etcd_verify_t   *verify;
    ngx_etcd_cluster_t  *cluster;

    verify = &watch->verify;

    /* what came, and has not had its turn, counts later */

    if (watch->fragments != NULL && watch->handed < watch->whole) {
        ngx_add_timer(&verify->timer, NGX_ETCD_VERIFY_AGAIN);
        return;
    }

    if (++verify->behind < NGX_ETCD_VERIFY_BEHIND) {

        if (verify->awaited == 0
            && ngx_etcd_verify_comparable(watch, response)
            && response->header->revision > watch->revision)
        {
            verify->awaited = response->header->revision;
            verify->asked = sent;
        }

        ngx_add_timer(&verify->timer, NGX_ETCD_VERIFY_AGAIN);
        return;
    }

    cluster = watch->watcher->cluster;
    cluster->resyncs++;

    ngx_log_error(NGX_LOG_WARN, cluster->log, 0,
                  "etcd cluster \"%V\": prefix \"%V\": the watch at revision "
                  "%L does not have what etcd has, listing again",
                  &cluster->conf->name, &watch->prefix, watch->revision);

    /* it is not known what is different */

    watch->foreign = 1;
    ngx_etcd_watch_again(watch, 0);
}


static void
ngx_etcd_verify_failed(ngx_etcd_watch_t *watch, ngx_etcd_grpc_status_e status,
    ngx_str_t *text, uint64_t sent)
{
    ngx_str_t            reason;
    ngx_etcd_verify_t   *verify;
    ngx_etcd_cluster_t  *cluster;

    verify = &watch->verify;
    cluster = watch->watcher->cluster;

    ngx_log_error(NGX_LOG_INFO, cluster->log, 0,
                  "etcd cluster \"%V\": prefix \"%V\": verifying the watch "
                  "failed: %s: %V", &cluster->conf->name, &watch->prefix,
                  ngx_etcd_grpc_status_name(status), text);

    ngx_add_timer(&verify->timer, NGX_ETCD_VERIFY_AGAIN);

    /* the end of the stream stops the verification */

    if (ngx_etcd_channel_get(&cluster->streams) == NULL
        || verify->range.refused)
    {
        return;
    }

    if (status == NGX_ETCD_GRPC_PERMISSION_DENIED) {
        ngx_etcd_watch_refused(watch, status, text);
        return;
    }

    if (verify->failing == 0) {
        verify->failing = sent;
    }

    if (ngx_etcd_clock() - verify->failing >= ngx_etcd_verify_limit(watch)) {
        ngx_str_set(&reason, "no answer to a linearizable read");
        ngx_etcd_watcher_leave(watch->watcher, &reason);
    }
}
