
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_conn_queue.h>
#include <ngx_etcd_members_conf.h>
#include <ngx_etcd_value_conf.h>
#include <ngx_etcd_worker_tables.h>


/* the result of several updates: another round is needed, and how soon */

#define ngx_etcd_worker_tables_both(rc, other)                                \
    ((rc) == NGX_AGAIN || (other) == NGX_OK ? (rc) : (other))


void
ngx_etcd_worker_tables_init(ngx_etcd_conf_t *conf, ngx_event_t *sync,
    ngx_log_t *log)
{
    uint64_t                   deadline;
    ngx_int_t                  rc;
    ngx_uint_t                 i;
    ngx_etcd_catalog_conf_t  **catalogs;
    ngx_etcd_service_conf_t  **services;

    deadline = ngx_etcd_time_budget_now() + NGX_ETCD_TABLE_WAIT;
    services = conf->services.elts;

    for (i = 0; i < conf->services.nelts; i++) {
        rc = ngx_etcd_table_init(services[i]->table, &services[i]->rules,
                                 &conf->zone, services[i]->set,
                                 services[i]->set_id, services[i]->method, 0,
                                 log);
        (void) ngx_etcd_table_insist(services[i]->table, rc, 0, deadline);
    }

    catalogs = conf->catalogs.elts;

    for (i = 0; i < conf->catalogs.nelts; i++) {
        ngx_etcd_catalog_conf_worker(catalogs[i], conf,
                                     ngx_etcd_value_conf_reading, sync, log);
    }
}


void
ngx_etcd_worker_tables_done(ngx_etcd_conf_t *conf)
{
    ngx_uint_t                 i;
    ngx_etcd_catalog_conf_t  **catalogs;
    ngx_etcd_service_conf_t  **services;

    services = conf->services.elts;

    for (i = 0; i < conf->services.nelts; i++) {
        ngx_etcd_conn_queue_done(services[i]->table);
        ngx_etcd_table_done(services[i]->table);
    }

    catalogs = conf->catalogs.elts;

    for (i = 0; i < conf->catalogs.nelts; i++) {
        ngx_etcd_catalog_conf_done(catalogs[i]);
    }
}


ngx_int_t
ngx_etcd_worker_tables_sync(ngx_etcd_conf_t *conf)
{
    ngx_int_t                  rc, one;
    ngx_uint_t                 i;
    ngx_etcd_catalog_conf_t  **catalogs;
    ngx_etcd_service_conf_t  **services;

    rc = NGX_OK;
    services = conf->services.elts;

    for (i = 0; i < conf->services.nelts; i++) {
        one = ngx_etcd_table_sync(services[i]->table);
        rc = ngx_etcd_worker_tables_both(rc, one);
    }

    catalogs = conf->catalogs.elts;

    for (i = 0; i < conf->catalogs.nelts; i++) {
        one = ngx_etcd_catalog_conf_sync(catalogs[i]);
        rc = ngx_etcd_worker_tables_both(rc, one);
    }

    return rc;
}


void
ngx_etcd_worker_tables_tick(ngx_etcd_conf_t *conf)
{
    ngx_uint_t                 i;
    ngx_etcd_catalog_conf_t  **catalogs;
    ngx_etcd_service_conf_t  **services;

    services = conf->services.elts;

    for (i = 0; i < conf->services.nelts; i++) {
        ngx_etcd_table_tick(services[i]->table);
    }

    catalogs = conf->catalogs.elts;

    for (i = 0; i < conf->catalogs.nelts; i++) {
        ngx_etcd_catalog_conf_tick(catalogs[i]);
    }
}
