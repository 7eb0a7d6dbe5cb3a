
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Calls, at both of their ends.
 */


#include "sim_net.h"
#include <ngx_etcd_message.h>


static uint64_t sim_net_work(void);
static void sim_call_deadline(ngx_event_t *ev);
static void sim_call_detach(ngx_etcd_grpc_stream_t *stream);
static void sim_call_reset(sim_event_t *ev);
static void sim_call_arrived(sim_event_t *ev);
static void sim_call_unary(sim_message_t *message);
static void sim_call_list(sim_message_t *message);
static ngx_uint_t sim_call_refused(sim_message_t *message);
static ngx_uint_t sim_call_waits(sim_message_t *message);
static void sim_call_streamed(sim_message_t *message);
static uint64_t sim_call_slow(void);
static void sim_call_answer(ngx_etcd_grpc_stream_t *stream, u_char *data,
    size_t len, ngx_uint_t last, ngx_etcd_grpc_status_e status, char *text,
    uint64_t time);
static void sim_call_returned(sim_event_t *ev);
static void sim_call_heard(sim_message_t *message);
static void sim_call_unread(ngx_etcd_grpc_stream_t *stream, ngx_pool_t *pool);
static void sim_call_received(void *data);


/* to do a call, and to answer it */

static uint64_t
sim_net_work(void)
{
    if (!sim_fault(SIM_FAULT_DELAY)) {
        return sim_chance(4) ? sim_below(SIM_MS) : 0;
    }

    switch (sim_below(100)) {

    case 0:
        return sim_below(15 * SIM_SECOND);

    case 1:
    case 2:
        return sim_below(2 * SIM_SECOND);

    default:
        return sim_chance(8) ? sim_below(100 * SIM_MS) : 0;
    }
}


char *
ngx_etcd_grpc_status_name(ngx_etcd_grpc_status_e status)
{
    static char  *names[] = {
        "ok", "cancelled", "unknown", "invalid argument", "deadline exceeded",
        "not found", "already exists", "permission denied",
        "resource exhausted", "failed precondition", "aborted", "out of range",
        "unimplemented", "internal", "unavailable", "data loss",
        "unauthenticated"
    };

    return names[status];
}


ngx_int_t
ngx_etcd_grpc_start(ngx_etcd_http2_t *h2, ngx_etcd_grpc_call_t *call)
{
    ngx_etcd_grpc_stream_t  *stream;

    if (h2->state != SIM_H2_READY || sim_memory_fails()) {
        return NGX_ERROR;
    }

    stream = sim_alloc(sizeof(ngx_etcd_grpc_stream_t));
    stream->h2 = h2;
    stream->call = call;
    stream->method = call->method;

    if (ngx_strcmp(call->method, "/etcdserverpb.Watch/Watch") == 0) {
        stream->kind = SIM_CALL_WATCH;

    } else if (ngx_strcmp(call->method, "/etcdserverpb.Lease/LeaseKeepAlive")
               == 0)
    {
        stream->kind = SIM_CALL_KEEP;
    }

    if (ngx_strcmp(call->method, "/etcdserverpb.KV/RangeStream") == 0) {
        stream->kind = SIM_CALL_LIST;
    }

    stream->deadline.handler = sim_call_deadline;
    stream->deadline.data = stream;
    stream->deadline.log = &sim.log;
    stream->deadline.cancelable = 1;
    stream->reset.handler = sim_call_reset;
    stream->reset.data = stream;

    if (call->timeout != 0) {
        ngx_add_timer(&stream->deadline, call->timeout);
    }

    ngx_queue_insert_tail(&h2->streams, &stream->queue);

    call->stream = stream;
    call->unprocessed = 0;

    return NGX_OK;
}


ngx_int_t
ngx_etcd_grpc_send(ngx_etcd_grpc_call_t *call, ProtobufCMessage *request)
{
    sim_message_t           *message;
    ngx_etcd_grpc_stream_t  *stream;

    stream = call->stream;

    if (stream == NULL || stream->call != call || sim_memory_fails()) {
        return NGX_ERROR;
    }

    message = sim_alloc(sizeof(sim_message_t));
    message->stream = stream;
    message->len = protobuf_c_message_get_packed_size(request);
    message->data = sim_alloc(message->len + 1);
    (void) protobuf_c_message_pack(request, message->data);

    if (request->descriptor == &etcd__range_request__descriptor) {
        sim_faults_read((Etcd__RangeRequest *) request);
    }

    message->lucky = sim_chance(2);
    message->event.handler = sim_call_arrived;
    message->event.data = message;

    ngx_queue_insert_tail(&stream->h2->out, &message->queue);
    ngx_post_event(&stream->h2->work, &ngx_posted_events);

    return NGX_OK;
}


void
ngx_etcd_grpc_end(ngx_etcd_grpc_call_t *call)
{
    /* calls with one message are known */
}


void
ngx_etcd_grpc_hold(ngx_etcd_grpc_call_t *call, ngx_uint_t hold)
{
    /* all that is sent fits into a window */
}


void
ngx_etcd_grpc_cancel(ngx_etcd_grpc_call_t *call)
{
    ngx_etcd_grpc_stream_t  *stream;

    stream = call->stream;

    if (stream != NULL && stream->call == call) {
        sim_call_detach(stream);
    }
}


static void
sim_call_detach(ngx_etcd_grpc_stream_t *stream)
{
    stream->call->stream = NULL;
    stream->call = NULL;

    ngx_queue_remove(&stream->queue);

    if (stream->deadline.timer_set) {
        ngx_del_timer(&stream->deadline);
    }

    if (stream->kind != SIM_CALL_UNARY) {
        sim_add(&stream->reset, sim_net_up(stream->h2));
    }
}


/* the server hears that nobody listens */

static void
sim_call_reset(sim_event_t *ev)
{
    ngx_etcd_grpc_stream_t  *stream;

    stream = ev->data;
    stream->over = 1;

    if (stream->watching) {
        model_watch_close(&stream->watch);
    }
}


void
sim_call_finish(ngx_etcd_grpc_stream_t *stream, ngx_etcd_grpc_status_e status,
    char *reason)
{
    ngx_str_t              text;
    ngx_etcd_grpc_call_t  *call;

    call = stream->call;
    sim_call_detach(stream);

    text.data = (u_char *) reason;
    text.len = ngx_strlen(reason);

    call->done(call, status, &text);
}


static void
sim_call_deadline(ngx_event_t *ev)
{
    sim_call_finish(ev->data, NGX_ETCD_GRPC_DEADLINE_EXCEEDED,
                    "deadline exceeded");
}


/* at the server */

static void
sim_call_arrived(sim_event_t *ev)
{
    sim_message_t           *message;
    ngx_etcd_http2_t        *h2;
    ngx_etcd_grpc_stream_t  *stream;

    message = ev->data;
    stream = message->stream;
    h2 = stream->h2;

    if (h2->broken && !message->lucky) {
        return;
    }

    if (h2->stuck > sim.now && !h2->broken && !message->left) {
        sim_postpone(ev, h2->stuck);
        return;
    }

    if (stream->kind == SIM_CALL_UNARY || stream->kind == SIM_CALL_LIST) {
        if (!message->left) {
            message->left = 1;
            message->lucky = 1;
            sim_add(ev, sim.now + sim_net_work());
            return;
        }

        sim_call_unary(message);
        return;
    }

    if (!h2->broken && !stream->over) {
        sim_call_streamed(message);
    }
}


static void
sim_call_unary(sim_message_t *message)
{
    uint64_t                 time;
    ngx_uint_t               local;
    model_answer_t           answer;
    model_member_t          *member;
    ngx_etcd_grpc_stream_t  *stream;

    stream = message->stream;
    member = stream->h2->member;

    local = model_is_local(stream->method, message->data, message->len);

    if (member->down > sim.now
        || sim_call_refused(message)
        || (!local && sim_call_waits(message)))
    {
        return;
    }

    if (stream->kind == SIM_CALL_LIST) {
        sim_call_list(message);
        return;
    }

    model_call(member, stream->method, message->data, message->len, &answer);

    sim_trace("etcd: %s of %s at member %ui: %s %s", stream->method,
              stream->h2->proc->name, member->index,
              ngx_etcd_grpc_status_name(answer.status), answer.text);

    time = sim.now;

    /* the member answers when it has applied that */

    if (!local && member->apply.index) {
        time = ngx_max(time, member->apply.time);
    }

    if (sim_fault(SIM_FAULT_LOSS)) {
        switch (sim_below(100)) {

        case 0:
        case 1:
            sim_trace("etcd: the answer is lost");
            return;

        case 2:
        case 3:
            sim_trace("etcd: it timed out after it was done");
            sim_call_answer(stream, NULL, 0, 1, NGX_ETCD_GRPC_UNAVAILABLE,
                            "etcdserver: request timed out", time);
            return;

        default:
            break;
        }
    }

    sim_call_answer(stream, answer.data, answer.len, 1, answer.status,
                    answer.text, time);
}


/* Each chunk is what the member has when it comes to that. */

static void
sim_call_list(sim_message_t *message)
{
    ngx_uint_t               more;
    uint64_t                 time;
    model_answer_t           answer;
    model_member_t          *member;
    ngx_etcd_grpc_stream_t  *stream;

    stream = message->stream;
    member = stream->h2->member;

    more = model_call_list(member, &message->data, &message->len,
                           &message->revision, &answer);

    sim_trace("etcd: a chunk of %s at member %ui: %s %s",
              stream->h2->proc->name, member->index,
              ngx_etcd_grpc_status_name(answer.status), answer.text);

    time = member->apply.index ? ngx_max(sim.now, member->apply.time)
                               : sim.now;

    sim_call_answer(stream, answer.data, answer.len, !more, answer.status,
                    answer.text, time);

    if (more && !stream->h2->broken && !stream->over) {
        sim_add(&message->event, time + 1 + sim_net_work());
    }
}


/* 1: the call fails, and nothing is done */

static ngx_uint_t
sim_call_refused(sim_message_t *message)
{
    if (!sim_fault(SIM_FAULT_LOSS)) {
        return 0;
    }

    switch (sim_below(100)) {

    case 0:
        sim_trace("etcd: a call of %s is lost",
                  message->stream->h2->proc->name);
        return 1;

    case 1:
        sim_call_answer(message->stream, NULL, 0, 1,
                        NGX_ETCD_GRPC_UNAVAILABLE,
                        "etcdserver: leader changed", sim.now);
        return 1;

    case 2:
        sim_call_answer(message->stream, NULL, 0, 1,
                        NGX_ETCD_GRPC_RESOURCE_EXHAUSTED,
                        "etcdserver: too many requests", sim.now);
        return 1;

    default:
        return 0;
    }
}


/* 1: the member has no quorum now; what it was asked for may be done later */

static ngx_uint_t
sim_call_waits(sim_message_t *message)
{
    uint64_t         until;
    model_member_t  *member;

    member = message->stream->h2->member;
    until = ngx_max(member->alone, member->zombie);

    if (until <= sim.now || message->late) {
        return 0;
    }

    if (sim_chance(3)) {
        message->late = 1;
        message->lucky = 1;
        sim_add(&message->event, until + sim_below(SIM_SECOND));
        return 1;
    }

    sim_call_answer(message->stream, NULL, 0, 1, NGX_ETCD_GRPC_UNAVAILABLE,
                    "etcdserver: request timed out", sim.now + 7 * SIM_SECOND);

    return 1;
}


static void
sim_call_streamed(sim_message_t *message)
{
    model_answer_t           answer;
    model_member_t          *member;
    ProtobufCMessage        *request;
    ngx_etcd_grpc_stream_t  *stream;

    stream = message->stream;
    member = stream->h2->member;

    if (sim_fault(SIM_FAULT_LOSS) && sim_chance(200)) {
        stream->over = 1;

        if (stream->watching) {
            model_watch_close(&stream->watch);
        }

        sim_call_answer(stream, NULL, 0, 1, NGX_ETCD_GRPC_UNAVAILABLE,
                        "etcdserver: no leader", sim.now);
        return;
    }

    if (stream->kind == SIM_CALL_WATCH) {
        if (!stream->watching) {
            stream->watching = 1;
            model_watch_open(&stream->watch, member, stream);
        }

        request = protobuf_c_message_unpack(&etcd__watch_request__descriptor,
                                            NULL, message->len, message->data);
        model_watch_request(&stream->watch, (Etcd__WatchRequest *) request);
        protobuf_c_message_free_unpacked(request, NULL);
        return;
    }

    /* the server renews one lease of a stream after the other */

    if (stream->busy > sim.now) {
        sim_postpone(&message->event, stream->busy);
        return;
    }

    /* a member without a quorum renews nothing */

    if (member->alone > sim.now) {
        if (!message->late) {
            message->late = 1;
            sim_add(&message->event, member->alone);
        }

        return;
    }

    if (model_keep_alive(member, message->data, message->len, &answer)) {
        stream->busy = sim.now + sim_call_slow();
        sim_call_answer(stream, answer.data, answer.len, 0, NGX_ETCD_GRPC_OK,
                        "", stream->busy);
    }
}


/* how long a member waits for the raft leader that has renewed a lease */

static uint64_t
sim_call_slow(void)
{
    if (!sim.mixed || !sim_fault(SIM_FAULT_DELAY)) {
        return 0;
    }

    return sim_chance(8) ? sim_below(8 * SIM_SECOND) : 0;
}


void
sim_net_deliver(void *data, ProtobufCMessage *message)
{
    size_t                   len;
    u_char                  *p;
    ngx_etcd_grpc_stream_t  *stream;

    stream = data;

    len = protobuf_c_message_get_packed_size(message);
    p = sim_alloc(len + 1);
    (void) protobuf_c_message_pack(message, p);

    sim_call_answer(stream, p, len, 0, NGX_ETCD_GRPC_OK, "", sim.now);
}


/* to the client */

static void
sim_call_answer(ngx_etcd_grpc_stream_t *stream, u_char *data, size_t len,
    ngx_uint_t last, ngx_etcd_grpc_status_e status, char *text, uint64_t time)
{
    sim_message_t  *message;

    if (stream->call == NULL || stream->h2->broken) {
        return;
    }

    message = sim_alloc(sizeof(sim_message_t));
    message->stream = stream;
    message->data = data;
    message->len = len;
    message->history = model.store->number;
    message->last = last;
    message->status = status;
    message->text = text;

    message->lucky = sim_chance(2);
    message->event.handler = sim_call_returned;
    message->event.data = message;
    message->input.handler = sim_call_received;
    message->input.data = message;

    if (stream->kind == SIM_CALL_UNARY) {
        time += sim_net_work();
    }

    if (time > sim.now) {
        sim_add(&message->event, time);
        return;
    }

    message->left = 1;
    sim_add(&message->event, sim_net_down(stream->h2));
}


static void
sim_call_returned(sim_event_t *ev)
{
    sim_message_t     *message;
    ngx_etcd_http2_t  *h2;

    message = ev->data;
    h2 = message->stream->h2;

    if (message->stream->call == NULL
        || (h2->broken
            && (!message->lucky || message->stream->kind != SIM_CALL_UNARY)))
    {
        return;
    }

    if (!message->left) {
        message->left = 1;
        sim_add(ev, sim_net_down(h2));
        return;
    }

    if (h2->stuck > sim.now && !h2->broken) {
        sim_postpone(ev, h2->stuck);
        return;
    }

    sim_proc_input(h2->proc, &message->input);
}


/* Reads and transactions are linearizable; streams are not. */

static void
sim_call_heard(sim_message_t *message)
{
    sim_proc_t   *proc;
    static char   kv[] = "/etcdserverpb.KV/";

    if (ngx_strncmp(message->stream->method, kv, sizeof(kv) - 1) != 0) {
        return;
    }

    proc = message->stream->h2->proc;
    proc->heard = proc->heard ? proc->heard : sim.now;
    proc->history = ngx_max(proc->history, message->history);
}


/* The message cannot be unpacked: because of a lack of memory, if any. */

static void
sim_call_unread(ngx_etcd_grpc_stream_t *stream, ngx_pool_t *pool)
{
    if (pool != NULL) {
        ngx_destroy_pool(pool);
    }

    if (sim.scarce == 0 || sim.calm) {
        sim_fail("a message cannot be read", "%s", stream->method);
        return;
    }

    sim_call_finish(stream, NGX_ETCD_GRPC_RESOURCE_EXHAUSTED,
                    "no memory for a message");
}


/* in the process */

static void
sim_call_received(void *data)
{
    ngx_int_t                rc;
    ngx_pool_t              *pool;
    ngx_uint_t               exceeded;
    sim_message_t           *message;
    ngx_etcd_http2_t        *h2;
    ProtobufCMessage        *response;
    ngx_etcd_grpc_stream_t  *stream;

    message = data;
    stream = message->stream;
    h2 = stream->h2;

    if (h2->state == SIM_H2_READY && h2->conf->alive != NULL) {
        h2->conf->alive(h2->conf->data, 1);
    }

    if (stream->call == NULL) {
        return;
    }

    if (message->data != NULL) {
        pool = ngx_create_pool(1024, &sim.log);

        response = pool ? ngx_etcd_message_unpack(stream->call->response, pool,
                                                  message->data, message->len,
                                                  &exceeded)
                        : NULL;
        if (response == NULL) {
            sim_call_unread(stream, pool);
            return;
        }

        sim_call_heard(message);

        if (h2->conf->header(h2->conf->data,
                             ngx_etcd_message_cluster_id(response))
            != NGX_OK)
        {
            ngx_destroy_pool(pool);
            sim_call_finish(stream, NGX_ETCD_GRPC_UNAVAILABLE,
                            "another cluster answers");
            return;
        }

        rc = stream->call->message(stream->call, response, pool);

        if (rc != NGX_DONE) {
            ngx_destroy_pool(pool);
        }

        if (rc == NGX_ERROR && stream->call != NULL) {
            sim_call_finish(stream, NGX_ETCD_GRPC_INTERNAL,
                            "the message is refused");
            return;
        }
    }

    if (message->last && stream->call != NULL) {
        sim_call_finish(stream, message->status, message->text);
    }
}
