
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_watch_events.h>
#include <ngx_etcd_message.h>


/* buffered events of a stream take up to so many times max_message_size */
#define NGX_ETCD_WATCH_EVENTS_MAX  4


/* a buffered message, in its own pool */

typedef struct {
    ngx_queue_t           queue;
    ngx_pool_t           *pool;
    size_t                size;      /* bytes of the pool */
    ProtobufCBinaryData  *packed;
    size_t                n;
} ngx_etcd_watch_message_t;


typedef struct {
    Etcd__Event          *events[NGX_ETCD_WATCH_TOGETHER];
    size_t                n;
    size_t                size;      /* bytes */
    size_t                last;      /* events before the last revision */
    int64_t               before;    /* revision of these */
    int64_t               revision;  /* all its events are in the piece, or
                                        before */
    int64_t               newest;    /* highest mod_revision of an event */
} ngx_etcd_watch_piece_t;


void
ngx_etcd_watch_events_behind(ngx_etcd_watch_events_t *events, ngx_uint_t behind)
{
    ngx_etcd_proof_count(&events->stream->proof, 0,
                         (ngx_int_t) behind - (ngx_int_t) events->behind);
    events->behind = behind;
}


static void
ngx_etcd_watch_events_settle(ngx_etcd_watch_events_t *events)
{
    events->turns = NGX_ETCD_WATCH_RESUME_TURNS;
    ngx_add_timer(&events->timer, NGX_ETCD_WATCH_RESUME_TURN);
}


static void
ngx_etcd_watch_events_timer(ngx_event_t *ev)
{
    ngx_etcd_watch_events_t  *events = ev->data;

    ngx_str_t                 reason;
    ngx_etcd_watch_stream_t  *stream;

    stream = events->stream;

    if (--events->turns != 0) {
        ngx_add_timer(ev, NGX_ETCD_WATCH_RESUME_TURN);
        return;
    }

    if (stream->reached >= *events->revision) {
        ngx_etcd_watch_events_behind(events, 0);
        ngx_etcd_proof_ask(&stream->proof);
        return;
    }

    if (events->lags++ == NGX_ETCD_WATCH_RESUME_LAGS) {
        ngx_str_set(&reason, "it lags behind the cluster");
        ngx_etcd_watch_stream_leave(stream, &reason);
        return;
    }

    (void) ngx_etcd_watch_stream_progress(stream);

    ngx_etcd_watch_events_settle(events);
}


/*
 * An endpoint that is behind *revision accepts the watch all the same, and
 * names its own revision in the header.
 */

void
ngx_etcd_watch_events_follow(ngx_etcd_watch_events_t *events,
    Etcd__ResponseHeader *header)
{
    int64_t  revision;

    events->lags = 0;
    revision = *events->revision;

    if (header != NULL && header->revision == revision) {
        ngx_etcd_watch_events_behind(events, 0);
        return;
    }

    events->target = (header != NULL && header->revision > revision)
                     ? header->revision : INT64_MAX;

    ngx_etcd_event_init_timer(&events->timer, ngx_etcd_watch_events_timer,
                              events, events->stream->cluster->log);

    ngx_etcd_watch_events_behind(events, 1);
    ngx_etcd_watch_events_settle(events);
}


static void
ngx_etcd_watch_events_answer(ngx_etcd_stream_range_t *range,
    ngx_etcd_grpc_status_e status, ngx_str_t *text,
    Etcd__RangeResponse *response)
{
    ngx_etcd_watch_events_t  *events = range->data;

    size_t               i, bytes;
    ngx_etcd_cluster_t  *cluster;

    cluster = range->cluster;

    ngx_log_error(NGX_LOG_INFO, cluster->log, 0,
                  "etcd cluster \"%V\": prefix \"%V\": read from revision %L "
                  "to %L: %s: %V", &cluster->conf->name, &events->range->prefix,
                  *events->revision + 1, events->at,
                  ngx_etcd_grpc_status_name(status), text);

    /* all keys of the answer are used at once */

    bytes = 0;

    for (i = 0; response != NULL && i < response->n_kvs; i++) {
        bytes += response->kvs[i]->key.len + response->kvs[i]->value.len;
    }

    if (response != NULL
        && (response->more || bytes > NGX_ETCD_WATCH_RESUME_BYTES))
    {
        response = NULL;
    }

    events->read(events->data, response, events->at);
}


/* the endpoint has reached the revision: it can serve a serializable Range */

ngx_int_t
ngx_etcd_watch_events_read(ngx_etcd_watch_events_t *events, int64_t revision)
{
    ngx_int_t                 rc;
    Etcd__RangeRequest        request;
    ngx_etcd_stream_range_t  *range;

    etcd__range_request__init(&request);

    request.key = ngx_etcd_bytes(&events->range->key);
    request.range_end = ngx_etcd_bytes(&events->range->range_end);
    request.revision = revision;
    request.limit = NGX_ETCD_WATCH_RESUME_KEYS;
    request.serializable = 1;

    range = &events->reader;

    range->cluster = events->stream->cluster;
    range->timeout = NGX_ETCD_WATCH_RESUME_TIME;
    range->done = ngx_etcd_watch_events_answer;
    range->data = events;

    rc = ngx_etcd_stream_range_start(range, &request);

    if (rc == NGX_OK) {
        events->at = revision;
    }

    return rc;
}


/* Returns 1 if all events are one piece. */

static ngx_uint_t
ngx_etcd_watch_events_small(Etcd__WatchResponse *response)
{
    size_t  i, size;

    if (response->n_events > NGX_ETCD_WATCH_PIECE) {
        return 0;
    }

    size = 0;

    for (i = 0; i < response->n_events; i++) {
        size += response->events[i].len;
    }

    return size <= NGX_ETCD_WATCH_BYTES || response->n_events == 1;
}


static ngx_uint_t
ngx_etcd_watch_events_fit(ngx_etcd_watch_events_t *events, size_t size)
{
    ngx_etcd_cluster_t  *cluster;

    cluster = events->stream->cluster;
    size += events->stream->buffered;

    if (size <= cluster->conf->max_message_size * NGX_ETCD_WATCH_EVENTS_MAX) {
        return 1;
    }

    cluster->counts.resyncs++;

    ngx_log_error(NGX_LOG_NOTICE, cluster->log, 0,
                  "etcd cluster \"%V\": prefix \"%V\": buffered events take "
                  "%uz bytes, more than %d times \"max_message_size\", "
                  "listing again",
                  &cluster->conf->name, &events->range->prefix, size,
                  NGX_ETCD_WATCH_EVENTS_MAX);

    return 0;
}


static Etcd__Event *
ngx_etcd_watch_events_unpack(ngx_etcd_watch_events_t *events,
    ProtobufCBinaryData *packed, ngx_pool_t *pool)
{
    ngx_uint_t    exceeded;
    Etcd__Event  *event;

    event = (Etcd__Event *) ngx_etcd_message_unpack(&etcd__event__descriptor,
                                                    pool, packed->data,
                                                    packed->len, &exceeded);

    if (event != NULL
        && event->kv != NULL
        && !ngx_etcd_watch_range_contains(events->range, &event->kv->key))
    {
        ngx_etcd_watch_stream_mixed(events->stream);
        return NULL;
    }

    return event;
}


/* A revision that would be split by earlier ones is left for the next piece. */

static ngx_uint_t
ngx_etcd_watch_events_full(ngx_etcd_watch_piece_t *piece, size_t size,
    int64_t revision)
{
    if (piece->n == 0) {
        return 0;
    }

    size += piece->size;

    if (revision > piece->revision) {
        return piece->n >= NGX_ETCD_WATCH_PIECE || size > NGX_ETCD_WATCH_BYTES;
    }

    if (piece->n < NGX_ETCD_WATCH_TOGETHER
        && size <= NGX_ETCD_WATCH_TOGETHER_BYTES)
    {
        return 0;
    }

    if (piece->last != 0) {
        piece->n = piece->last;
        piece->revision = piece->before;
        piece->newest = piece->before;

    } else {
        piece->revision--;
    }

    return 1;
}


/*
 * Adds events to the piece: whole revisions, unless one revision has too many
 * events.  NGX_DONE: the piece is full.
 */

static ngx_int_t
ngx_etcd_watch_events_piece(ngx_etcd_watch_events_t *events,
    ProtobufCBinaryData *packed, size_t n, ngx_pool_t *pool,
    ngx_etcd_watch_piece_t *piece)
{
    size_t        i;
    int64_t       revision;
    Etcd__Event  *event;

    for (i = 0; i < n; i++) {

        event = ngx_etcd_watch_events_unpack(events, &packed[i], pool);
        if (event == NULL) {
            return NGX_ERROR;
        }

        revision = (event->kv != NULL) ? event->kv->mod_revision : 0;

        if (ngx_etcd_watch_events_full(piece, packed[i].len, revision)) {
            return NGX_DONE;
        }

        if (revision > piece->revision) {
            piece->before = piece->revision;
            piece->last = piece->n;
            piece->revision = revision;
            piece->newest = revision;
        }

        piece->size += packed[i].len;
        piece->events[piece->n++] = event;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_watch_events_fill(ngx_etcd_watch_events_t *events, ngx_pool_t *pool,
    ngx_etcd_watch_piece_t *piece)
{
    size_t                     n, left, taken;
    ngx_int_t                  rc;
    ngx_queue_t               *q;
    ngx_etcd_watch_message_t  *message;

    left = events->whole;
    taken = events->taken;

    for (q = ngx_queue_head(&events->messages);
         left != 0;
         q = ngx_queue_next(q))
    {
        message = ngx_queue_data(q, ngx_etcd_watch_message_t, queue);

        n = ngx_min(message->n - taken, left);

        rc = ngx_etcd_watch_events_piece(events, message->packed + taken, n,
                                         pool, piece);
        if (rc != NGX_OK) {
            return rc;
        }

        left -= n;
        taken = 0;
    }

    return NGX_OK;
}


static void
ngx_etcd_watch_events_free(ngx_etcd_watch_events_t *events,
    ngx_etcd_watch_message_t *message)
{
    events->stream->buffered -= message->size;

    ngx_queue_remove(&message->queue);
    ngx_destroy_pool(message->pool);
}


static void
ngx_etcd_watch_events_clear(ngx_etcd_watch_events_t *events)
{
    ngx_queue_t  *q;

    if (!events->buffering) {
        return;
    }

    events->buffering = 0;

    ngx_etcd_proof_count(&events->stream->proof, 0, -1);

    ngx_etcd_event_stop(&events->post);

    while (!ngx_queue_empty(&events->messages)) {
        q = ngx_queue_head(&events->messages);
        ngx_etcd_watch_events_free(events,
                                   ngx_queue_data(q, ngx_etcd_watch_message_t,
                                                  queue));
    }
}


/* Takes n events, and frees messages that are passed on. */

static void
ngx_etcd_watch_events_pass(ngx_etcd_watch_events_t *events, size_t n)
{
    ngx_queue_t               *q;
    ngx_etcd_watch_message_t  *message;

    events->taken += n;
    events->kept -= n;
    events->whole -= n;

    while (!ngx_queue_empty(&events->messages)) {
        q = ngx_queue_head(&events->messages);
        message = ngx_queue_data(q, ngx_etcd_watch_message_t, queue);

        if (events->taken < message->n) {
            break;
        }

        events->taken -= message->n;
        ngx_etcd_watch_events_free(events, message);
    }
}


static void
ngx_etcd_watch_events_post(ngx_etcd_watch_events_t *events)
{
    if (!events->held && !events->post.posted) {
        ngx_post_event(&events->post, &ngx_posted_next_events);
    }
}


static void
ngx_etcd_watch_events_report(ngx_etcd_watch_events_t *events,
    Etcd__Event **list, size_t n, int64_t revision)
{
    *events->revision = ngx_max(*events->revision, revision);

    if (events->timer.timer_set && *events->revision >= events->target) {
        ngx_del_timer(&events->timer);
        ngx_etcd_watch_events_behind(events, 0);
    }

    events->events(events->data, list, n);
}


static void
ngx_etcd_watch_events_deliver(ngx_etcd_watch_events_t *events,
    ngx_etcd_watch_piece_t *piece)
{
    size_t        i, n;
    Etcd__Event  *event;

    events->split = (piece->revision < piece->newest);

    n = 0;

    for (i = 0; i < piece->n; i++) {
        event = piece->events[i];

        if (event->kv == NULL || event->kv->mod_revision <= *events->revision)
        {
            continue;
        }

        ngx_etcd_watch_range_strip(events->range, &event->kv->key);

        piece->events[n++] = event;
    }

    if (n != 0) {
        ngx_etcd_watch_events_report(events, piece->events, n,
                                     piece->revision);
    }
}


static ngx_int_t
ngx_etcd_watch_events_next(ngx_etcd_watch_events_t *events, ngx_pool_t *pool)
{
    int64_t                 revision;
    ngx_etcd_watch_piece_t  piece;

    ngx_memzero(&piece, sizeof(ngx_etcd_watch_piece_t));

    if (ngx_etcd_watch_events_fill(events, pool, &piece) == NGX_ERROR) {
        return NGX_ERROR;
    }

    ngx_etcd_watch_events_pass(events, piece.n);

    ngx_log_debug4(NGX_LOG_DEBUG_EVENT, events->stream->cluster->log, 0,
                   "etcd watch \"%V\": %uz events of %uz bytes are handed on, "
                   "%uz are left", &events->range->prefix, piece.n, piece.size,
                   events->whole);

    if (events->whole != 0) {
        ngx_etcd_watch_events_post(events);
    }

    ngx_etcd_watch_events_deliver(events, &piece);

    /* the handler may have dropped all events */

    if (!events->buffering || !ngx_queue_empty(&events->messages)) {
        return NGX_OK;
    }

    revision = events->progress;

    ngx_etcd_watch_events_clear(events);
    ngx_etcd_watch_events_progress(events, revision);
    ngx_etcd_proof_ask(&events->stream->proof);

    return NGX_OK;
}


static void
ngx_etcd_watch_events_handler(ngx_event_t *ev)
{
    ngx_etcd_watch_events_t  *events = ev->data;

    ngx_str_t    reason;
    ngx_pool_t  *pool;

    pool = ngx_create_pool(4096, events->stream->cluster->log);

    if (pool == NULL || ngx_etcd_watch_events_next(events, pool) != NGX_OK) {
        *events->revision = 0;

        ngx_str_set(&reason, "events could not be read");
        ngx_etcd_watch_stream_leave(events->stream, &reason);
    }

    if (pool != NULL) {
        ngx_destroy_pool(pool);
    }
}


static ngx_int_t
ngx_etcd_watch_events_keep(ngx_etcd_watch_events_t *events,
    Etcd__WatchResponse *response, ngx_pool_t *pool)
{
    ngx_etcd_watch_message_t  *message;

    message = ngx_palloc(pool, sizeof(ngx_etcd_watch_message_t));
    if (message == NULL) {
        return NGX_ERROR;
    }

    message->pool = pool;
    message->size = ngx_etcd_message_memory(pool);
    message->packed = response->events;
    message->n = response->n_events;

    if (!ngx_etcd_watch_events_fit(events, message->size)) {
        events->overflow(events->data);
        return NGX_OK;
    }

    if (!events->buffering) {
        events->buffering = 1;
        events->taken = 0;
        events->kept = 0;
        events->whole = 0;
        events->progress = 0;

        ngx_queue_init(&events->messages);

        ngx_etcd_event_init(&events->post, ngx_etcd_watch_events_handler,
                            events, events->stream->cluster->log);

        ngx_etcd_proof_count(&events->stream->proof, 0, 1);
    }

    ngx_queue_insert_tail(&events->messages, &message->queue);

    events->stream->buffered += message->size;
    events->kept += message->n;

    if (!response->fragment) {
        events->whole = events->kept;
        ngx_etcd_watch_events_post(events);
    }

    return NGX_DONE;
}


ngx_int_t
ngx_etcd_watch_events_add(ngx_etcd_watch_events_t *events,
    Etcd__WatchResponse *response, ngx_pool_t *pool)
{
    ngx_etcd_watch_piece_t  piece;

    if (response->fragment
        || events->buffering
        || events->held
        || !ngx_etcd_watch_events_small(response))
    {
        return ngx_etcd_watch_events_keep(events, response, pool);
    }

    ngx_memzero(&piece, sizeof(ngx_etcd_watch_piece_t));

    if (ngx_etcd_watch_events_piece(events, response->events,
                                    response->n_events, pool, &piece)
        == NGX_ERROR)
    {
        return NGX_ERROR;
    }

    ngx_etcd_watch_events_deliver(events, &piece);

    return NGX_OK;
}


void
ngx_etcd_watch_events_progress(ngx_etcd_watch_events_t *events,
    int64_t revision)
{
    if (events->buffering) {
        events->progress = revision;
        return;
    }

    if (!events->held && revision > *events->revision) {
        ngx_etcd_watch_events_report(events, NULL, 0, revision);
    }
}


void
ngx_etcd_watch_events_hold(ngx_etcd_watch_events_t *events, ngx_uint_t held)
{
    events->held = held;
    ngx_etcd_watch_events_behind(events, held);

    if (held) {
        return;
    }

    if (events->buffering) {
        ngx_etcd_watch_events_post(events);
    }

    ngx_etcd_proof_ask(&events->stream->proof);
}


void
ngx_etcd_watch_events_drop(ngx_etcd_watch_events_t *events)
{
    ngx_etcd_stream_range_cancel(&events->reader);
    ngx_etcd_event_stop(&events->timer);

    events->held = 0;
    ngx_etcd_watch_events_clear(events);
}
