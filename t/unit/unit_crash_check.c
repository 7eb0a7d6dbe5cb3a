
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The conditions that a zone must meet after a process was killed.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "test_newer.h"
#include "unit_crash.h"


/* a ring, which is known by its newest entry if its entries show */

static void
ngx_etcd_crash_entries(ngx_etcd_entry_t *ring, ngx_uint_t shown)
{
    ngx_etcd_entry_t  *entry;

    entry = ring;

    while (entry != NULL) {
        ngx_etcd_crash_meet(entry, offsetof(ngx_etcd_entry_t, bytes),
                            "a registration");

        if (entry->next->prev != entry) {
            ngx_etcd_crash_fault("a ring of registrations is torn");
        }

        if (shown
            && test_newer(entry, entry->mod_revision, ring, ring->mod_revision))
        {
            ngx_etcd_crash_fault("a registration shows that is not the newest");
        }

        entry = (entry->next != ring) ? entry->next : NULL;
    }
}


/*
 * A connection that was just noted, or just given, when the process was killed
 * may be missing: the one or the other, that is one for a member and a kill.
 */

static void
ngx_etcd_crash_conns(ngx_etcd_member_set_t *set, ngx_uint_t n)
{
    uint64_t              value;
    ngx_uint_t            i, noted, counted;
    ngx_etcd_slot_t      *slot;
    ngx_etcd_atomic64_t  *cells, **group;

    slot = ngx_etcd_member_set_slot(set, n);

    counted = ngx_etcd_counter_get(&slot->conns, slot->uid);
    noted = 0;

    for (i = 0; i < NGX_ETCD_ZONE_ROWS; i++) {

        group = ngx_etcd_member_set_chunk(set, n)
                    ->groups[i / NGX_ETCD_MEMBER_SET_GROUP];
        cells = group ? group[i % NGX_ETCD_MEMBER_SET_GROUP] : NULL;

        if (cells == NULL) {
            continue;
        }

        value = cells[n % NGX_ETCD_MEMBER_SET_SLOTS];

        if (ngx_etcd_crash.zone.sh->rows[i].pid == 0) {
            if ((uint32_t) value != 0) {
                ngx_etcd_crash_fault("nobody has connections");
            }

        } else if (value >> 32 == slot->uid) {
            noted += (uint32_t) value;
        }
    }

    if (counted > noted || counted + 1 + ngx_etcd_crash.twice < noted) {
        ngx_etcd_crash_fault("%lu connections are counted, there are %lu",
                             (unsigned long) counted, (unsigned long) noted);
    }
}


static void
ngx_etcd_crash_set(ngx_etcd_member_set_t *set)
{
    ngx_uint_t           n, nmembers, ninvalid;
    ngx_etcd_slot_t     *slot;
    ngx_etcd_invalid_t  *invalid;

    nmembers = 0;
    ninvalid = 0;

    for (n = 0; n < set->nslots; n++) {
        slot = ngx_etcd_member_set_slot(set, n);

        ngx_etcd_crash_entries(slot->entry, 1);
        ngx_etcd_crash_conns(set, n);

        if (slot->entry == NULL) {
            continue;
        }

        nmembers++;

        if (slot->uid == 0 || slot->conns >> 32 != slot->uid
            || slot->fails >> 32 != slot->uid
            || slot->verdict >> 32 != slot->uid)
        {
            ngx_etcd_crash_fault("the counters of slot %lu are not its own",
                                 (unsigned long) n);
        }
    }

    for (invalid = set->invalid; invalid != NULL; invalid = invalid->next) {
        ngx_etcd_crash_meet(invalid, offsetof(ngx_etcd_invalid_t, bytes),
                            "an invalid key");
        ninvalid++;
    }

    ngx_etcd_crash_entries(set->commit.pending, 0);

    if (set->commit.nmembers != nmembers) {
        ngx_etcd_crash_fault("%lu members are counted, there are %lu",
                             (unsigned long) set->commit.nmembers,
                             (unsigned long) nmembers);
    }

    if (set->ninvalid != ninvalid) {
        ngx_etcd_crash_fault("%lu invalid keys are counted, there are %lu",
                             (unsigned long) set->ninvalid,
                             (unsigned long) ninvalid);
    }
}


/* a revision that a next owner goes on from: the set is as it was then */

static void
ngx_etcd_crash_complete(void)
{
    uint64_t                 content;
    ngx_uint_t               n;
    ngx_etcd_member_set_t   *set;
    ngx_etcd_crash_state_t  *before, *after;

    before = ngx_etcd_crash.before;
    after = ngx_etcd_crash.after;

    for (n = 0; n < NGX_ETCD_CRASH_SETS; n++) {
        set = ngx_etcd_crash.sets[n];

        if (set->object.id != ngx_etcd_crash.ids[n] || set->revision == 0) {
            continue;
        }

        content = ngx_etcd_crash_content(set);

        if ((set->revision != before->revisions[n]
             || content != before->content[n])
            && (set->revision != after->revisions[n]
                || content != after->content[n]))
        {
            ngx_etcd_crash_fault("set %lu is not what its revision says",
                                 (unsigned long) n);
        }
    }
}


/* all lists and counters, counted again; and who has no successor to mend it */

static void
ngx_etcd_crash_invariants(void)
{
    ngx_queue_t                   *q, *sets;
    static ngx_etcd_crash_state_t  now;

    ngx_etcd_crash_structures(&now);

    sets = &ngx_etcd_crash.zone.sh->objects[NGX_ETCD_ZONE_SETS];

    for (q = sets->next; q != sets; q = q->next) {
        ngx_etcd_crash_set(ngx_queue_data(q, ngx_etcd_member_set_t,
                                          object.queue));
    }

    ngx_etcd_crash_map_invariants();

#define ngx_etcd_crash_lost(what)                                             \
    if (now.what < ngx_min(ngx_etcd_crash.before->what,                       \
                           ngx_etcd_crash.after->what))                       \
    {                                                                         \
        ngx_etcd_crash_fault("one of the " #what " is lost");                 \
    }

    ngx_etcd_crash_lost(sets);
    ngx_etcd_crash_lost(chunks);
    ngx_etcd_crash_lost(slots);
    ngx_etcd_crash_lost(stats);
}


/* the tables of a worker that knew all before, and one that knew nothing */

static void
ngx_etcd_crash_readers(char *when, ngx_uint_t whole)
{
    ngx_uint_t                      n, fresh, old, new;
    ngx_etcd_crash_reader_t        *before, *after;
    static ngx_etcd_crash_reader_t  reader;

    for (n = 0; n < NGX_ETCD_CRASH_SETS; n++) {
        before = &ngx_etcd_crash.before->readers[n];
        after = &ngx_etcd_crash.after->readers[n];

        for (fresh = 0; fresh < 2; fresh++) {
            reader = *before;

            if (fresh) {
                ngx_memzero(&reader, sizeof(ngx_etcd_crash_reader_t));
            }

            ngx_etcd_crash_read(&reader, n);

            if (reader.rc == NGX_ERROR) {
                ngx_etcd_crash_fault("%s: a set cannot be read", when);
            }

            if (whole && reader.rc != after->rc) {
                ngx_etcd_crash_fault("%s: set %lu: %ld instead of %ld", when,
                                     (unsigned long) n, (long) reader.rc,
                                     (long) after->rc);
            }

            if (reader.rc != NGX_OK && fresh) {
                continue;
            }

            old = ngx_memcmp(reader.slots, before->slots,
                             sizeof(reader.slots)) == 0;
            new = ngx_memcmp(reader.slots, after->slots,
                             sizeof(reader.slots)) == 0;

            if ((!old && !new) || (whole && reader.rc == NGX_OK && !new)) {
                ngx_etcd_crash_fault("%s: a %s worker sees half a change",
                                     when, fresh ? "new" : "former");
            }

            if (reader.rc == NGX_OK && !new && reader.reader.revision
                && reader.reader.revision
                   == ngx_etcd_crash.after->revisions[n]
                && ngx_etcd_crash.after->revisions[n]
                   != ngx_etcd_crash.before->revisions[n])
            {
                ngx_etcd_crash_fault("%s: a revision is said before it is "
                                     "there", when);
            }
        }
    }
}


#define ngx_etcd_crash_either(now, field, what)                               \
    if (ngx_memcmp(&(now)->field, &ngx_etcd_crash.before->field,              \
                   sizeof((now)->field)) != 0                                 \
        && ngx_memcmp(&(now)->field, &ngx_etcd_crash.after->field,            \
                      sizeof((now)->field)) != 0)                             \
    {                                                                         \
        ngx_etcd_crash_fault("%s: " what " is half changed", when);           \
    }


static void
ngx_etcd_crash_words(char *when)
{
    ngx_uint_t                     i, k;
    static ngx_etcd_crash_state_t  now;

    ngx_memzero(&now, sizeof(ngx_etcd_crash_state_t));

    ngx_etcd_crash_look_words(&now);
    ngx_etcd_crash_look_events(&now);

    ngx_etcd_crash_either(&now, hold, "what an election slot holds");
    ngx_etcd_crash_either(&now, until, "how long it is held");
    ngx_etcd_crash_either(&now, leaders, "the number of leaders");
    ngx_etcd_crash_either(&now, held, "the number of locks");
    ngx_etcd_crash_either(&now, measured, "a measure");

    if (now.slot_rc == NGX_OK) {
        ngx_etcd_crash_either(&now, slot, "the view of an election slot");
    }

    if (now.endpoints_rc == NGX_OK) {
        ngx_etcd_crash_either(&now, endpoints, "an endpoint");
    }

    /*
     * None that was not there before, and is not there after.  A next owner
     * has others.
     */

    for (i = 0; i < now.nevents && !ngx_etcd_crash.twice; i++) {

        for (k = 0; k < NGX_ETCD_ZONE_EVENTS; k++) {
            if (now.events[i] == ngx_etcd_crash.before->events[k]
                || now.events[i] == ngx_etcd_crash.after->events[k])
            {
                break;
            }
        }

        if (k == NGX_ETCD_ZONE_EVENTS) {
            ngx_etcd_crash_fault("%s: event %lu is half written", when,
                                 (unsigned long) i);
        }
    }
}


/* the status, which shows members as they were or will be */

static void
ngx_etcd_crash_view(void)
{
    ngx_int_t               rc;
    ngx_uint_t              n;
    static ngx_etcd_view_t  view;

    for (n = 0; n < NGX_ETCD_CRASH_SETS; n++) {

        rc = ngx_etcd_view_open(&view, &ngx_etcd_crash.zone,
                                ngx_etcd_crash.sets[n],
                                ngx_etcd_crash.ids[n]);

        while (rc == NGX_OK) {
            rc = ngx_etcd_view_read(&view);
        }

        if (rc != NGX_DONE && rc != NGX_DECLINED) {
            ngx_etcd_crash_fault("the status cannot be shown");
        }
    }
}


static void
ngx_etcd_crash_done(ngx_int_t rc, char *what)
{
    if (rc != NGX_OK) {
        ngx_etcd_crash_fault("the next owner cannot %s", what);
    }
}


static void
ngx_etcd_crash_hold(void *data, ngx_etcd_election_slot_hold_t *hold)
{
}


/* in the order of the agent */

void
ngx_etcd_crash_take_over(void)
{
    ngx_uint_t          n;
    ngx_etcd_zone_t    *zone;

    zone = &ngx_etcd_crash.zone;

    zone->row = NGX_ETCD_ZONE_NO_ROW;
    ngx_etcd_connection_count_enter(zone);
    (void) ngx_etcd_connection_count_check(zone, -1);

    if (zone->row == NGX_ETCD_ZONE_NO_ROW) {
        ngx_etcd_crash_fault("the next owner has no row of counts");
    }

    ngx_etcd_crash_done(ngx_etcd_zone_claim(zone, ngx_etcd_zone_owner(zone)),
                        "own the zone");

    if (ngx_strcmp(ngx_etcd_crash.broken, "retire") != 0) {
        ngx_etcd_crash_done(ngx_etcd_retire_sets(zone, (uint64_t) -1),
                            "retire sets");
    }

    ngx_etcd_crash_map_take_over();

    for (n = 0; n < NGX_ETCD_CRASH_SETS; n++) {
        if (ngx_etcd_crash.sets[n]->object.id == ngx_etcd_crash.ids[n]
            && ngx_strcmp(ngx_etcd_crash.broken, "recover") != 0)
        {
            ngx_etcd_crash_done(
                ngx_etcd_commit_recover(zone, ngx_etcd_crash.sets[n], 0),
                "recover a set");
        }
    }

    ngx_etcd_crash_done(ngx_etcd_election_slot_vacate_old(zone,
                                                          ngx_etcd_crash_hold,
                                                          NULL),
                        "vacate election slots");
}


/* of that key in that slot; *same: with that payload */

static ngx_etcd_crash_entry_t *
ngx_etcd_crash_wanted(ngx_uint_t n, uint32_t slot, ngx_etcd_entry_t *entry,
    ngx_uint_t *same)
{
    ngx_uint_t               i;
    ngx_etcd_crash_entry_t  *wanted;

    for (i = 0; i < ngx_etcd_crash.after->nentries[n]; i++) {
        wanted = &ngx_etcd_crash.after->entries[n][i];

        if (wanted->slot == slot
            && wanted->key_len == entry->key_len
            && ngx_memcmp(wanted->bytes, entry->bytes, entry->key_len) == 0)
        {
            *same = wanted->len == entry->len
                    && ngx_memcmp(wanted->bytes, entry->bytes,
                                  entry->key_len + entry->len) == 0;
            return wanted;
        }
    }

    return NULL;
}


/* Entries that should be there in another way, or not at all. */

static void
ngx_etcd_crash_list_entry(ngx_uint_t n, ngx_etcd_entry_walk_t *walk,
    ngx_uint_t *there, ngx_etcd_entry_t **olds)
{
    ngx_uint_t               i, same;
    ngx_etcd_entry_t        *entry;
    ngx_etcd_member_set_t   *set;
    ngx_etcd_crash_entry_t  *wanted;

    set = ngx_etcd_crash.sets[n];
    entry = ngx_etcd_zone_at(&ngx_etcd_crash.zone, walk->entry);

    wanted = ngx_etcd_crash_wanted(n, walk->n, entry, &same);
    i = (wanted != NULL) ? wanted - ngx_etcd_crash.after->entries[n] : 0;

    if (wanted == NULL || olds[i] != NULL) {
        ngx_etcd_crash_op(set, NGX_ETCD_OP_REMOVE, walk->n, entry, 0);
        return;
    }

    olds[i] = entry;

    if (!same || wanted->create_revision != entry->create_revision) {
        return;
    }

    there[i] = 1;

    if (wanted->gone) {
        ngx_etcd_crash_op(set, wanted->gone == NGX_ETCD_ENTRY_HELD
                               ? NGX_ETCD_OP_HOLD : NGX_ETCD_OP_KEEP,
                          walk->n, entry, 0);

    } else if (wanted->mod_revision != entry->mod_revision) {
        ngx_etcd_crash_op(set, NGX_ETCD_OP_TOUCH, walk->n, entry,
                          wanted->mod_revision);
    }
}


/* the keys in etcd, which the killed process wanted to write */

static void
ngx_etcd_crash_list(ngx_uint_t n)
{
    ngx_str_t                key, payload;
    ngx_uint_t               i;
    ngx_uint_t               there[NGX_ETCD_CRASH_ENTRIES];
    ngx_etcd_entry_t        *entry, *olds[NGX_ETCD_CRASH_ENTRIES];
    ngx_etcd_entry_walk_t    walk;
    ngx_etcd_member_set_t   *set;
    ngx_etcd_crash_entry_t  *wanted;

    ngx_memzero(there, sizeof(there));
    ngx_memzero(olds, sizeof(olds));
    ngx_memzero(&walk, sizeof(ngx_etcd_entry_walk_t));
    set = ngx_etcd_crash.sets[n];

    ngx_etcd_crash_begin();

    while (ngx_etcd_entry_walk_next(&ngx_etcd_crash.zone, set, &walk)) {
        if (walk.entry != 0) {
            ngx_etcd_crash_list_entry(n, &walk, there, olds);
        }
    }

    for (i = 0; i < ngx_etcd_crash.after->nentries[n]; i++) {

        if (there[i]) {
            continue;
        }

        wanted = &ngx_etcd_crash.after->entries[n][i];

        key.data = wanted->bytes;
        key.len = wanted->key_len;
        payload.data = wanted->bytes + wanted->key_len;
        payload.len = wanted->len;

        entry = ngx_etcd_crash_put(&ngx_etcd_crash.zone, set, wanted->slot,
                                   &key, &payload, wanted->create_revision,
                                   wanted->mod_revision, olds[i]);
        entry->gone = wanted->gone;
    }

    ngx_etcd_crash_publish(&ngx_etcd_crash.zone, set,
                           ngx_etcd_crash.after->revisions[n]);
}


/* says what is wrong of counters that only grow */

static void
ngx_etcd_crash_sums(ngx_uint_t n)
{
    ngx_etcd_member_set_t   *set;
    ngx_etcd_crash_state_t  *after;

    set = ngx_etcd_crash.sets[n];
    after = ngx_etcd_crash.after;

    if (ngx_etcd_crash_content(set) != after->content[n]) {
        ngx_etcd_crash_fault("set %lu is not as it was listed",
                             (unsigned long) n);
    }

    if (set->commit.terms != after->terms[n]) {
        ngx_etcd_crash_fault("%lu terms instead of %lu",
                             (unsigned long) set->commit.terms,
                             (unsigned long) after->terms[n]);
    }

    if (ngx_etcd_crash_requests(set) != after->requests[n]) {
        ngx_etcd_crash_fault("%lu requests instead of %lu",
                             (unsigned long) ngx_etcd_crash_requests(set),
                             (unsigned long) after->requests[n]);
    }
}


void
ngx_etcd_crash_catch_up(void)
{
    ngx_uint_t  n;

    for (n = 0; n < NGX_ETCD_CRASH_SETS; n++) {
        if (ngx_etcd_crash.sets[n]->object.id == ngx_etcd_crash.ids[n]) {
            ngx_etcd_crash_list(n);
            ngx_etcd_crash_sums(n);
        }
    }

    ngx_etcd_crash_map_catch_up();
}


/* The rows that show locks have a next process, too. */

static void
ngx_etcd_crash_lock_tables(void)
{
    ngx_uint_t              i;
    ngx_etcd_lock_rows_t    rows;
    ngx_etcd_lock_table_t  *table;

    for (i = 0;
         ngx_etcd_lock_table_read(&ngx_etcd_crash.zone, i,
                                  ngx_etcd_crash.stats,
                                  NGX_ETCD_LOCK_ROW_HELD, &rows)
         == NGX_OK;
         i++)
    {
        if (rows.n != 0) {
            ngx_etcd_crash_fault("locks of the dead are shown");
        }
    }

    table = ngx_etcd_lock_table_claim(&ngx_etcd_crash.zone);

    if (table == NULL || table != ngx_etcd_crash.zone.sh->lock_tables[0]) {
        ngx_etcd_crash_fault("a table of locks is lost");
    }

    if (table->used != 0) {
        ngx_etcd_crash_fault("a table of locks is not empty");
    }

    for (i = 0; i < NGX_ETCD_LOCK_TABLE_ROWS; i++) {
        if (table->rows[i].entry.state != NGX_ETCD_LOCK_ROW_NONE
            || table->rows[i].lock % 2 != 0)
        {
            ngx_etcd_crash_fault("a row of a table of locks is in use");
        }
    }
}


/* unlocks the mutex, as the master does when a process has ended */

void
ngx_etcd_crash_unlock(void)
{
    if (ngx_strcmp(ngx_etcd_crash.broken, "unlock") != 0) {
        (void) ngx_shmtx_force_unlock(&ngx_etcd_crash.zone.shpool->mutex,
                                      ngx_etcd_crash.victim);
    }
}


size_t
ngx_etcd_crash_check(void)
{
    size_t  room;

    ngx_etcd_crash_unlock();

    ngx_etcd_crash_readers("nobody owns it", 0);
    ngx_etcd_crash_words("nobody owns it");
    ngx_etcd_crash_map_readers("nobody owns it", 0);
    ngx_etcd_crash_view();

    ngx_etcd_crash_take_over();

    ngx_etcd_crash_invariants();
    ngx_etcd_crash_complete();
    ngx_etcd_crash_readers("taken over", 0);
    ngx_etcd_crash_words("taken over");
    ngx_etcd_crash_map_readers("taken over", 0);

    ngx_etcd_crash_catch_up();
    ngx_etcd_crash_lock_tables();

    ngx_etcd_crash_invariants();
    ngx_etcd_crash_readers("listed", 1);
    ngx_etcd_crash_map_readers("listed", 1);

    room = ngx_etcd_crash_fill();

    ngx_etcd_crash_invariants();
    ngx_etcd_crash_readers("the zone is full", 1);
    ngx_etcd_crash_map_readers("the zone is full", 1);

    return (room < ngx_etcd_crash.after->room)
           ? ngx_etcd_crash.after->room - room : 0;
}
