
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Mirrors, while somebody writes: whenever a mirror is complete, it has what
 * etcd had at that revision, and its consumer was told so.
 */


#include "sim_mirror.h"
#include "sim_net.h"
#include <ngx_etcd_client.h>
#include <ngx_etcd_hash_table.h>


#define SIM_MIRRORS      3
#define SIM_MIRROR_KEYS  10


typedef struct {
    ngx_etcd_cluster_t       *cluster;
    ngx_etcd_watch_stream_t  *stream;
    sim_mirror_t              mirrors[SIM_MIRRORS];
    ngx_uint_t                n;
    ngx_event_t               timer;        /* stops them */
} sim_mirrors_t;


/* the last that the consumer was told of an entry */

typedef struct {
    ngx_etcd_mirror_entry_t   entry;
    int64_t                   mod;
    uint32_t                  crc;
    ngx_uint_t                known;
} sim_mirror_entry_t;


static void sim_mirror_start(sim_proc_t *proc);
static void sim_mirror_begin(sim_mirrors_t *all, sim_proc_t *proc,
    ngx_uint_t i);
static void sim_mirror_stop(sim_proc_t *proc);
static void sim_mirror_leave(sim_proc_t *proc);
static void sim_mirror_timer(ngx_event_t *ev);
static void sim_mirror_check(sim_proc_t *proc);
static ngx_uint_t sim_mirror_settled(sim_proc_t *proc);
static ngx_uint_t sim_mirror_left(sim_proc_t *proc);

static void sim_mirror_changed(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry);
static void sim_mirror_removed(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry);
static void sim_mirror_complete(ngx_etcd_mirror_t *mirror, int64_t revision);
static ngx_uint_t sim_mirror_history(ngx_etcd_watch_t *watch);
static void sim_mirror_verified(ngx_etcd_watch_t *watch, uint64_t time);

static ngx_uint_t sim_mirror_wants(ngx_etcd_mirror_t *mirror, ngx_str_t *key);

static void sim_mirror_write(sim_event_t *ev);


sim_actor_t  sim_mirror_actor = {
    "mirror",
    sim_mirror_start,
    sim_mirror_stop,
    sim_mirror_leave,
    sim_mirror_check,
    sim_mirror_settled,
    sim_mirror_left
};


static sim_event_t  sim_mirror_writer;


static void
sim_mirror_start(sim_proc_t *proc)
{
    ngx_uint_t      i;
    sim_mirrors_t  *all;

    all = ngx_pcalloc(proc->pool, sizeof(sim_mirrors_t));
    proc->data = all;

    all->cluster = ngx_etcd_client_create(&sim_world.conf, sim_nothing, NULL,
                                          &sim.log);
    all->stream = ngx_etcd_watch_stream_create(all->cluster);
    all->n = 1 + sim_below(SIM_MIRRORS);

    all->timer.handler = sim_mirror_timer;
    all->timer.data = all;
    all->timer.log = &sim.log;

    for (i = 0; i < all->n; i++) {
        sim_mirror_begin(all, proc, i);
    }

    if (proc->index == 0 && proc->lives == 1) {
        ngx_memzero(&sim_mirror_writer, sizeof(sim_event_t));
        sim_mirror_writer.handler = sim_mirror_write;
        sim_add(&sim_mirror_writer, sim.now);
    }
}


static void
sim_mirror_begin(sim_mirrors_t *all, sim_proc_t *proc, ngx_uint_t i)
{
    sim_mirror_t       *m;
    ngx_etcd_mirror_t  *mirror;

    m = &all->mirrors[i];
    m->store = model.store->number;

    mirror = &m->mirror;
    mirror->entries.ordered = (sim_below(3) != 0);
    mirror->entries.keep = sim_chance(2) ? 64 : 0;

    /*
     * A history that has come further than the former one is noticed by reads
     * of verified watches, or by audits.
     */

    mirror->watch.prompt = (sim_chance(3)
                            && (i != 0 || sim_world.conf.audit_interval));

    switch (sim_below(3)) {

    case 0:
        ngx_str_set(&mirror->watch.range.prefix, "t/m3");
        mirror->watch.range.exact = 1;
        break;

    case 1:
        ngx_str_set(&mirror->watch.range.prefix, "t/m1");
        break;

    default:
        ngx_str_set(&mirror->watch.range.prefix, "t/");
        break;
    }

    if (!mirror->watch.prompt && (i == 0 || sim_chance(2))) {
        mirror->watch.verify_interval = 1000;
        mirror->watch.verified = sim_mirror_verified;
    }

    sim_mirror_init(m, proc);

    /* lists of several pages and pieces, without another random number */

    if (sim.seed % 5 < 2) {
        mirror->watch.limit = 2;
        mirror->sweep.piece = 1;
    }

    if (ngx_etcd_mirror_start(mirror, all->stream) != NGX_OK) {
        abort();
    }
}


void
sim_mirror_init(sim_mirror_t *m, sim_proc_t *proc)
{
    ngx_etcd_mirror_t  *mirror;

    m->proc = proc;

    mirror = &m->mirror;
    mirror->data = m;
    ngx_str_set(&mirror->name, "sim");
    mirror->entries.entry_size = sizeof(sim_mirror_entry_t);
    mirror->changed = sim_mirror_changed;
    mirror->removed = sim_mirror_removed;
    mirror->complete = sim_mirror_complete;

    ngx_etcd_mirror_init(mirror, &sim.log);
}


void
sim_mirror_destroy(sim_mirror_t *m)
{
    ngx_etcd_mirror_destroy(&m->mirror);

    if (m->mirror.entries.size != 0) {
        sim_fail("no memory is lost", "%uz bytes of a mirror",
                 m->mirror.entries.size);
    }
}


static void
sim_mirror_stop(sim_proc_t *proc)
{
    ngx_uint_t      i;
    sim_mirrors_t  *all;

    all = proc->data;

    if (all->timer.timer_set) {
        ngx_del_timer(&all->timer);
    }

    ngx_etcd_watch_stream_destroy(all->stream);

    for (i = 0; i < all->n; i++) {
        sim_mirror_destroy(&all->mirrors[i]);
    }

    ngx_etcd_client_destroy(all->cluster);
}


static void
sim_mirror_leave(sim_proc_t *proc)
{
    sim_mirrors_t  *all;

    all = proc->data;

    sim_mirror_timer(&all->timer);
}


static void
sim_mirror_timer(ngx_event_t *ev)
{
    ngx_uint_t      i, left;
    sim_mirror_t   *m;
    sim_mirrors_t  *all;

    all = ev->data;
    left = 0;

    for (i = 0; i < all->n; i++) {
        m = &all->mirrors[i];

        if (!m->stopped) {
            m->stopped = (ngx_etcd_mirror_stop(&m->mirror) == NGX_OK);
            left += !m->stopped;
        }
    }

    if (left) {
        ngx_add_timer(ev, 100);
    }
}


/* mirrors are looked at when they are complete */

static void
sim_mirror_check(sim_proc_t *proc)
{
    ngx_uint_t         i;
    sim_mirrors_t     *all;
    ngx_etcd_watch_t  *watch;

    all = proc->data;

    for (i = 0; i < all->n; i++) {
        watch = &all->mirrors[i].mirror.watch;

        if (watch->verify != NULL
            && watch->verify->behind != 0
            && watch->verify->pending(watch))
        {
            sim_fail("a watch whose events wait is not behind",
                     "%s: %ui answers", proc->name, watch->verify->behind);
        }
    }

    if (all->cluster->counts.repairs != 0 && model.nstores == 1) {
        sim_fail("an audit finds nothing", "%ui times at %s",
                 all->cluster->counts.repairs, proc->name);
    }
}


static ngx_uint_t
sim_mirror_left(sim_proc_t *proc)
{
    ngx_uint_t      i;
    sim_mirrors_t  *all;

    all = proc->data;

    for (i = 0; i < all->n; i++) {
        if (!all->mirrors[i].stopped) {
            return 0;
        }
    }

    return 1;
}


static ngx_uint_t
sim_mirror_settled(sim_proc_t *proc)
{
    char           *differs;
    ngx_uint_t      i;
    sim_mirror_t   *m;
    sim_mirrors_t  *all;

    all = proc->data;

    if (sim_mirror_writer.index) {

        /* The mirror tells of the following keys as well. */

        if (sim.now < sim.end + SIM_SECOND) {
            return 0;
        }

        sim_remove(&sim_mirror_writer);
    }

    for (i = 0; i < all->n; i++) {
        m = &all->mirrors[i];

        differs = sim_mirror_differs(m, model.store, model.store->revision);

        if (!m->mirror.synced || m->mirror.refused || differs != NULL) {
            sim_trace("mirror %ui of %s: %s", i, proc->name,
                      differs ? differs : "not synced");
            return 0;
        }
    }

    return 1;
}


static uint32_t
sim_mirror_crc(ngx_str_t *value)
{
    return ngx_crc32_short(value->data, value->len);
}


static void
sim_mirror_changed(ngx_etcd_mirror_t *mirror, ngx_etcd_mirror_entry_t *entry)
{
    sim_mirror_t        *m;
    sim_mirror_entry_t  *e;

    m = mirror->data;
    e = (sim_mirror_entry_t *) entry;

    m->n += !e->known;

    e->known = 1;
    e->mod = entry->mod_revision;
    e->crc = sim_mirror_crc(&entry->value);
}


static void
sim_mirror_removed(ngx_etcd_mirror_t *mirror, ngx_etcd_mirror_entry_t *entry)
{
    sim_mirror_t        *m;
    sim_mirror_entry_t  *e;

    m = mirror->data;
    e = (sim_mirror_entry_t *) entry;

    if (ngx_etcd_mirror_known(entry)) {
        m->n -= e->known;
        e->known = 0;
    }
}


static void
sim_mirror_complete(ngx_etcd_mirror_t *mirror, int64_t revision)
{
    char          *differs;
    ngx_uint_t     i, last;
    sim_mirror_t  *m;

    m = mirror->data;

    if (!mirror->synced) {
        return;
    }

    if ((ngx_int_t) mirror->entries.n != m->n) {
        sim_fail("a consumer is told everything",
                 "a mirror of %s has %ui entries, %i were told", m->proc->name,
                 mirror->entries.n, m->n);
        return;
    }

    /* the oldest history that the mirror fits is taken for its own */

    differs = NULL;
    last = ngx_max(m->store, sim_mirror_history(&mirror->watch));

    for (i = m->store; i <= last; i++) {
        differs = sim_mirror_differs(m, model.stores[i], revision);

        if (differs == NULL) {
            m->store = i;
            return;
        }
    }

    if (m->store == model.store->number) {
        sim_fail("a mirror has what etcd had",
                 "mirror \"%V\" of %s at revision %L: %s",
                 &mirror->watch.range.prefix, m->proc->name, revision, differs);
    }

    /* otherwise it has yet to find out that the history is another one */
}


/*
 * The number of the last history that the watch can be of.  Events may be those
 * of its stream's history though a list, by another connection, is of a later
 * one whose revision and raft term have passed all that the client has seen.
 */

static ngx_uint_t
sim_mirror_history(ngx_etcd_watch_t *watch)
{
    ngx_etcd_grpc_stream_t  *stream;

    stream = watch->stream->call.stream;

    return (stream != NULL && ngx_etcd_watch_active(watch))
           ? stream->h2->history : model.store->number;
}


static ngx_uint_t
sim_mirror_wants(ngx_etcd_mirror_t *mirror, ngx_str_t *key)
{
    ngx_str_t  *prefix, *space;

    prefix = &mirror->watch.range.prefix;
    space = &sim_world.conf.key_namespace;

    if (key->len < space->len + prefix->len
        || ngx_memcmp(key->data, space->data, space->len) != 0
        || ngx_memcmp(key->data + space->len, prefix->data, prefix->len) != 0)
    {
        return 0;
    }

    return !mirror->watch.range.exact || key->len == space->len + prefix->len;
}


/*
 * A cluster that went on from one member may write a key at the same revision
 * as the former cluster.  If its revisions have passed those before, only the
 * value tells, which no audit reads (docs/operating.md).
 */

static ngx_uint_t
sim_mirror_hidden(model_store_t *store, model_rec_t *rec, uint32_t crc)
{
    ngx_uint_t    i;
    model_key_t  *key;
    model_rec_t  *former;

    for (i = store->number; i > 0 && model.stores[i]->forced; i--) {

        key = model_find(model.stores[i - 1], &rec->key);

        for (former = key ? key->last : NULL;
             former != NULL;
             former = former->prev)
        {
            if (former->mod == rec->mod
                && former->create == rec->create
                && former->lease == rec->lease
                && sim_mirror_crc(&former->value) == crc)
            {
                return 1;
            }
        }
    }

    return 0;
}


char *
sim_mirror_differs(sim_mirror_t *m, model_store_t *store, int64_t revision)
{
    size_t               i;
    ngx_str_t            key, from;
    ngx_uint_t           n;
    model_rec_t         *rec;
    ngx_etcd_mirror_t   *mirror;
    sim_mirror_entry_t  *e;

    n = 0;
    mirror = &m->mirror;
    from = sim_key("%V", &mirror->watch.range.prefix);

    if (revision > store->revision) {
        return "a revision that etcd does not have";
    }

    for (i = model_lower(store, &from);
         i < store->nkeys && sim_mirror_wants(mirror, &store->keys[i]->name);
         i++)
    {
        rec = model_at(store->keys[i], revision);

        if (rec == NULL) {
            continue;
        }

        n++;

        key.data = rec->key.data + sim_world.conf.key_namespace.len;
        key.len = rec->key.len - sim_world.conf.key_namespace.len;

        e = (sim_mirror_entry_t *) ngx_etcd_mirror_find(mirror, &key);

        if (e == NULL) {
            return "a key is missing";
        }

        if (e->entry.mod_revision != rec->mod
            || e->entry.create_revision != rec->create
            || e->entry.lease != rec->lease)
        {
            return "a key has other revisions";
        }

        if (e->mod != rec->mod) {
            return "a value was not told";
        }

        if (mirror->entries.keep != 0
            && sim_mirror_crc(&e->entry.value) != e->crc)
        {
            return "a key has another value";
        }

        if (e->crc != sim_mirror_crc(&rec->value)
            && !sim_mirror_hidden(store, rec, e->crc))
        {
            return "a value was not told";
        }
    }

    return (n == mirror->entries.n) ? NULL : "a key is left";
}


/*
 * A mirror that is verified as of a time has what etcd had then or later: an
 * answer may overtake the events of keys that are gone again.
 */

static void
sim_mirror_verified(ngx_etcd_watch_t *watch, uint64_t time)
{
    int64_t             revision;
    sim_mirror_t       *m;
    model_store_t      *store;
    ngx_etcd_mirror_t  *mirror;

    mirror = watch->data;
    m = mirror->data;
    store = model.store;

    if (m->store != store->number) {
        return;
    }

    for (revision = store->revision; revision > 0; revision--) {
        if (sim_mirror_differs(m, store, revision) == NULL) {
            return;
        }

        if (model_time(store, revision) / SIM_MS + 1 < time) {
            break;
        }
    }

    sim_fail("what is verified is so", "a mirror of %s at revision %L is "
             "verified as of %uL ms, and is not what etcd had since revision "
             "%L", m->proc->name, watch->revision, time, revision);
}


static void
sim_mirror_write(sim_event_t *ev)
{
    ngx_str_t   key[SIM_MIRROR_KEYS], value;
    ngx_uint_t  i, n, from;

    model_begin();

    n = sim_chance(4) ? 1 + sim_below(SIM_MIRROR_KEYS) : 1;
    from = sim_below(SIM_MIRROR_KEYS);

    for (i = 0; i < n; i++) {
        key[i] = sim_key("%s%ui", sim_chance(12) ? "u/m" : "t/m",
                         from + i * 3);

        if (sim_chance(3)) {
            (void) model_delete(&key[i], MODEL_BY_OPERATOR);

        } else {
            value = sim_key("%uL", sim_random());
            model_put(&key[i], &value, 0);
        }
    }

    model_commit();

    sim_add(ev, sim.now + (sim_chance(3) ? sim_below(2 * SIM_SECOND)
                                         : sim_below(50 * SIM_MS)));
}
