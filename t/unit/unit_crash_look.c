
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The visible state of a zone.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "unit_crash.h"


#define NGX_ETCD_CRASH_BASIS  14695981039346656037ULL
#define NGX_ETCD_CRASH_PRIME  1099511628211ULL
#define NGX_ETCD_CRASH_MANY   4096            /* more are a circle */


/* addresses that were met: nothing is in two places */

static void        *ngx_etcd_crash_met[NGX_ETCD_CRASH_MANY];
static ngx_uint_t   ngx_etcd_crash_nmet;


/* FNV-1a */

static uint64_t
ngx_etcd_crash_hash(uint64_t hash, void *data, size_t len)
{
    u_char  *p, *last;

    last = (u_char *) data + len;

    for (p = data; p < last; p++) {
        hash = (hash ^ *p) * NGX_ETCD_CRASH_PRIME;
    }

    return hash;
}


void
ngx_etcd_crash_meet(void *p, size_t len, char *what)
{
    u_char      *addr = p;
    ngx_uint_t   i;

    if (addr < (u_char *) ngx_etcd_crash.zone.shpool
        || addr + len > ngx_etcd_crash.zone.shpool->end)
    {
        ngx_etcd_crash_fault("%s is outside of the zone", what);
    }

    for (i = 0; i < ngx_etcd_crash_nmet; i++) {
        if (ngx_etcd_crash_met[i] == p) {
            ngx_etcd_crash_fault("%s is in two places", what);
        }
    }

    if (ngx_etcd_crash_nmet == NGX_ETCD_CRASH_MANY) {
        ngx_etcd_crash_fault("%s has no end", what);
    }

    ngx_etcd_crash_met[ngx_etcd_crash_nmet++] = p;
}


/* a worker's table, here: a slot shows the newest of its entries */

static ngx_int_t
ngx_etcd_crash_read_slot(void *data, ngx_uint_t n, ngx_etcd_slot_t *slot)
{
    ngx_etcd_crash_reader_t *reader = data;

    ngx_etcd_entry_t  *entry;

    if (n >= NGX_ETCD_CRASH_SLOTS) {
        return NGX_ERROR;
    }

    entry = slot->entry;

    reader->slots[n] = (entry == NULL)
                       ? 0 : ngx_etcd_crash_hash(NGX_ETCD_CRASH_BASIS,
                                                 entry->bytes,
                                                 entry->key_len + entry->len);

    return NGX_OK;
}


/* all of its entries, in any order */

uint64_t
ngx_etcd_crash_content(ngx_etcd_member_set_t *set)
{
    uint64_t               sum, hash;
    ngx_etcd_entry_t      *entry;
    ngx_etcd_entry_walk_t  walk;

    sum = 0;

    ngx_memzero(&walk, sizeof(ngx_etcd_entry_walk_t));

    while (ngx_etcd_entry_walk_next(&ngx_etcd_crash.zone, set, &walk)) {

        entry = ngx_etcd_zone_at(&ngx_etcd_crash.zone, walk.entry);

        if (entry == NULL) {
            continue;
        }

        hash = NGX_ETCD_CRASH_BASIS + walk.n;

        hash = ngx_etcd_crash_hash(hash, entry->bytes,
                                   entry->key_len + entry->len);
        hash = ngx_etcd_crash_hash(hash, &entry->create_revision,
                                   sizeof(uint64_t));
        hash = ngx_etcd_crash_hash(hash, &entry->mod_revision,
                                   sizeof(uint64_t));

        sum += hash + entry->gone;
    }

    return sum;
}


void
ngx_etcd_crash_read(ngx_etcd_crash_reader_t *reader, ngx_uint_t n)
{
    reader->reader.handler = ngx_etcd_crash_read_slot;
    reader->reader.data = reader;

    reader->rc = ngx_etcd_member_set_read(&ngx_etcd_crash.zone,
                                          ngx_etcd_crash.sets[n],
                                          ngx_etcd_crash.ids[n],
                                          &reader->reader, 0);
}


static uint64_t
ngx_etcd_crash_hash_invalid(ngx_etcd_member_set_t *set)
{
    uint64_t             sum;
    ngx_etcd_invalid_t  *invalid;

    /* in any order */

    sum = 0;

    for (invalid = set->invalid; invalid != NULL; invalid = invalid->next) {
        sum += ngx_etcd_crash_hash(NGX_ETCD_CRASH_BASIS, invalid->bytes,
                                   invalid->key_len + invalid->len);
    }

    return sum;
}


/* of slots that are in use, or were */

uint64_t
ngx_etcd_crash_requests(ngx_etcd_member_set_t *set)
{
    uint64_t    sum;
    ngx_uint_t  n;

    sum = set->commit.requests;

    for (n = 0; n < set->nslots; n++) {
        sum += ngx_etcd_member_set_slot(set, n)->requests;
    }

    return sum;
}


static void
ngx_etcd_crash_look_set(ngx_etcd_crash_state_t *state, ngx_uint_t n)
{
    ngx_etcd_entry_t        *entry;
    ngx_etcd_entry_walk_t    walk;
    ngx_etcd_member_set_t   *set;
    ngx_etcd_crash_entry_t  *copy;

    ngx_etcd_crash_read(&state->readers[n], n);

    set = ngx_etcd_crash.sets[n];

    if (set->object.id != ngx_etcd_crash.ids[n]) {
        return;
    }

    state->revisions[n] = set->revision;
    state->content[n] = ngx_etcd_crash_content(set);
    state->terms[n] = set->commit.terms;
    state->requests[n] = ngx_etcd_crash_requests(set);
    state->invalid[n] = ngx_etcd_crash_hash_invalid(set);

    ngx_memzero(&walk, sizeof(ngx_etcd_entry_walk_t));

    while (ngx_etcd_entry_walk_next(&ngx_etcd_crash.zone, set, &walk)) {

        entry = ngx_etcd_zone_at(&ngx_etcd_crash.zone, walk.entry);

        if (entry == NULL) {
            continue;
        }

        if (state->nentries[n] == NGX_ETCD_CRASH_ENTRIES
            || entry->key_len + entry->len > NGX_ETCD_CRASH_BYTES)
        {
            abort();
        }

        copy = &state->entries[n][state->nentries[n]++];

        copy->slot = walk.n;
        copy->key_len = entry->key_len;
        copy->len = entry->len;
        copy->create_revision = entry->create_revision;
        copy->mod_revision = entry->mod_revision;
        copy->gone = entry->gone;
        ngx_memcpy(copy->bytes, entry->bytes, entry->key_len + entry->len);
    }
}


void
ngx_etcd_crash_look_events(ngx_etcd_crash_state_t *state)
{
    ngx_uint_t                    i;
    static ngx_etcd_zone_event_t  events[NGX_ETCD_ZONE_EVENTS];

    if (ngx_etcd_zone_get_events(&ngx_etcd_crash.zone, events,
                                 &state->nevents)
        != NGX_OK)
    {
        ngx_etcd_crash_fault("the mutex is held for ever");
    }

    for (i = 0; i < state->nevents; i++) {
        state->events[i] = ngx_etcd_crash_hash(NGX_ETCD_CRASH_BASIS,
                                               events[i].name,
                                               events[i].name_len)
                           + ngx_etcd_crash_hash(NGX_ETCD_CRASH_BASIS,
                                                 events[i].key,
                                                 events[i].key_len)
                           + 5 * events[i].change + 11 * events[i].revision;
    }
}


/* fields that are read without the mutex */

void
ngx_etcd_crash_look_words(ngx_etcd_crash_state_t *state)
{
    ngx_etcd_crash_t           *crash;
    ngx_etcd_zone_endpoints_t   endpoints;

    crash = &ngx_etcd_crash;

    state->hold = crash->slot->hold;
    state->slot_rc = ngx_etcd_election_slot_view(crash->slot, crash->slot_id,
                                                 &state->slot);
    state->until = ngx_etcd_election_slot_until(crash->slot, crash->slot_id);
    state->leaders = crash->slot->leaders;

    state->endpoints_rc = ngx_etcd_zone_get_endpoints(&crash->zone,
                                                      &endpoints);

    if (state->endpoints_rc == NGX_OK) {
        state->endpoints = ngx_etcd_crash_hash(NGX_ETCD_CRASH_BASIS,
                                               &endpoints, sizeof(endpoints));
    }

    state->held = ngx_etcd_gauge_sum(&crash->stats->held);
    state->measured = crash->zone.sh->visible.sum;
}


/* structures, all of which are in one list or another */

static ngx_uint_t
ngx_etcd_crash_queue(ngx_queue_t *h, size_t size, char *what)
{
    ngx_uint_t    n;
    ngx_queue_t  *q;

    n = 0;

    for (q = h->next; q != h; q = q->next) {
        ngx_etcd_crash_meet(q, size, what);

        if (q->next->prev != q || q->prev->next != q) {
            ngx_etcd_crash_fault("a queue of %ss is torn", what);
        }

        n++;
    }

    return n;
}


static ngx_uint_t
ngx_etcd_crash_chunks(ngx_etcd_member_set_t *set)
{
    ngx_uint_t  n;

    for (n = 0; n < set->nslots; n += NGX_ETCD_MEMBER_SET_SLOTS) {
        ngx_etcd_crash_meet(ngx_etcd_member_set_slot(set, n),
                            sizeof(ngx_etcd_chunk_t), "a page of slots");
    }

    return n / NGX_ETCD_MEMBER_SET_SLOTS;
}


/* pages in use, and free pages */

static ngx_uint_t
ngx_etcd_crash_objects(ngx_etcd_zone_list_e list, size_t size, char *what)
{
    ngx_etcd_zone_shared_t  *sh;

    sh = ngx_etcd_crash.zone.sh;

    return ngx_etcd_crash_queue(&sh->objects[list], size, what)
           + ngx_etcd_crash_queue(&sh->unused[list], size, what);
}


void
ngx_etcd_crash_structures(ngx_etcd_crash_state_t *state)
{
    ngx_queue_t             *q, *sets;
    ngx_etcd_slot_t         *chunk;
    ngx_etcd_member_set_t   *set;
    ngx_etcd_zone_shared_t  *sh;

    sh = ngx_etcd_crash.zone.sh;
    ngx_etcd_crash_nmet = 0;

    state->sets = ngx_etcd_crash_objects(NGX_ETCD_ZONE_SETS,
                                         sizeof(ngx_etcd_member_set_t), "set");
    state->slots = ngx_etcd_crash_objects(NGX_ETCD_ZONE_ELECTION_SLOTS,
                                          sizeof(ngx_etcd_election_slot_t),
                                          "election slot");
    state->stats = ngx_etcd_crash_objects(NGX_ETCD_ZONE_LOCK_STATS,
                                          sizeof(ngx_etcd_lock_stats_t),
                                          "lock statistics");
    state->chunks = 0;

    sets = &sh->objects[NGX_ETCD_ZONE_SETS];

    for (q = sets->next; q != sets; q = q->next) {
        set = ngx_queue_data(q, ngx_etcd_member_set_t, object.queue);
        state->chunks += ngx_etcd_crash_chunks(set);
    }

    for (chunk = sh->chunks;
         chunk != NULL;
         chunk = (ngx_etcd_slot_t *) chunk->entry)
    {
        ngx_etcd_crash_meet(chunk, sizeof(ngx_etcd_chunk_t),
                            "a page of slots");
        state->chunks++;
    }
}


void
ngx_etcd_crash_look(ngx_etcd_crash_state_t *state)
{
    ngx_uint_t  n;

    ngx_memzero(state, sizeof(ngx_etcd_crash_state_t));

    for (n = 0; n < NGX_ETCD_CRASH_SETS; n++) {
        ngx_etcd_crash_look_set(state, n);
    }

    ngx_etcd_crash_look_words(state);
    ngx_etcd_crash_look_events(state);
    ngx_etcd_crash_map_look(&state->maps);
    ngx_etcd_crash_structures(state);
}


/* Fills free memory: an object that uses it as well loses its data. */

size_t
ngx_etcd_crash_fill(void)
{
    void             *p;
    size_t            size, sum;
    ngx_slab_pool_t  *shpool;

    shpool = ngx_etcd_crash.zone.shpool;
    sum = 0;

    for (size = ngx_pagesize; size >= 8; size /= 2) {
        for ( ;; ) {
            p = ngx_slab_alloc(shpool, size);

            if (p == NULL) {
                break;
            }

            ngx_memset(p, 0xdd, size);
            sum += size;
        }
    }

    return sum;
}
