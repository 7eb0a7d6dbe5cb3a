
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The operations that a process is killed in: whatever writes shared memory.
 * Words that are stored by themselves (the heartbeat, what the agent says of
 * the cluster, a member's requests and failures) are not among them.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "unit_crash.h"


static void
ngx_etcd_crash_nothing(void)
{
}


static void
ngx_etcd_crash_add(void)
{
    ngx_etcd_crash_begin();
    ngx_etcd_crash_set_key(0, 4, "e", "10.0.0.5");
    ngx_etcd_crash_set_key(0, 5, "f", "10.0.0.6");
    ngx_etcd_crash_set_key(0, 3, "d2", "10.0.0.4");
    ngx_etcd_crash_commit(0);
}


static void
ngx_etcd_crash_change(void)
{
    ngx_etcd_crash_begin();
    ngx_etcd_crash_set_key(0, 0, "a", "10.0.0.1 weight=2");
    ngx_etcd_crash_set_key(0, 1, "b", "10.0.0.2 weight=2");
    ngx_etcd_crash_set_key(0, 2, "c2", "10.0.0.3 weight=2");
    ngx_etcd_crash_commit(0);
}


/* one key takes the place of another one, as a leader does */

static void
ngx_etcd_crash_lead(void)
{
    ngx_etcd_crash_begin();
    ngx_etcd_crash_do_key(0, NGX_ETCD_OP_REMOVE, 0, "a");
    ngx_etcd_crash_set_key(0, 4, "e", "10.0.0.5");
    ngx_etcd_crash_commit(0);
}


static void
ngx_etcd_crash_touch(void)
{
    ngx_etcd_crash_begin();
    ngx_etcd_crash_do_key(0, NGX_ETCD_OP_TOUCH, 0, "a");
    ngx_etcd_crash_do_key(0, NGX_ETCD_OP_TOUCH, 2, "c2");
    ngx_etcd_crash_do_key(0, NGX_ETCD_OP_KEEP, 1, "b");
    ngx_etcd_crash_commit(0);
}


/* the newest key of a member, and the only one of another */

static void
ngx_etcd_crash_hold(void)
{
    ngx_etcd_crash_begin();
    ngx_etcd_crash_do_key(0, NGX_ETCD_OP_HOLD, 2, "c3");
    ngx_etcd_crash_do_key(0, NGX_ETCD_OP_HOLD, 3, "d");
    ngx_etcd_crash_commit(0);
}


static void
ngx_etcd_crash_remove(void)
{
    ngx_etcd_crash_begin();
    ngx_etcd_crash_do_key(0, NGX_ETCD_OP_REMOVE, 0, "a");
    ngx_etcd_crash_do_key(0, NGX_ETCD_OP_REMOVE, 2, "c3");
    ngx_etcd_crash_do_key(0, NGX_ETCD_OP_REMOVE, 2, "c");
    ngx_etcd_crash_do_key(0, NGX_ETCD_OP_REMOVE, 3, "d");
    ngx_etcd_crash_commit(0);
}


/* to other addresses, and one to that of another member */

static void
ngx_etcd_crash_move(void)
{
    ngx_etcd_crash_begin();
    ngx_etcd_crash_set_key(0, 4, "a", "10.0.0.5");
    ngx_etcd_crash_do_key(0, NGX_ETCD_OP_REMOVE, 0, "a");
    ngx_etcd_crash_set_key(0, 3, "b", "10.0.0.4");
    ngx_etcd_crash_do_key(0, NGX_ETCD_OP_REMOVE, 1, "b");
    ngx_etcd_crash_commit(0);
}


/* several changes of one revision */

static void
ngx_etcd_crash_pieces(void)
{
    ngx_etcd_crash_begin();
    ngx_etcd_crash_set_key(0, 4, "e", "10.0.0.5");
    ngx_etcd_crash_do_key(0, NGX_ETCD_OP_TOUCH, 0, "a");
    ngx_etcd_crash_set_key(0, 5, "f", "10.0.0.6");
    ngx_etcd_crash_commit(0);
}


/* of two: the first one is to be read, and shows nothing */

static void
ngx_etcd_crash_revisions(void)
{
    ngx_uint_t  i;

    ngx_etcd_crash_begin();

    for (i = 0; i < NGX_ETCD_BATCH_STEPS; i++) {
        ngx_etcd_crash_do_key(0, NGX_ETCD_OP_TOUCH, 2, "c3");
    }

    ngx_etcd_crash.revision++;

    ngx_etcd_crash_set_key(0, 4, "e", "10.0.0.5");
    ngx_etcd_crash_do_key(0, NGX_ETCD_OP_REMOVE, 0, "a");
    ngx_etcd_crash_commit(0);
}


/* killed in between, by the one before */

static void
ngx_etcd_crash_prepare_recover(void)
{
    ngx_etcd_crash_begin();
    ngx_etcd_crash_set_key(0, 6, "g", "10.0.0.7");
    ngx_etcd_crash_set_key(0, 7, "h", "10.0.0.8");

    ngx_etcd_crash.sets[0]->commit.unfinished = 1;
}


static void
ngx_etcd_crash_recover(void)
{
    (void) ngx_etcd_commit_recover(&ngx_etcd_crash.zone,
                                   ngx_etcd_crash.sets[0], 0);
}


static void
ngx_etcd_crash_prepare_pending(void)
{
    ngx_etcd_crash_begin();
    ngx_etcd_crash_set_key(0, 6, "g", "10.0.0.7");
    ngx_etcd_crash_set_key(0, 7, "h", "10.0.0.8");
}


static void
ngx_etcd_crash_invalid(void)
{
    ngx_etcd_crash_refuse("z", "is as wrong");
}


static void
ngx_etcd_crash_invalid_other(void)
{
    ngx_etcd_crash_refuse("x", "is wrong in another way");
}


static void
ngx_etcd_crash_valid(void)
{
    ngx_etcd_crash_refuse("x", NULL);
}


static void
ngx_etcd_crash_grow(void)
{
    (void) ngx_etcd_member_set_grow(&ngx_etcd_crash.zone,
                                    ngx_etcd_crash.sets[0], 0);
}


/* the next configuration does not have the second set */

static void
ngx_etcd_crash_prepare_retire(void)
{
    ngx_etcd_crash_t  *crash;

    crash = &ngx_etcd_crash;

    (void) ngx_etcd_member_set_grow(&crash->zone, crash->sets[1], 0);

    ngx_etcd_crash_begin();
    ngx_etcd_crash_set_key(1, NGX_ETCD_MEMBER_SET_SLOTS + 6, "q", "10.1.0.9");
    ngx_etcd_crash_commit(1);
    ngx_etcd_crash_set_key(1, 3, "r", "10.1.0.4");

    crash->zone.epoch++;
    ngx_etcd_zone_next_epoch(&crash->zone, NULL);
    (void) ngx_etcd_zone_claim(&crash->zone, ngx_etcd_zone_owner(&crash->zone));

    (void) ngx_etcd_crash_declare(&ngx_etcd_crash_name);
    (void) ngx_etcd_election_slot_declare(&crash->zone,
                                          NGX_ETCD_ELECTION_SLOT_ELECTION,
                                          &ngx_etcd_crash_name, NULL);
}


static void
ngx_etcd_crash_retire(void)
{
    (void) ngx_etcd_retire_sets(&ngx_etcd_crash.zone, (uint64_t) -1);
}


/* the structures of the retired set are there to be used again */

static void
ngx_etcd_crash_prepare_again(void)
{
    ngx_etcd_crash_prepare_retire();
    ngx_etcd_crash_retire();
}


static void
ngx_etcd_crash_declares(void)
{
    ngx_str_t  name = ngx_string("one more");

    (void) ngx_etcd_crash_declare(&name);
}


static void
ngx_etcd_crash_waiting(void)
{
    (void) ngx_etcd_member_set_count_waiting(&ngx_etcd_crash.zone,
                                             ngx_etcd_crash.sets[1], 0);
}


static void
ngx_etcd_crash_slot_declare(void)
{
    ngx_str_t  key = ngx_string("another");

    (void) ngx_etcd_election_slot_declare(&ngx_etcd_crash.zone,
                                          NGX_ETCD_ELECTION_SLOT_REGISTRATION,
                                          &key, NULL);
}


static void
ngx_etcd_crash_held(void *data, ngx_etcd_election_slot_hold_t *hold)
{
}


static void
ngx_etcd_crash_prepare_vacate(void)
{
    ngx_etcd_crash_slot_declare();
    ngx_etcd_crash_prepare_retire();
    ngx_etcd_crash_retire();
}


static void
ngx_etcd_crash_vacate(void)
{
    (void) ngx_etcd_election_slot_vacate_old(&ngx_etcd_crash.zone,
                                             ngx_etcd_crash_held,
                                             NULL);
}


static void
ngx_etcd_crash_prepare_slot(void)
{
    ngx_etcd_crash_prepare_vacate();
    ngx_etcd_crash_vacate();
}


static void
ngx_etcd_crash_slot(void)
{
    uint64_t  known;

    known = 0;

    ngx_etcd_crash_holds(2);
    (void) ngx_etcd_election_slot_extend(&ngx_etcd_crash.zone,
                                         ngx_etcd_crash.slot, &known, 5);
}


static void
ngx_etcd_crash_stats(void)
{
    ngx_etcd_object_id_t  id;

    ngx_memzero(&id, sizeof(ngx_etcd_object_id_t));
    ngx_str_set(&id.name, "another");

    (void) ngx_etcd_object_declare(&ngx_etcd_crash.zone,
                                   &ngx_etcd_lock_stats_type, &id);
}


static void
ngx_etcd_crash_gauge(void)
{
    ngx_etcd_gauge_set(&ngx_etcd_crash.stats->held, 7);
}


static void
ngx_etcd_crash_take(void)
{
    ngx_etcd_crash_connects(&ngx_etcd_crash.zone, 3);
}


static void
ngx_etcd_crash_give(void)
{
    ngx_uint_t        i;
    ngx_etcd_slot_t  *slot;

    slot = ngx_etcd_member_set_slot(ngx_etcd_crash.sets[0], 0);

    for (i = 0; i < 3; i++) {
        ngx_etcd_connection_count_give(slot, ngx_etcd_crash.note, slot->uid);
    }
}


/* in a page of slots that it has no shared values for */

static void
ngx_etcd_crash_note(void)
{
    (void) ngx_etcd_connection_count_cell(&ngx_etcd_crash.zone,
                                          ngx_etcd_crash.sets[1],
                                          0);
}


static void
ngx_etcd_crash_leave(void)
{
    ngx_etcd_connection_count_leave(&ngx_etcd_crash.zone);
}


/* a process takes the place of one that died, and is killed as well */

static void
ngx_etcd_crash_prepare_enter(void)
{
    ngx_etcd_crash.zone.row = NGX_ETCD_ZONE_NO_ROW;
}


static void
ngx_etcd_crash_enter(void)
{
    ngx_etcd_connection_count_enter(&ngx_etcd_crash.zone);
}


static void
ngx_etcd_crash_settle(void)
{
    (void) ngx_etcd_connection_count_check(&ngx_etcd_crash.zone, -1);
}


static void
ngx_etcd_crash_tables(void)
{
    ngx_etcd_lock_table_declare(&ngx_etcd_crash.zone, 2);
}


static void
ngx_etcd_crash_lock(void)
{
    ngx_str_t             key = ngx_string("a lock");
    ngx_etcd_lock_row_t  *row;

    row = ngx_etcd_lock_table_add(ngx_etcd_crash.table, ngx_etcd_crash.stats,
                                  &key);
    ngx_etcd_lock_table_show(row, NGX_ETCD_LOCK_ROW_WAITING, 0, 1, 1);
    ngx_etcd_lock_table_show(row, NGX_ETCD_LOCK_ROW_HELD, 3, 7, 2);

    ngx_etcd_crash.row = row;
}


static void
ngx_etcd_crash_lock_end(void)
{
    ngx_etcd_lock_table_remove(ngx_etcd_crash.table, ngx_etcd_crash.row);
    ngx_etcd_lock_table_leave(ngx_etcd_crash.table);
}


/* the table of a process that is gone, with a lock in it */

static void
ngx_etcd_crash_prepare_claim(void)
{
    ngx_etcd_crash_lock();
}


static void
ngx_etcd_crash_claim_table(void)
{
    (void) ngx_etcd_lock_table_claim(&ngx_etcd_crash.zone);
}


static void
ngx_etcd_crash_measure(void)
{
    ngx_etcd_histogram_add(&ngx_etcd_crash.zone.sh->visible, 300);
    ngx_etcd_zone_stalled(&ngx_etcd_crash.zone, 300);
}


static void
ngx_etcd_crash_prepare_map_retire(void)
{
    ngx_etcd_crash_prepare_retire();
    ngx_etcd_crash_retire();
}


static void
ngx_etcd_crash_prepare_values_retire(void)
{
    ngx_etcd_crash_prepare_map_retire();
    ngx_etcd_crash_map_retire();
}


static void
ngx_etcd_crash_endpoints(void)
{
    ngx_etcd_crash_says(2);
}


static void
ngx_etcd_crash_owner(void)
{
    ngx_etcd_zone_release(&ngx_etcd_crash.zone);
    (void) ngx_etcd_zone_claim(&ngx_etcd_crash.zone, 0);
}


/* so many that the oldest ones are written over */

static void
ngx_etcd_crash_prepare_event(void)
{
    u_char      buf[NGX_INT_T_LEN];
    ngx_str_t   key;
    ngx_uint_t  i;

    for (i = 0; i < NGX_ETCD_ZONE_EVENTS; i++) {
        key.data = buf;
        key.len = ngx_sprintf(buf, "%ui", i) - buf;

        ngx_etcd_zone_event(&ngx_etcd_crash.zone, &key, &key,
                            NGX_ETCD_CHANGE_ADD, i);
    }
}


static void
ngx_etcd_crash_event(void)
{
    ngx_str_t  key = ngx_string("news");

    ngx_etcd_zone_event(&ngx_etcd_crash.zone, &key, &key,
                        NGX_ETCD_CHANGE_UPDATE, 999);
}


#define prepare(op)  ngx_etcd_crash_prepare_ ## op
#define nothing      ngx_etcd_crash_nothing
#define run(op)      ngx_etcd_crash_ ## op


const ngx_etcd_crash_op_t  ngx_etcd_crash_ops[] = {

    { "add",           nothing,               run(add) },
    { "change",        nothing,               run(change) },
    { "lead",          nothing,               run(lead) },
    { "touch",         nothing,               run(touch) },
    { "hold",          nothing,               run(hold) },
    { "remove",        nothing,               run(remove) },
    { "move",          nothing,               run(move) },
    { "pieces",        nothing,               run(pieces) },
    { "revisions",     nothing,               run(revisions) },
    { "recover",       prepare(recover),      run(recover) },
    { "drop",          prepare(pending),      run(recover) },
    { "invalid",       nothing,               run(invalid) },
    { "invalid_other", nothing,               run(invalid_other) },
    { "valid",         nothing,               run(valid) },
    { "grow",          nothing,               run(grow) },
    { "grow_again",    prepare(again),        run(grow) },
    { "retire",        prepare(retire),       run(retire) },
    { "declare",       nothing,               run(declares) },
    { "declare_again", prepare(again),        run(declares) },
    { "waiting",       nothing,               run(waiting) },
    { "slot_declare",  nothing,               run(slot_declare) },
    { "slot_again",    prepare(slot),         run(slot_declare) },
    { "slot_vacate",   prepare(vacate),       run(vacate) },
    { "slot",          nothing,               run(slot) },
    { "stats",         nothing,               run(stats) },
    { "gauge",         nothing,               run(gauge) },
    { "take",          nothing,               run(take) },
    { "give",          nothing,               run(give) },
    { "note",          nothing,               run(note) },
    { "leave",         nothing,               run(leave) },
    { "enter",         prepare(enter),        run(enter) },
    { "settle",        nothing,               run(settle) },
    { "lock_tables",   nothing,               run(tables) },
    { "lock",          nothing,               run(lock) },
    { "lock_end",      prepare(claim),        run(lock_end) },
    { "lock_claim",    prepare(claim),        run(claim_table) },
    { "measure",       nothing,               run(measure) },
    { "endpoints",     nothing,               run(endpoints) },
    { "owner",         nothing,               run(owner) },
    { "event",         prepare(event),        run(event) },
    { "set_add",       nothing,               run(set_add) },
    { "set_again",     run(set_remove),       run(set_add) },
    { "set_remove",    nothing,               run(set_remove) },
    { "map_declare",   nothing,               run(map_declare) },
    { "map_retire",    prepare(map_retire),   run(map_retire) },
    { "values",        nothing,               run(values) },
    { "values_twice",  nothing,               run(values_twice) },
    { "values_declare", nothing,              run(map_declare_values) },
    { "values_retire", prepare(values_retire), run(values_retire) },
    { NULL,            NULL,                  NULL }
};
