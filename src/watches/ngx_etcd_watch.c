
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_str.h>
#include <ngx_etcd_watch.h>
#include <ngx_etcd_watch_request.h>


#define NGX_ETCD_WATCH_REASON  512     /* bytes of etcd's text in the log */


static void
ngx_etcd_watch_begin(ngx_etcd_watch_t *watch)
{
    watch->resume.volume = 0;
    watch->nkeys = 0;
    watch->pieces.split = 0;
    ngx_etcd_verify_anew(watch->verify);
    watch->list(watch);
}


static void
ngx_etcd_watch_list_begin(ngx_etcd_list_t *list)
{
    ngx_etcd_watch_begin(list->data);
}


static ngx_int_t
ngx_etcd_watch_keys(ngx_etcd_watch_t *watch, Etcd__KeyValue **kvs, size_t n)
{
    size_t  i;

    watch->nkeys += n;

    for (i = 0; i < n; i++) {
        watch->resume.volume += kvs[i]->key.len + kvs[i]->value.len;
        ngx_etcd_watch_range_strip(&watch->range, &kvs[i]->key);
    }

    return watch->keys(watch, kvs, n);
}


static ngx_int_t
ngx_etcd_watch_list_keys(ngx_etcd_list_t *list, Etcd__KeyValue **kvs, size_t n)
{
    return ngx_etcd_watch_keys(list->data, kvs, n);
}


/* all keys at that revision were reported; later events are buffered */

static void
ngx_etcd_watch_caught_up(ngx_etcd_watch_t *watch, int64_t revision)
{
    watch->resume.missed = 0;
    watch->revision = revision;
    watch->listed(watch, revision);
    watch->foreign = 0;

    if (watch->state == NGX_ETCD_WATCH_ACTIVE) {
        ngx_etcd_watch_events_hold(&watch->pieces, 0);
    }
}


/* Ends the list, if there is one. */

static void
ngx_etcd_watch_list_cancel(ngx_etcd_watch_t *watch)
{
    if (watch->reader != NULL) {
        ngx_etcd_list_cancel(watch->reader);
        watch->limit = watch->reader->limit;
        ngx_free(watch->reader);
        watch->reader = NULL;
        watch->resume.listing = 0;
        watch->stream->nlisting--;
    }
}


/* Takes the watch off the stream, in any state. */

static void
ngx_etcd_watch_detach(ngx_etcd_watch_t *watch)
{
    ngx_etcd_watch_list_cancel(watch);

    if (watch->state == NGX_ETCD_WATCH_ACTIVE) {
        ngx_etcd_verify_stop(watch->verify);
        ngx_etcd_watch_events_behind(&watch->pieces, 1);
    }

    ngx_etcd_watch_stream_detach(&watch->member);
    ngx_etcd_watch_events_drop(&watch->pieces);

    ngx_etcd_event_stop(&watch->timer);
}


static void
ngx_etcd_watch_rest(ngx_etcd_watch_t *watch)
{
    /*
     * A part of a revision was passed on.  Its events must not come again,
     * because ngx_etcd_watch_events() counts keys: list instead.
     */

    if (watch->pieces.split) {
        watch->pieces.split = 0;
        watch->revision = 0;
    }

    watch->state = watch->revision ? NGX_ETCD_WATCH_LISTED
                                   : NGX_ETCD_WATCH_NEW;
}


/* Creates the watch again, at its revision, or after a list. */

static void
ngx_etcd_watch_replay(ngx_etcd_watch_t *watch)
{
    watch->resume.list_first = (watch->revision == 0);

    ngx_etcd_watch_detach(watch);

    watch->resume.missed = 0;
    ngx_etcd_watch_rest(watch);
}


static void
ngx_etcd_watch_refused(void *data, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    ngx_etcd_watch_t *watch = data;

    ngx_etcd_watch_detach(watch);

    watch->state = NGX_ETCD_WATCH_WAITING;
    ngx_add_timer(&watch->timer, ngx_etcd_backoff(watch->stream->cluster,
                                                  ++watch->failures));

    if (status == NGX_ETCD_GRPC_PERMISSION_DENIED) {
        ngx_etcd_watch_events_behind(&watch->pieces, 0);
    }

    watch->failed(watch, status, text);
}


static void
ngx_etcd_watch_list_done(ngx_etcd_list_t *list, ngx_etcd_grpc_status_e status,
    ngx_str_t *text, int64_t revision)
{
    ngx_uint_t                active;
    ngx_etcd_watch_t         *watch;
    ngx_etcd_watch_stream_t  *stream;

    watch = list->data;
    stream = watch->stream;

    watch->reader = NULL;
    watch->limit = list->limit;
    stream->nlisting--;

    active = watch->resume.listing;
    watch->resume.listing = 0;

    if (!active) {
        watch->state = NGX_ETCD_WATCH_LISTED;
    }

    if (status == NGX_ETCD_GRPC_OK) {
        watch->failures = 0;

        if (stream->doubted) {
            stream->doubted = 0;
            stream->cluster->revision = revision;
        }

        if (!active) {
            watch->resume.list_first = 0;
            ngx_etcd_watch_events_behind(&watch->pieces, 1);
        }

        ngx_etcd_watch_caught_up(watch, revision);

    } else if (active && status == NGX_ETCD_GRPC_OUT_OF_RANGE) {

        /* the revision was compacted before the list was complete */

        ngx_etcd_watch_replay(watch);

    } else {
        ngx_etcd_watch_refused(watch, status, text);
    }

    ngx_free(list);

    ngx_etcd_watch_stream_advance(stream);
}


static void
ngx_etcd_watch_timer(ngx_event_t *ev)
{
    ngx_etcd_watch_t *watch = ev->data;

    ngx_etcd_watch_rest(watch);

    ngx_etcd_watch_stream_advance(watch->stream);
}


static void
ngx_etcd_watch_read(void *data, Etcd__RangeResponse *response, int64_t revision)
{
    ngx_etcd_watch_t *watch = data;

    ngx_int_t  rc;
    ngx_str_t  text;

    if (response == NULL) {
        ngx_etcd_watch_replay(watch);
        ngx_etcd_watch_stream_advance(watch->stream);
        return;
    }

    /* the history may have changed while the stream was closed */

    watch->foreign = 1;

    ngx_etcd_watch_begin(watch);

    rc = ngx_etcd_watch_keys(watch, response->kvs, response->n_kvs);

    if (rc == NGX_OK) {
        rc = ngx_etcd_watch_keys(watch, NULL, 0);
    }

    if (rc == NGX_OK) {
        ngx_etcd_watch_caught_up(watch, revision);

    } else if (rc == NGX_AGAIN) {

        /* many keys are gone: a list removes them in pieces */

        ngx_etcd_watch_again(watch, 0);

    } else {
        ngx_str_set(&text, "the response could not be used");
        ngx_etcd_watch_refused(watch, NGX_ETCD_GRPC_INTERNAL, &text);
    }
}


static void
ngx_etcd_watch_events(void *data, Etcd__Event **events, size_t n)
{
    ngx_etcd_watch_t *watch = data;

    size_t     i;
    ngx_int_t  change;

    for (i = 0; i < n; i++) {
        change = (events[i]->type == ETCD__EVENT__EVENT_TYPE__DELETE)
                 ? -1 : (events[i]->kv->version == 1);

        watch->nkeys += change;
        ngx_etcd_verify_counted(watch->verify, events[i]->kv->mod_revision,
                                change);
    }

    watch->events(watch, events, n, watch->revision);
    ngx_etcd_verify_reached(watch->verify);
}


static void
ngx_etcd_watch_overflow(void *data)
{
    ngx_etcd_watch_again(data, 0);
}


/* Returns 1 if events have arrived that can be passed on and were not. */

static ngx_uint_t
ngx_etcd_watch_pending(void *data)
{
    ngx_etcd_watch_t *watch = data;

    return watch->pieces.buffering && watch->pieces.whole != 0;
}


static void
ngx_etcd_watch_verified(void *data, uint64_t time)
{
    ngx_etcd_watch_t *watch = data;

    watch->verified(watch, time);
}


static void
ngx_etcd_watch_differs(void *data)
{
    ngx_etcd_watch_t *watch = data;

    /* values may differ though revisions are equal */

    watch->foreign = 1;
    ngx_etcd_watch_again(watch, 0);
}


ngx_int_t
ngx_etcd_watch_remove(ngx_etcd_watch_t *watch)
{
    if (watch->state == NGX_ETCD_WATCH_CREATING) {

        /* creates are answered in order: the member waits for its answer */

        return NGX_AGAIN;
    }

    ngx_etcd_watch_detach(watch);
    ngx_etcd_watch_events_behind(&watch->pieces, 0);

    ngx_queue_remove(&watch->member.queue);

    return NGX_OK;
}


void
ngx_etcd_watch_again(ngx_etcd_watch_t *watch, ngx_msec_t delay)
{
    watch->revision = 0;

    if (watch->state == NGX_ETCD_WATCH_CREATING) {

        /* creates are answered in order: the watch lists after the answer */

        return;
    }

    ngx_etcd_watch_detach(watch);

    if (delay != 0) {
        watch->state = NGX_ETCD_WATCH_WAITING;
        ngx_add_timer(&watch->timer, delay);
        return;
    }

    watch->state = NGX_ETCD_WATCH_NEW;
    ngx_etcd_watch_stream_advance(watch->stream);
}


/* Revision 0 is the newest.  Without memory the list is made later. */

static void
ngx_etcd_watch_list(ngx_etcd_watch_t *watch, int64_t revision)
{
    ngx_etcd_list_t     *list;
    ngx_etcd_cluster_t  *cluster;

    cluster = watch->stream->cluster;

    list = ngx_calloc(sizeof(ngx_etcd_list_t), cluster->log);
    if (list == NULL) {
        ngx_etcd_watch_again(watch,
                             ngx_etcd_backoff(cluster, ++watch->failures));
        return;
    }

    list->cluster = cluster;
    list->key = watch->range.key;
    list->range_end = watch->range.range_end;
    list->limit = watch->limit;
    list->pinned = revision;
    list->begin = ngx_etcd_watch_list_begin;
    list->keys = ngx_etcd_watch_list_keys;
    list->done = ngx_etcd_watch_list_done;
    list->data = watch;

    watch->reader = list;
    watch->resume.listing = (watch->state == NGX_ETCD_WATCH_ACTIVE);
    watch->stream->nlisting++;

    ngx_etcd_list_start(list);
}


static void
ngx_etcd_watch_advance(void *data)
{
    ngx_etcd_watch_t *watch = data;

    int64_t                   revision;
    ngx_int_t                 rc;
    ngx_etcd_watch_resume_t  *resume;
    ngx_etcd_watch_stream_t  *stream;

    stream = watch->stream;
    resume = &watch->resume;

    if (watch->state == NGX_ETCD_WATCH_NEW) {

        if (watch->prompt && !resume->list_first) {
            watch->state = NGX_ETCD_WATCH_LISTED;

        } else if (stream->nlisting < NGX_ETCD_WATCH_STREAM_LISTS) {
            watch->state = NGX_ETCD_WATCH_LISTING;
            ngx_etcd_watch_list(watch, 0);
        }
    }

    if (watch->state != NGX_ETCD_WATCH_LISTED) {
        return;
    }

    resume->from_now = (watch->revision == 0
                        || (resume->missed
                            && resume->volume <= NGX_ETCD_WATCH_RESUME_VOLUME));

    /*
     * The watch starts at its own revision, whose events are dropped, not at
     * the next one: while the start revision is in the future, etcd from
     * 3.4.38, 3.5.22 and 3.6.2 on answers no request for progress on the
     * stream.
     */

    revision = resume->from_now ? 0 : watch->revision;
    rc = ngx_etcd_watch_stream_create_watch(&watch->member, &watch->range.key,
                                            &watch->range.range_end, revision);

    if (rc == NGX_OK) {
        watch->state = NGX_ETCD_WATCH_CREATING;
    }
}


/* etcd has refused to create the watch, or has ended it */

static void
ngx_etcd_watch_declined(ngx_etcd_watch_t *watch, Etcd__WatchResponse *response)
{
    u_char                    shown[NGX_ETCD_ESCAPED(NGX_ETCD_WATCH_REASON)];
    ngx_str_t                 raw, text;
    ngx_etcd_auth_t          *auth;
    ngx_etcd_grpc_status_e    status;
    ngx_etcd_watch_stream_t  *stream;

    stream = watch->stream;
    auth = stream->cluster->auth;

    raw = ngx_etcd_bytes_str(&response->cancel_reason);

    status = ngx_etcd_watch_request_status(&raw);

    text.data = shown;
    text.len = ngx_etcd_escape(shown, &raw, NGX_ETCD_WATCH_REASON) - shown;

    ngx_log_debug3(NGX_LOG_DEBUG_EVENT, stream->cluster->log, 0,
                   "etcd watch \"%V\": canceled, id %L: \"%V\"",
                   &watch->range.prefix, response->watch_id, &text);

    if (status == NGX_ETCD_GRPC_UNAUTHENTICATED
        || (status == NGX_ETCD_GRPC_PERMISSION_DENIED
            && ngx_etcd_auth_outdated(auth, stream->token)))
    {
        ngx_etcd_watch_detach(watch);
        ngx_etcd_watch_rest(watch);

        /*
         * The stream ends when there is another token.  Active watches continue
         * until then, however long that takes.
         */

        stream->stale = 1;

        (void) ngx_etcd_auth_refused(auth, stream->cluster->streams,
                                     stream->token,
                                     NGX_ETCD_GRPC_UNAUTHENTICATED, &text);

        ngx_etcd_auth_wait(auth, &stream->waiter);
        return;
    }

    ngx_etcd_watch_refused(watch, status, &text);
}


/* Brings the watch from its revision, or from none, to that of the header. */

static void
ngx_etcd_watch_continue(ngx_etcd_watch_t *watch, Etcd__ResponseHeader *header)
{
    if (watch->resume.from_now) {

        /* a header without a cluster id is made by a proxy: no proof */

        if (header == NULL || header->cluster_id == 0 || header->revision <= 0)
        {
            ngx_etcd_watch_replay(watch);
            return;
        }

        if (header->revision > watch->revision) {
            ngx_etcd_watch_events_hold(&watch->pieces, 1);

            if (watch->revision == 0) {
                ngx_etcd_watch_list(watch, header->revision);

            } else if (ngx_etcd_watch_events_read(&watch->pieces,
                                                  header->revision)
                       != NGX_OK)
            {
                ngx_etcd_watch_replay(watch);
            }

            return;
        }
    }

    watch->resume.missed = 0;
    ngx_etcd_watch_events_follow(&watch->pieces, header);
}


static void
ngx_etcd_watch_established(ngx_etcd_watch_t *watch,
    Etcd__WatchResponse *response)
{
    ngx_etcd_cluster_t  *cluster;

    cluster = watch->stream->cluster;

    ngx_log_debug3(NGX_LOG_DEBUG_EVENT, cluster->log, 0,
                   "etcd watch \"%V\": created, id %L, from revision %L",
                   &watch->range.prefix, response->watch_id, watch->revision);

    watch->state = NGX_ETCD_WATCH_ACTIVE;
    ngx_etcd_watch_stream_activate(&watch->member, response->watch_id);

    watch->creates++;
    watch->failures = 0;

    ngx_etcd_auth_accepted(cluster->auth);
    ngx_etcd_verify_start(watch->verify);

    if (watch->revision != 0 && !response->canceled) {

        /* an owner that has reported a refusal must learn that it is over */

        watch->events(watch, NULL, 0, watch->revision);
    }

    if (watch->state == NGX_ETCD_WATCH_ACTIVE) {
        ngx_etcd_watch_continue(watch, response->header);
    }
}


static void
ngx_etcd_watch_created(void *data, Etcd__WatchResponse *response)
{
    ngx_etcd_watch_t *watch = data;

    if (response->canceled && response->compact_revision == 0) {
        watch->state = NGX_ETCD_WATCH_LISTED;
        ngx_etcd_watch_declined(watch, response);
        return;
    }

    if (watch->revision == 0 && !(watch->prompt && watch->resume.from_now)) {

        /* the revision became void before the answer came */

        ngx_etcd_watch_stream_cancel(watch->stream, response->watch_id);
        watch->state = NGX_ETCD_WATCH_NEW;
        return;
    }

    ngx_etcd_watch_established(watch, response);
}


static void
ngx_etcd_watch_canceled(ngx_etcd_watch_t *watch, Etcd__WatchResponse *response)
{
    ngx_etcd_cluster_t  *cluster;

    if (response->compact_revision != 0) {
        cluster = watch->stream->cluster;
        cluster->counts.resyncs++;

        ngx_log_error(NGX_LOG_NOTICE, cluster->log, 0,
                      "etcd cluster \"%V\": prefix \"%V\": revision %L is "
                      "compacted (at %L), listing again",
                      &cluster->conf->name, &watch->range.prefix,
                      watch->revision, response->compact_revision);

        ngx_etcd_watch_detach(watch);
        watch->revision = 0;
        watch->state = NGX_ETCD_WATCH_NEW;
        return;
    }

    ngx_etcd_watch_declined(watch, response);
}


static ngx_int_t
ngx_etcd_watch_response(void *data, Etcd__WatchResponse *response,
    ngx_pool_t *pool)
{
    ngx_etcd_watch_t *watch = data;

    ngx_int_t  rc;

    if (response->canceled) {
        ngx_etcd_watch_canceled(watch, response);
        return NGX_OK;
    }

    if (response->fragment || response->n_events != 0) {
        rc = ngx_etcd_watch_events_add(&watch->pieces, response, pool);

        if (rc == NGX_DONE && watch->verify != NULL) {
            watch->verify->behind = 0;

        } else if (rc == NGX_ERROR) {
            watch->revision = 0;
        }

        return rc;
    }

    if (!response->created && response->header != NULL) {
        ngx_etcd_watch_events_progress(&watch->pieces,
                                       response->header->revision);
    }

    return NGX_OK;
}


static void
ngx_etcd_watch_ended(void *data)
{
    ngx_etcd_watch_t *watch = data;

    ngx_etcd_watch_detach(watch);
    ngx_etcd_watch_rest(watch);
    watch->resume.missed = 1;
}


static void
ngx_etcd_watch_relist(void *data, ngx_uint_t foreign)
{
    ngx_etcd_watch_t *watch = data;

    watch->revision = 0;
    watch->foreign |= foreign;

    /*
     * In other states the watch lists anyway, or when its create is answered;
     * a list that has begun would mix keys of two histories.
     */

    if (watch->state == NGX_ETCD_WATCH_ACTIVE
        || watch->state == NGX_ETCD_WATCH_LISTED
        || (watch->state == NGX_ETCD_WATCH_LISTING
            && ngx_etcd_list_outdated(watch->reader)))
    {
        ngx_etcd_watch_detach(watch);
        watch->state = NGX_ETCD_WATCH_NEW;
    }
}


static void
ngx_etcd_watch_stop(void *data)
{
    ngx_etcd_watch_t *watch = data;

    ngx_etcd_watch_list_cancel(watch);
    ngx_etcd_verify_stop(watch->verify);
    ngx_etcd_watch_events_drop(&watch->pieces);
    ngx_etcd_event_stop(&watch->timer);
}


static const ngx_etcd_watch_stream_handlers_t  ngx_etcd_watch_handlers = {
    ngx_etcd_watch_advance,
    ngx_etcd_watch_created,
    ngx_etcd_watch_response,
    ngx_etcd_watch_ended,
    ngx_etcd_watch_relist,
    ngx_etcd_watch_stop
};


static ngx_int_t
ngx_etcd_watch_init_verify(ngx_etcd_watch_t *watch, ngx_pool_t *pool)
{
    ngx_etcd_verify_t  *verify;

    if (watch->verify_interval == 0) {
        return NGX_OK;
    }

    verify = ngx_pcalloc(pool, sizeof(ngx_etcd_verify_t));
    if (verify == NULL) {
        return NGX_ERROR;
    }

    watch->verify = verify;

    verify->proof = &watch->stream->proof;
    verify->range = &watch->range;
    verify->revision = &watch->revision;
    verify->nkeys = &watch->nkeys;
    verify->interval = watch->verify_interval;
    verify->pending = ngx_etcd_watch_pending;
    verify->verified = ngx_etcd_watch_verified;
    verify->differs = ngx_etcd_watch_differs;
    verify->refused = ngx_etcd_watch_refused;
    verify->data = watch;

    return NGX_OK;
}


ngx_int_t
ngx_etcd_watch_add(ngx_etcd_watch_stream_t *stream, ngx_etcd_watch_t *watch)
{
    ngx_pool_t               *pool;
    ngx_etcd_cluster_t       *cluster;
    ngx_etcd_watch_events_t  *pieces;

    cluster = stream->cluster;
    pool = (watch->pool != NULL) ? watch->pool : cluster->pool;

    if (ngx_etcd_watch_range_init(&watch->range, pool,
                                  &cluster->conf->key_namespace)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    watch->stream = stream;

    if (ngx_etcd_watch_init_verify(watch, pool) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_etcd_event_init_timer(&watch->timer, ngx_etcd_watch_timer, watch,
                              cluster->log);

    pieces = &watch->pieces;

    pieces->stream = stream;
    pieces->range = &watch->range;
    pieces->revision = &watch->revision;
    pieces->events = ngx_etcd_watch_events;
    pieces->overflow = ngx_etcd_watch_overflow;
    pieces->read = ngx_etcd_watch_read;
    pieces->data = watch;

    ngx_etcd_watch_rest(watch);
    ngx_etcd_watch_events_behind(&watch->pieces, 1);

    watch->member.handlers = &ngx_etcd_watch_handlers;
    watch->member.data = watch;
    watch->member.stream = stream;

    ngx_etcd_proof_know(&stream->proof, &watch->range.key);

    ngx_queue_insert_tail(&stream->members, &watch->member.queue);
    ngx_etcd_watch_stream_advance(stream);

    return NGX_OK;
}
