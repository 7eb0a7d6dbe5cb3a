
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The outcomes of an upstream: what members have answered, how fast, how many
 * bytes went to them and came from them, and why requests had no answer.  Each
 * process counts in a row of its own, in shared memory and without a lock; a
 * reader adds up the rows.  A row stays when its process ends, and goes to a
 * process that comes later.
 */


#ifndef _NGX_ETCD_OUTCOME_H_INCLUDED_
#define _NGX_ETCD_OUTCOME_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_object.h>
#include <ngx_etcd_cause.h>
#include <ngx_etcd_member_set.h>


#define NGX_ETCD_OUTCOME_CLASSES  5          /* 1xx to 5xx */
#define NGX_ETCD_OUTCOME_NONE     NGX_ETCD_OUTCOME_CLASSES
#define NGX_ETCD_OUTCOME_NO_TIME  ((ngx_msec_t) -1)


/* words of 64 bits only */

typedef struct {
    uint64_t                  responses[NGX_ETCD_OUTCOME_CLASSES];
    uint64_t                  sent;              /* bytes to members */
    uint64_t                  received;          /* bytes from members */
    ngx_etcd_histogram_t      times;
} ngx_etcd_answers_t;


/* likewise */

typedef struct {
    ngx_etcd_answers_t        answers;
    uint64_t                  refused[NGX_ETCD_REFUSALS_OF_UPSTREAM];
} ngx_etcd_outcomes_t;


typedef struct ngx_etcd_outcome_row_s  ngx_etcd_outcome_row_t;

struct ngx_etcd_outcome_row_s {
    ngx_etcd_outcome_row_t   *next;
    ngx_uint_t                row;               /* of the zone;
                                                    NGX_ETCD_ZONE_NO_ROW: of
                                                    all without one */
    ngx_etcd_outcomes_t       counts;
};


/* of an upstream, in the zone; rows are never freed */

typedef struct {
    ngx_etcd_object_t         object;
    ngx_etcd_outcome_row_t   *rows;
} ngx_etcd_outcome_list_t;


/*
 * An upstream of the configuration, in each worker.  What it counts before it
 * has its row is added to the row later.
 */

typedef struct {
    ngx_etcd_outcome_list_t  *list;              /* from declare() on */
    ngx_uint_t                id;                /* of the list then */
    ngx_etcd_outcomes_t      *counts;            /* in the row, or early */
    ngx_etcd_outcomes_t       early;
    ngx_uint_t                told;              /* there is no row: logged */
} ngx_etcd_outcome_t;


/* one try of a request, or of a session */

typedef struct {
    ngx_uint_t                class;             /* 0: 1xx; NONE: unknown */
    ngx_msec_t                time;              /* NO_TIME: unknown */
    off_t                     sent;
    off_t                     received;
} ngx_etcd_outcome_try_t;


extern const ngx_etcd_object_type_t  ngx_etcd_outcome_type;


/*
 * Called by the master.  NGX_ERROR: no memory, or the mutex is held.  NULL is
 * ignored.  The prefix tells lines of an upstream apart; NULL: there is one.
 */
ngx_int_t ngx_etcd_outcome_declare(ngx_etcd_outcome_t *outcome,
    ngx_etcd_zone_t *zone, ngx_str_t *name, ngx_str_t *prefix,
    ngx_uint_t stream);

/*
 * Called by a worker when it starts, now and then, and when it ends: adds what
 * it has counted early to its row.  Processes without a row of the zone share
 * one, which they write under the mutex: they go on counting early, and so does
 * a process for which the zone has no room.  NULL is ignored.
 */
void ngx_etcd_outcome_attach(ngx_etcd_outcome_t *outcome,
    ngx_etcd_zone_t *zone);

/*
 * Counts a try that has ended, for the upstream and for the member; NULL: not
 * for the member.
 */
void ngx_etcd_outcome_count(ngx_etcd_outcome_t *outcome,
    ngx_etcd_answers_t *member, ngx_etcd_outcome_try_t *ended);

/*
 * Sets the refusal of the request or session that has the pool, and counts it.
 * NULL is not counted.
 */
void ngx_etcd_outcome_refuse(ngx_etcd_outcome_t *outcome, ngx_pool_t *pool,
    ngx_etcd_refusal_e refusal);

/* Adds up all rows. */
void ngx_etcd_outcome_sum(ngx_etcd_outcome_t *outcome,
    ngx_etcd_outcomes_t *sum);


/*
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


#endif /* _NGX_ETCD_OUTCOME_H_INCLUDED_ */
