
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
#include <ngx_etcd_refusal.h>


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

/* Only the process of "to", or the holder of the mutex, writes these words. */
void ngx_etcd_answers_add(ngx_etcd_answers_t *to, ngx_etcd_answers_t *from);

/* Adds up all rows. */
void ngx_etcd_outcome_sum(ngx_etcd_outcome_t *outcome,
    ngx_etcd_outcomes_t *sum);


#endif /* _NGX_ETCD_OUTCOME_H_INCLUDED_ */
