
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A zone with something of everything in it, and short names for what an agent
 * and its workers do there.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "test_newer.h"
#include "unit_crash.h"


#define NGX_ETCD_CRASH_OPS  512


static ngx_etcd_op_t    ngx_etcd_crash_batch[NGX_ETCD_CRASH_OPS];
static ngx_uint_t       ngx_etcd_crash_nbatch;

ngx_str_t               ngx_etcd_crash_name = ngx_string("members");
static ngx_str_t        ngx_etcd_crash_other = ngx_string("others");


void
ngx_etcd_crash_begin(void)
{
    ngx_etcd_crash_nbatch = 0;
}


static ngx_etcd_entry_t *
ngx_etcd_crash_find(ngx_etcd_member_set_t *set, uint32_t slot, ngx_str_t *key)
{
    ngx_etcd_entry_t       *entry;
    ngx_etcd_entry_walk_t   walk;

    ngx_memzero(&walk, sizeof(ngx_etcd_entry_walk_t));

    while (ngx_etcd_entry_walk_next(&ngx_etcd_crash.zone, set, &walk)) {
        entry = ngx_etcd_zone_at(&ngx_etcd_crash.zone, walk.entry);

        if (walk.n == slot
            && entry != NULL
            && entry->key_len == key->len
            && ngx_memcmp(entry->bytes, key->data, key->len) == 0)
        {
            return entry;
        }
    }

    return NULL;
}


void
ngx_etcd_crash_op(ngx_etcd_member_set_t *set, ngx_etcd_op_e op, uint32_t slot,
    ngx_etcd_entry_t *old, uint64_t revision)
{
    ngx_etcd_op_t  *item;

    if (ngx_etcd_crash_nbatch == NGX_ETCD_CRASH_OPS) {
        abort();
    }

    item = &ngx_etcd_crash_batch[ngx_etcd_crash_nbatch++];

    item->op = op;
    item->slot = slot;
    item->entry = 0;
    item->old = ngx_etcd_zone_number(&ngx_etcd_crash.zone, old);
    item->shown = 0;
    item->revision = revision;

    if (op != NGX_ETCD_OP_PUT && old == NULL) {
        abort();
    }
}


ngx_etcd_entry_t *
ngx_etcd_crash_put(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    uint32_t slot, ngx_str_t *key, ngx_str_t *payload, uint64_t created,
    uint64_t revision, ngx_etcd_entry_t *old)
{
    uint32_t               entry;
    ngx_etcd_entry_data_t  data;

    data.key = *key;
    data.payload = payload->data;
    data.len = payload->len;
    data.create_revision = created;
    data.mod_revision = revision;
    data.lease = 0;
    data.gone = 0;

    if (ngx_etcd_entry_create(zone, set, &data, 0, &entry) != NGX_OK) {
        abort();
    }

    ngx_etcd_crash_op(set, NGX_ETCD_OP_PUT, slot, old, revision);

    ngx_etcd_crash_batch[ngx_etcd_crash_nbatch - 1].entry = entry;

    return ngx_etcd_zone_at(zone, entry);
}


/* an entry of the slot, as it is after the first n operations */

static void
ngx_etcd_crash_newest(uint32_t entry, ngx_uint_t n, uint64_t *revision,
    uint32_t *shown)
{
    uint64_t           now;
    ngx_uint_t         i;
    ngx_etcd_op_t     *op;
    ngx_etcd_entry_t  *one;

    one = ngx_etcd_zone_at(&ngx_etcd_crash.zone, entry);
    now = one->mod_revision;

    for (i = 0; i < n; i++) {
        op = &ngx_etcd_crash_batch[i];

        if (op->old != entry) {
            continue;
        }

        if (op->op == NGX_ETCD_OP_PUT || op->op == NGX_ETCD_OP_REMOVE) {
            return;
        }

        if (op->op == NGX_ETCD_OP_TOUCH || op->op == NGX_ETCD_OP_HOLD) {
            now = (op->op == NGX_ETCD_OP_HOLD) ? 0 : op->revision;
        }
    }

    if (*shown == 0
        || test_newer(one, now, ngx_etcd_zone_at(&ngx_etcd_crash.zone, *shown),
                      *revision))
    {
        *shown = entry;
        *revision = now;
    }
}


/* the entry that operation n's slot shows after it, by the agent's tree */

static uint32_t
ngx_etcd_crash_shown(ngx_etcd_member_set_t *set, ngx_uint_t n)
{
    uint32_t               slot, shown;
    ngx_uint_t             i;
    uint64_t               newest;
    ngx_etcd_entry_walk_t  walk;

    shown = 0;
    slot = ngx_etcd_crash_batch[n].slot;

    ngx_memzero(&walk, sizeof(ngx_etcd_entry_walk_t));

    while (ngx_etcd_entry_walk_next(&ngx_etcd_crash.zone, set, &walk)) {
        if (walk.n == slot && walk.entry != 0) {
            ngx_etcd_crash_newest(walk.entry, n + 1, &newest, &shown);
        }
    }

    for (i = 0; i <= n; i++) {
        if (ngx_etcd_crash_batch[i].op == NGX_ETCD_OP_PUT
            && ngx_etcd_crash_batch[i].slot == slot)
        {
            ngx_etcd_crash_newest(ngx_etcd_crash_batch[i].entry, n + 1,
                                  &newest, &shown);
        }
    }

    return shown;
}


void
ngx_etcd_crash_publish(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    uint64_t revision)
{
    ngx_uint_t         i;
    ngx_array_t        ops;
    ngx_etcd_commit_t  commit;

    for (i = 0; i < ngx_etcd_crash_nbatch; i++) {
        ngx_etcd_crash_batch[i].shown = ngx_etcd_crash_shown(set, i);
    }

    ops.elts = ngx_etcd_crash_batch;
    ops.nelts = ngx_etcd_crash_nbatch;

    ngx_memzero(&commit, sizeof(ngx_etcd_commit_t));

    commit.ops = &ops;
    commit.revision = revision;

    if (ngx_etcd_commit(zone, set, &commit) != NGX_OK) {
        abort();
    }
}


/* short names for what is done in a world */

void
ngx_etcd_crash_set_key(ngx_uint_t n, uint32_t slot, char *key, char *payload)
{
    ngx_str_t  name, value;

    name.data = (u_char *) key;
    name.len = ngx_strlen(key);
    value.data = (u_char *) payload;
    value.len = ngx_strlen(payload);

    ngx_etcd_crash_put(&ngx_etcd_crash.zone, ngx_etcd_crash.sets[n], slot,
                       &name, &value, ngx_etcd_crash.revision + 1,
                       ngx_etcd_crash.revision + 1,
                       ngx_etcd_crash_find(ngx_etcd_crash.sets[n], slot,
                                           &name));
}


void
ngx_etcd_crash_do_key(ngx_uint_t n, ngx_etcd_op_e op, uint32_t slot, char *key)
{
    ngx_str_t  name;

    name.data = (u_char *) key;
    name.len = ngx_strlen(key);

    ngx_etcd_crash_op(ngx_etcd_crash.sets[n], op, slot,
                      ngx_etcd_crash_find(ngx_etcd_crash.sets[n], slot, &name),
                      ngx_etcd_crash.revision + 1);
}


void
ngx_etcd_crash_commit(ngx_uint_t n)
{
    ngx_etcd_crash_publish(&ngx_etcd_crash.zone, ngx_etcd_crash.sets[n],
                           ++ngx_etcd_crash.revision);
}


void
ngx_etcd_crash_refuse(char *key, char *reason)
{
    ngx_str_t  name, text;

    name.data = (u_char *) key;
    name.len = ngx_strlen(key);

    if (reason != NULL) {
        text.data = (u_char *) reason;
        text.len = ngx_strlen(reason);
    }

    (void) ngx_etcd_member_set_invalid(&ngx_etcd_crash.zone,
                                       ngx_etcd_crash.sets[0],
                                       &name, reason ? &text : NULL,
                                       ngx_etcd_crash.revision, 0);
}


ngx_etcd_member_set_t *
ngx_etcd_crash_declare(ngx_str_t *name)
{
    ngx_etcd_object_id_t  id;

    ngx_memzero(&id, sizeof(ngx_etcd_object_id_t));

    id.name = *name;
    id.prefix = *name;

    return ngx_etcd_object_declare(&ngx_etcd_crash.zone,
                                   &ngx_etcd_member_set_type, &id);
}


static ngx_int_t
ngx_etcd_crash_slab(ngx_shm_zone_t *shm_zone, u_char *addr, ngx_log_t *log)
{
    ngx_slab_pool_t  *sp;

    sp = (ngx_slab_pool_t *) addr;
    sp->end = addr + NGX_ETCD_CRASH_ZONE;
    sp->min_shift = 3;
    sp->addr = addr;

    if (ngx_shmtx_create(&sp->mutex, &sp->lock, NULL) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_slab_init(sp);

    ngx_memzero(shm_zone, sizeof(ngx_shm_zone_t));

    shm_zone->shm.addr = addr;
    shm_zone->shm.size = NGX_ETCD_CRASH_ZONE;
    shm_zone->shm.log = log;

    return ngx_etcd_zone_init(&ngx_etcd_crash.zone, shm_zone, NULL);
}


static void
ngx_etcd_crash_members(void)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_ETCD_CRASH_SETS; i++) {
        if (ngx_etcd_member_set_grow(&ngx_etcd_crash.zone,
                                     ngx_etcd_crash.sets[i], 0)
            != NGX_OK)
        {
            abort();
        }
    }

    ngx_etcd_crash_begin();
    ngx_etcd_crash_set_key(0, 0, "a", "10.0.0.1");
    ngx_etcd_crash_set_key(0, 1, "b", "10.0.0.2");
    ngx_etcd_crash_set_key(0, 2, "c", "10.0.0.3");
    ngx_etcd_crash_commit(0);

    ngx_etcd_crash_begin();
    ngx_etcd_crash_set_key(0, 2, "c2", "10.0.0.3");
    ngx_etcd_crash_set_key(0, 3, "d", "10.0.0.4");
    ngx_etcd_crash_commit(0);

    ngx_etcd_crash_begin();
    ngx_etcd_crash_set_key(0, 2, "c3", "10.0.0.3");
    ngx_etcd_crash_commit(0);

    ngx_etcd_crash_begin();
    ngx_etcd_crash_set_key(1, 0, "o", "10.1.0.1");
    ngx_etcd_crash_set_key(1, 1, "p", "10.1.0.2");
    ngx_etcd_crash_set_key(1, 1, "p2", "10.1.0.2");
    ngx_etcd_crash_commit(1);

    for (i = 0; i < NGX_ETCD_CRASH_SETS; i++) {
        ngx_etcd_crash.sets[i]->state = NGX_ETCD_MEMBER_SET_SYNCED;
    }

    /* of who was in these slots before */

    ngx_etcd_member_set_slot(ngx_etcd_crash.sets[0], 4)->requests = 100;
    ngx_etcd_member_set_slot(ngx_etcd_crash.sets[0], 5)->requests = 10;

    ngx_etcd_crash_refuse("x", "is wrong");
    ngx_etcd_crash_refuse("y", "is wrong, too");
}


void
ngx_etcd_crash_holds(int64_t n)
{
    ngx_etcd_election_slot_hold_t  hold;
    ngx_etcd_election_slot_view_t  view;

    hold.lease = n;
    hold.ttl = n;
    hold.deadline = n;
    hold.created = n;

    (void) ngx_etcd_election_slot_store(&ngx_etcd_crash.zone,
                                        ngx_etcd_crash.slot,
                                        &hold);

    ngx_memzero(&view, sizeof(ngx_etcd_election_slot_view_t));

    view.revision = n;
    view.created = n;
    view.key_len = 8;
    view.value_len = 8;
    ngx_memset(view.key, (int) n, 8);
    ngx_memset(view.value, (int) n, 8);

    (void) ngx_etcd_election_slot_show(&ngx_etcd_crash.zone,
                                       ngx_etcd_crash.slot,
                                       &view);
}


void
ngx_etcd_crash_says(ngx_uint_t n)
{
    ngx_etcd_zone_endpoints_t  endpoints;

    ngx_memzero(&endpoints, sizeof(ngx_etcd_zone_endpoints_t));

    endpoints.n = 2;
    endpoints.current = n;
    endpoints.list[0].state = n;
    endpoints.list[1].state = n;
    endpoints.list[1].url_len = 16;
    ngx_memset(endpoints.list[1].url, n, 16);

    (void) ngx_etcd_zone_set_endpoints(&ngx_etcd_crash.zone, &endpoints);
}


/* connections of a process, to the members in slots 0 and 1 */

void
ngx_etcd_crash_connects(ngx_etcd_zone_t *zone, ngx_uint_t n)
{
    ngx_uint_t              i;
    ngx_etcd_slot_t        *slot;
    ngx_etcd_atomic64_t    *note;
    ngx_etcd_member_set_t  *set;

    set = ngx_etcd_crash.sets[0];

    for (i = 0; i < n; i++) {
        slot = ngx_etcd_member_set_slot(set, i % 2);
        note = ngx_etcd_connection_count_cell(zone, set, i % 2);

        (void) ngx_etcd_connection_count_take(slot, note, slot->uid, 0);
    }
}


static ngx_int_t
ngx_etcd_crash_counts(void)
{
    ngx_etcd_zone_t  other;

    /* the process that lives on, and the victim, which has more of them */

    other = ngx_etcd_crash.zone;
    ngx_pid = ngx_etcd_crash.other;
    ngx_process_slot = 1;
    ngx_etcd_connection_count_enter(&other);
    ngx_etcd_crash_connects(&other, 5);
    ngx_etcd_gauge_set(&ngx_etcd_crash.stats->held, 3);

    ngx_pid = ngx_etcd_crash.victim;
    ngx_process_slot = 2;
    ngx_etcd_connection_count_enter(&ngx_etcd_crash.zone);
    ngx_etcd_crash_connects(&ngx_etcd_crash.zone, 8);
    ngx_etcd_gauge_set(&ngx_etcd_crash.stats->held, 2);

    ngx_etcd_crash.note = ngx_etcd_connection_count_cell(
        &ngx_etcd_crash.zone, ngx_etcd_crash.sets[0], 0);

    return (ngx_etcd_crash.note != NULL) ? NGX_OK : NGX_ERROR;
}


ngx_int_t
ngx_etcd_crash_world(void *addr, ngx_log_t *log)
{
    ngx_shm_zone_t         shm_zone;
    ngx_etcd_crash_t      *crash;
    ngx_etcd_object_id_t   id;

    crash = &ngx_etcd_crash;
    ngx_pid = crash->victim;
    crash->revision = 10;

    if (ngx_etcd_crash_slab(&shm_zone, addr, log) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_etcd_zone_next_epoch(&crash->zone, NULL);

    crash->sets[0] = ngx_etcd_crash_declare(&ngx_etcd_crash_name);
    crash->sets[1] = ngx_etcd_crash_declare(&ngx_etcd_crash_other);
    crash->slot = ngx_etcd_election_slot_declare(
        &crash->zone, NGX_ETCD_ELECTION_SLOT_ELECTION, &ngx_etcd_crash_name,
        NULL);

    ngx_memzero(&id, sizeof(ngx_etcd_object_id_t));
    id.name = ngx_etcd_crash_name;

    crash->stats = ngx_etcd_object_declare(&crash->zone,
                                           &ngx_etcd_lock_stats_type, &id);
    ngx_etcd_lock_table_declare(&crash->zone, 1);

    if (crash->sets[0] == NULL || crash->sets[1] == NULL
        || crash->slot == NULL || crash->stats == NULL
        || ngx_etcd_member_set_count_waiting(&crash->zone,
                                             crash->sets[0], 1) != NGX_OK
        || ngx_etcd_zone_claim(&crash->zone, 0) != NGX_OK)
    {
        return NGX_ERROR;
    }

    crash->ids[0] = crash->sets[0]->object.id;
    crash->ids[1] = crash->sets[1]->object.id;
    crash->slot_id = crash->slot->object.id;

    ngx_etcd_crash_members();
    ngx_etcd_crash_holds(1);
    ngx_etcd_crash_says(1);

    if (ngx_etcd_crash_map_world(&crash->zone) != NGX_OK) {
        return NGX_ERROR;
    }

    crash->table = ngx_etcd_lock_table_claim(&crash->zone);

    return ngx_etcd_crash_counts();
}
