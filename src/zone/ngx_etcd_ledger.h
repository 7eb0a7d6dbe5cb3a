
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Who has which connections: so that those of a worker that was killed are
 * not counted for ever.
 *
 * A member's connections are one counter in its slot, which all workers add
 * to.  Beside that each process notes what it has added in cells of its own,
 * one for each slot, marked with the member's unique id: 8 bytes for each
 * member and worker.  Nobody else writes them while the process lives, so that
 * takes no lock and no atomic operation.  Who finds that the process is gone
 * (the one that takes its place, or the agent) subtracts what is noted.
 *
 * A connection is in the cell before it is in the counter, and out of it
 * after: where a process is killed between the two, the counter is one too
 * low, and right again when it comes to 0 next; it is never too high.
 *
 * Processes beyond NGX_ETCD_ZONE_ROWS at a time, and members that came while
 * the zone was almost full, are counted without a note.
 */


#ifndef _NGX_ETCD_LEDGER_H_INCLUDED_
#define _NGX_ETCD_LEDGER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_set.h>


/*
 * A worker, when it starts: takes a row, and settles that of the process whose
 * place it takes.  Without a row it goes on; nothing if it has one.
 */
void ngx_etcd_ledger_enter(ngx_etcd_zone_t *zone);

/* when it ends: whatever is noted is subtracted */
void ngx_etcd_ledger_leave(ngx_etcd_zone_t *zone);

/* settles the rows of processes that are not there any more */
void ngx_etcd_ledger_check(ngx_etcd_zone_t *zone);

/* under the mutex: this process's cell for a slot; NULL: it has none */
ngx_etcd_word_t *ngx_etcd_ledger_cell(ngx_etcd_zone_t *zone,
    ngx_etcd_set_t *set, ngx_uint_t n);


/* what a cell says of another member, which is gone, is of no use any more */

static ngx_inline void
ngx_etcd_ledger_note(ngx_etcd_word_t *cell, uint32_t uid, ngx_int_t n)
{
    uint64_t  value;

    if (cell == NULL) {
        return;
    }

    value = __atomic_load_n(cell, __ATOMIC_RELAXED);

    if (value >> 32 != uid) {

        if (n < 0) {
            return;
        }

        value = (uint64_t) uid << 32;
    }

    if (n < 0 && (value & 0xffffffff) == 0) {
        return;
    }

    __atomic_store_n(cell, value + n, __ATOMIC_RELEASE);
}


/*
 * One connection more to the member of that id, unless that would be more than
 * max (0: any number): how many there are now (0: the member is gone), or
 * NGX_BUSY.
 */

static ngx_inline ngx_int_t
ngx_etcd_ledger_take(ngx_etcd_slot_t *slot, ngx_etcd_word_t *cell,
    uint32_t uid, ngx_uint_t max)
{
    uint64_t  value;

    ngx_etcd_ledger_note(cell, uid, 1);

    value = __atomic_load_n(&slot->conns, __ATOMIC_RELAXED);

    do {
        if (value >> 32 != uid) {
            return 0;
        }

        if (max != 0 && (value & 0xffffffff) >= max) {
            ngx_etcd_ledger_note(cell, uid, -1);
            return NGX_BUSY;
        }

    } while (!__atomic_compare_exchange_n(&slot->conns, &value, value + 1, 1,
                                          __ATOMIC_ACQ_REL,
                                          __ATOMIC_RELAXED));

    return (value + 1) & 0xffffffff;
}


/* one less */

static ngx_inline void
ngx_etcd_ledger_give(ngx_etcd_slot_t *slot, ngx_etcd_word_t *cell,
    uint32_t uid)
{
    uint64_t  value;

    value = __atomic_load_n(&slot->conns, __ATOMIC_RELAXED);

    do {
        if (value >> 32 != uid || (value & 0xffffffff) == 0) {
            break;
        }

    } while (!__atomic_compare_exchange_n(&slot->conns, &value, value - 1, 1,
                                          __ATOMIC_ACQ_REL,
                                          __ATOMIC_RELAXED));

    ngx_etcd_ledger_note(cell, uid, -1);
}


#endif /* _NGX_ETCD_LEDGER_H_INCLUDED_ */
