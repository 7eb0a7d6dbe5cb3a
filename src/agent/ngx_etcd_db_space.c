
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_client.h>
#include <ngx_etcd_db_space.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_lock_conf.h>
#include <ngx_etcd_maintenance.h>


typedef struct {
    ngx_etcd_conf_t        *conf;
    ngx_etcd_zone_space_t  *shared;
    ngx_log_t              *log;
    ngx_event_t             timer;
    ngx_etcd_cluster_t     *cluster;   /* NULL: this worker has not asked */
    ngx_etcd_db_status_t    status;
    unsigned                asking:1;
} ngx_etcd_db_space_t;


/* of this worker, created by each process */

static ngx_array_t  *ngx_etcd_spaces;


/*
 * Returns 1 if this worker should ask now.  A worker that has asked before
 * has a connection already and is preferred: other workers wait a little
 * longer.
 */

static ngx_uint_t
ngx_etcd_db_space_due(ngx_etcd_db_space_t *space)
{
    ngx_msec_t     wait;
    ngx_atomic_t   asked;

    asked = space->shared->asked;
    wait = space->conf->db_check / 2;

    if (space->cluster == NULL) {
        wait += space->conf->db_check;
    }

    if (asked != 0 && ngx_current_msec - (ngx_msec_t) asked < wait) {
        return 0;
    }

    return ngx_atomic_cmp_set(&space->shared->asked, asked,
                              ngx_max(ngx_current_msec, 1));
}


static void
ngx_etcd_db_space_changed(void *data)
{
    /* the state of this client is not published */
}


/*
 * The last known size stays while etcd is unreachable.  A refusal is logged
 * once.
 */

static void
ngx_etcd_db_space_failed(ngx_etcd_db_space_t *space,
    ngx_etcd_grpc_status_e code, ngx_str_t *text)
{
    ngx_etcd_zone_space_t  *shared;

    shared = space->shared;

    if (!ngx_etcd_backoff_retriable(code)) {

        if (shared->refused) {
            return;
        }

        shared->refused = 1;
        shared->size = 0;
    }

    ngx_log_error(NGX_LOG_INFO, space->log, 0,
                  "etcd cluster \"%V\": could not get the size of the "
                  "database: %s: %V", &space->conf->name,
                  ngx_etcd_grpc_status_name(code), text);
}


static void
ngx_etcd_db_space_done(ngx_etcd_db_status_t *status,
    ngx_etcd_grpc_status_e code, ngx_str_t *text)
{
    ngx_etcd_db_space_t    *space;
    ngx_etcd_zone_space_t  *shared;

    space = status->data;
    shared = space->shared;

    space->asking = 0;

    if (code != NGX_ETCD_GRPC_OK) {
        ngx_etcd_db_space_failed(space, code, text);
        return;
    }

    shared->refused = 0;
    shared->nospace = status->nospace;
    shared->quota = status->quota;
    shared->size = status->size;
}


static void
ngx_etcd_db_space_ask(ngx_etcd_db_space_t *space)
{
    if (space->cluster == NULL) {
        space->cluster = ngx_etcd_client_create(&space->conf->client,
                                                ngx_etcd_db_space_changed,
                                                NULL, space->log);
        if (space->cluster == NULL) {
            return;
        }
    }

    space->asking = 1;

    space->status.cluster = space->cluster;
    space->status.done = ngx_etcd_db_space_done;
    space->status.data = space;

    ngx_etcd_db_status_start(&space->status);
}


static void
ngx_etcd_db_space_timer(ngx_event_t *ev)
{
    ngx_etcd_db_space_t  *space;

    space = ev->data;

    if (ngx_exiting) {
        return;
    }

    if (space->asking) {
        space->shared->asked = ngx_max(ngx_current_msec, 1);

    } else if (ngx_etcd_db_space_due(space)) {
        ngx_etcd_db_space_ask(space);
    }

    ngx_add_timer(ev, space->conf->db_check);
}


static void
ngx_etcd_db_space_init(ngx_etcd_db_space_t *space, ngx_etcd_conf_t *conf,
    ngx_log_t *log)
{
    ngx_msec_t  first;

    ngx_memzero(space, sizeof(ngx_etcd_db_space_t));

    space->conf = conf;
    space->shared = &conf->zone.sh->space;
    space->log = log;

    ngx_etcd_event_init_timer(&space->timer, ngx_etcd_db_space_timer, space,
                              log);

    first = ngx_min(conf->db_check, NGX_ETCD_DB_SPACE_FIRST);

    ngx_add_timer(&space->timer, 1 + (ngx_msec_t) ngx_random() % first);
}


ngx_int_t
ngx_etcd_db_space_start(ngx_cycle_t *cycle, ngx_etcd_main_conf_t *conf)
{
    ngx_uint_t            i;
    ngx_etcd_conf_t     **clusters;
    ngx_etcd_db_space_t  *space;

    /* timers refer to the elements: allocate all of them now */

    ngx_etcd_spaces = ngx_array_create(cycle->pool,
                                       ngx_max(conf->clusters.nelts, 1),
                                       sizeof(ngx_etcd_db_space_t));
    if (ngx_etcd_spaces == NULL) {
        return NGX_ERROR;
    }

    clusters = conf->clusters.elts;

    for (i = 0; i < conf->clusters.nelts; i++) {

        if (!ngx_etcd_db_space_wanted(clusters[i])) {
            continue;
        }

        space = ngx_array_push(ngx_etcd_spaces);
        if (space == NULL) {
            return NGX_ERROR;
        }

        ngx_etcd_db_space_init(space, clusters[i], cycle->log);
    }

    return NGX_OK;
}


ngx_uint_t
ngx_etcd_db_space_wanted(ngx_etcd_conf_t *conf)
{
    ngx_uint_t              i;
    ngx_etcd_lock_name_t  **names;

    if (conf->db_check == 0) {
        return 0;
    }

    names = conf->locks.elts;

    for (i = 0; i < conf->locks.nelts; i++) {
        if (names[i]->varied) {
            return 1;
        }
    }

    return 0;
}


void
ngx_etcd_db_space_stop(void)
{
    ngx_uint_t            i;
    ngx_etcd_db_space_t  *space;

    if (ngx_etcd_spaces == NULL) {
        return;
    }

    space = ngx_etcd_spaces->elts;

    for (i = 0; i < ngx_etcd_spaces->nelts; i++) {

        ngx_etcd_event_stop(&space[i].timer);

        if (space[i].cluster != NULL) {
            ngx_etcd_unary_cancel(&space[i].status.unary);
            ngx_etcd_client_destroy(space[i].cluster);
        }
    }

    ngx_etcd_spaces = NULL;
}
