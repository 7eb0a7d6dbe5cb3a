
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Connections.
 */


#include "sim_net.h"
#include <ngx_etcd_clock.h>


static uint64_t sim_net_wire(void);
static void sim_h2_event(sim_event_t *ev);
static void sim_h2_input(void *data);
static void sim_h2_timer(ngx_event_t *ev);
static void sim_h2_work(ngx_event_t *ev);
static void sim_h2_end(ngx_etcd_http2_t *h2, ngx_str_t *reason);
static void sim_h2_forget(ngx_etcd_http2_t *h2);
static void sim_h2_break(ngx_etcd_http2_t *h2);
static void sim_h2_ping(sim_event_t *ev);
static void sim_h2_pong(void *data);


static ngx_queue_t  sim_connections;


void
sim_net_init(void)
{
    ngx_queue_init(&sim_connections);
}


static uint64_t
sim_net_wire(void)
{
    uint64_t  delay;

    delay = 100 + sim_below(900);

    if (sim_fault(SIM_FAULT_DELAY) && sim_chance(100)) {
        return delay + sim_below(sim_chance(5) ? 2 * SIM_SECOND : 50 * SIM_MS);
    }

    return delay;
}


uint64_t
sim_net_up(ngx_etcd_http2_t *h2)
{
    uint64_t  time;

    time = sim.proc->clock + sim_net_wire();
    h2->up = ngx_max(h2->up, time);

    return h2->up;
}


uint64_t
sim_net_down(ngx_etcd_http2_t *h2)
{
    uint64_t  time;

    time = sim.now + sim_net_wire();
    h2->down = ngx_max(h2->down, time);

    return h2->down;
}


ngx_etcd_http2_t *
ngx_etcd_http2_connect(ngx_etcd_http2_conf_t *conf, ngx_log_t *log)
{
    uint64_t              time;
    model_member_t       *member;
    ngx_etcd_http2_t     *h2;
    struct sockaddr_in   *sin;

    if (sim_memory_fails()) {
        return NULL;
    }

    sin = (struct sockaddr_in *) conf->addr->sockaddr;
    member = &model.members[ntohl(sin->sin_addr.s_addr) & 0xff];

    h2 = sim_alloc(sizeof(ngx_etcd_http2_t));
    h2->conf = conf;
    h2->proc = sim.proc;
    h2->member = member;
    h2->history = model.store->number;

    ngx_queue_init(&h2->streams);
    ngx_queue_init(&h2->out);
    ngx_queue_insert_tail(&sim_connections, &h2->queue);

    h2->work.handler = sim_h2_work;
    h2->work.data = h2;
    h2->work.log = log;

    h2->timer.handler = sim_h2_timer;
    h2->timer.data = h2;
    h2->timer.log = log;
    h2->timer.cancelable = 1;
    ngx_add_timer(&h2->timer, conf->connect_timeout);

    h2->event.handler = sim_h2_event;
    h2->event.data = h2;
    h2->input.handler = sim_h2_input;
    h2->input.data = h2;
    h2->ping.handler = sim_h2_ping;
    h2->ping.data = h2;
    h2->pong.handler = sim_h2_pong;
    h2->pong.data = h2;

    time = sim.proc->clock + sim_net_wire() + sim_net_wire();

    if (member->down > sim.now) {
        h2->broken = 1;

        if (sim_chance(3)) {

            /* nobody answers at all */

            return h2;
        }
    }

    sim_add(&h2->event, time);

    return h2;
}


static void
sim_h2_event(sim_event_t *ev)
{
    ngx_etcd_http2_t  *h2;

    h2 = ev->data;

    if (h2->stuck > sim.now) {
        sim_postpone(ev, h2->stuck);
        return;
    }

    h2->told = h2->broken;
    sim_proc_input(h2->proc, &h2->input);
}


/* the client is connected, or hears that the connection is over */

static void
sim_h2_input(void *data)
{
    ngx_str_t          reason;
    ngx_etcd_http2_t  *h2;

    h2 = data;

    if (h2->state == SIM_H2_CLOSED) {
        return;
    }

    if (h2->told) {
        ngx_str_set(&reason, "connection reset");
        sim_h2_end(h2, &reason);
        return;
    }

    h2->state = SIM_H2_READY;

    ngx_add_timer(&h2->timer, h2->conf->ping_interval);

    if (h2->conf->alive != NULL) {
        h2->conf->alive(h2->conf->data, 0);
    }

    if (h2->state == SIM_H2_READY) {
        h2->conf->ready(h2->conf->data);
    }
}


static void
sim_h2_timer(ngx_event_t *ev)
{
    ngx_str_t          reason;
    ngx_etcd_http2_t  *h2;

    h2 = ev->data;

    if (h2->state == SIM_H2_CONNECTING && !h2->broken) {

        if (h2->conf->patience && !h2->patient) {
            h2->patient = 1;
            ngx_add_timer(ev, h2->conf->patience);
            return;
        }

        h2->late = 1;
    }

    if (h2->state == SIM_H2_CONNECTING || h2->pinged != 0) {
        ngx_str_set(&reason, "timed out");
        sim_h2_end(h2, &reason);
        return;
    }

    if (ngx_queue_empty(&h2->streams)) {
        ngx_add_timer(ev, h2->conf->ping_interval);
        return;
    }

    h2->pinged = ngx_etcd_clock();
    ngx_add_timer(ev, h2->conf->ping_timeout);

    if (!h2->broken) {
        h2->ponging = 0;
        sim_add(&h2->ping, sim_net_up(h2));
    }
}


/* the frames of this round's handlers */

static void
sim_h2_work(ngx_event_t *ev)
{
    ngx_queue_t        *q;
    sim_message_t      *message;
    ngx_etcd_http2_t   *h2;

    h2 = ev->data;

    while (!ngx_queue_empty(&h2->out)) {
        q = ngx_queue_head(&h2->out);
        ngx_queue_remove(q);

        message = ngx_queue_data(q, sim_message_t, queue);

        sim_add(&message->event, sim_net_up(h2));
    }
}


static void
sim_h2_ping(sim_event_t *ev)
{
    ngx_etcd_http2_t  *h2;

    h2 = ev->data;

    if (h2->broken) {
        return;
    }

    if (h2->stuck > sim.now) {
        sim_postpone(ev, h2->stuck);
        return;
    }

    if (!h2->ponging) {
        h2->ponging = 1;
        sim_add(ev, sim_net_down(h2));
        return;
    }

    sim_proc_input(h2->proc, &h2->pong);
}


static void
sim_h2_pong(void *data)
{
    uint64_t           sent;
    ngx_etcd_http2_t  *h2;

    h2 = data;

    if (h2->state != SIM_H2_READY || h2->pinged == 0) {
        return;
    }

    sent = h2->pinged;
    h2->pinged = 0;
    ngx_add_timer(&h2->timer, h2->conf->ping_interval);

    h2->conf->pong(h2->conf->data, sent);

    if (h2->state == SIM_H2_READY) {
        h2->conf->alive(h2->conf->data, 0);
    }
}


/* the client's end, with all calls; the caller tells the owner */

static void
sim_h2_forget(ngx_etcd_http2_t *h2)
{
    ngx_queue_t             *q;
    ngx_etcd_grpc_stream_t  *stream;

    if (h2->state == SIM_H2_CLOSED) {
        return;
    }

    h2->state = SIM_H2_CLOSED;
    ngx_queue_remove(&h2->queue);

    if (h2->timer.timer_set) {
        ngx_del_timer(&h2->timer);
    }

    if (h2->work.posted) {
        ngx_delete_posted_event(&h2->work);
    }

    sim_h2_break(h2);

    while (!ngx_queue_empty(&h2->streams)) {
        q = ngx_queue_head(&h2->streams);
        stream = ngx_queue_data(q, ngx_etcd_grpc_stream_t, queue);

        sim_call_finish(stream, NGX_ETCD_GRPC_UNAVAILABLE,
                        "connection closed");
    }
}


static void
sim_h2_end(ngx_etcd_http2_t *h2, ngx_str_t *reason)
{
    sim_h2_forget(h2);

    /* a call that ended may have closed the connection */

    if (!h2->disowned) {
        h2->conf->closed(h2->conf->data, reason);
    }
}


/* the server's end */

static void
sim_h2_break(ngx_etcd_http2_t *h2)
{
    ngx_queue_t             *q;
    ngx_etcd_grpc_stream_t  *stream;

    h2->broken = 1;

    for (q = ngx_queue_head(&h2->streams);
         q != ngx_queue_sentinel(&h2->streams);
         q = ngx_queue_next(q))
    {
        stream = ngx_queue_data(q, ngx_etcd_grpc_stream_t, queue);

        if (stream->watching) {
            model_watch_close(&stream->watch);
        }
    }
}


void
ngx_etcd_http2_close(ngx_etcd_http2_t *h2)
{
    h2->disowned = 1;
    sim_h2_forget(h2);
}


void
ngx_etcd_http2_stay(ngx_etcd_http2_t *h2)
{
    /* no process shuts down */
}


void
ngx_etcd_http2_wait(ngx_etcd_http2_t *h2, ngx_msec_t time)
{
    /* likewise */
}


ngx_uint_t
ngx_etcd_http2_usable(ngx_etcd_http2_t *h2)
{
    return h2->state == SIM_H2_READY;
}


ngx_uint_t
ngx_etcd_http2_ended(ngx_etcd_http2_t *h2)
{
    return h2->state == SIM_H2_CLOSED;
}


uint32_t
ngx_etcd_http2_max_calls(ngx_etcd_http2_t *h2)
{
    return 0x7fffffff;
}


ngx_uint_t
ngx_etcd_http2_late(ngx_etcd_http2_t *h2)
{
    return h2->late;
}


ngx_uint_t
ngx_etcd_http2_too_many_pings(ngx_etcd_http2_t *h2)
{
    return 0;
}


static ngx_uint_t
sim_net_matches(ngx_etcd_http2_t *h2, sim_proc_t *proc, ngx_int_t member)
{
    return (proc == NULL || h2->proc == proc)
           && (member < 0 || h2->member->index == (ngx_uint_t) member);
}


void
sim_net_break(sim_proc_t *proc, ngx_int_t member)
{
    ngx_queue_t       *q;
    ngx_etcd_http2_t  *h2;

    for (q = ngx_queue_head(&sim_connections);
         q != ngx_queue_sentinel(&sim_connections);
         q = ngx_queue_next(q))
    {
        h2 = ngx_queue_data(q, ngx_etcd_http2_t, queue);

        if (!sim_net_matches(h2, proc, member) || h2->broken) {
            continue;
        }

        sim_trace("a connection of %s to member %ui breaks", h2->proc->name,
                  h2->member->index);

        sim_h2_break(h2);

        /* A PING finds out if nobody tells. */

        if (h2->state == SIM_H2_CONNECTING || !sim_chance(5)) {
            sim_add(&h2->event, sim_net_down(h2));
        }
    }
}


void
sim_net_stick(sim_proc_t *proc, ngx_int_t member, uint64_t until)
{
    ngx_queue_t       *q;
    ngx_etcd_http2_t  *h2;

    for (q = ngx_queue_head(&sim_connections);
         q != ngx_queue_sentinel(&sim_connections);
         q = ngx_queue_next(q))
    {
        h2 = ngx_queue_data(q, ngx_etcd_http2_t, queue);

        if (sim_net_matches(h2, proc, member)) {
            sim_trace("a connection of %s to member %ui is stuck",
                      h2->proc->name, h2->member->index);
            h2->stuck = ngx_max(h2->stuck, until);
        }
    }
}


void
sim_net_kill(sim_proc_t *proc)
{
    ngx_queue_t             *q, *next, *s;
    ngx_etcd_http2_t        *h2;
    ngx_etcd_grpc_stream_t  *stream;

    for (q = ngx_queue_head(&sim_connections);
         q != ngx_queue_sentinel(&sim_connections);
         q = next)
    {
        next = ngx_queue_next(q);
        h2 = ngx_queue_data(q, ngx_etcd_http2_t, queue);

        if (h2->proc != proc) {
            continue;
        }

        sim_h2_break(h2);

        for (s = ngx_queue_head(&h2->streams);
             s != ngx_queue_sentinel(&h2->streams);
             s = ngx_queue_next(s))
        {
            stream = ngx_queue_data(s, ngx_etcd_grpc_stream_t, queue);
            stream->over = 1;
        }
    }
}
