
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A fan-out, while somebody writes: one watch feeds the mirrors of sets, which
 * come with their first key and go after their last one.  Whenever it is
 * complete, its sets have what etcd had at that revision, all of them.
 */


#include "sim_mirror.h"
#include <ngx_etcd_client.h>
#include <ngx_etcd_fanout.h>


#define SIM_FANOUT_SETS  5
#define SIM_FANOUT_KEYS  3             /* of a set */


typedef struct {
    ngx_etcd_fanout_part_t    part;
    sim_mirror_t              m;            /* without keys while not there */
    ngx_uint_t                there;
    u_char                    prefix[8];
} sim_fanout_set_t;


typedef struct {
    ngx_etcd_cluster_t       *cluster;
    ngx_etcd_watch_stream_t  *stream;
    sim_proc_t               *proc;
    ngx_etcd_fanout_t         fanout;
    sim_fanout_set_t          sets[SIM_FANOUT_SETS];
    ngx_uint_t                store;        /* number of the history */
    ngx_event_t               sweep;        /* removes sets without keys */
} sim_fanout_t;


static void sim_fanout_start(sim_proc_t *proc);
static void sim_fanout_init(sim_fanout_t *f, ngx_uint_t i);
static void sim_fanout_stop(sim_proc_t *proc);
static void sim_fanout_leave(sim_proc_t *proc);
static void sim_fanout_check(sim_proc_t *proc);
static ngx_uint_t sim_fanout_settled(sim_proc_t *proc);
static ngx_uint_t sim_fanout_left(sim_proc_t *proc);

static ngx_int_t sim_fanout_set(ngx_str_t *key);
static ngx_etcd_fanout_part_t *sim_fanout_find(ngx_etcd_fanout_t *fanout,
    ngx_str_t *key, ngx_uint_t create);
static ngx_uint_t sim_fanout_wants(void *data, ngx_str_t *key);
static void sim_fanout_complete(ngx_etcd_fanout_t *fanout, int64_t revision);
static void sim_fanout_denied(ngx_etcd_fanout_t *fanout,
    ngx_etcd_grpc_status_e status);
static void sim_fanout_verified(ngx_etcd_watch_t *watch, uint64_t time);
static char *sim_fanout_differs(sim_fanout_t *f, model_store_t *store,
    int64_t revision);
static void sim_fanout_sweep(ngx_event_t *ev);

static void sim_fanout_write(sim_event_t *ev);


sim_actor_t  sim_fanout_actor = {
    "fanout",
    sim_fanout_start,
    sim_fanout_stop,
    sim_fanout_leave,
    sim_fanout_check,
    sim_fanout_settled,
    sim_fanout_left
};


static sim_event_t  sim_fanout_writer;


static void
sim_fanout_start(sim_proc_t *proc)
{
    ngx_uint_t          i;
    sim_fanout_t       *f;
    ngx_etcd_fanout_t  *fanout;

    f = ngx_pcalloc(proc->pool, sizeof(sim_fanout_t));
    proc->data = f;

    f->cluster = ngx_etcd_client_create(&sim_world.conf, sim_nothing, NULL,
                                        &sim.log);
    f->stream = ngx_etcd_watch_stream_create(f->cluster);
    f->proc = proc;
    f->store = model.store->number;

    f->sweep.handler = sim_fanout_sweep;
    f->sweep.data = f;
    f->sweep.log = &sim.log;

    for (i = 0; i < SIM_FANOUT_SETS; i++) {
        sim_fanout_init(f, i);
    }

    fanout = &f->fanout;
    fanout->data = f;
    ngx_str_set(&fanout->name, "sim");
    fanout->find = sim_fanout_find;
    fanout->wants = sim_fanout_wants;
    fanout->complete = sim_fanout_complete;
    fanout->denied = sim_fanout_denied;

    ngx_str_set(&fanout->watch.range.prefix, "t/");
    fanout->watch.verify_interval = 1000;
    fanout->watch.verified = sim_fanout_verified;

    ngx_etcd_fanout_init(fanout, &sim.log);

    /* lists of several pages */

    if (sim_chance(2)) {
        fanout->watch.limit = 2;
    }

    if (ngx_etcd_fanout_start(fanout, f->stream) != NGX_OK) {
        abort();
    }

    if (proc->index == 0 && proc->lives == 1) {
        ngx_memzero(&sim_fanout_writer, sizeof(sim_event_t));
        sim_fanout_writer.handler = sim_fanout_write;
        sim_add(&sim_fanout_writer, sim.now);
    }
}


/* a set that has no keys, and is not there */

static void
sim_fanout_init(sim_fanout_t *f, ngx_uint_t i)
{
    ngx_str_t         *prefix;
    sim_fanout_set_t  *set;

    set = &f->sets[i];

    ngx_memzero(set, sizeof(sim_fanout_set_t));

    prefix = &set->m.mirror.watch.range.prefix;
    prefix->data = set->prefix;
    prefix->len = ngx_sprintf(set->prefix, "t/s%ui/", i) - set->prefix;

    set->m.store = f->store;
    set->part.mirror = &set->m.mirror;

    sim_mirror_init(&set->m, f->proc);
}


static void
sim_fanout_stop(sim_proc_t *proc)
{
    ngx_uint_t     i;
    sim_fanout_t  *f;

    f = proc->data;

    if (f->sweep.timer_set) {
        ngx_del_timer(&f->sweep);
    }

    ngx_etcd_watch_stream_destroy(f->stream);
    ngx_etcd_fanout_stop(&f->fanout);

    for (i = 0; i < SIM_FANOUT_SETS; i++) {
        sim_mirror_destroy(&f->sets[i].m);
    }

    ngx_etcd_client_destroy(f->cluster);
}


static void
sim_fanout_leave(sim_proc_t *proc)
{
}


static void
sim_fanout_check(sim_proc_t *proc)
{
    sim_fanout_t  *f;

    f = proc->data;

    if (f->cluster->counts.repairs != 0 && model.nstores == 1) {
        sim_fail("an audit finds nothing", "%ui times at %s",
                 f->cluster->counts.repairs, proc->name);
    }
}


static ngx_uint_t
sim_fanout_left(sim_proc_t *proc)
{
    return 1;
}


static ngx_uint_t
sim_fanout_settled(sim_proc_t *proc)
{
    char          *differs;
    sim_fanout_t  *f;

    f = proc->data;

    if (sim_fanout_writer.index) {

        /* The fan-out tells of the following keys as well. */

        if (sim.now < sim.end + SIM_SECOND) {
            return 0;
        }

        sim_remove(&sim_fanout_writer);
    }

    differs = sim_fanout_differs(f, model.store, model.store->revision);

    if (f->fanout.synced && !ngx_etcd_fanout_pending(&f->fanout)
        && differs == NULL)
    {
        return 1;
    }

    sim_trace("fanout of %s: %s", proc->name, differs ? differs : "not synced");

    return 0;
}


/* the number of the key's set, or NGX_ERROR */

static ngx_int_t
sim_fanout_set(ngx_str_t *key)
{
    if (key->len < sizeof("t/s0/")
        || ngx_memcmp(key->data, "t/s", 3) != 0
        || key->data[3] < '0' || key->data[3] >= '0' + SIM_FANOUT_SETS
        || key->data[4] != '/')
    {
        return NGX_ERROR;
    }

    return key->data[3] - '0';
}


static ngx_etcd_fanout_part_t *
sim_fanout_find(ngx_etcd_fanout_t *fanout, ngx_str_t *key, ngx_uint_t create)
{
    ngx_int_t          n;
    sim_fanout_t      *f;
    sim_fanout_set_t  *set;

    f = fanout->data;
    n = sim_fanout_set(key);

    if (n == NGX_ERROR) {
        return NULL;
    }

    set = &f->sets[n];

    if (!set->there) {
        if (!create) {
            return NULL;
        }

        set->there = 1;
        set->m.store = f->store;
        ngx_etcd_fanout_add(fanout, &set->part);
    }

    return &set->part;
}


static ngx_uint_t
sim_fanout_wants(void *data, ngx_str_t *key)
{
    return sim_fanout_set(key) != NGX_ERROR;
}


/* the oldest history that the sets fit is taken for theirs */

static void
sim_fanout_complete(ngx_etcd_fanout_t *fanout, int64_t revision)
{
    char          *differs;
    ngx_uint_t     i;
    sim_fanout_t  *f;

    f = fanout->data;

    if (!f->sweep.timer_set) {
        ngx_add_timer(&f->sweep, sim_below(500));
    }

    differs = NULL;

    for (i = f->store; i < model.nstores; i++) {
        differs = sim_fanout_differs(f, model.stores[i], revision);

        if (differs == NULL) {
            f->store = i;
            return;
        }
    }

    if (f->store == model.store->number) {
        sim_fail("sets have what etcd had", "%s at revision %L: %s",
                 f->proc->name, revision, differs);
    }
}


static void
sim_fanout_denied(ngx_etcd_fanout_t *fanout, ngx_etcd_grpc_status_e status)
{
}


static char *
sim_fanout_differs(sim_fanout_t *f, model_store_t *store, int64_t revision)
{
    char        *differs;
    ngx_uint_t   i;

    for (i = 0; i < SIM_FANOUT_SETS; i++) {
        differs = sim_mirror_differs(&f->sets[i].m, store, revision);

        if (differs != NULL) {
            return differs;
        }
    }

    return NULL;
}


/* see sim_mirror_verified() */

static void
sim_fanout_verified(ngx_etcd_watch_t *watch, uint64_t time)
{
    int64_t             revision;
    sim_fanout_t       *f;
    model_store_t      *store;
    ngx_etcd_fanout_t  *fanout;

    fanout = watch->data;
    f = fanout->data;
    store = model.store;

    if (f->store != store->number || ngx_etcd_fanout_pending(fanout)) {
        return;
    }

    for (revision = store->revision; revision > 0; revision--) {
        if (sim_fanout_differs(f, store, revision) == NULL) {
            return;
        }

        if (model_time(store, revision) / SIM_MS + 1 < time) {
            break;
        }
    }

    sim_fail("what is verified is so", "sets of %s at revision %L are "
             "verified as of %uL ms, and are not what etcd had since revision "
             "%L", f->proc->name, watch->revision, time, revision);
}


/* also during a list: the set comes again with the next key */

static void
sim_fanout_sweep(ngx_event_t *ev)
{
    ngx_uint_t         i;
    sim_fanout_t      *f;
    sim_fanout_set_t  *set;

    f = ev->data;

    for (i = 0; i < SIM_FANOUT_SETS; i++) {
        set = &f->sets[i];

        if (set->there && set->m.mirror.entries.n == 0) {
            ngx_etcd_fanout_remove(&f->fanout, &set->part);
            sim_mirror_destroy(&set->m);
            sim_fanout_init(f, i);
        }
    }
}


/* a revision changes keys of one set or of several */

static void
sim_fanout_write(sim_event_t *ev)
{
    ngx_str_t   key, value;
    ngx_uint_t  i, k, n;

    model_begin();

    n = sim_chance(3) ? SIM_FANOUT_SETS : 1;
    i = sim_below(SIM_FANOUT_SETS);

    for ( /* void */ ; n > 0; n--, i++) {
        for (k = 0; k < SIM_FANOUT_KEYS; k++) {
            if (n > 1 && sim_chance(2)) {
                continue;
            }

            key = sim_key("t/%s%ui/k%ui", sim_chance(20) ? "x" : "s",
                          i % SIM_FANOUT_SETS, k);

            if (sim_chance(2)) {
                (void) model_delete(&key, MODEL_BY_OPERATOR);

            } else {
                value = sim_key("%uL", sim_random());
                model_put(&key, &value, 0);
            }
        }
    }

    model_commit();

    sim_add(ev, sim.now + (sim_chance(3) ? sim_below(2 * SIM_SECOND)
                                         : sim_below(50 * SIM_MS)));
}
