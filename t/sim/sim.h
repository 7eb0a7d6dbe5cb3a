
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The simulation: processes that run the client, a network and an etcd, all in
 * one process and on one virtual clock.  A seed decides everything.
 *
 * Times are in microseconds of virtual time.  Every process has its own
 * timers, posted events and reading of the clock, which is ahead of the
 * simulation's while the process is stopped within a handler.
 */


#ifndef _SIM_H_INCLUDED_
#define _SIM_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>


#define SIM_MS       1000ULL
#define SIM_SECOND   1000000ULL

#define SIM_PROCS    6
#define SIM_MEMBERS  3

/* ngx_current_msec at the start of a seed */
#define SIM_MSEC     10000000


typedef struct sim_event_s   sim_event_t;
typedef struct sim_proc_s    sim_proc_t;
typedef struct sim_actor_s   sim_actor_t;


/* something that happens at a time; the memory is the caller's */

struct sim_event_s {
    uint64_t                  time;
    uint64_t                  seq;          /* order of equal times */
    size_t                    index;        /* in the heap; 0: not there */
    void                    (*handler)(sim_event_t *ev);
    void                     *data;
};


/* one worker process */

struct sim_proc_s {
    ngx_uint_t                index;
    u_char                    name[4];

    uint64_t                  clock;        /* time that the process reads */
    uint64_t                  stopped;      /* the process halts until then */
    ngx_uint_t                alive;
    ngx_uint_t                starting;     /* a new life begins */

    ngx_rbtree_t              timers;
    ngx_rbtree_node_t         sentinel;
    ngx_queue_t               posted;
    ngx_queue_t               posted_next;
    ngx_queue_t               inbox;        /* came while it stood */
    sim_event_t               wake;

    ngx_cycle_t               cycle;
    ngx_pool_t               *pool;         /* of its life */
    sim_actor_t              *actor;
    void                     *data;         /* the actor's */
    ngx_uint_t                lives;
    uint64_t                  heard;        /* the first linearizable answer
                                               in the present one; 0: none */
    ngx_uint_t                history;      /* the last one that such an answer
                                               is from */
};


/* the part of a process */

struct sim_actor_s {
    char                     *name;

    /* in the process: a new life, the end of it, and a graceful end */
    void                    (*start)(sim_proc_t *proc);
    void                    (*stop)(sim_proc_t *proc);
    void                    (*leave)(sim_proc_t *proc);

    /* outside: after every step; when all faults are over; when all left */
    void                    (*check)(sim_proc_t *proc);
    ngx_uint_t              (*settled)(sim_proc_t *proc);
    ngx_uint_t              (*left)(sim_proc_t *proc);
};


/* kinds of faults that a seed has; each bit is drawn */

typedef enum {
    SIM_FAULT_DELAY = 0,         /* long delays of messages */
    SIM_FAULT_LOSS,              /* calls fail, before or after the effect */
    SIM_FAULT_BREAK,             /* connections break */
    SIM_FAULT_STUCK,             /* connections stand still */
    SIM_FAULT_DOWN,              /* members are down */
    SIM_FAULT_LAG,               /* members lag behind */
    SIM_FAULT_ELECT,             /* leaders of raft change */
    SIM_FAULT_COMPACT,
    SIM_FAULT_RESTORE,           /* an older revision, another cluster */
    SIM_FAULT_OPERATOR,          /* keys are deleted, leases revoked */
    SIM_FAULT_STOP,              /* processes stand still */
    SIM_FAULT_PAUSE,             /* processes stand still in a handler */
    SIM_FAULT_CRASH,             /* processes end and begin */
    SIM_FAULT_DENY,              /* permissions change */
    SIM_FAULT_FRAGMENT,          /* answers of watches are cut */
    SIM_FAULTS
} sim_fault_e;


typedef struct {
    uint64_t                  seed;
    uint64_t                  random[4];
    uint64_t                  now;
    uint64_t                  seq;
    ngx_uint_t                step;
    ngx_uint_t                round;    /* checks without an event between */
    ngx_uint_t                trace;

    ngx_uint_t                faults;       /* bits of sim_fault_e */
    ngx_uint_t                scarce;       /* 1 in so many allocations fails;
                                               0: none does */
    ngx_uint_t                mixed;        /* faults of mixed clusters: see
                                               sim_world_init() */
    ngx_uint_t                trial;        /* backups are tried one after
                                               another */
    ngx_uint_t                calm;         /* faults are over */
    uint64_t                  end;          /* of the faults */

    char                     *failed;       /* the invariant; NULL: none */
    u_char                    reason[512];

    ngx_pool_t               *pool;         /* of the seed */
    ngx_log_t                 log;

    sim_event_t             **heap;         /* from 1 on */
    size_t                    nheap;
    size_t                    size;

    sim_proc_t                procs[SIM_PROCS];
    ngx_uint_t                nprocs;
    sim_proc_t               *proc;         /* the running process, or NULL */
} sim_t;


extern sim_t  sim;


#define sim_fault(kind)                                                       \
    (!sim.calm && (sim.faults & ((ngx_uint_t) 1 << (kind))))


/* sim.c: the PRNG, the clock, events */

uint64_t sim_random(void);

/* 0 .. n - 1 */
uint64_t sim_below(uint64_t n);

/* 1 in n times */
ngx_uint_t sim_chance(uint64_t n);

/* zeroed, until the end of the seed */
void *sim_alloc(size_t size);

void sim_add(sim_event_t *ev, uint64_t time);
void sim_postpone(sim_event_t *ev, uint64_t time);
void sim_remove(sim_event_t *ev);

/* the first failure counts: the seed ends with this step */
void sim_fail(char *invariant, const char *fmt, ...);

void sim_trace(const char *fmt, ...);

void sim_init(uint64_t seed, ngx_uint_t trace);
void sim_done(void);

/* one event, or the timers of one process; 0: nothing is left to do */
ngx_uint_t sim_step(void);


/* sim_proc.c: processes */

void sim_proc_init(sim_proc_t *proc, ngx_uint_t index);

/* the work of the process between these runs, with its timers and clock */
void sim_enter(sim_proc_t *proc);
void sim_leave(void);

/* when it has something to do; (uint64_t) -1: never */
uint64_t sim_proc_next(sim_proc_t *proc);
void sim_proc_turn(sim_proc_t *proc);

void sim_proc_start(sim_proc_t *proc);
void sim_proc_kill(sim_proc_t *proc);

/* the process does not run before that time */
void sim_proc_halt(sim_proc_t *proc, uint64_t time);

/*
 * Something for a process: the handler is called within it, now, or when it
 * runs again.  "queue" and "handler" are the caller's; a killed process never
 * gets it.
 */

typedef struct {
    ngx_queue_t               queue;
    void                    (*handler)(void *data);
    void                     *data;
    ngx_uint_t                waiting;
} sim_input_t;

void sim_proc_input(sim_proc_t *proc, sim_input_t *input);


/* sim_memory.c: returns 1 if the process gets no memory now */

ngx_uint_t sim_memory_fails(void);


/* sim_http2.c: connections */

void sim_net_init(void);

/* all connections of a process that is killed are gone */
void sim_net_kill(sim_proc_t *proc);

/* connections of a process or to a member; any where these are NULL and -1 */
void sim_net_break(sim_proc_t *proc, ngx_int_t member);
void sim_net_stick(sim_proc_t *proc, ngx_int_t member, uint64_t until);


/* sim_faults.c */

void sim_faults_init(void);
void sim_faults_mix(void);
void sim_faults_heal(void);


#endif /* _SIM_H_INCLUDED_ */
