
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Processes, and what a process asks its system for: the clock and random
 * numbers.  The simulation is linked so that the client's calls end here.
 */


#include "sim.h"
#include <openssl/rand.h>


/* one reading of the clock in so many is followed by a pause */
#define SIM_PROC_PAUSE  4000


static void sim_proc_wake(sim_event_t *ev);
static void sim_proc_finish(sim_proc_t *proc);
static void sim_proc_swap(ngx_queue_t *to, ngx_queue_t *from);


/* virtual time as nginx has it */

static ngx_inline ngx_msec_t
sim_msec(uint64_t time)
{
    return SIM_MSEC + (ngx_msec_t) (time / SIM_MS);
}


void
sim_proc_init(sim_proc_t *proc, ngx_uint_t index)
{
    proc->index = index;
    (void) ngx_snprintf(proc->name, sizeof(proc->name), "p%ui%Z", index);

    ngx_rbtree_init(&proc->timers, &proc->sentinel,
                    ngx_rbtree_insert_timer_value);
    ngx_queue_init(&proc->posted);
    ngx_queue_init(&proc->posted_next);
    ngx_queue_init(&proc->inbox);

    proc->wake.handler = sim_proc_wake;
    proc->wake.data = proc;
}


static void
sim_proc_swap(ngx_queue_t *to, ngx_queue_t *from)
{
    ngx_queue_init(to);

    if (!ngx_queue_empty(from)) {
        ngx_queue_add(to, from);
        ngx_queue_init(from);
    }
}


void
sim_enter(sim_proc_t *proc)
{
    sim.proc = proc;

    proc->clock = sim.now;

    ngx_current_msec = sim_msec(sim.now);
    ngx_cycle = &proc->cycle;

    ngx_event_timer_rbtree = proc->timers;
    sim_proc_swap(&ngx_posted_events, &proc->posted);
    sim_proc_swap(&ngx_posted_next_events, &proc->posted_next);
}


/* nginx calls what was posted before it waits again */

void
sim_leave(void)
{
    sim_proc_t  *proc;

    proc = sim.proc;

    ngx_event_process_posted(&proc->cycle, &ngx_posted_events);

    proc->timers = ngx_event_timer_rbtree;
    sim_proc_swap(&proc->posted, &ngx_posted_events);
    sim_proc_swap(&proc->posted_next, &ngx_posted_next_events);

    sim.proc = NULL;

    sim_proc_finish(proc);
}


static void
sim_proc_finish(sim_proc_t *proc)
{
    if (proc->clock > sim.now) {
        sim_trace("%s stood still for %uL us", proc->name,
                  proc->clock - sim.now);
        sim_proc_halt(proc, proc->clock);
    }

    if (!ngx_queue_empty(&proc->posted_next) && !proc->wake.index) {
        sim_add(&proc->wake, ngx_max(sim.now + 20, proc->stopped));
    }
}


uint64_t
sim_proc_next(sim_proc_t *proc)
{
    uint64_t            time;
    ngx_rbtree_node_t  *node;

    if (!proc->alive || proc->timers.root == &proc->sentinel) {
        return (uint64_t) -1;
    }

    node = ngx_rbtree_min(proc->timers.root, &proc->sentinel);
    time = (uint64_t) (node->key - SIM_MSEC) * SIM_MS;

    return ngx_max(time, proc->stopped);
}


void
sim_proc_turn(sim_proc_t *proc)
{
    ngx_queue_t  *q;
    sim_input_t  *input;

    sim_enter(proc);

    ngx_event_move_posted_next(&proc->cycle);

    while (!ngx_queue_empty(&proc->inbox)) {
        q = ngx_queue_head(&proc->inbox);
        ngx_queue_remove(q);

        input = ngx_queue_data(q, sim_input_t, queue);
        input->waiting = 0;
        input->handler(input->data);
    }

    ngx_event_expire_timers();

    sim_leave();
}


static void
sim_proc_wake(sim_event_t *ev)
{
    sim_proc_t  *proc;

    proc = ev->data;

    if (!proc->alive) {
        return;
    }

    if (proc->stopped > sim.now) {
        sim_add(ev, proc->stopped);
        return;
    }

    /* the process looks at what it has before it hears of anything */

    sim.round++;
    proc->actor->check(proc);

    sim_proc_turn(proc);
}


void
sim_proc_halt(sim_proc_t *proc, uint64_t time)
{
    proc->stopped = ngx_max(proc->stopped, time);
    sim_add(&proc->wake, proc->stopped);
}


void
sim_proc_input(sim_proc_t *proc, sim_input_t *input)
{
    if (!proc->alive || input->waiting) {
        return;
    }

    if (proc->stopped > sim.now || !ngx_queue_empty(&proc->inbox)) {
        input->waiting = 1;
        ngx_queue_insert_tail(&proc->inbox, &input->queue);
        return;
    }

    sim_enter(proc);
    input->handler(input->data);
    sim_leave();
}


void
sim_proc_start(sim_proc_t *proc)
{
    proc->pool = ngx_create_pool(4096, &sim.log);
    if (proc->pool == NULL) {
        abort();
    }

    ngx_memzero(&proc->cycle, sizeof(ngx_cycle_t));

    proc->cycle.log = &sim.log;
    proc->cycle.pool = proc->pool;
    proc->alive = 1;
    proc->lives++;
    proc->heard = 0;
    proc->history = 0;
    proc->stopped = 0;

    sim_trace("%s starts: %s", proc->name, proc->actor->name);

    sim_enter(proc);
    proc->starting = 1;
    proc->actor->start(proc);
    proc->starting = 0;
    sim_leave();
}


void
sim_proc_kill(sim_proc_t *proc)
{
    if (!proc->alive) {
        return;
    }

    sim_trace("%s is killed", proc->name);

    sim_net_kill(proc);

    sim_enter(proc);
    proc->actor->stop(proc);
    ngx_queue_init(&ngx_posted_events);
    ngx_queue_init(&ngx_posted_next_events);
    sim_leave();

    if (proc->timers.root != &proc->sentinel) {
        sim_fail("a timer is left", "of process %s", proc->name);
        ngx_rbtree_init(&proc->timers, &proc->sentinel,
                        ngx_rbtree_insert_timer_value);
    }

    proc->alive = 0;
    sim_remove(&proc->wake);
    ngx_queue_init(&proc->inbox);

    ngx_destroy_pool(proc->pool);
}


/* the C library's, for everything in this module */

int
clock_gettime(clockid_t id, struct timespec *ts)
{
    uint64_t  time;

    if (sim.proc != NULL
        && sim_fault(SIM_FAULT_PAUSE)
        && sim_chance(SIM_PROC_PAUSE))
    {
        sim.proc->clock += (sim_below(100) + 1)
                           * (sim_chance(3) ? 100 * SIM_MS : 5 * SIM_MS);
    }

    time = (sim.proc != NULL) ? sim.proc->clock : sim.now;

    ts->tv_sec = (time_t) (time / SIM_SECOND);
    ts->tv_nsec = (long) (time % SIM_SECOND) * 1000;

    return 0;
}


long
random(void)
{
    return (long) (sim_random() >> 33);
}


int
RAND_bytes(unsigned char *buf, int num)
{
    int  i;

    for (i = 0; i < num; i++) {
        buf[i] = (unsigned char) sim_random();
    }

    return 1;
}
