
/*
 * Copyright (C) nginx-etcd contributors
 */


#include "sim.h"


#define SIM_HEAP  1024


static uint64_t sim_splitmix(uint64_t *state);
static ngx_uint_t sim_before(sim_event_t *one, sim_event_t *other);
static void sim_place(sim_event_t *ev, size_t i);
static void sim_up(size_t i);
static void sim_down(size_t i);
static void sim_log(ngx_log_t *log, ngx_uint_t level, u_char *buf, size_t len);


sim_t  sim;


/* xoshiro256** (Blackman, Vigna 2018) */

uint64_t
sim_random(void)
{
    uint64_t  *s, result, t;

    s = sim.random;

    result = s[1] * 5;
    result = ((result << 7) | (result >> 57)) * 9;
    t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = (s[3] << 45) | (s[3] >> 19);

    return result;
}


/* splitmix64 (Steele, Lea, Flood 2014): the generator's state from a seed */

static uint64_t
sim_splitmix(uint64_t *state)
{
    uint64_t  z;

    z = (*state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;

    return z ^ (z >> 31);
}


uint64_t
sim_below(uint64_t n)
{
    return (uint64_t) (((unsigned __int128) sim_random() * n) >> 64);
}


ngx_uint_t
sim_chance(uint64_t n)
{
    return sim_below(n) == 0;
}


void *
sim_alloc(size_t size)
{
    void  *p;

    p = ngx_pcalloc(sim.pool, size);
    if (p == NULL) {
        abort();
    }

    return p;
}


static ngx_uint_t
sim_before(sim_event_t *one, sim_event_t *other)
{
    return one->time < other->time
           || (one->time == other->time && one->seq < other->seq);
}


static void
sim_place(sim_event_t *ev, size_t i)
{
    sim.heap[i] = ev;
    ev->index = i;
}


static void
sim_up(size_t i)
{
    sim_event_t  *ev;

    ev = sim.heap[i];

    while (i > 1 && sim_before(ev, sim.heap[i / 2])) {
        sim_place(sim.heap[i / 2], i);
        i /= 2;
    }

    sim_place(ev, i);
}


static void
sim_down(size_t i)
{
    size_t        child;
    sim_event_t  *ev;

    ev = sim.heap[i];

    for ( ;; ) {
        child = i * 2;

        if (child > sim.nheap) {
            break;
        }

        if (child < sim.nheap
            && sim_before(sim.heap[child + 1], sim.heap[child]))
        {
            child++;
        }

        if (!sim_before(sim.heap[child], ev)) {
            break;
        }

        sim_place(sim.heap[child], i);
        i = child;
    }

    sim_place(ev, i);
}


void
sim_add(sim_event_t *ev, uint64_t time)
{
    sim_remove(ev);

    ev->time = ngx_max(time, sim.now);
    ev->seq = ++sim.seq;

    if (sim.nheap + 1 >= sim.size) {
        sim.size = sim.size ? sim.size * 2 : SIM_HEAP;
        sim.heap = realloc(sim.heap, sim.size * sizeof(sim_event_t *));

        if (sim.heap == NULL) {
            abort();
        }
    }

    sim.heap[++sim.nheap] = ev;
    sim_up(sim.nheap);
}


/* the event keeps its place among the events of that time */

void
sim_postpone(sim_event_t *ev, uint64_t time)
{
    uint64_t  seq;

    seq = ev->seq;
    sim_add(ev, time);

    ev->seq = seq;
    sim_up(ev->index);
}


void
sim_remove(sim_event_t *ev)
{
    size_t        i;
    sim_event_t  *last;

    i = ev->index;

    if (i == 0) {
        return;
    }

    ev->index = 0;
    last = sim.heap[sim.nheap--];

    if (last == ev) {
        return;
    }

    sim_place(last, i);
    sim_up(i);
    sim_down(last->index);
}


void
sim_fail(char *invariant, const char *fmt, ...)
{
    u_char   *p;
    va_list   args;

    if (sim.failed != NULL) {
        return;
    }

    va_start(args, fmt);
    p = ngx_vslprintf(sim.reason, sim.reason + sizeof(sim.reason) - 1, fmt,
                      args);
    va_end(args);

    *p = '\0';
    sim.failed = invariant;

    sim_trace("FAILED: %s: %s", invariant, sim.reason);
}


void
sim_trace(const char *fmt, ...)
{
    u_char   *p, line[2048];
    va_list   args;

    if (!sim.trace) {
        return;
    }

    va_start(args, fmt);
    p = ngx_vslprintf(line, line + sizeof(line) - 1, fmt, args);
    va_end(args);

    *p = '\0';

    printf("%8lu %4lu.%06lu %-3s %s\n", (unsigned long) sim.step,
           (unsigned long) (sim.now / SIM_SECOND),
           (unsigned long) (sim.now % SIM_SECOND),
           sim.proc ? (char *) sim.proc->name : "-", line);
}


static void
sim_log(ngx_log_t *log, ngx_uint_t level, u_char *buf, size_t len)
{
    u_char  *p, *last;

    /* without nginx's time, level and pids */

    last = buf + len - 1;
    p = ngx_strlchr(buf, last, '#');

    for (p = (p != NULL) ? p : buf; p < last && *p != ' '; p++) {
        /* void */
    }

    *last = '\0';

    if (ngx_strncmp(p, " event timer", 12) != 0
        && ngx_strncmp(p, " posted event", 13) != 0)
    {
        sim_trace("  %s", p);
    }
}


void
sim_init(uint64_t seed, ngx_uint_t trace)
{
    size_t         size;
    uint64_t       state;
    ngx_uint_t     i;
    ngx_pool_t    *pool;
    sim_event_t  **heap;

    pool = sim.pool;
    heap = sim.heap;
    size = sim.size;

    ngx_memzero(&sim, sizeof(sim_t));

    sim.heap = heap;
    sim.size = size;
    sim.seed = seed;
    sim.trace = trace;
    state = seed;

    for (i = 0; i < 4; i++) {
        sim.random[i] = sim_splitmix(&state);
    }

    sim.log.log_level = trace ? NGX_LOG_DEBUG_EVENT | NGX_LOG_DEBUG
                              : NGX_LOG_STDERR;
    sim.log.writer = sim_log;

    if (pool == NULL) {
        pool = ngx_create_pool(256 * 1024, ngx_cycle->log);

        if (pool == NULL) {
            abort();
        }
    }

    sim.pool = pool;
    sim.now = SIM_SECOND;
}


void
sim_done(void)
{
    ngx_reset_pool(sim.pool);
}


ngx_uint_t
sim_step(void)
{
    uint64_t      time, next;
    ngx_uint_t    i;
    sim_proc_t   *proc, *first;
    sim_event_t  *ev;

    first = NULL;
    time = (uint64_t) -1;

    for (i = 0; i < sim.nprocs; i++) {
        proc = &sim.procs[i];
        next = sim_proc_next(proc);

        if (next < time) {
            time = next;
            first = proc;
        }
    }

    ev = sim.nheap ? sim.heap[1] : NULL;

    if (ev == NULL && first == NULL) {
        return 0;
    }

    sim.step++;

    if (ev != NULL && ev->time <= time) {
        sim.now = ev->time;
        sim_remove(ev);
        ev->handler(ev);

    } else {
        sim.now = ngx_max(sim.now, time);
        sim_proc_turn(first);
    }

    sim.round++;

    for (i = 0; i < sim.nprocs; i++) {
        proc = &sim.procs[i];

        if (proc->alive && proc->stopped <= sim.now) {
            proc->actor->check(proc);
        }
    }

    return 1;
}
