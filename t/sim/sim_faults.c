
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The faults, and their times.
 */


#include "sim_world.h"


/* one of the kinds that a seed has happens that often, on average */
#define SIM_FAULT_PERIOD  (700 * SIM_MS)

/* one in so many chances to restore is taken */
#define SIM_FAULT_RESTORES  (sim.trial ? 2 : 6)

/* an operator that is about is faster than one read in so many */
#define SIM_FAULT_READS   50


static void sim_fault_event(sim_event_t *ev);
static void sim_fault_strike(ngx_uint_t kind);
static void sim_fault_member(ngx_uint_t kind, model_member_t *member);
static void sim_fault_elect(void);
static void sim_fault_operator(void);
static void sim_fault_restore(void);
static void sim_fault_again(sim_event_t *ev);
static void sim_fault_force(void);
static void sim_fault_write(ngx_uint_t n);
static void sim_fault_clean(void);
static void sim_fault_put(model_rec_t *rec);
static void sim_fault_undo(sim_event_t *ev);
static void sim_fault_compact(void);
static void sim_fault_deny(sim_event_t *ev);
static uint64_t sim_fault_length(void);


static sim_event_t  sim_fault_next;
static sim_event_t  sim_fault_allow;
static sim_event_t  sim_fault_trial;

/* a key that an operator has put */
static sim_event_t  sim_fault_wrong;
static ngx_str_t    sim_fault_key;
static int64_t      sim_fault_created;


void
sim_faults_init(void)
{
    ngx_memzero(&sim_fault_next, sizeof(sim_event_t));
    ngx_memzero(&sim_fault_allow, sizeof(sim_event_t));
    ngx_memzero(&sim_fault_trial, sizeof(sim_event_t));
    ngx_memzero(&sim_fault_wrong, sizeof(sim_event_t));

    sim_fault_next.handler = sim_fault_event;
    sim_fault_wrong.handler = sim_fault_undo;
    sim_fault_allow.handler = sim_fault_deny;
    sim_fault_trial.handler = sim_fault_again;

    sim_add(&sim_fault_next, sim.now + sim_below(SIM_FAULT_PERIOD));
}


/* Members differ in their election timeouts, as while one is changed. */

void
sim_faults_mix(void)
{
    ngx_uint_t  i;

    for (i = 0; i < model.nmembers; i++) {
        if (sim_chance(2)) {
            model.members[i].min_ttl += sim_below(14);
        }
    }
}


static uint64_t
sim_fault_length(void)
{
    return sim_chance(2) ? sim_below(500 * SIM_MS) : sim_below(12 * SIM_SECOND);
}


static void
sim_fault_event(sim_event_t *ev)
{
    ngx_uint_t  kind;

    if (sim.calm) {
        return;
    }

    kind = sim_below(SIM_FAULTS);

    if (sim_fault(kind)) {
        sim_fault_strike(kind);
    }

    sim_add(ev, sim.now + sim_below(SIM_FAULT_PERIOD / 2));
}


static void
sim_fault_strike(ngx_uint_t kind)
{
    ngx_int_t        m;
    sim_proc_t      *proc, *some;
    model_member_t  *member;

    proc = &sim.procs[sim_below(sim.nprocs)];
    some = sim_chance(2) ? proc : NULL;

    member = &model.members[sim_below(model.nmembers)];
    m = sim_chance(2) ? (ngx_int_t) member->index : -1;

    switch (kind) {

    case SIM_FAULT_BREAK:
        sim_net_break(some, m);
        break;

    case SIM_FAULT_STUCK:
        sim_net_stick(some, m, sim.now + sim_fault_length());
        break;

    case SIM_FAULT_DOWN:
    case SIM_FAULT_LAG:
        sim_fault_member(kind, member);
        break;

    case SIM_FAULT_ELECT:
        sim_fault_elect();
        break;

    case SIM_FAULT_COMPACT:
        sim_fault_compact();
        break;

    case SIM_FAULT_RESTORE:
        if (sim_chance(SIM_FAULT_RESTORES)) {
            sim_fault_restore();
        }

        break;

    case SIM_FAULT_OPERATOR:
        if (sim_chance(2)) {
            sim_fault_operator();
        }

        break;

    case SIM_FAULT_STOP:
        if (proc->alive) {
            sim_trace("%s is stopped", proc->name);
            sim_proc_halt(proc, sim.now + sim_fault_length());
        }

        break;

    case SIM_FAULT_CRASH:
        if (!proc->alive) {
            sim_proc_start(proc);

        } else if (sim_chance(3) && proc->stopped <= sim.now) {
            sim_proc_kill(proc);
        }

        break;

    case SIM_FAULT_DENY:
        if (!sim_fault_allow.index) {
            sim_trace("etcd: all is denied");
            model.denied = sim_world.conf.key_namespace.len
                           ? sim_world.conf.key_namespace : sim_key("t/");
            sim_add(&sim_fault_allow, sim.now + sim_fault_length());
        }

        break;

    default:
        break;
    }
}


static void
sim_fault_deny(sim_event_t *ev)
{
    sim_trace("etcd: all is permitted again");
    model.denied.len = 0;
}


static void
sim_fault_member(ngx_uint_t kind, model_member_t *member)
{
    uint64_t  until;

    until = sim.now + sim_fault_length();

    if (kind == SIM_FAULT_DOWN) {
        sim_trace("member %ui is down", member->index);
        member->down = until;
        member->lag = until;
        sim_net_break(NULL, member->index);
        return;
    }

    sim_trace("member %ui lags", member->index);
    member->lag = until;

    if (sim_chance(2)) {
        member->alone = until;
    }
}


/*
 * The former leader may not have heard of it, and others that lag behind may
 * still ask it to renew leases.
 */

static void
sim_fault_elect(void)
{
    uint64_t         until;
    ngx_uint_t       i, former;
    model_member_t  *member;

    model_elect();

    if (!sim_chance(2)) {
        return;
    }

    until = sim.now + sim_fault_length();
    former = sim_below(model.nmembers);

    for (i = 0; i < model.nmembers; i++) {
        member = &model.members[i];

        if (i != former && sim_chance(2)) {
            continue;
        }

        sim_trace("member %ui does not know", i);

        member->misled = until;
        member->lag = until;

        if (i == former && model.nmembers > 1) {
            member->zombie = until;
        }

        sim_remove(&member->apply);
        model_member_wake(member);
    }
}


static void
sim_fault_compact(void)
{
    int64_t  revision;

    revision = model.store->revision;

    model_compact(revision - (sim_chance(3) ? 0 : (int64_t) sim_below(10)));
}


static void
sim_fault_restore(void)
{
    ngx_uint_t  i;
    uint64_t    time;

    if (sim.mixed && sim_chance(2)) {
        sim_fault_force();
        return;
    }

    time = sim_chance(8) ? 0 : sim.now - sim_below(20 * SIM_SECOND) % sim.now;

    model_restore(time, sim_chance(2));

    for (i = 0; i < model.nmembers; i++) {
        sim_net_break(NULL, i);
    }

    if (sim.trial && sim_chance(2)) {
        sim_remove(&sim_fault_trial);
        sim_add(&sim_fault_trial, sim.now + sim_below(500 * SIM_MS));
    }
}


/* Another backup: clients may have seen the former one, or a part of it. */

static void
sim_fault_again(sim_event_t *ev)
{
    if (!sim.calm) {
        sim_fault_restore();
    }
}


/*
 * All members are gone but one that lagged behind, which is made a cluster.
 * Others write before or after a client hears of it: the revision may have
 * passed all that the client has seen.
 */

static void
sim_fault_force(void)
{
    int64_t     lost;
    uint64_t    time;
    ngx_uint_t  i;

    lost = model.store->revision;
    time = sim.now - sim_below(10 * SIM_SECOND) % sim.now;

    model_force(time);

    lost = ngx_max(lost - model.store->revision, 0);
    sim_fault_write(sim_below(2 * lost + 2));

    for (i = 0; i < model.nmembers; i++) {
        sim_net_break(NULL, i);
    }
}


static void
sim_fault_write(ngx_uint_t n)
{
    static ngx_str_t  key = ngx_string("other");

    while (n-- != 0) {
        model_write(&key, &key, 0);
    }
}


/* The operator deletes keys that a cluster that went on alone brought back. */

static void
sim_fault_clean(void)
{
    size_t          i;
    model_rec_t    *rec;
    model_store_t  *store;

    store = model.store;

    for (i = 0; i < store->nkeys; i++) {
        rec = store->keys[i]->last;

        if (rec->returned) {
            model_write(&rec->key, NULL, 0);
        }
    }
}


/* somebody deletes a key that has a lease, or revokes one */

static void
sim_fault_operator(void)
{
    size_t          i, n;
    model_rec_t    *rec;
    model_lease_t  *lease;
    model_store_t  *store;

    store = model.store;

    if (sim_chance(3)) {
        if (model.nleases != 0) {
            lease = model.leases[sim_below(model.nleases)];

            if (lease->ended == 0) {
                model_lease_end(lease, MODEL_BY_OPERATOR);
            }
        }

        return;
    }

    n = 0;
    rec = NULL;

    for (i = 0; i < store->nkeys; i++) {
        if (!store->keys[i]->last->deleted && store->keys[i]->last->lease
            && sim_chance(++n))
        {
            rec = store->keys[i]->last;
        }
    }

    if (rec != NULL) {
        model_write(&rec->key, NULL, 0);

        if (sim.mixed && !sim_fault_wrong.index && sim_chance(2)) {
            sim_fault_put(rec);
        }
    }
}


/* The operator is faster than a read: another key of that name is there. */

void
sim_faults_read(Etcd__RangeRequest *request)
{
    size_t          i;
    ngx_str_t       from, to;
    model_rec_t    *rec, *first;
    model_store_t  *store;

    if (!sim.mixed || !sim_fault(SIM_FAULT_OPERATOR) || sim_fault_wrong.index
        || !sim_chance(SIM_FAULT_READS))
    {
        return;
    }

    first = NULL;
    store = model.store;

    from = model_str(&request->key);
    to = model_str(&request->range_end);

    for (i = model_lower(store, &from);
         i < store->nkeys && model_in(&store->keys[i]->name, &from, &to);
         i++)
    {
        rec = store->keys[i]->last;

        if (!rec->deleted && rec->lease
            && (first == NULL || rec->create < first->create))
        {
            first = rec;
        }
    }

    if (first != NULL) {
        model_write(&first->key, NULL, 0);
        sim_fault_put(first);
    }
}


/* The key is put again, with another create revision, and deleted later. */

static void
sim_fault_put(model_rec_t *rec)
{
    model_write(&rec->key, &rec->value, rec->lease);

    sim_fault_key = rec->key;
    sim_fault_created = model.store->revision;

    sim_add(&sim_fault_wrong, sim.now + sim_fault_length());
}


static void
sim_fault_undo(sim_event_t *ev)
{
    model_rec_t  *rec;

    rec = model_get(model.store, &sim_fault_key);

    if (rec != NULL && rec->create == sim_fault_created) {
        model_write(&sim_fault_key, NULL, 0);
    }
}


void
sim_faults_heal(void)
{
    ngx_uint_t       i;
    model_member_t  *member;

    sim_remove(&sim_fault_next);
    sim_remove(&sim_fault_allow);
    model.denied.len = 0;

    if (sim_fault_wrong.index) {
        sim_remove(&sim_fault_wrong);
        sim_fault_undo(&sim_fault_wrong);
    }

    sim_fault_clean();

    for (i = 0; i < model.nmembers; i++) {
        member = &model.members[i];

        member->down = 0;
        member->lag = 0;
        member->alone = 0;
        member->zombie = 0;
        member->misled = 0;

        sim_remove(&member->apply);
        model_member_wake(member);
    }
}
