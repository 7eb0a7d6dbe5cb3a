
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Watches of the model, as etcd serves them: one that starts at a revision of
 * the past is "unsynced", and served in rounds of 100 ms until it has come to
 * the present; one that is synced gets what its member applies.
 */


#include "model.h"


#define MODEL_WATCH_EVENTS  128     /* of one answer; a revision is never cut
                                       but by fragments */


struct model_watch_s {
    ngx_queue_t               queue;
    model_stream_t           *stream;
    int64_t                   id;
    int64_t                   next;         /* revision to be sent */
    ngx_str_t                 key;
    ngx_str_t                 end;
    ngx_uint_t                synced;
    ngx_uint_t                progress;
    ngx_uint_t                fragment;
    sim_event_t               sync;
};


static void model_watch_create(model_stream_t *stream,
    Etcd__WatchCreateRequest *request);
static void model_watch_cancel(model_stream_t *stream, int64_t id);
static void model_watch_progress(sim_event_t *ev);
static void model_watch_answer(model_stream_t *stream);
static void model_watch_sync(sim_event_t *ev);
static void model_watch_send(model_watch_t *watch, int64_t compacted);
static int64_t model_watch_compacted(model_watch_t *watch);
static void model_watch_events(model_watch_t *watch, model_rec_t **recs,
    size_t n, int64_t revision);
static void model_watch_pack(ProtobufCBinaryData *event, model_rec_t *rec);
static void model_watch_message(model_stream_t *stream, int64_t id,
    Etcd__WatchResponse *response, int64_t revision);
static ngx_str_t model_watch_bytes(ProtobufCBinaryData *data);


void
model_watch_open(model_stream_t *stream, model_member_t *member, void *data)
{
    ngx_memzero(stream, sizeof(model_stream_t));

    stream->member = member;
    stream->data = data;
    stream->open = 1;
    stream->progress.handler = model_watch_progress;
    stream->progress.data = stream;

    ngx_queue_init(&stream->watches);
    ngx_queue_insert_tail(&member->streams, &stream->queue);

    sim_add(&stream->progress, sim.now + SIM_SECOND + sim_below(SIM_SECOND));
}


void
model_watch_close(model_stream_t *stream)
{
    ngx_queue_t    *q;
    model_watch_t  *watch;

    if (!stream->open) {
        return;
    }

    stream->open = 0;
    ngx_queue_remove(&stream->queue);
    sim_remove(&stream->progress);

    for (q = ngx_queue_head(&stream->watches);
         q != ngx_queue_sentinel(&stream->watches);
         q = ngx_queue_next(q))
    {
        watch = ngx_queue_data(q, model_watch_t, queue);
        sim_remove(&watch->sync);
    }
}


void
model_watch_request(model_stream_t *stream, Etcd__WatchRequest *request)
{
    switch (request->request_union_case) {

    case ETCD__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST:
        model_watch_create(stream, request->create_request);
        break;

    case ETCD__WATCH_REQUEST__REQUEST_UNION_CANCEL_REQUEST:
        model_watch_cancel(stream, request->cancel_request->watch_id);
        break;

    case ETCD__WATCH_REQUEST__REQUEST_UNION_PROGRESS_REQUEST:
        stream->asked = 1;
        model_watch_answer(stream);
        break;

    default:
        break;
    }
}


static ngx_str_t
model_watch_bytes(ProtobufCBinaryData *data)
{
    ngx_str_t  str;

    str.len = data->len;
    str.data = sim_alloc(data->len + 1);
    ngx_memcpy(str.data, data->data, data->len);

    return str;
}


static void
model_watch_create(model_stream_t *stream, Etcd__WatchCreateRequest *request)
{
    int64_t               applied;
    model_watch_t        *watch;
    model_member_t       *member;
    Etcd__WatchResponse   response;
    static char           denied[] = "rpc error: code = PermissionDenied desc ="
                                     " etcdserver: permission denied";

    member = stream->member;
    applied = member->applied;

    watch = sim_alloc(sizeof(model_watch_t));
    watch->stream = stream;
    watch->key = model_watch_bytes(&request->key);
    watch->end = model_watch_bytes(&request->range_end);
    watch->progress = request->progress_notify;
    watch->fragment = request->fragment;
    watch->sync.handler = model_watch_sync;
    watch->sync.data = watch;

    etcd__watch_response__init(&response);
    response.created = 1;

    if (model.denied.len != 0
        && watch->key.len >= model.denied.len
        && ngx_memcmp(watch->key.data, model.denied.data, model.denied.len)
           == 0)
    {
        response.canceled = 1;
        response.cancel_reason.data = (uint8_t *) denied;
        response.cancel_reason.len = sizeof(denied) - 1;
        model_watch_message(stream, -1, &response, applied);
        return;
    }

    watch->id = stream->ids++;
    watch->next = request->start_revision ? request->start_revision
                                          : applied + 1;
    watch->synced = (watch->next > applied);

    ngx_queue_insert_tail(&stream->watches, &watch->queue);
    model_watch_message(stream, watch->id, &response, applied);

    if (!watch->synced) {
        sim_add(&watch->sync, sim.now + sim_below(100 * SIM_MS));
    }
}


static void
model_watch_cancel(model_stream_t *stream, int64_t id)
{
    ngx_queue_t          *q;
    model_watch_t        *watch;
    Etcd__WatchResponse   response;

    for (q = ngx_queue_head(&stream->watches);
         q != ngx_queue_sentinel(&stream->watches);
         q = ngx_queue_next(q))
    {
        watch = ngx_queue_data(q, model_watch_t, queue);

        if (watch->id == id) {
            ngx_queue_remove(q);
            sim_remove(&watch->sync);

            etcd__watch_response__init(&response);
            response.canceled = 1;
            model_watch_message(stream, id, &response,
                                stream->member->applied);
            return;
        }
    }
}


/* of the server's own accord, to each watch that wants it */

static void
model_watch_progress(sim_event_t *ev)
{
    ngx_queue_t          *q;
    model_watch_t        *watch;
    model_stream_t       *stream;
    Etcd__WatchResponse   response;

    stream = ev->data;

    for (q = ngx_queue_head(&stream->watches);
         q != ngx_queue_sentinel(&stream->watches);
         q = ngx_queue_next(q))
    {
        watch = ngx_queue_data(q, model_watch_t, queue);

        if (watch->synced && watch->progress) {
            etcd__watch_response__init(&response);
            model_watch_message(stream, watch->id, &response,
                                stream->member->applied);
        }
    }

    sim_add(ev, sim.now + 3 * SIM_SECOND + sim_below(3 * SIM_SECOND));
}


/* A progress request is answered when all watches of the stream are synced. */

static void
model_watch_answer(model_stream_t *stream)
{
    ngx_queue_t          *q;
    model_watch_t        *watch;
    Etcd__WatchResponse   response;

    if (!stream->asked) {
        return;
    }

    for (q = ngx_queue_head(&stream->watches);
         q != ngx_queue_sentinel(&stream->watches);
         q = ngx_queue_next(q))
    {
        watch = ngx_queue_data(q, model_watch_t, queue);

        if (!watch->synced || watch->next > stream->member->applied + 1) {
            return;
        }
    }

    stream->asked = 0;

    etcd__watch_response__init(&response);
    model_watch_message(stream, -1, &response, stream->member->applied);
}


/* a member that lags has not compacted what it has not applied */

static int64_t
model_watch_compacted(model_watch_t *watch)
{
    return ngx_min(model.store->compacted, watch->stream->member->applied);
}


static void
model_watch_sync(sim_event_t *ev)
{
    int64_t               compacted;
    model_watch_t        *watch;
    Etcd__WatchResponse   response;

    watch = ev->data;

    compacted = model_watch_compacted(watch);

    if (watch->next < compacted) {
        ngx_queue_remove(&watch->queue);

        etcd__watch_response__init(&response);
        response.canceled = 1;
        response.compact_revision = compacted;
        model_watch_message(watch->stream, watch->id, &response,
                            watch->stream->member->applied);
        return;
    }

    watch->synced = 1;
    model_watch_send(watch, compacted);
    model_watch_answer(watch->stream);
}


void
model_watch_applied(model_member_t *member)
{
    ngx_queue_t     *q, *w;
    model_watch_t   *watch;
    model_stream_t  *stream;

    for (q = ngx_queue_head(&member->streams);
         q != ngx_queue_sentinel(&member->streams);
         q = ngx_queue_next(q))
    {
        stream = ngx_queue_data(q, model_stream_t, queue);

        for (w = ngx_queue_head(&stream->watches);
             w != ngx_queue_sentinel(&stream->watches);
             w = ngx_queue_next(w))
        {
            watch = ngx_queue_data(w, model_watch_t, queue);

            if (watch->synced) {
                model_watch_send(watch, 0);
            }
        }

        model_watch_answer(stream);
    }
}


/*
 * All that the member has applied and the watch has not been sent.  What a
 * compaction leaves of deletions at its own revision is not certain.
 */

static void
model_watch_send(model_watch_t *watch, int64_t compacted)
{
    size_t          i, n;
    int64_t         applied;
    model_rec_t    *rec, *recs[MODEL_WATCH_EVENTS];
    model_store_t  *store;

    store = model.store;
    applied = watch->stream->member->applied;

    if (applied < watch->next) {
        return;
    }

    n = 0;

    for (i = model_after(store, watch->next - 1);
         i < store->nrecs && store->recs[i]->mod <= applied;
         i++)
    {
        rec = store->recs[i];

        if (!model_in(&rec->key, &watch->key, &watch->end)
            || (rec->deleted && rec->mod <= compacted))
        {
            continue;
        }

        if (n > MODEL_WATCH_EVENTS / 2 && recs[n - 1]->mod != rec->mod) {
            model_watch_events(watch, recs, n, applied);
            n = 0;
        }

        if (n == MODEL_WATCH_EVENTS) {
            abort();
        }

        recs[n++] = rec;
    }

    watch->next = applied + 1;

    if (n != 0) {
        model_watch_events(watch, recs, n, applied);
    }
}


static void
model_watch_events(model_watch_t *watch, model_rec_t **recs, size_t n,
    int64_t revision)
{
    size_t                i, from, to;
    ProtobufCBinaryData   events[MODEL_WATCH_EVENTS];
    Etcd__WatchResponse   response;

    for (i = 0; i < n; i++) {
        model_watch_pack(&events[i], recs[i]);
    }

    for (from = 0; from < n; from = to) {
        to = n;

        if (watch->fragment && n - from > 1 && sim_fault(SIM_FAULT_FRAGMENT)
            && sim_chance(2))
        {
            to = from + 1 + sim_below(n - from - 1);
        }

        etcd__watch_response__init(&response);
        response.events = &events[from];
        response.n_events = to - from;
        response.fragment = (to < n);

        sim_trace("etcd: watch %L: %uz events up to %L%s", watch->id,
                  response.n_events, recs[to - 1]->mod,
                  response.fragment ? ", a fragment" : "");

        model_watch_message(watch->stream, watch->id, &response, revision);
    }
}


static void
model_watch_pack(ProtobufCBinaryData *event, model_rec_t *rec)
{
    Etcd__Event     message;
    Etcd__KeyValue  kv;

    etcd__event__init(&message);
    etcd__key_value__init(&kv);

    kv.key.data = rec->key.data;
    kv.key.len = rec->key.len;
    kv.mod_revision = rec->mod;

    if (rec->deleted) {
        message.type = ETCD__EVENT__EVENT_TYPE__DELETE;

    } else {
        kv.value.data = rec->value.data;
        kv.value.len = rec->value.len;
        kv.create_revision = rec->create;
        kv.version = rec->version;
        kv.lease = rec->lease;
    }

    message.kv = &kv;

    event->len = etcd__event__get_packed_size(&message);
    event->data = sim_alloc(event->len);
    (void) etcd__event__pack(&message, event->data);
}


static void
model_watch_message(model_stream_t *stream, int64_t id,
    Etcd__WatchResponse *response, int64_t revision)
{
    Etcd__ResponseHeader  header;

    model_header(stream->member, &header, revision);

    response->header = &header;
    response->watch_id = id;

    sim_net_deliver(stream->data, &response->base);
}
