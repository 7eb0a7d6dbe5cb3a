
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_watch_resume.h>


void
ngx_etcd_watch_resume_behind(ngx_etcd_watch_resume_t *resume, ngx_uint_t behind)
{
    ngx_etcd_proof_count(&resume->stream->proof, 0,
                         (ngx_int_t) behind - (ngx_int_t) resume->behind);
    resume->behind = behind;
}


static void
ngx_etcd_watch_resume_settle(ngx_etcd_watch_resume_t *resume)
{
    resume->turns = NGX_ETCD_WATCH_RESUME_TURNS;
    ngx_add_timer(&resume->timer, NGX_ETCD_WATCH_RESUME_TURN);
}


static void
ngx_etcd_watch_resume_timer(ngx_event_t *ev)
{
    ngx_etcd_watch_resume_t  *resume = ev->data;

    ngx_str_t                 reason;
    ngx_etcd_watch_stream_t  *stream;

    stream = resume->stream;

    if (--resume->turns != 0) {
        ngx_add_timer(ev, NGX_ETCD_WATCH_RESUME_TURN);
        return;
    }

    if (stream->reached >= *resume->revision) {
        ngx_etcd_watch_resume_behind(resume, 0);
        ngx_etcd_proof_ask(&stream->proof);
        return;
    }

    if (resume->lags++ == NGX_ETCD_WATCH_RESUME_LAGS) {
        ngx_str_set(&reason, "it lags behind the cluster");
        ngx_etcd_watch_stream_leave(stream, &reason);
        return;
    }

    (void) ngx_etcd_watch_stream_progress(stream);

    ngx_etcd_watch_resume_settle(resume);
}


/*
 * An endpoint that is behind *revision accepts the watch all the same, and
 * names its own revision in the header.
 */

void
ngx_etcd_watch_resume_follow(ngx_etcd_watch_resume_t *resume,
    Etcd__ResponseHeader *header)
{
    int64_t  revision;

    resume->lags = 0;
    revision = *resume->revision;

    if (header != NULL && header->revision == revision) {
        ngx_etcd_watch_resume_behind(resume, 0);
        return;
    }

    resume->target = (header != NULL && header->revision > revision)
                     ? header->revision : INT64_MAX;

    ngx_etcd_event_init_timer(&resume->timer, ngx_etcd_watch_resume_timer,
                              resume, resume->stream->cluster->log);

    ngx_etcd_watch_resume_behind(resume, 1);
    ngx_etcd_watch_resume_settle(resume);
}


void
ngx_etcd_watch_resume_reached(ngx_etcd_watch_resume_t *resume)
{
    if (resume->timer.timer_set && *resume->revision >= resume->target) {
        ngx_del_timer(&resume->timer);
        ngx_etcd_watch_resume_behind(resume, 0);
    }
}


/* All keys of the answer are used at once. */

static ngx_uint_t
ngx_etcd_watch_resume_is_large(Etcd__RangeResponse *response)
{
    size_t  i, bytes;

    bytes = 0;

    for (i = 0; i < response->n_kvs; i++) {
        bytes += response->kvs[i]->key.len + response->kvs[i]->value.len;
    }

    return bytes > NGX_ETCD_WATCH_RESUME_BYTES;
}


static void
ngx_etcd_watch_resume_done(ngx_etcd_stream_range_t *range,
    ngx_etcd_grpc_status_e status, ngx_str_t *text,
    Etcd__RangeResponse *response)
{
    ngx_etcd_watch_resume_t  *resume = range->data;

    ngx_etcd_cluster_t  *cluster;

    cluster = range->cluster;

    ngx_log_error(NGX_LOG_INFO, cluster->log, 0,
                  "etcd cluster \"%V\": prefix \"%V\": read from revision %L "
                  "to %L: %s: %V", &cluster->conf->name, &resume->range->prefix,
                  *resume->revision + 1, resume->at,
                  ngx_etcd_grpc_status_name(status), text);

    if (response != NULL
        && (response->more || ngx_etcd_watch_resume_is_large(response)))
    {
        response = NULL;
    }

    resume->done(resume->data, response, resume->at);
}


/* the endpoint has reached the revision: it can serve a serializable Range */

ngx_int_t
ngx_etcd_watch_resume_read(ngx_etcd_watch_resume_t *resume, int64_t revision)
{
    ngx_int_t                 rc;
    Etcd__RangeRequest        request;
    ngx_etcd_stream_range_t  *range;

    etcd__range_request__init(&request);

    request.key = ngx_etcd_bytes(&resume->range->key);
    request.range_end = ngx_etcd_bytes(&resume->range->range_end);
    request.revision = revision;
    request.limit = NGX_ETCD_WATCH_RESUME_KEYS;
    request.serializable = 1;

    range = &resume->read;

    range->cluster = resume->stream->cluster;
    range->timeout = NGX_ETCD_WATCH_RESUME_TIME;
    range->done = ngx_etcd_watch_resume_done;
    range->data = resume;

    rc = ngx_etcd_stream_range_start(range, &request);

    if (rc == NGX_OK) {
        resume->at = revision;
    }

    return rc;
}


void
ngx_etcd_watch_resume_stop(ngx_etcd_watch_resume_t *resume)
{
    ngx_etcd_stream_range_cancel(&resume->read);

    ngx_etcd_event_stop(&resume->timer);
}
