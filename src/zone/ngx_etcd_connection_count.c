
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_connection_count.h>
#include <ngx_etcd_shared.h>


/* a fraction, 1/8, of the zone that is not used for cells */

#define NGX_ETCD_CONNECTION_COUNT_SPARE  8

/* chunks of slots, and connections, settled per acquisition of the mutex */

#define NGX_ETCD_CONNECTION_COUNT_PIECE  128


/*
 * The progress of settling a row.  Sets are in the order of their ids; a set
 * that is being retired has id 0.
 */

typedef struct {
    ngx_uint_t  row;
    ngx_pid_t   pid;                     /* owner of the row */
    uint32_t    id;                      /* current set */
    ngx_uint_t  n;                       /* current slot */
    ngx_uint_t  left;                    /* in this piece */
} ngx_etcd_connection_count_walk_t;


/*
 * Subtracts one connection at a time, like the dead process would have: if
 * the settling process is killed too, at most one connection is subtracted
 * twice.
 */

static ngx_uint_t
ngx_etcd_connection_count_settle_chunk(ngx_etcd_slot_t *slots,
    ngx_etcd_atomic64_t *cells, ngx_uint_t *left)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_ETCD_MEMBER_SET_SLOTS; i++) {
        while ((uint32_t) cells[i] != 0) {

            if (*left == 0) {
                return 0;
            }

            (*left)--;

            ngx_etcd_connection_count_give(&slots[i], &cells[i],
                                           (uint32_t) (cells[i] >> 32));
        }
    }

    return 1;
}


static ngx_uint_t
ngx_etcd_connection_count_settle_set(ngx_etcd_member_set_t *set,
    ngx_etcd_connection_count_walk_t *walk)
{
    ngx_etcd_slot_t      *slots;
    ngx_etcd_atomic64_t  *cells, **group;

    if (set->object.id != walk->id) {
        walk->id = set->object.id;
        walk->n = 0;
    }

    for ( /* void */ ;
         walk->n < set->nslots;
         walk->n += NGX_ETCD_MEMBER_SET_SLOTS)
    {

        if (walk->left == 0) {
            return 0;
        }

        walk->left--;
        slots = ngx_etcd_member_set_slot(set, walk->n);
        group = ngx_etcd_member_set_chunk(set, walk->n)
                    ->groups[walk->row / NGX_ETCD_MEMBER_SET_GROUP];
        cells = group ? group[walk->row % NGX_ETCD_MEMBER_SET_GROUP] : NULL;

        if (cells != NULL
            && !ngx_etcd_connection_count_settle_chunk(slots, cells,
                                                       &walk->left))
        {
            return 0;
        }
    }

    /* the waiting requests of the process are gone, too */

    if (set->queue != NULL) {
        ngx_etcd_member_set_queued(set, walk->row, 0, 0);
    }

    return 1;
}


static ngx_uint_t
ngx_etcd_connection_count_piece(ngx_etcd_zone_t *zone,
    ngx_etcd_connection_count_walk_t *walk)
{
    ngx_queue_t            *q, *sets;
    ngx_etcd_zone_row_t    *row;
    ngx_etcd_member_set_t  *set;

    row = &zone->sh->rows[walk->row];

    /* another process has settled the row; the row may be in use again */

    if (row->pid != walk->pid) {
        return 0;
    }

    walk->left = NGX_ETCD_CONNECTION_COUNT_PIECE;

    sets = &zone->sh->objects[NGX_ETCD_ZONE_SETS];

    for (q = ngx_queue_head(sets);
         q != ngx_queue_sentinel(sets);
         q = ngx_queue_next(q))
    {
        set = ngx_queue_data(q, ngx_etcd_member_set_t, object.queue);

        if (set->object.id >= walk->id && set->object.id != 0
            && !ngx_etcd_connection_count_settle_set(set, walk))
        {
            return 1;
        }
    }

    row->pid = 0;

    return 0;
}


/*
 * NGX_OK, also if another process settles the same row, or NGX_AGAIN: the
 * mutex was held.
 */

static ngx_int_t
ngx_etcd_connection_count_settle(ngx_etcd_zone_t *zone, ngx_uint_t row,
    ngx_pid_t pid)
{
    ngx_uint_t                        more;
    ngx_etcd_connection_count_walk_t  walk;

    ngx_memzero(&walk, sizeof(ngx_etcd_connection_count_walk_t));

    walk.row = row;
    walk.pid = pid;

    for ( ;; ) {
        if (ngx_etcd_zone_lock_patient(zone) != NGX_OK) {
            return NGX_AGAIN;
        }

        more = ngx_etcd_connection_count_piece(zone, &walk);

        ngx_etcd_zone_unlock(zone);

        if (!more) {
            return NGX_OK;
        }

        ngx_etcd_zone_pause();
    }
}


ngx_int_t
ngx_etcd_connection_count_check(ngx_etcd_zone_t *zone, ngx_int_t process)
{
    ngx_pid_t             pid;
    ngx_uint_t            i;
    ngx_etcd_zone_row_t  *rows;

    rows = zone->sh->rows;

    for (i = 0; i < NGX_ETCD_ZONE_ROWS; i++) {
        pid = rows[i].pid;

        ngx_memory_barrier();

        if (pid != 0
            && ((process != -1 && rows[i].process == process)
                || ngx_etcd_process_gone(pid))
            && ngx_etcd_connection_count_settle(zone, i, pid) != NGX_OK)
        {
            return NGX_AGAIN;
        }
    }

    return NGX_OK;
}


void
ngx_etcd_connection_count_enter(ngx_etcd_zone_t *zone)
{
    ngx_uint_t            i;
    ngx_etcd_zone_row_t  *rows;

    if (zone->row != NGX_ETCD_ZONE_NO_ROW) {
        return;
    }

    /* a master never runs two processes in one process slot */

    if (ngx_etcd_connection_count_check(zone, ngx_process_slot) != NGX_OK
        || ngx_etcd_zone_lock_patient(zone) != NGX_OK)
    {
        return;
    }

    rows = zone->sh->rows;

    for (i = 0; i < NGX_ETCD_ZONE_ROWS; i++) {

        if (rows[i].pid == 0) {
            rows[i].process = ngx_process_slot;

            ngx_memory_barrier();

            rows[i].pid = ngx_pid;
            zone->row = i;
            break;
        }
    }

    ngx_etcd_zone_unlock(zone);
}


void
ngx_etcd_connection_count_leave(ngx_etcd_zone_t *zone)
{
    if (zone->row != NGX_ETCD_ZONE_NO_ROW
        && ngx_etcd_connection_count_settle(zone, zone->row, ngx_pid) == NGX_OK)
    {
        zone->row = NGX_ETCD_ZONE_NO_ROW;
    }
}


/* NULL: the last pages of the zone are reserved for members. */

static void *
ngx_etcd_connection_count_alloc(ngx_etcd_zone_t *zone, size_t size)
{
    ngx_uint_t  pages;

    pages = (zone->shpool->end - zone->shpool->start) / ngx_pagesize;

    return (zone->shpool->pfree < pages / NGX_ETCD_CONNECTION_COUNT_SPARE)
           ? NULL : ngx_slab_calloc_locked(zone->shpool, size);
}


ngx_etcd_atomic64_t *
ngx_etcd_connection_count_cell(ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, ngx_uint_t n)
{
    ngx_etcd_atomic64_t  ***group, **cells;

    if (zone->row == NGX_ETCD_ZONE_NO_ROW) {
        return NULL;
    }

    group = &ngx_etcd_member_set_chunk(set, n)
                 ->groups[zone->row / NGX_ETCD_MEMBER_SET_GROUP];

    if (*group == NULL) {
        *group = ngx_etcd_connection_count_alloc(zone,
                    NGX_ETCD_MEMBER_SET_GROUP * sizeof(ngx_etcd_atomic64_t *));

        if (*group == NULL) {
            return NULL;
        }
    }

    cells = &(*group)[zone->row % NGX_ETCD_MEMBER_SET_GROUP];

    if (*cells == NULL) {
        *cells = ngx_etcd_connection_count_alloc(zone,
                      NGX_ETCD_MEMBER_SET_SLOTS * sizeof(ngx_etcd_atomic64_t));

        if (*cells == NULL) {
            return NULL;
        }
    }

    return (ngx_etcd_atomic64_t *) &(*cells)[n % NGX_ETCD_MEMBER_SET_SLOTS];
}
