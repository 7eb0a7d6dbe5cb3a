
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_agent_services.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_conn_queue.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_value_conf.h>


static void
ngx_etcd_agent_services_published(ngx_etcd_service_t *service,
    ngx_uint_t changed)
{
    ngx_etcd_service_owner_t   *owner;
    ngx_etcd_agent_services_t  *services;

    owner = service->owner;
    services = (ngx_etcd_agent_services_t *)
               ((u_char *) owner - offsetof(ngx_etcd_agent_services_t, owner));

    services->published(owner->data, changed);
}


static ngx_int_t
ngx_etcd_agent_services_all(ngx_etcd_agent_services_t *services)
{
    ngx_uint_t                 i;
    ngx_etcd_service_t       **service;
    ngx_etcd_service_conf_t  **confs;

    confs = services->conf->services.elts;

    for (i = 0; i < services->conf->services.nelts; i++) {
        service = ngx_array_push(&services->services);

        *service = ngx_etcd_service_create(confs[i], &services->owner,
                                           services->pool);
        if (*service == NULL) {
            services->services.nelts--;
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_agent_services_catalogs(ngx_etcd_agent_services_t *services)
{
    ngx_uint_t                 i;
    ngx_etcd_catalog_t       **catalog;
    ngx_etcd_catalog_conf_t  **confs;

    confs = services->conf->catalogs.elts;

    for (i = 0; i < services->conf->catalogs.nelts; i++) {
        catalog = ngx_array_push(&services->catalogs);

        *catalog = ngx_etcd_catalog_create(confs[i], services->pool,
                                           services->published,
                                           services->lost, services->data,
                                           services->log);
        if (*catalog == NULL) {
            services->catalogs.nelts--;
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/* No wake-up is needed: values are read from the zone on demand. */

static ngx_int_t
ngx_etcd_agent_services_values(ngx_etcd_agent_services_t *services)
{
    ngx_array_t                 *maps;
    ngx_etcd_value_feed_t       *feed;
    ngx_etcd_value_map_conf_t  **confs;

    maps = &services->conf->value_maps;
    confs = maps->elts;

    services->feeds = ngx_pcalloc(services->pool, ngx_max(maps->nelts, 1)
                                              * sizeof(ngx_etcd_value_feed_t));
    if (services->feeds == NULL) {
        return NGX_ERROR;
    }

    while (services->nfeeds < maps->nelts) {
        feed = &services->feeds[services->nfeeds];

        feed->conf = confs[services->nfeeds++];
        feed->log = services->log;
        feed->written = services->changed;
        feed->lost = services->lost;
        feed->data = services->data;

        if (ngx_etcd_value_feed_start(feed, services->stream, services->pool)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


ngx_int_t
ngx_etcd_agent_services_create(ngx_etcd_agent_services_t *services)
{
    ngx_etcd_conf_t           *conf;
    ngx_etcd_service_owner_t  *owner;

    conf = services->conf;

    if (ngx_array_init(&services->services, services->pool,
                       ngx_max(conf->services.nelts, 1),
                       sizeof(ngx_etcd_service_t *))
        != NGX_OK
        || ngx_array_init(&services->catalogs, services->pool,
                          ngx_max(conf->catalogs.nelts, 1),
                          sizeof(ngx_etcd_catalog_t *))
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    owner = &services->owner;

    owner->stream = services->stream;
    owner->published = ngx_etcd_agent_services_published;
    owner->lost = services->lost;
    owner->data = services->data;
    owner->log = services->log;

    if (ngx_etcd_agent_services_all(services) != NGX_OK
        || ngx_etcd_agent_services_catalogs(services) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_etcd_agent_services_values(services);
}


ngx_int_t
ngx_etcd_agent_services_load(ngx_etcd_agent_services_t *services)
{
    uint64_t              until;
    ngx_int_t             rc;
    ngx_uint_t            i;
    ngx_etcd_catalog_t  **catalogs;
    ngx_etcd_service_t  **list;

    until = ngx_etcd_time_budget_now() + NGX_ETCD_TIME_BUDGET;
    list = services->services.elts;

    for (i = 0; i < services->services.nelts; i++) {
        rc = ngx_etcd_service_load(list[i], until);

        if (rc != NGX_OK) {
            return rc;
        }
    }

    catalogs = services->catalogs.elts;

    for (i = 0; i < services->catalogs.nelts; i++) {
        rc = ngx_etcd_catalog_load(catalogs[i], services->stream, until);

        if (rc != NGX_OK) {
            return rc;
        }
    }

    return NGX_OK;
}


ngx_uint_t
ngx_etcd_agent_services_pending(ngx_etcd_agent_services_t *services)
{
    ngx_uint_t               i;
    ngx_etcd_catalog_t     **catalogs;
    ngx_etcd_service_t     **list;
    ngx_etcd_value_feed_t   *feed;

    list = services->services.elts;

    for (i = 0; i < services->services.nelts; i++) {
        if (ngx_etcd_service_pending(list[i])) {
            return 1;
        }
    }

    catalogs = services->catalogs.elts;

    for (i = 0; i < services->catalogs.nelts; i++) {
        if (ngx_etcd_catalog_pending(catalogs[i])) {
            return 1;
        }
    }

    for (i = 0; i < services->nfeeds; i++) {
        feed = &services->feeds[i];

        /* reported changes are not in the zone yet */

        if (feed->next < feed->ready || feed->sweep) {
            return 1;
        }
    }

    return 0;
}


void
ngx_etcd_agent_services_proved(ngx_etcd_agent_services_t *services)
{
    ngx_uint_t            i;
    ngx_etcd_catalog_t  **catalogs;

    catalogs = services->catalogs.elts;

    for (i = 0; i < services->catalogs.nelts; i++) {
        ngx_etcd_catalog_proved(catalogs[i]);
    }
}


void
ngx_etcd_agent_services_destroy(ngx_etcd_agent_services_t *services)
{
    ngx_uint_t            i;
    ngx_etcd_catalog_t  **catalogs;
    ngx_etcd_service_t  **list;

    for (i = 0; i < services->nfeeds; i++) {
        ngx_etcd_value_feed_stop(&services->feeds[i]);
    }

    services->nfeeds = 0;

    list = services->services.elts;

    for (i = 0; i < services->services.nelts; i++) {
        ngx_etcd_service_destroy(list[i]);
    }

    services->services.nelts = 0;

    catalogs = services->catalogs.elts;

    for (i = 0; i < services->catalogs.nelts; i++) {
        ngx_etcd_catalog_destroy(catalogs[i]);
    }

    services->catalogs.nelts = 0;
}


/* the result of several updates: another round is needed, and how soon */

#define ngx_etcd_worker_tables_both(rc, other)                                \
    ((rc) == NGX_AGAIN || (other) == NGX_OK ? (rc) : (other))


void
ngx_etcd_worker_tables_init(ngx_etcd_conf_t *conf, ngx_event_t *sync,
    ngx_log_t *log)
{
    uint64_t                   deadline;
    ngx_uint_t                 i;
    ngx_etcd_catalog_conf_t  **catalogs;
    ngx_etcd_service_conf_t  **services;

    deadline = ngx_etcd_time_budget_now() + NGX_ETCD_TABLE_WAIT;
    services = conf->services.elts;

    for (i = 0; i < conf->services.nelts; i++) {
        ngx_etcd_table_init(services[i]->table, &services[i]->rules,
                            &conf->zone, services[i]->set, services[i]->set_id,
                            log);
        (void) ngx_etcd_table_start(services[i]->table, 0, deadline);
        ngx_etcd_outcome_attach(services[i]->outcome, &conf->zone);
    }

    catalogs = conf->catalogs.elts;

    for (i = 0; i < conf->catalogs.nelts; i++) {
        ngx_etcd_catalog_conf_worker(catalogs[i], conf,
                                     ngx_etcd_value_conf_reading, sync, log);
        ngx_etcd_outcome_attach(catalogs[i]->service.outcome, &conf->zone);
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
        ngx_etcd_outcome_attach(services[i]->outcome, &conf->zone);
    }

    catalogs = conf->catalogs.elts;

    for (i = 0; i < conf->catalogs.nelts; i++) {
        ngx_etcd_event_stop(&catalogs[i]->loading.wake);
        ngx_etcd_event_stop(&catalogs[i]->known.wake);

        ngx_etcd_table_cache_done(&catalogs[i]->cache);
        ngx_etcd_outcome_attach(catalogs[i]->service.outcome, &conf->zone);
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
        ngx_etcd_catalog_conf_wake(catalogs[i]);

        one = ngx_etcd_table_cache_sync(&catalogs[i]->cache);
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
        ngx_etcd_outcome_attach(services[i]->outcome, &conf->zone);
    }

    catalogs = conf->catalogs.elts;

    for (i = 0; i < conf->catalogs.nelts; i++) {
        ngx_etcd_catalog_conf_wake(catalogs[i]);
        ngx_etcd_table_cache_tick(&catalogs[i]->cache);
        ngx_etcd_outcome_attach(catalogs[i]->service.outcome, &conf->zone);
    }
}
