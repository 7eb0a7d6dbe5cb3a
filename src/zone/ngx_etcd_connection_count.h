
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Records the connections of each process, so that the connections of a
 * killed worker do not stay counted.
 *
 * The connections to a member are one counter in its slot, shared by all
 * workers.  In addition, each process counts its own connections in private
 * cells, one a slot, marked with the member's unique id: 8 bytes for each
 * member and worker.  Only the process itself writes its cells while it is
 * alive, which needs neither a lock nor an atomic operation.  When the
 * process is gone, the process that takes its place, or the agent, subtracts
 * the numbers in its cells.
 *
 * A connection is added to the cell before it is added to the counter, and
 * removed from the cell after it is removed from the counter.  If a process
 * is killed in between, the counter is one too low until it reaches 0 again;
 * the counter is never too high.
 *
 * If there are more than NGX_ETCD_ZONE_ROWS processes, or if the zone is
 * almost full when a member is added, connections are counted without cells.
 */


#ifndef _NGX_ETCD_CONNECTION_COUNT_H_INCLUDED_
#define _NGX_ETCD_CONNECTION_COUNT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_counter.h>
#include <ngx_etcd_member_set.h>


/*
 * Called by a starting worker: takes a row, and settles the row of the
 * process that it replaces.  If no row is free, the worker runs without one.
 * Does nothing if the process has a row.
 */
void ngx_etcd_connection_count_enter(ngx_etcd_zone_t *zone);

/* Called by an exiting worker: subtracts all connections noted in its row. */
void ngx_etcd_connection_count_leave(ngx_etcd_zone_t *zone);

/*
 * Settles the rows of processes that no longer exist, and the row of that
 * process slot, if it is not -1.  NGX_OK, or NGX_AGAIN: the mutex was held.
 */
ngx_int_t ngx_etcd_connection_count_check(ngx_etcd_zone_t *zone,
    ngx_int_t process);

/*
 * Returns the cell of the calling process for slot n; NULL: there is none.
 * The caller holds the mutex.
 */
ngx_etcd_atomic64_t *ngx_etcd_connection_count_cell(ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, ngx_uint_t n);


/*
 * Adds n, 1 or -1, to the cell.  A cell that counts for a former member
 * (another uid) is obsolete and restarts at zero.  NULL is ignored.
 */

static ngx_inline void
ngx_etcd_connection_count_note(ngx_etcd_atomic64_t *cell, uint32_t uid,
    ngx_int_t n)
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
 * Adds a connection to the member with that uid unless it has "max"
 * connections (0: no limit).  Returns the new number of connections, 0 if the
 * member is gone, or NGX_BUSY at the limit.
 */

static ngx_inline ngx_int_t
ngx_etcd_connection_count_take(ngx_etcd_slot_t *slot, ngx_etcd_atomic64_t *cell,
    uint32_t uid, ngx_uint_t max)
{
    uint64_t  value;

    ngx_etcd_connection_count_note(cell, uid, 1);

    value = __atomic_load_n(&slot->conns, __ATOMIC_RELAXED);

    do {
        if (value >> 32 != uid) {
            return 0;
        }

        if (max != 0 && (value & 0xffffffff) >= max) {
            ngx_etcd_connection_count_note(cell, uid, -1);
            return NGX_BUSY;
        }

    } while (!__atomic_compare_exchange_n(&slot->conns, &value, value + 1, 1,
                                          __ATOMIC_ACQ_REL,
                                          __ATOMIC_RELAXED));

    return (value + 1) & 0xffffffff;
}


/* Removes a connection from the member with that uid. */

static ngx_inline void
ngx_etcd_connection_count_give(ngx_etcd_slot_t *slot, ngx_etcd_atomic64_t *cell,
    uint32_t uid)
{
    (void) ngx_etcd_counter_add(&slot->conns, uid, -1);
    ngx_etcd_connection_count_note(cell, uid, -1);
}


#endif /* _NGX_ETCD_CONNECTION_COUNT_H_INCLUDED_ */
