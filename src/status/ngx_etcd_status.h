
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
#include <ngx_etcd_campaign.h>
#include <ngx_etcd_lock_conf.h>
#include <ngx_etcd_conf.h>
#include <ngx_etcd_member_pack.h>
#include <ngx_etcd_view.h>
#include <ngx_etcd_writer.h>


typedef struct ngx_etcd_status_s  ngx_etcd_status_t;


/*
 * A part of the text.  The function writes some of it and returns:
 *
 *     NGX_OK        the part is complete,
 *     NGX_AGAIN     call again for the rest,
 *     NGX_BUSY      the mutex of a zone was held: call again later,
 *     NGX_ERROR     no memory (or the writer has failed).
 *
 * Row, stage, items and begun are 0 at the start of a part.
 */

typedef ngx_int_t (*ngx_etcd_status_pt)(ngx_etcd_status_t *status);


/* states of members */

typedef enum {
    NGX_ETCD_STATUS_UP = 0,
    NGX_ETCD_STATUS_BACKUP,
    NGX_ETCD_STATUS_DRAIN,
    NGX_ETCD_STATUS_DOWN,
    NGX_ETCD_STATUS_UNRESOLVED,
    NGX_ETCD_STATUS_STATES
} ngx_etcd_status_state_e;


/* An upstream and the sums over its members. */

typedef struct {
    ngx_etcd_conf_t           *cluster;
    ngx_etcd_service_conf_t   *service;
    ngx_uint_t                 ninvalid;
    uint64_t                   revision;
    uint64_t                   generation;
    uint64_t                   terms;         /* number of leaders seen */
    uint64_t                   requests;
    uint64_t                   conns;
    uint64_t                   fails;
    ngx_uint_t                 states[NGX_ETCD_STATUS_STATES];
} ngx_etcd_status_upstream_t;


/* The counters of a lock, over all processes. */

typedef struct {
    ngx_etcd_conf_t           *cluster;
    ngx_str_t                  name;
    uint64_t                   held;
    uint64_t                   waiting;
    uint64_t                   acquired;
    uint64_t                   timeouts;
    uint64_t                   lost;
    uint64_t                   handoffs;
} ngx_etcd_status_lock_t;


struct ngx_etcd_status_s {
    ngx_etcd_main_conf_t      *conf;
    ngx_pool_t                *pool;
    ngx_etcd_writer_t          out;
    const ngx_etcd_status_pt  *parts;         /* NULL-terminated */
    ngx_array_t                upstreams;     /* ngx_etcd_status_upstream_t */

    /* state of the current part */

    ngx_uint_t                 part;
    ngx_uint_t                 row;
    ngx_uint_t                 stage;         /* within the row */
    ngx_uint_t                 items;         /* list items written */
    ngx_uint_t                 begun;
    ngx_array_t                list;          /* copied at once */
    ngx_pool_t                *temp;          /* for list, or NULL */

    ngx_uint_t                 openmetrics;   /* format of metrics */
    ngx_uint_t                 members;       /* include metrics of members */

    ngx_etcd_view_t            view;          /* last, because of its size */
};


/* The formats: NULL-terminated lists of parts. */

extern const ngx_etcd_status_pt  ngx_etcd_status_json[];
extern const ngx_etcd_status_pt  ngx_etcd_status_metrics[];


/*
 * Creates a status; memory is allocated from the pool.  Memory of the current
 * part is released by ngx_etcd_status_destroy().  NULL: no memory.
 */
ngx_etcd_status_t *ngx_etcd_status_create(ngx_etcd_main_conf_t *conf,
    const ngx_etcd_status_pt *parts, ngx_buf_tag_t tag, ngx_pool_t *pool);
void ngx_etcd_status_destroy(ngx_etcd_status_t *status);

/*
 * Writes until a time of ngx_etcd_stall_now() or until "size" bytes are
 * written, but at least one step.  NGX_OK: complete; NGX_AGAIN: call again;
 * NGX_BUSY: call again later; NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_status_run(ngx_etcd_status_t *status, uint64_t until,
    size_t size);


/* The functions below are for the formats. */

/* Return the object of the current row; NULL: there are no more rows. */
ngx_etcd_conf_t *ngx_etcd_status_cluster(ngx_etcd_status_t *status);
ngx_etcd_status_upstream_t *ngx_etcd_status_upstream(
    ngx_etcd_status_t *status);
ngx_etcd_campaign_t *ngx_etcd_status_election(ngx_etcd_status_t *status);

ngx_etcd_lock_name_t *ngx_etcd_status_lock_name(ngx_etcd_status_t *status);

/*
 * Reads the counters of the lock in the current row; NGX_DECLINED: there are
 * no more rows.
 */
ngx_int_t ngx_etcd_status_lock(ngx_etcd_status_t *status,
    ngx_etcd_status_lock_t *lock);

/*
 * "synced" means that every prefix and key was read, and that the last proof
 * of this state is recent.
 */

extern char  *ngx_etcd_status_cluster_states[];      /* NULL-terminated */

char *ngx_etcd_status_cluster_state(ngx_etcd_conf_t *ecf);

extern char  *ngx_etcd_status_member_states[];

ngx_etcd_status_state_e ngx_etcd_status_member_state(ngx_etcd_table_t *table,
    ngx_etcd_member_pack_t *record);

/*
 * Returns the endpoints as published by the agent; before there is an agent,
 * as configured.
 */
void ngx_etcd_status_endpoints(ngx_etcd_conf_t *ecf,
    ngx_etcd_zone_endpoints_t *endpoints);

extern char  *ngx_etcd_status_endpoint_states[4];

/*
 * Open and read the view of an upstream.  The results are those of the view,
 * except for NGX_BUSY if the mutex was held, and NGX_DONE also if the set was
 * removed.
 */
ngx_int_t ngx_etcd_status_open(ngx_etcd_status_t *status,
    ngx_etcd_service_conf_t *service);
ngx_int_t ngx_etcd_status_read(ngx_etcd_status_t *status);

ngx_uint_t ngx_etcd_status_waiting(ngx_etcd_service_conf_t *service);


#endif /* _NGX_ETCD_STATUS_H_INCLUDED_ */
