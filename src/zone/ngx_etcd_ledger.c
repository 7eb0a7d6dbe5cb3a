
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_ledger.h>


/* the part of the zone that is not used for cells */

#define NGX_ETCD_LEDGER_SPARE  8


static ngx_uint_t ngx_etcd_ledger_dead(ngx_etcd_zone_row_t *row);
static void ngx_etcd_ledger_settle(ngx_etcd_zone_t *zone, ngx_uint_t row);
static void ngx_etcd_ledger_settle_chunk(ngx_etcd_slot_t *slots,
    ngx_etcd_word_t *cells);
static ngx_etcd_chunk_t *ngx_etcd_ledger_chunk(ngx_etcd_set_t *set,
    ngx_uint_t n);


void
ngx_etcd_ledger_enter(ngx_etcd_zone_t *zone)
{
    ngx_uint_t            i, free;
    ngx_etcd_zone_row_t  *rows;

    if (zone->row != NGX_ETCD_ZONE_NO_ROW
        || ngx_etcd_zone_lock_patient(zone) != NGX_OK)
    {
        return;
    }

    rows = zone->sh->rows;
    free = NGX_ETCD_ZONE_NO_ROW;

    for (i = 0; i < NGX_ETCD_ZONE_ROWS; i++) {

        /* no two processes of a master have one number at one time */

        if (rows[i].pid != 0
            && (rows[i].process == ngx_process_slot
                || ngx_etcd_ledger_dead(&rows[i])))
        {
            ngx_etcd_ledger_settle(zone, i);
        }

        if (rows[i].pid == 0 && free == NGX_ETCD_ZONE_NO_ROW) {
            free = i;
        }
    }

    if (free != NGX_ETCD_ZONE_NO_ROW) {
        rows[free].pid = ngx_pid;
        rows[free].process = ngx_process_slot;
        zone->row = free;
    }

    ngx_etcd_zone_unlock(zone);
}


void
ngx_etcd_ledger_leave(ngx_etcd_zone_t *zone)
{
    if (zone->row == NGX_ETCD_ZONE_NO_ROW
        || ngx_etcd_zone_lock_patient(zone) != NGX_OK)
    {
        return;
    }

    ngx_etcd_ledger_settle(zone, zone->row);
    zone->row = NGX_ETCD_ZONE_NO_ROW;

    ngx_etcd_zone_unlock(zone);
}


void
ngx_etcd_ledger_check(ngx_etcd_zone_t *zone)
{
    ngx_uint_t            i;
    ngx_etcd_zone_row_t  *rows;

    rows = zone->sh->rows;

    for (i = 0; i < NGX_ETCD_ZONE_ROWS; i++) {

        if (rows[i].pid == 0 || !ngx_etcd_ledger_dead(&rows[i])) {
            continue;
        }

        if (ngx_etcd_zone_lock(zone) != NGX_OK) {
            return;
        }

        if (rows[i].pid != 0 && ngx_etcd_ledger_dead(&rows[i])) {
            ngx_etcd_ledger_settle(zone, i);
        }

        ngx_etcd_zone_unlock(zone);
    }
}


static ngx_uint_t
ngx_etcd_ledger_dead(ngx_etcd_zone_row_t *row)
{
    return kill(row->pid, 0) == -1 && ngx_errno == NGX_ESRCH;
}


static void
ngx_etcd_ledger_settle(ngx_etcd_zone_t *zone, ngx_uint_t row)
{
    ngx_uint_t         n;
    ngx_queue_t       *q;
    ngx_etcd_set_t    *set;
    ngx_etcd_chunk_t  *chunk;

    for (q = ngx_queue_head(&zone->sh->sets);
         q != ngx_queue_sentinel(&zone->sh->sets);
         q = ngx_queue_next(q))
    {
        set = ngx_queue_data(q, ngx_etcd_set_t, queue);

        for (n = 0; n < set->nslots; n += NGX_ETCD_SET_SLOTS) {
            chunk = ngx_etcd_ledger_chunk(set, n);

            if (chunk->rows[row] != NULL) {
                ngx_etcd_ledger_settle_chunk(chunk->slots, chunk->rows[row]);
            }
        }
    }

    zone->sh->rows[row].pid = 0;
}


/*
 * One by one, as the process would have closed them: where this one is killed,
 * too, no more than one is subtracted twice.
 */

static void
ngx_etcd_ledger_settle_chunk(ngx_etcd_slot_t *slots, ngx_etcd_word_t *cells)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_ETCD_SET_SLOTS; i++) {
        while ((uint32_t) cells[i] != 0) {
            ngx_etcd_ledger_give(&slots[i], &cells[i],
                                 (uint32_t) (cells[i] >> 32));
        }
    }
}


static ngx_etcd_chunk_t *
ngx_etcd_ledger_chunk(ngx_etcd_set_t *set, ngx_uint_t n)
{
    return (ngx_etcd_chunk_t *)
           ngx_etcd_set_slot(set, n - n % NGX_ETCD_SET_SLOTS);
}


ngx_etcd_word_t *
ngx_etcd_ledger_cell(ngx_etcd_zone_t *zone, ngx_etcd_set_t *set, ngx_uint_t n)
{
    ngx_uint_t         pages;
    ngx_etcd_word_t  **cells;

    if (zone->row == NGX_ETCD_ZONE_NO_ROW) {
        return NULL;
    }

    cells = &ngx_etcd_ledger_chunk(set, n)->rows[zone->row];

    if (*cells == NULL) {

        /* the last of the zone is for members */

        pages = (zone->shpool->end - zone->shpool->start) / ngx_pagesize;

        if (zone->shpool->pfree < pages / NGX_ETCD_LEDGER_SPARE) {
            return NULL;
        }

        *cells = ngx_slab_calloc_locked(zone->shpool, NGX_ETCD_SET_SLOTS
                                                  * sizeof(ngx_etcd_word_t));
        if (*cells == NULL) {
            return NULL;
        }
    }

    return (ngx_etcd_word_t *) &(*cells)[n % NGX_ETCD_SET_SLOTS];
}
