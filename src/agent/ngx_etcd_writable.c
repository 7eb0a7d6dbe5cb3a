
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_client.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_kv.h>
#include <ngx_etcd_lock_conf.h>
#include <ngx_etcd_maintenance.h>
#include <ngx_etcd_str.h>
#include <ngx_etcd_writable.h>


#define NGX_ETCD_WRITE_CHECK_PAUSE  5000        /* ms: etcd is away */


typedef struct {
    ngx_etcd_conf_t     *conf;
    ngx_log_t           *log;
    ngx_etcd_cluster_t  *cluster;   /* NULL: all keys are answered */
    ngx_etcd_txn_t       txn;
    ngx_str_t            key;       /* of etcd; no data: the next one */
    ngx_uint_t           n;         /* the key that etcd is asked for */
    ngx_event_t          next;      /* a key, or the end */
} ngx_etcd_write_check_t;


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

static ngx_array_t  *ngx_etcd_write_checks;
static ngx_array_t  *ngx_etcd_spaces;


static void
ngx_etcd_writable_changed(void *data)
{
    /* the state of this client is not published */
}


/*
 * Only missing rights are this check's matter: a login that is refused is
 * logged by other clients, and a full database by those who write.
 */

static void
ngx_etcd_write_check_done(ngx_etcd_txn_t *txn, ngx_etcd_grpc_status_e status,
    ngx_str_t *text, int64_t revision, ngx_uint_t put, Etcd__KeyValue *kv)
{
    ngx_str_t               *key;
    ngx_uint_t               level;
    ngx_etcd_write_check_t  *check;

    check = txn->data;
    key = (ngx_str_t *) check->conf->write_check->elts + check->n;

    if (ngx_etcd_backoff_retriable(status)) {
        ngx_add_timer(&check->next, NGX_ETCD_WRITE_CHECK_PAUSE);
        return;
    }

    if (status == NGX_ETCD_GRPC_OK) {
        ngx_log_error(NGX_LOG_INFO, check->log, 0,
                      "etcd cluster \"%V\": key \"%V\" can be written",
                      &check->conf->name, ngx_etcd_shown(key));

    } else {
        level = (status == NGX_ETCD_GRPC_PERMISSION_DENIED) ? NGX_LOG_ERR
                                                            : NGX_LOG_INFO;

        ngx_log_error(level, check->log, 0,
                      "etcd cluster \"%V\": key \"%V\" cannot be written: "
                      "%s: %V", &check->conf->name, ngx_etcd_shown(key),
                      ngx_etcd_grpc_status_name(status), text);
    }

    check->n++;
    ngx_str_null(&check->key);

    ngx_post_event(&check->next, &ngx_posted_events);
}


static void
ngx_etcd_write_check_next(ngx_event_t *ev)
{
    ngx_str_t               *key;
    ngx_etcd_txn_t          *txn;
    ngx_etcd_write_check_t  *check;

    check = ev->data;
    txn = &check->txn;

    if (check->n == check->conf->write_check->nelts) {
        ngx_etcd_client_destroy(check->cluster);
        check->cluster = NULL;
        return;
    }

    key = (ngx_str_t *) check->conf->write_check->elts + check->n;

    if (check->key.data == NULL
        && ngx_etcd_kv_key(&check->key, check->cluster->pool,
                           &check->conf->client.key_namespace, key)
           != NGX_OK)
    {
        return;
    }

    ngx_memzero(txn, sizeof(ngx_etcd_txn_t));

    txn->key = check->key;
    txn->cluster = check->cluster;
    txn->created = NGX_ETCD_TXN_NEVER;
    txn->done = ngx_etcd_write_check_done;
    txn->data = check;

    ngx_etcd_txn_start(txn);
}


ngx_int_t
ngx_etcd_write_check_start(ngx_cycle_t *cycle, ngx_etcd_main_conf_t *conf)
{
    ngx_uint_t                i;
    ngx_etcd_conf_t         **clusters;
    ngx_etcd_write_check_t   *check;

    if (ngx_worker != 0) {
        return NGX_OK;
    }

    /* events refer to the elements: allocate all of them now */

    ngx_etcd_write_checks = ngx_array_create(cycle->pool,
                                             ngx_max(conf->clusters.nelts, 1),
                                             sizeof(ngx_etcd_write_check_t));
    if (ngx_etcd_write_checks == NULL) {
        return NGX_ERROR;
    }

    clusters = conf->clusters.elts;

    for (i = 0; i < conf->clusters.nelts; i++) {

        if (clusters[i]->write_check == NULL) {
            continue;
        }

        check = ngx_array_push(ngx_etcd_write_checks);
        if (check == NULL) {
            return NGX_ERROR;
        }

        ngx_memzero(check, sizeof(ngx_etcd_write_check_t));

        check->conf = clusters[i];
        check->log = cycle->log;
        check->cluster = ngx_etcd_client_create(&check->conf->client,
                                                ngx_etcd_writable_changed,
                                                NULL, check->log);
        if (check->cluster == NULL) {
            return NGX_ERROR;
        }

        ngx_etcd_event_init_timer(&check->next, ngx_etcd_write_check_next,
                                  check, check->log);

        ngx_etcd_write_check_next(&check->next);
    }

    return NGX_OK;
}


void
ngx_etcd_write_check_stop(void)
{
    ngx_uint_t               i;
    ngx_etcd_write_check_t  *check;

    if (ngx_etcd_write_checks == NULL) {
        return;
    }

    check = ngx_etcd_write_checks->elts;

    for (i = 0; i < ngx_etcd_write_checks->nelts; i++) {

        ngx_etcd_event_stop(&check[i].next);

        if (check[i].cluster != NULL) {
            ngx_etcd_txn_cancel(&check[i].txn);
            ngx_etcd_client_destroy(check[i].cluster);
        }
    }

    ngx_etcd_write_checks = NULL;
}


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
                                                ngx_etcd_writable_changed,
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
