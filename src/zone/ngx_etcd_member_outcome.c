
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_member_outcome.h>


/* a fraction, 1/4, of the zone that is not used for rows */

#define NGX_ETCD_MEMBER_OUTCOME_SPARE  4


ngx_etcd_member_outcome_t *
ngx_etcd_member_outcome_cell(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_uint_t n)
{
    ngx_uint_t                      pages;
    ngx_etcd_chunk_t               *chunk;
    ngx_etcd_member_outcome_row_t  *row;

    if (zone->row == NGX_ETCD_ZONE_NO_ROW) {
        return NULL;
    }

    chunk = ngx_etcd_member_set_chunk(set, n);

    for (row = chunk->outcomes; row != NULL; row = row->next) {
        if (row->row == zone->row) {
            return &row->cells[n % NGX_ETCD_MEMBER_SET_SLOTS];
        }
    }

    pages = (zone->shpool->end - zone->shpool->start) / ngx_pagesize;

    if (zone->shpool->pfree < pages / NGX_ETCD_MEMBER_OUTCOME_SPARE) {
        return NULL;
    }

    row = ngx_slab_calloc_locked(zone->shpool,
                                 sizeof(ngx_etcd_member_outcome_row_t));
    if (row == NULL) {
        return NULL;
    }

    row->row = zone->row;
    row->next = chunk->outcomes;

    __atomic_store_n(&chunk->outcomes, row, __ATOMIC_RELEASE);

    return &row->cells[n % NGX_ETCD_MEMBER_SET_SLOTS];
}


/*
 * A reader does not look at a cell with the uid of a former member, and a slot
 * never gets a former member again: the cell is cleared before its uid changes.
 */

ngx_etcd_answers_t *
ngx_etcd_member_outcome_of(ngx_etcd_member_outcome_t *cell,
    ngx_etcd_slot_t *slot, uint32_t uid)
{
    if (cell == NULL) {
        return NULL;
    }

    if (cell->uid != uid) {

        if (slot->uid != uid) {
            return NULL;
        }

        ngx_memzero(&cell->answers, sizeof(ngx_etcd_answers_t));

        __atomic_store_n(&cell->uid, uid, __ATOMIC_RELEASE);
    }

    return &cell->answers;
}


ngx_uint_t
ngx_etcd_member_outcome_sum(ngx_etcd_member_set_t *set, ngx_uint_t n,
    ngx_etcd_answers_t *sum)
{
    uint32_t                        uid;
    ngx_etcd_member_outcome_t      *cell;
    ngx_etcd_member_outcome_row_t  *row;

    uid = ngx_etcd_member_set_slot(set, n)->uid;
    row = ngx_etcd_member_set_chunk(set, n)->outcomes;

    ngx_memzero(sum, sizeof(ngx_etcd_answers_t));

    if (row == NULL) {
        return 0;
    }

    for ( /* void */ ; row != NULL; row = row->next) {
        cell = &row->cells[n % NGX_ETCD_MEMBER_SET_SLOTS];

        if (__atomic_load_n(&cell->uid, __ATOMIC_ACQUIRE) == uid) {
            ngx_etcd_answers_add(sum, &cell->answers);
        }
    }

    return 1;
}
