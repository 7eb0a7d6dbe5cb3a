
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Renders the status as text, piece by piece, so that a worker with ten
 * thousand members to show still has time for its other work.
 *
 * Each cluster and each upstream is shown with its state at the time it is
 * rendered; ngx_etcd_view.h says what this means for members.  The text is
 * complete and valid whatever changes during rendering.
 */


#ifndef _NGX_ETCD_STATUS_H_INCLUDED_
#define _NGX_ETCD_STATUS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_status_object.h>
#include <ngx_etcd_text_buffer.h>
#include <ngx_etcd_view.h>


typedef struct ngx_etcd_status_s       ngx_etcd_status_t;
typedef struct ngx_etcd_status_kind_s  ngx_etcd_status_kind_t;


/*
 * A part of the text: objects of one kind.  The function writes some of it and
 * returns:
 *
 *     NGX_OK        the part is complete,
 *     NGX_AGAIN     call again for the rest,
 *     NGX_BUSY      the mutex of a zone was held: call again later,
 *     NGX_ERROR     no memory (or the text buffer has failed).
 *
 * Row, stage, items and begun are 0 at the start of a part.
 */

typedef struct {
    ngx_int_t                    (*write)(ngx_etcd_status_t *status,
                                          const ngx_etcd_status_kind_t *kind);
    const ngx_etcd_status_kind_t  *kind;
} ngx_etcd_status_part_t;


/* The arguments of a request: one upstream, and some of its sets. */

typedef struct {
    ngx_str_t                     only;       /* no data: all */
    ngx_str_t                     like;       /* part of the names of sets */
    uint32_t                      after;      /* sets after that id */
} ngx_etcd_status_asked_t;


/* The walk through the sets of an upstream (ngx_etcd_status_sets.h). */

typedef struct {
    ngx_uint_t                    listed;     /* of list, read so far */
    ngx_uint_t                    reading;    /* the view of a set is open */
    ngx_uint_t                    shown;      /* or added up */
    ngx_uint_t                    all;        /* not only those asked
                                                 for */
    uint32_t                      last;       /* id of the last set read */
    ngx_etcd_status_upstream_t    one;        /* a set as an upstream */
} ngx_etcd_status_walk_t;


/* The object that is being written. */

typedef union {
    ngx_etcd_status_nginx_t       nginx;
    ngx_etcd_status_zone_t        zone;
    ngx_etcd_status_cluster_t     cluster;
    ngx_etcd_status_member_t      member;
    ngx_etcd_status_set_t         set;
    ngx_etcd_status_election_t    election;
    ngx_etcd_status_lock_t        lock;
    ngx_etcd_status_lock_row_t    lock_row;
    ngx_etcd_status_variable_t    variable;
    ngx_etcd_status_event_t       event;
} ngx_etcd_status_object_t;


struct ngx_etcd_status_s {
    ngx_etcd_main_conf_t         *conf;
    ngx_pool_t                   *pool;
    ngx_etcd_text_buffer_t        out;
    const ngx_etcd_status_part_t *parts;      /* the last one has no
                                                 function */
    ngx_array_t                   upstreams;  /* ngx_etcd_status_upstream_t */

    /* state of the current part */

    ngx_uint_t                    part;
    ngx_uint_t                    row;
    ngx_uint_t                    stage;      /* within the row */
    ngx_uint_t                    items;      /* list items written */
    ngx_uint_t                    begun;
    ngx_array_t                   list;       /* copied at once */
    ngx_pool_t                   *temp;       /* for list, or NULL */

    ngx_etcd_status_walk_t        walk;

    ngx_etcd_status_asked_t       asked;
    ngx_uint_t                    remaining;  /* ask how long leases of
                                                 leaders last */
    ngx_uint_t                    openmetrics; /* format of metrics */
    ngx_uint_t                    members;    /* include metrics of members */

    /* the rest is not zeroed, because of its size */

    ngx_etcd_status_object_t      object;
    ngx_etcd_view_t               view;
};


/*
 * Creates a status; memory is allocated from the pool.  Memory of the current
 * part is released by ngx_etcd_status_destroy().  NULL: no memory.
 */
ngx_etcd_status_t *ngx_etcd_status_create(ngx_etcd_main_conf_t *conf,
    const ngx_etcd_status_part_t *parts, ngx_buf_tag_t tag, ngx_pool_t *pool);
void ngx_etcd_status_destroy(ngx_etcd_status_t *status);

/*
 * Writes until a time of ngx_etcd_time_budget_now() or until "size" bytes are
 * written, but at least one step.  NGX_OK: complete; NGX_AGAIN: call again;
 * NGX_BUSY: call again later; NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_status_run(ngx_etcd_status_t *status, uint64_t until,
    size_t size);


/* The functions below are for the formats. */

/* Returns 1 unless the request asks for another upstream. */
ngx_uint_t ngx_etcd_status_wanted(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream);

/*
 * Open and read the view of an upstream.  The results are those of the view,
 * except for NGX_BUSY if the mutex was held, and NGX_DONE also if the set was
 * removed.
 */
ngx_int_t ngx_etcd_status_open(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream);
ngx_int_t ngx_etcd_status_read(ngx_etcd_status_t *status);


/*
 * The objects of one kind as rows: each function returns the object of the
 * status's current row, which is valid until the next call; NULL: there are no
 * more rows.
 */

void *ngx_etcd_status_row_nginx(ngx_etcd_status_t *status);
void *ngx_etcd_status_row_cluster(ngx_etcd_status_t *status);
void *ngx_etcd_status_row_endpoint(ngx_etcd_status_t *status);
void *ngx_etcd_status_row_upstream(ngx_etcd_status_t *status);
void *ngx_etcd_status_row_election(ngx_etcd_status_t *status);
void *ngx_etcd_status_row_lock(ngx_etcd_status_t *status);

/*
 * Skips variables that were shown.  A variable with another key in another
 * context has a number in its name: "$flag (2)".
 */
void *ngx_etcd_status_row_variable(ngx_etcd_status_t *status);

void *ngx_etcd_status_row_zone(ngx_etcd_status_t *status);


/*
 * Nearness ("etcd_prefer") in the status: the preference of an upstream, and
 * the share of its requests that goes to preferred members.  Without the
 * directive there are no such fields.
 */

/* Sets the preference; the share is absent. */
void ngx_etcd_status_near_upstream(ngx_etcd_status_upstream_t *upstream);

/*
 * Sets the share as this worker balances by its table; NULL: the worker has no
 * table, and the share stays absent.
 */
void ngx_etcd_status_near_share(ngx_etcd_status_upstream_t *upstream,
    ngx_etcd_table_t *table);


#endif /* _NGX_ETCD_STATUS_H_INCLUDED_ */
