
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The outcomes of single members ("outcomes=members").  As those of an
 * upstream, each process counts in a row of its own, without a lock, and a
 * reader adds up the rows; here each chunk of slots has rows, and a row has a
 * cell for each slot.
 *
 * A cell counts for the member whose unique id it has.  Only its process writes
 * it, and begins it anew for another member of the slot.  Rows stay with their
 * chunk, as slots do: a stale reference points to a cell.
 *
 * A row takes a page of the zone.  The last quarter of the zone is left to
 * members, their connection counts, and the outcomes of upstreams.
 */


#ifndef _NGX_ETCD_MEMBER_OUTCOME_H_INCLUDED_
#define _NGX_ETCD_MEMBER_OUTCOME_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_member_set.h>
#include <ngx_etcd_outcome.h>


typedef struct {
    ngx_etcd_atomic64_t            uid;           /* 0: no member's */
    ngx_etcd_answers_t             answers;
} ngx_etcd_member_outcome_t;


struct ngx_etcd_member_outcome_row_s {
    ngx_etcd_member_outcome_row_t *next;
    ngx_uint_t                     row;           /* of the zone */
    ngx_etcd_member_outcome_t      cells[NGX_ETCD_MEMBER_SET_SLOTS];
};


/*
 * Returns the cell of the calling process for slot n, NULL: the process has no
 * row, or the zone has no room.  The caller holds the mutex.
 */
ngx_etcd_member_outcome_t *ngx_etcd_member_outcome_cell(ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, ngx_uint_t n);

/*
 * Returns what the process counts for the member with that uid; NULL: there is
 * no cell, or the member has left its slot.
 */
ngx_etcd_answers_t *ngx_etcd_member_outcome_of(ngx_etcd_member_outcome_t *cell,
    ngx_etcd_slot_t *slot, uint32_t uid);

/*
 * Adds up the rows for the present member of slot n.  0: there is no row.  The
 * caller holds the mutex.
 */
ngx_uint_t ngx_etcd_member_outcome_sum(ngx_etcd_member_set_t *set, ngx_uint_t n,
    ngx_etcd_answers_t *sum);


#endif /* _NGX_ETCD_MEMBER_OUTCOME_H_INCLUDED_ */
