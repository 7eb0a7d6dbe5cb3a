
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The status of this nginx as a text, rendered a piece at a time: so that a
 * worker with ten thousand members to show has time for its other work.
 *
 * Each cluster and each upstream is shown as it is when it is its turn; what
 * that means for members says ngx_etcd_view.h.  The text is complete and valid
 * whatever changes meanwhile.
 */


#ifndef _NGX_ETCD_STATUS_H_INCLUDED_
#define _NGX_ETCD_STATUS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_campaign.h>
#include <ngx_etcd_lock_conf.h>
#include <ngx_etcd_module.h>
#include <ngx_etcd_record.h>
#include <ngx_etcd_view.h>
#include <ngx_etcd_writer.h>


typedef struct ngx_etcd_status_s  ngx_etcd_status_t;


/*
 * A part of the text writes some of it:
 *
 *     NGX_OK        it is complete, the next one follows,
 *     NGX_AGAIN     there is more,
 *     NGX_BUSY      a zone's mutex was not free: later,
 *     NGX_ERROR     no memory (or the writer has failed).
 *
 * Row, stage, items and begun are 0 when it begins.
 */

typedef ngx_int_t (*ngx_etcd_status_pt)(ngx_etcd_status_t *status);


/* of members, as the status calls them */

typedef enum {
    NGX_ETCD_STATUS_UP = 0,
    NGX_ETCD_STATUS_BACKUP,
    NGX_ETCD_STATUS_DRAIN,
    NGX_ETCD_STATUS_DOWN,
    NGX_ETCD_STATUS_UNRESOLVED,
    NGX_ETCD_STATUS_STATES
} ngx_etcd_status_state_e;


/* an upstream, and what was counted of its members */

typedef struct {
    ngx_etcd_conf_t           *cluster;
    ngx_etcd_service_conf_t   *service;
    ngx_uint_t                 ninvalid;
    uint64_t                   revision;
    uint64_t                   generation;
    uint64_t                   terms;         /* of leaders */
    uint64_t                   requests;
    uint64_t                   conns;
    uint64_t                   fails;
    ngx_uint_t                 states[NGX_ETCD_STATUS_STATES];
} ngx_etcd_status_upstream_t;


/* what the processes count of a lock */

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
    const ngx_etcd_status_pt  *parts;         /* up to a NULL */
    ngx_array_t                upstreams;     /* ngx_etcd_status_upstream_t */

    /* as the parts need it */

    ngx_uint_t                 part;
    ngx_uint_t                 row;
    ngx_uint_t                 stage;         /* of the row */
    ngx_uint_t                 items;         /* written of a list */
    ngx_uint_t                 begun;
    ngx_array_t                list;          /* taken in one piece */
    ngx_pool_t                *temp;          /* of the list, or NULL */

    ngx_uint_t                 openmetrics;   /* how metrics are written */
    ngx_uint_t                 members;       /* metrics of each, too */

    ngx_etcd_view_t            view;          /* the last: it is large */
};


/* the formats: here, and ngx_etcd_metrics.c */

extern const ngx_etcd_status_pt  ngx_etcd_status_json[];
extern const ngx_etcd_status_pt  ngx_etcd_status_metrics[];


/*
 * Memory is of the pool, but for what lasts a part: that is given back by
 * ngx_etcd_status_destroy().  NULL: no memory.
 */
ngx_etcd_status_t *ngx_etcd_status_create(ngx_etcd_main_conf_t *conf,
    const ngx_etcd_status_pt *parts, ngx_buf_tag_t tag, ngx_pool_t *pool);
void ngx_etcd_status_destroy(ngx_etcd_status_t *status);

/*
 * Writes until a time of ngx_etcd_stall_now(), or until there are that many
 * bytes, and at least a little: NGX_OK, it is complete, NGX_AGAIN, NGX_BUSY,
 * or NGX_ERROR.
 */
ngx_int_t ngx_etcd_status_run(ngx_etcd_status_t *status, uint64_t until,
    size_t size);


/* for the formats */

/* the row's; NULL: that was the last one */
ngx_etcd_conf_t *ngx_etcd_status_cluster(ngx_etcd_status_t *status);
ngx_etcd_status_upstream_t *ngx_etcd_status_upstream(
    ngx_etcd_status_t *status);
ngx_etcd_campaign_t *ngx_etcd_status_election(ngx_etcd_status_t *status);

ngx_etcd_lock_name_t *ngx_etcd_status_lock_name(ngx_etcd_status_t *status);

/* likewise: NGX_OK, or NGX_DECLINED when there are no more */
ngx_int_t ngx_etcd_status_lock(ngx_etcd_status_t *status,
    ngx_etcd_status_lock_t *lock);

/*
 * "synced" is said only when every prefix and key was read, and the proofs
 * that this is what etcd has are not too old
 */

extern char  *ngx_etcd_status_cluster_states[];      /* up to a NULL */

char *ngx_etcd_status_cluster_state(ngx_etcd_conf_t *ecf);

extern char  *ngx_etcd_status_member_states[];

ngx_etcd_status_state_e ngx_etcd_status_member_state(ngx_etcd_table_t *table,
    ngx_etcd_record_t *record);

/* what the agent says; before there was one, what the configuration says */
void ngx_etcd_status_endpoints(ngx_etcd_conf_t *ecf,
    ngx_etcd_zone_endpoints_t *endpoints);

extern char  *ngx_etcd_status_endpoint_states[4];

/*
 * Opens the view of an upstream, and reads it on: as the view does, but for
 * NGX_BUSY when the mutex was not free, and NGX_DONE also when the set is gone.
 */
ngx_int_t ngx_etcd_status_open(ngx_etcd_status_t *status,
    ngx_etcd_service_conf_t *service);
ngx_int_t ngx_etcd_status_read(ngx_etcd_status_t *status);

ngx_uint_t ngx_etcd_status_waiting(ngx_etcd_service_conf_t *service);


#endif /* _NGX_ETCD_STATUS_H_INCLUDED_ */
