
/*
 * Copyright (C) nginx-etcd contributors
 */


#include "sim_world.h"
#include <ngx_etcd_lock_queue.h>
#include <ngx_etcd_str.h>


/* a seed takes some thousand */
#define SIM_STEPS  300000


typedef enum {
    SIM_PHASE_FAULTS = 0,
    SIM_PHASE_SETTLE,
    SIM_PHASE_LEAVE,
    SIM_PHASE_OVER
} sim_phase_e;


static void sim_world_init(void);
static void sim_world_conf(void);
static void sim_world_procs(void);
static void sim_world_tick(sim_event_t *ev);
static void sim_world_calm(void);
static void sim_world_settle(void);
static void sim_world_leave(void);
static void sim_world_end(void);


sim_world_t  sim_world;


/* the holders in this round of checks */

static struct {
    ngx_uint_t    round;
    ngx_uint_t    n;
    ngx_str_t     key[SIM_PROCS * 8];
} sim_holders;


static sim_event_t  sim_tick;
static sim_phase_e  sim_phase;
static uint64_t     sim_deadline;


static sim_actor_t  *sim_actors[] = {
    &sim_mirror_actor,
    &sim_lock_actor,
    &sim_election_actor,
    &sim_register_actor
};


ngx_int_t
sim_run(uint64_t seed, ngx_uint_t trace)
{
    sim_init(seed, trace);
    sim_world_init();

    sim_holders.n = 0;

    while (sim_phase != SIM_PHASE_OVER && sim.failed == NULL) {
        if (!sim_step()) {
            sim_fail("progress", "nothing is left to do");
        }

        if (sim.step == SIM_STEPS) {
            sim_fail("progress", "%ui steps are too many", sim.step);
        }
    }

    sim_world_end();
    sim_done();

    return (sim.failed == NULL) ? NGX_OK : NGX_ERROR;
}


static void
sim_world_init(void)
{
    ngx_uint_t  i;

    ngx_memzero(&sim_world, sizeof(sim_world_t));

    for (i = 0; i < SIM_FAULTS; i++) {
        if (sim_chance(3)) {
            sim.faults |= (ngx_uint_t) 1 << i;
        }
    }

    /* other seeds draw the same numbers as before */

    if (sim.seed % 10 == 6) {
        sim.scarce = (ngx_uint_t) 8 << sim_below(8);
    }

    sim.mixed = (sim.seed % 10 == 2 || sim.seed % 10 == 4
                 || sim.seed % 10 == 8);

    sim.trial = (sim.seed % 8 == 7);

    if (sim.trial) {
        sim.faults |= (ngx_uint_t) 1 << SIM_FAULT_RESTORE;
    }

    sim.end = sim.now + 5 * SIM_SECOND + sim_below(40 * SIM_SECOND);

    sim_trace("seed %uL, faults %xi until %uL s", sim.seed, sim.faults,
              sim.end / SIM_SECOND);

    model_init(1 + sim_below(SIM_MEMBERS));
    model.list_chunk = (sim.seed % 2) ? 0 : 3;

    if (sim.mixed) {
        sim_faults_mix();
    }

    sim_net_init();

    sim_world_conf();
    sim_world_procs();
    sim_faults_init();

    sim_phase = SIM_PHASE_FAULTS;

    ngx_memzero(&sim_tick, sizeof(sim_event_t));
    sim_tick.handler = sim_world_tick;
    sim_add(&sim_tick, sim.end);
}


static void
sim_world_conf(void)
{
    ngx_uint_t                i;
    struct sockaddr_in       *sin;
    ngx_etcd_endpoint_t      *endpoint;
    ngx_etcd_cluster_conf_t  *conf;

    sim_world.ttl = 2 + sim_below(9);

    conf = &sim_world.conf;

    ngx_str_set(&conf->name, "sim");
    conf->connect_timeout = 1000;
    conf->request_timeout = 1000 * (1 + sim_below(5));
    conf->ping_interval = 1000 * (5 + sim_below(5));
    conf->ping_timeout = 1000 * (1 + sim_below(4));
    conf->max_message_size = 1024 * 1024;
    conf->rebalance = sim_chance(2) ? 10000 : 0;

    conf->audit_interval = sim_chance(2) ? 15000 : 0;

    /* a list alone tells apart histories whose revisions and terms grow */

    if (sim.mixed) {
        conf->audit_interval = 15000;
    }

    ngx_str_set(&conf->key_namespace, "");

    if (sim_chance(3)) {
        ngx_str_set(&conf->key_namespace, "ns/");
    }

    sim_world.watched = (conf->ping_interval + conf->ping_timeout
                         + conf->request_timeout) * SIM_MS
                        + sim_world.ttl * SIM_SECOND + 5 * SIM_SECOND;

    if (ngx_array_init(&conf->endpoints, sim.pool, model.nmembers,
                       sizeof(ngx_etcd_endpoint_t))
        != NGX_OK)
    {
        abort();
    }

    for (i = 0; i < model.nmembers; i++) {
        endpoint = ngx_array_push(&conf->endpoints);
        ngx_memzero(endpoint, sizeof(ngx_etcd_endpoint_t));

        sin = sim_alloc(sizeof(struct sockaddr_in));
        sin->sin_family = AF_INET;
        sin->sin_addr.s_addr = htonl(0x0a000000 + i);

        endpoint->addr.sockaddr = (struct sockaddr *) sin;
        endpoint->addr.socklen = sizeof(struct sockaddr_in);

        endpoint->url.data = sim_alloc(16);
        endpoint->url.len = ngx_sprintf(endpoint->url.data, "member%ui", i)
                            - endpoint->url.data;
        endpoint->authority = endpoint->url;
        endpoint->host = endpoint->url;
    }
}


static void
sim_world_procs(void)
{
    ngx_uint_t    i;
    sim_actor_t  *actor;

    actor = sim_actors[sim_below(sizeof(sim_actors) / sizeof(sim_actors[0]))];

    /* instead of some mirrors: other seeds mean what they meant before */

    if (actor == &sim_mirror_actor
        && (sim.seed % 7 == 3 || sim.seed % 7 == 6))
    {
        actor = &sim_fanout_actor;
    }

    sim.nprocs = 1 + sim_below(4);

    for (i = 0; i < sim.nprocs; i++) {
        sim_proc_init(&sim.procs[i], i);
        sim.procs[i].actor = actor;
    }

    for (i = 0; i < sim.nprocs; i++) {
        sim_proc_start(&sim.procs[i]);
    }
}


static void
sim_world_tick(sim_event_t *ev)
{
    switch (sim_phase) {

    case SIM_PHASE_FAULTS:
        sim_world_calm();
        break;

    case SIM_PHASE_SETTLE:
        sim_world_settle();
        break;

    default:
        sim_world_leave();
        break;
    }

    sim_add(ev, sim.now + 250 * SIM_MS);
}


static void
sim_world_calm(void)
{
    ngx_uint_t  i;

    sim_trace("the faults are over");

    sim.calm = 1;
    sim_faults_heal();

    for (i = 0; i < sim.nprocs; i++) {
        if (!sim.procs[i].alive) {
            sim_proc_start(&sim.procs[i]);
        }
    }

    sim_phase = SIM_PHASE_SETTLE;
    sim_deadline = sim.now + SIM_SETTLE;
}


static void
sim_world_settle(void)
{
    ngx_uint_t   i;
    sim_proc_t  *proc;

    for (i = 0; i < sim.nprocs; i++) {
        proc = &sim.procs[i];

        if (!proc->actor->settled(proc)) {
            if (sim.now > sim_deadline) {
                sim_fail("progress", "process %s is not settled %uL s after "
                         "the faults", proc->name, SIM_SETTLE / SIM_SECOND);
            }

            return;
        }
    }

    sim_trace("all is well, all leave");

    for (i = 0; i < sim.nprocs; i++) {
        proc = &sim.procs[i];

        sim_enter(proc);
        proc->actor->leave(proc);
        sim_leave();
    }

    sim_phase = SIM_PHASE_LEAVE;
    sim_deadline = sim.now + SIM_LEAVE;
}


static void
sim_world_leave(void)
{
    size_t          i;
    char           *what;
    ngx_str_t      *name;
    model_store_t  *store;

    what = NULL;
    name = NULL;
    store = model.store;

    for (i = 0; i < sim.nprocs; i++) {
        if (!sim.procs[i].actor->left(&sim.procs[i])) {
            what = "a process";
        }
    }

    for (i = 0; i < store->nkeys; i++) {
        if (!store->keys[i]->last->deleted && store->keys[i]->last->lease) {
            what = "a key";
            name = &store->keys[i]->name;
        }
    }

    for (i = 0; i < model.nleases; i++) {
        if (model.leases[i]->ended == 0) {
            what = "a lease";
        }
    }

    if (what == NULL) {
        sim_phase = SIM_PHASE_OVER;
        return;
    }

    if (sim.now > sim_deadline) {
        sim_fail("nothing is left", "%s is left %uL s after all have left: %V",
                 what, SIM_LEAVE / SIM_SECOND, name);
    }
}


static void
sim_world_end(void)
{
    ngx_uint_t  i;

    for (i = 0; i < sim.nprocs; i++) {
        sim_proc_kill(&sim.procs[i]);
    }
}


ngx_str_t
sim_key(const char *fmt, ...)
{
    u_char     *p, buf[256];
    va_list     args;
    ngx_str_t   key, *space;

    space = &sim_world.conf.key_namespace;
    p = ngx_cpymem(buf, space->data, space->len);

    va_start(args, fmt);
    p = ngx_vslprintf(p, buf + sizeof(buf), fmt, args);
    va_end(args);

    key.len = p - buf;
    key.data = sim_alloc(key.len + 1);
    ngx_memcpy(key.data, buf, key.len);

    return key;
}


void
sim_nothing(void *data)
{
    /* for handlers that must be there */
}


ngx_uint_t
sim_owns(sim_proc_t *proc, char *what, ngx_str_t *key, int64_t created,
    int64_t id, uint64_t held)
{
    size_t          i;
    uint64_t        since;
    model_key_t    *found;
    model_rec_t    *rec, *end;
    model_lease_t  *lease;
    model_store_t  *store;

    store = model.store;
    since = store->number ? store->began : 0;

    for (i = model.nleases; i-- > 0; /* void */ ) {
        lease = model.leases[i];

        if (lease->id != id || lease->granted < since) {
            continue;
        }

        if (lease->ended == 0 && lease->expiry <= sim.now) {
            sim_fail("a lease that is over holds nothing",
                     "%s holds %s %V by lease %xL", proc->name, what, key, id);
            return 0;
        }

        break;
    }

    found = model_find(store, key);
    end = NULL;

    for (rec = found ? found->last : NULL; rec != NULL; rec = rec->prev) {
        if (!rec->deleted && rec->create == created) {
            break;
        }

        if (rec->mod <= created) {
            rec = NULL;
            break;
        }

        if (rec->deleted) {
            end = rec;
        }
    }

    /*
     * A key that the process has held by since before this history is of a
     * former one: here another key has got the same name and revision.
     */

    if (rec != NULL && rec->time >= since && held < since) {
        end = NULL;

    } else if (rec != NULL && end == NULL && rec->time >= since) {
        return 1;
    }

    /* a key that the member had which went on is nobody else's */

    if (rec != NULL && end == NULL && store->forced) {
        return 0;
    }

    /*
     * Locks and leaderships of a former history are to be given up, since
     * others may have theirs again; but a process that goes on with a key that
     * is there, and has had no answer in that history, does not know of it.
     */

    if (rec != NULL && end == NULL
        && (proc->heard == 0 || proc->heard >= since))
    {
        return 0;
    }

    if (rec != NULL && end != NULL) {
        if (end->reason != MODEL_BY_OPERATOR) {
            sim_fail("a key that is gone holds nothing",
                     "%s holds %s %V of revision %L, which %s at revision %L",
                     proc->name, what, key, created,
                     (end->reason == MODEL_BY_EXPIRY) ? "expired"
                                                      : "was deleted",
                     end->mod);
            return 0;
        }

        since = ngx_max(since, end->time);

    } else if (store->number == 0) {
        sim_fail("a key that was never there holds nothing",
                 "%s holds %s %V of revision %L", proc->name, what, key,
                 created);
        return 0;
    }

    if (sim.now > since + sim_world.watched) {
        sim_fail("a loss is noticed",
                 "%s holds %s %V of revision %L, which was taken away %uL ms "
                 "ago", proc->name, what, key, created,
                 (sim.now - since) / SIM_MS);
    }

    return 0;
}


ngx_uint_t
sim_gone(ngx_str_t *key, int64_t created, uint64_t time)
{
    model_key_t  *found;
    model_rec_t  *rec, *end;

    end = NULL;
    found = model_find(model.store, key);

    for (rec = found ? found->last : NULL; rec != NULL; rec = rec->prev) {
        if (!rec->deleted && rec->create == created) {
            return end != NULL && end->time < time;
        }

        end = rec->deleted ? rec : end;
    }

    return 1;
}


uint64_t
sim_renewed(ngx_etcd_lease_t *lease)
{
    uint64_t  sent;

    sent = lease->deadline - ngx_etcd_lease_deadline(0, lease->ttl);

    /* ngx_etcd_clock() is up to a millisecond ahead */

    return (sent - 1) * SIM_MS;
}


void
sim_read(sim_proc_t *proc, ngx_str_t *key, int64_t created, uint64_t time)
{
    if (model.store->began < time && sim_gone(key, created, time)) {
        sim_fail("a key that was read is there", "%V of revision %L was gone "
                 "before %s has read it, from %uL us on", key, created,
                 proc->name, time / (SIM_MS / 1000));
    }
}


ngx_uint_t
sim_share(ngx_str_t *one, ngx_str_t *other)
{
    return ngx_etcd_lock_queue_is_shared(one->data, one->len)
           && ngx_etcd_lock_queue_is_shared(other->data, other->len);
}


ngx_uint_t
sim_waits(ngx_str_t *prefix, model_rec_t *own, uint64_t time)
{
    size_t          i;
    model_rec_t    *rec;
    model_store_t  *store;

    store = model.store;

    for (i = model_lower(store, prefix); i < store->nkeys; i++) {
        rec = store->keys[i]->last;

        if (rec->key.len < prefix->len
            || ngx_memcmp(rec->key.data, prefix->data, prefix->len) != 0)
        {
            break;
        }

        if (!rec->deleted && rec != own && rec->time < time
            && !sim_share(&rec->key, &own->key))
        {
            return 1;
        }
    }

    return 0;
}


ngx_uint_t
sim_before(model_store_t *store, ngx_str_t *prefix, ngx_str_t *key,
    int64_t created, ngx_uint_t unaware)
{
    size_t        i;
    ngx_uint_t    before;
    model_rec_t  *rec;

    before = 0;

    for (i = model_lower(store, prefix); i < store->nkeys; i++) {
        rec = store->keys[i]->last;

        if (rec->key.len < prefix->len
            || ngx_memcmp(rec->key.data, prefix->data, prefix->len) != 0)
        {
            break;
        }

        if (!rec->deleted && rec->create < created
            && (!rec->returned || (unaware && rec->unaware))
            && !sim_share(&rec->key, key))
        {
            before++;
        }
    }

    return before;
}


void
sim_leads(sim_proc_t *proc, char *what, ngx_str_t *prefix, ngx_str_t *key,
    int64_t created, ngx_uint_t permits)
{
    ngx_str_t   *other;
    ngx_uint_t   i, before, n;

    before = sim_before(model.store, prefix, key, created, 0);

    if (before >= permits) {
        sim_fail("no more holders than permits",
                 "%s holds %s %V of revision %L, but %ui of %ui keys were "
                 "there before", proc->name, what, key, created, before,
                 permits);
        return;
    }

    /* keys that came back count if somebody holds by them */

    if (sim_holders.round != sim.round) {
        sim_holders.round = sim.round;
        sim_holders.n = 0;
    }

    n = 1;

    for (i = 0; i < sim_holders.n; i++) {
        other = &sim_holders.key[i];

        if (ngx_etcd_str_equal(other, key)) {
            return;
        }

        n += other->len > prefix->len
             && ngx_memcmp(other->data, prefix->data, prefix->len) == 0
             && !sim_share(other, key);
    }

    if (n > permits) {
        sim_fail("no more holders than permits", "%s holds %s %V of revision "
                 "%L, as the %ui-th of %ui", proc->name, what, key, created, n,
                 permits);
    }

    sim_holders.key[sim_holders.n++] = *key;
}
