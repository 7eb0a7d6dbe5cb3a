
/*
 * Copyright (C) nginx-etcd contributors
 */


#include "model.h"


/* the first raft term, which leaves room for those of later histories */
#define MODEL_TERM  8000


static void *model_grow(void *elts, size_t n, size_t *size);
static model_key_t *model_add_key(model_store_t *store, ngx_str_t *name);
static void model_add_rec(model_store_t *store, model_key_t *key,
    model_rec_t *rec);
static ngx_str_t model_copy(ngx_str_t *str);
static void model_apply(sim_event_t *ev);
static void model_lease_expire(sim_event_t *ev);
static void model_lease_schedule(model_lease_t *lease);
static void model_lease_renew(model_lease_t *lease);
static void model_return(model_store_t *former, model_rec_t *rec);
static void model_go_back(uint64_t time, uint64_t cluster_id, uint64_t term);


model_t  model;


/* of the transaction that is being made; 0: there is none */
static int64_t  model_next;


static void *
model_grow(void *elts, size_t n, size_t *size)
{
    void    *p;

    if (n < *size) {
        return elts;
    }

    *size = *size ? *size * 2 : 64;

    p = sim_alloc(*size * sizeof(void *));
    ngx_memcpy(p, elts, n * sizeof(void *));

    return p;
}


void
model_init(ngx_uint_t nmembers)
{
    ngx_uint_t       i;
    model_member_t  *member;

    ngx_memzero(&model, sizeof(model_t));
    model_next = 0;

    model.store = sim_alloc(sizeof(model_store_t));
    model.store->cluster_id = 0x1000;
    model.store->revision = 1;
    model.stores[model.nstores++] = model.store;

    model.term = MODEL_TERM;
    model.nmembers = nmembers;

    for (i = 0; i < nmembers; i++) {
        member = &model.members[i];

        member->index = i;
        member->id = 0x100 + i;
        member->applied = 1;
        member->term = model.term;
        member->min_ttl = MODEL_MIN_TTL;
        member->apply.handler = model_apply;
        member->apply.data = member;
        ngx_queue_init(&member->streams);
    }

    model.leader = &model.members[0];
}


static ngx_str_t
model_copy(ngx_str_t *str)
{
    ngx_str_t  copy;

    copy.len = str->len;
    copy.data = sim_alloc(str->len + 1);
    ngx_memcpy(copy.data, str->data, str->len);

    return copy;
}


size_t
model_lower(model_store_t *store, ngx_str_t *key)
{
    size_t  low, high, mid;

    low = 0;
    high = store->nkeys;

    while (low < high) {
        mid = (low + high) / 2;

        if (ngx_memn2cmp(store->keys[mid]->name.data, key->data,
                         store->keys[mid]->name.len, key->len)
            < 0)
        {
            low = mid + 1;

        } else {
            high = mid;
        }
    }

    return low;
}


model_key_t *
model_find(model_store_t *store, ngx_str_t *key)
{
    size_t        i;
    model_key_t  *found;

    i = model_lower(store, key);

    if (i == store->nkeys) {
        return NULL;
    }

    found = store->keys[i];

    return (found->name.len == key->len
            && ngx_memcmp(found->name.data, key->data, key->len) == 0)
           ? found : NULL;
}


static model_key_t *
model_add_key(model_store_t *store, ngx_str_t *name)
{
    size_t        i;
    model_key_t  *key;

    key = sim_alloc(sizeof(model_key_t));
    key->name = *name;

    store->keys = model_grow(store->keys, store->nkeys, &store->keys_size);

    i = model_lower(store, name);
    ngx_memmove(&store->keys[i + 1], &store->keys[i],
                (store->nkeys - i) * sizeof(model_key_t *));

    store->keys[i] = key;
    store->nkeys++;

    return key;
}


static void
model_add_rec(model_store_t *store, model_key_t *key, model_rec_t *rec)
{
    rec->prev = key->last;
    key->last = rec;

    store->recs = model_grow(store->recs, store->nrecs, &store->recs_size);
    store->recs[store->nrecs++] = rec;
}


model_rec_t *
model_at(model_key_t *key, int64_t revision)
{
    model_rec_t  *rec;

    for (rec = key->last; rec != NULL; rec = rec->prev) {
        if (rec->mod <= revision) {
            return rec->deleted ? NULL : rec;
        }
    }

    return NULL;
}


model_rec_t *
model_get(model_store_t *store, ngx_str_t *key)
{
    model_key_t  *found;

    found = model_find(store, key);

    return (found != NULL && !found->last->deleted) ? found->last : NULL;
}


ngx_uint_t
model_in(ngx_str_t *key, ngx_str_t *from, ngx_str_t *to)
{
    if (to->len == 0) {
        return key->len == from->len
               && ngx_memcmp(key->data, from->data, key->len) == 0;
    }

    return ngx_memn2cmp(key->data, from->data, key->len, from->len) >= 0
           && ((to->len == 1 && to->data[0] == '\0')
               || ngx_memn2cmp(key->data, to->data, key->len, to->len) < 0);
}


size_t
model_after(model_store_t *store, int64_t revision)
{
    size_t  low, high, mid;

    low = 0;
    high = store->nrecs;

    while (low < high) {
        mid = (low + high) / 2;

        if (store->recs[mid]->mod <= revision) {
            low = mid + 1;

        } else {
            high = mid;
        }
    }

    return low;
}


uint64_t
model_time(model_store_t *store, int64_t revision)
{
    size_t  i;

    i = model_after(store, revision);

    return (i != 0) ? store->recs[i - 1]->time : 0;
}


void
model_begin(void)
{
    model_next = 0;
}


int64_t
model_revision(void)
{
    return model_next ? model_next : model.store->revision;
}


void
model_put(ngx_str_t *key, ngx_str_t *value, int64_t lease)
{
    ngx_str_t       name;
    model_key_t    *found;
    model_rec_t    *rec, *last;
    model_store_t  *store;

    store = model.store;
    model_next = store->revision + 1;

    found = model_find(store, key);

    if (found == NULL) {
        name = model_copy(key);
        found = model_add_key(store, &name);
    }

    last = found->last;

    rec = sim_alloc(sizeof(model_rec_t));
    rec->key = found->name;
    rec->value = model_copy(value);
    rec->mod = model_next;
    rec->time = sim.now;
    rec->lease = lease;

    if (last == NULL || last->deleted) {
        rec->create = model_next;
        rec->version = 1;

    } else {
        rec->create = last->create;
        rec->version = last->version + 1;
    }

    model_add_rec(store, found, rec);

    sim_trace("etcd: %L put %V lease %xL", model_next, key, lease);
}


ngx_uint_t
model_delete(ngx_str_t *key, model_reason_e reason)
{
    model_key_t    *found;
    model_rec_t    *rec;
    model_store_t  *store;

    store = model.store;
    found = model_find(store, key);

    if (found == NULL || found->last->deleted) {
        return 0;
    }

    model_next = store->revision + 1;

    rec = sim_alloc(sizeof(model_rec_t));
    rec->key = found->name;
    rec->mod = model_next;
    rec->time = sim.now;
    rec->deleted = 1;
    rec->reason = reason;

    model_add_rec(store, found, rec);

    sim_trace("etcd: %L delete %V%s", model_next, key,
              (reason == MODEL_BY_EXPIRY) ? " (expired)"
              : (reason == MODEL_BY_OPERATOR) ? " (operator)" : "");

    return 1;
}


void
model_commit(void)
{
    ngx_uint_t  i;

    if (model_next == 0) {
        return;
    }

    model.store->revision = model_next;
    model_next = 0;

    for (i = 0; i < model.nmembers; i++) {
        model_member_wake(&model.members[i]);
    }
}


void
model_write(ngx_str_t *key, ngx_str_t *value, int64_t lease)
{
    model_begin();

    if (value != NULL) {
        model_put(key, value, lease);

    } else {
        (void) model_delete(key, MODEL_BY_OPERATOR);
    }

    model_commit();
}


void
model_member_wake(model_member_t *member)
{
    uint64_t  time;

    if (member->apply.index) {
        return;
    }

    time = sim.now + 50 + sim_below(2 * SIM_MS);
    sim_add(&member->apply, ngx_max(time, member->lag));
}


static void
model_apply(sim_event_t *ev)
{
    model_member_t  *member;

    member = ev->data;

    if (member->lag > sim.now) {
        sim_add(ev, member->lag);
        return;
    }

    member->applied = model.store->revision;
    member->term = model.term;
    model_watch_applied(member);
}


void
model_header(model_member_t *member, Etcd__ResponseHeader *header,
    int64_t revision)
{
    etcd__response_header__init(header);

    header->cluster_id = model.store->cluster_id;
    header->member_id = member->id;
    header->revision = revision;
    header->raft_term = member->term;
}


void
model_header_linear(model_member_t *member, Etcd__ResponseHeader *header)
{
    model_header(member, header, model.store->revision);
    header->raft_term = model.term;
}


void
model_compact(int64_t revision)
{
    if (revision > model.store->compacted
        && revision <= model.store->revision)
    {
        sim_trace("etcd: compacted at %L", revision);
        model.store->compacted = revision;
    }
}


/* a leader that is new counts the leases anew */

void
model_elect(void)
{
    size_t          i;
    ngx_uint_t      n;
    model_lease_t  *lease;

    model.term++;
    model.leader = &model.members[model.term % model.nmembers];

    sim_trace("etcd: raft term %uL, member %ui leads", model.term,
              model.leader->index);

    for (i = 0; i < model.nleases; i++) {
        lease = model.leases[i];

        if (lease->ended == 0) {
            model_lease_renew(lease);
            model_lease_schedule(lease);
        }
    }

    for (n = 0; n < model.nmembers; n++) {
        model_member_wake(&model.members[n]);
    }
}


void
model_restore(uint64_t time, ngx_uint_t other)
{
    uint64_t  id, term;

    if (model.nstores == MODEL_STORES) {
        return;
    }

    id = other ? 0x1000 + model.nstores : model.store->cluster_id;

    /* below all that clients can have seen; each history has its own */

    term = MODEL_TERM * (MODEL_STORES - model.nstores) / MODEL_STORES;

    model_go_back(time, id, term);
}


void
model_force(uint64_t time)
{
    size_t          i;
    model_store_t  *former;

    if (model.nstores == MODEL_STORES) {
        return;
    }

    former = model.store;

    model_go_back(time, former->cluster_id, model.term + 1);

    model.store->forced = 1;

    for (i = 0; i < model.store->nkeys; i++) {
        model_return(former, model.store->keys[i]->last);
    }
}


/* The owner of a key knows of its deletion, unless an operator has done it. */

static void
model_return(model_store_t *former, model_rec_t *rec)
{
    model_rec_t  *last, *end;

    if (rec->deleted || rec->lease == 0) {
        return;
    }

    end = NULL;

    for (last = model_find(former, &rec->key)->last;
         last->deleted || last->create != rec->create;
         last = last->prev)
    {
        if (last->deleted) {
            end = last;
        }
    }

    if (end != NULL) {
        rec->returned = 1;
        rec->unaware = (end->reason == MODEL_BY_OPERATOR);
    }
}


static void
model_go_back(uint64_t time, uint64_t cluster_id, uint64_t term)
{
    size_t          i;
    ngx_uint_t      n;
    model_key_t    *key;
    model_rec_t    *rec, *copy;
    model_lease_t  *lease;
    model_store_t  *store, *old;

    old = model.store;

    store = sim_alloc(sizeof(model_store_t));
    store->number = model.nstores;
    store->cluster_id = cluster_id;
    store->began = sim.now;
    store->revision = 1;

    for (i = 0; i < old->nrecs && old->recs[i]->time <= time; i++) {
        rec = old->recs[i];

        copy = sim_alloc(sizeof(model_rec_t));
        *copy = *rec;

        key = model_find(store, &rec->key);
        if (key == NULL) {
            key = model_add_key(store, &rec->key);
        }

        model_add_rec(store, key, copy);
        store->revision = rec->mod;
    }

    store->compacted = ngx_min(old->compacted, store->revision);

    model.store = store;
    model.stores[model.nstores++] = store;
    model.term = term;

    sim_trace("etcd: restored to revision %L (was %L), cluster %xL, term %uL",
              store->revision, old->revision, store->cluster_id, term);

    for (i = 0; i < model.nleases; i++) {
        lease = model.leases[i];

        sim_remove(&lease->revoke);

        if (lease->granted > time || (lease->ended && lease->ended <= time)) {
            lease->ended = lease->ended ? lease->ended : sim.now;
            continue;
        }

        lease->ended = 0;
        model_lease_renew(lease);
        model_lease_schedule(lease);
    }

    for (n = 0; n < model.nmembers; n++) {
        sim_remove(&model.members[n].apply);

        model.members[n].applied = store->revision;
        model.members[n].term = model.term;
        model.members[n].zombie = 0;
        model.members[n].misled = 0;
    }
}


model_lease_t *
model_lease(int64_t id)
{
    size_t  i;

    for (i = model.nleases; i-- > 0; /* void */ ) {
        if (model.leases[i]->id == id) {
            return model.leases[i]->ended ? NULL : model.leases[i];
        }
    }

    return NULL;
}


model_lease_t *
model_lease_grant(int64_t id, int64_t ttl)
{
    model_lease_t  *lease;

    lease = sim_alloc(sizeof(model_lease_t));
    lease->id = id;
    lease->ttl = (uint64_t) ttl;
    lease->granted = sim.now;
    model_lease_renew(lease);
    lease->revoke.handler = model_lease_expire;
    lease->revoke.data = lease;

    model.leases = model_grow(model.leases, model.nleases,
                              &model.leases_size);
    model.leases[model.nleases++] = lease;

    model_lease_schedule(lease);

    sim_trace("etcd: lease %xL granted, %uL s", id, lease->ttl);

    return lease;
}


uint64_t
model_lease_ttl(model_lease_t *lease, model_member_t *member)
{
    return ngx_max(lease->ttl, member->min_ttl);
}


/* The raft leader decides when a lease ends. */

static void
model_lease_renew(model_lease_t *lease)
{
    lease->expiry = sim.now
                    + model_lease_ttl(lease, model.leader) * SIM_SECOND;
}


/* etcd looks for expired leases every 500 ms, and revokes them by raft */

static void
model_lease_schedule(model_lease_t *lease)
{
    sim_add(&lease->revoke, lease->expiry
                            + (sim_chance(3) ? sim_below(900 * SIM_MS) : 0));
}


static void
model_lease_expire(sim_event_t *ev)
{
    model_lease_t  *lease;

    lease = ev->data;

    /* the lease may have been renewed */

    if (lease->ended == 0) {
        if (lease->expiry > sim.now) {
            model_lease_schedule(lease);
            return;
        }

        model_lease_end(lease, MODEL_BY_EXPIRY);
    }
}


void
model_lease_end(model_lease_t *lease, model_reason_e reason)
{
    size_t          i;
    model_store_t  *store;
    model_rec_t    *rec;

    store = model.store;

    lease->ended = sim.now;
    lease->operator = (reason == MODEL_BY_OPERATOR);
    sim_remove(&lease->revoke);

    sim_trace("etcd: lease %xL %s", lease->id,
              (reason == MODEL_BY_EXPIRY) ? "expired" : "revoked");

    model_begin();

    for (i = 0; i < store->nkeys; i++) {
        rec = store->keys[i]->last;

        if (!rec->deleted && rec->lease == lease->id) {
            (void) model_delete(&store->keys[i]->name, reason);
        }
    }

    model_commit();
}
