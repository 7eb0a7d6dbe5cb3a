
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_verify.h>
#include <ngx_etcd_clock.h>


/* ms that an endpoint may fail to answer */

static ngx_msec_t
ngx_etcd_verify_limit(ngx_etcd_verify_t *verify)
{
    ngx_msec_t           limit, most;
    ngx_etcd_cluster_t  *cluster;

    cluster = verify->stream->cluster;
    most = cluster->conf->request_timeout;

    limit = ngx_max(verify->interval, NGX_ETCD_VERIFY_MIN);

    return ngx_etcd_latency_attempt(&cluster->latency, ngx_min(limit, most),
                                    most);
}


/* ms left of the limit, at least 1 */

static ngx_msec_t
ngx_etcd_verify_left(ngx_etcd_verify_t *verify)
{
    uint64_t    passed;
    ngx_msec_t  limit;

    limit = ngx_etcd_verify_limit(verify);

    if (verify->failing == 0) {
        return limit;
    }

    passed = ngx_etcd_clock() - verify->failing;

    return (passed < limit) ? limit - (ngx_msec_t) passed : 1;
}


/* the answer is of the same history, and not older than the watch */

static ngx_uint_t
ngx_etcd_verify_comparable(ngx_etcd_verify_t *verify,
    Etcd__RangeResponse *response)
{
    uint64_t               id;
    Etcd__ResponseHeader  *header;

    header = response->header;

    /* 0: only a proxy has answered so far, which does not name a cluster */

    id = verify->stream->cluster->cluster_id;

    return header != NULL
           && header->revision >= verify->known
           && (id == 0 || header->cluster_id == id);
}


/*
 * If the watch has passed the answer's revision since the Range was sent, it
 * has reported everything that the answer counts, but the numbers belong to
 * different revisions and must not be compared.
 */

static ngx_uint_t
ngx_etcd_verify_agrees(ngx_etcd_verify_t *verify, Etcd__RangeResponse *response)
{
    if (!ngx_etcd_verify_comparable(verify, response)) {
        return 0;
    }

    if (response->header->revision < *verify->revision) {
        return 1;
    }

    return response->count == verify->nkeys
           && (response->n_kvs == 0
               || response->kvs[0]->mod_revision <= *verify->revision);
}


static void
ngx_etcd_verify_proved(ngx_etcd_verify_t *verify, uint64_t sent)
{
    uint64_t    passed;
    ngx_msec_t  next;

    verify->behind = 0;
    verify->awaited = 0;

    passed = ngx_etcd_clock() - sent;
    next = NGX_ETCD_VERIFY_AGAIN;

    if (passed + next < verify->interval) {
        next = verify->interval - (ngx_msec_t) passed;
    }

    /* the answer to a running Range sets the timer */

    if (verify->sent == 0) {
        ngx_add_timer(&verify->timer, next);
    }

    /* the answer proves as much as one to a PING, which only follows silence */

    ngx_etcd_cluster_prove(verify->stream->cluster, sent);

    verify->verified(verify->data, sent);
}


static void
ngx_etcd_verify_behind(ngx_etcd_verify_t *verify, Etcd__RangeResponse *response,
    uint64_t sent)
{
    ngx_etcd_cluster_t  *cluster;

    /* events that have arrived but were not passed on yet: compare later */

    if (verify->pending(verify->data)) {
        ngx_add_timer(&verify->timer, NGX_ETCD_VERIFY_AGAIN);
        return;
    }

    if (++verify->behind < NGX_ETCD_VERIFY_BEHIND) {
        if (verify->awaited == 0
            && ngx_etcd_verify_comparable(verify, response)
            && response->header->revision > *verify->revision)
        {
            verify->awaited = response->header->revision;
            verify->asked = sent;
        }

        ngx_add_timer(&verify->timer, NGX_ETCD_VERIFY_AGAIN);
        return;
    }

    cluster = verify->stream->cluster;
    cluster->resyncs++;

    ngx_log_error(NGX_LOG_WARN, cluster->log, 0,
                  "etcd cluster \"%V\": prefix \"%V\": the watch differs "
                  "from etcd at revision %L, listing again",
                  &cluster->conf->name, &verify->range->prefix,
                  *verify->revision);

    verify->differs(verify->data);
}


static void
ngx_etcd_verify_answered(ngx_etcd_verify_t *verify,
    Etcd__RangeResponse *response, uint64_t sent)
{
    verify->failing = 0;

    if (ngx_etcd_verify_agrees(verify, response)) {
        ngx_etcd_verify_proved(verify, sent);
        return;
    }

    ngx_etcd_verify_behind(verify, response, sent);
}


static void
ngx_etcd_verify_failed(ngx_etcd_verify_t *verify, ngx_etcd_grpc_status_e status,
    ngx_str_t *text, uint64_t sent)
{
    ngx_str_t            reason;
    ngx_etcd_cluster_t  *cluster;

    cluster = verify->stream->cluster;

    ngx_log_error(NGX_LOG_INFO, cluster->log, 0,
                  "etcd cluster \"%V\": prefix \"%V\": verifying the watch "
                  "failed: %s: %V", &cluster->conf->name,
                  &verify->range->prefix, ngx_etcd_grpc_status_name(status),
                  text);

    ngx_add_timer(&verify->timer, NGX_ETCD_VERIFY_AGAIN);

    /* the end of the stream stops the verification */

    if (ngx_etcd_channel_get(cluster->streams) == NULL
        || verify->read.refused)
    {
        return;
    }

    if (status == NGX_ETCD_GRPC_PERMISSION_DENIED) {
        verify->refused(verify->data, status, text);
        return;
    }

    if (verify->failing == 0) {
        verify->failing = sent;
    }

    if (ngx_etcd_clock() - verify->failing >= ngx_etcd_verify_limit(verify)) {
        ngx_str_set(&reason, "no answer to a linearizable read");
        ngx_etcd_watch_stream_leave(verify->stream, &reason);
    }
}


/* after this, the watch may be off the stream, or on another one */

static void
ngx_etcd_verify_done(ngx_etcd_stream_range_t *range,
    ngx_etcd_grpc_status_e status, ngx_str_t *text,
    Etcd__RangeResponse *response)
{
    ngx_etcd_verify_t  *verify = range->data;

    uint64_t  sent;

    sent = verify->sent;
    verify->sent = 0;

    if (status == NGX_ETCD_GRPC_OK) {
        ngx_etcd_verify_answered(verify, response, sent);

    } else {
        ngx_etcd_verify_failed(verify, status, text, sent);
    }
}


/*
 * The response has the newest key only, and the number of all keys.
 * NGX_DECLINED: not possible now.
 */

static ngx_int_t
ngx_etcd_verify_read(ngx_etcd_verify_t *verify)
{
    Etcd__RangeRequest        request;
    ngx_etcd_stream_range_t  *range;

    etcd__range_request__init(&request);

    request.key = ngx_etcd_bytes(&verify->range->key);
    request.range_end = ngx_etcd_bytes(&verify->range->range_end);
    request.min_mod_revision = *verify->revision + 1;
    request.sort_target = ETCD__RANGE_REQUEST__SORT_TARGET__MOD;
    request.sort_order = ETCD__RANGE_REQUEST__SORT_ORDER__DESCEND;
    request.limit = 1;
    request.keys_only = 1;

    range = &verify->read;

    range->cluster = verify->stream->cluster;
    range->timeout = ngx_etcd_verify_left(verify);
    range->done = ngx_etcd_verify_done;
    range->data = verify;

    if (ngx_etcd_stream_range_start(range, &request) != NGX_OK) {
        return NGX_DECLINED;
    }

    verify->sent = ngx_etcd_clock();
    verify->known = *verify->revision;

    return NGX_OK;
}


static void
ngx_etcd_verify_timer(ngx_event_t *ev)
{
    ngx_etcd_verify_t  *verify = ev->data;

    if (ngx_etcd_verify_read(verify) != NGX_OK) {
        ngx_add_timer(ev, NGX_ETCD_VERIFY_AGAIN);
    }
}


void
ngx_etcd_verify_start(ngx_etcd_verify_t *verify)
{
    if (verify->interval == 0) {
        return;
    }

    ngx_etcd_event_init_timer(&verify->timer, ngx_etcd_verify_timer, verify,
                              verify->stream->cluster->log);

    ngx_add_timer(&verify->timer, 1);
}


void
ngx_etcd_verify_stop(ngx_etcd_verify_t *verify)
{
    verify->failing = 0;
    verify->behind = 0;
    verify->awaited = 0;

    ngx_etcd_event_stop(&verify->timer);

    verify->sent = 0;
    ngx_etcd_stream_range_cancel(&verify->read);
}


void
ngx_etcd_verify_reached(ngx_etcd_verify_t *verify)
{
    if (verify->awaited != 0 && *verify->revision >= verify->awaited) {
        ngx_etcd_verify_proved(verify, verify->asked);
    }
}


void
ngx_etcd_verify_arriving(ngx_etcd_verify_t *verify)
{
    verify->behind = 0;
}


void
ngx_etcd_verify_event(ngx_etcd_verify_t *verify, Etcd__Event *event)
{
    if (event->type == ETCD__EVENT__EVENT_TYPE__DELETE) {
        verify->nkeys--;

    } else if (event->kv->version == 1) {
        verify->nkeys++;
    }
}
