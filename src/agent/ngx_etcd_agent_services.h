
/*
 * Copyright (C) nginx-etcd contributors
 *
 * All that the agent watches for the workers: the services of upstreams, the
 * catalogs of upstreams whose prefix holds variables, and values; and the
 * tables that each worker makes of them.
 */


#ifndef _NGX_ETCD_AGENT_SERVICES_H_INCLUDED_
#define _NGX_ETCD_AGENT_SERVICES_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_catalog.h>
#include <ngx_etcd_conf.h>
#include <ngx_etcd_members_conf.h>
#include <ngx_etcd_value_feed.h>


typedef struct {
    /* set by the agent, the rest zeroed */

    ngx_etcd_conf_t             *conf;
    ngx_etcd_watch_stream_t     *stream;
    ngx_pool_t                  *pool;

    /*
     * Changes are in the zone, and whether anything visible has changed; a
     * value is in the zone; another process owns the zone.
     */
    void                       (*published)(void *data, ngx_uint_t changed);
    void                       (*changed)(void *data);
    void                       (*lost)(void *data);
    void                        *data;
    ngx_log_t                   *log;

    /* private */

    ngx_etcd_service_owner_t     owner;        /* of the services */
    ngx_array_t                  services;     /* ngx_etcd_service_t * */
    ngx_array_t                  catalogs;     /* ngx_etcd_catalog_t * */
    ngx_etcd_value_feed_t       *feeds;        /* one a value map */
    ngx_uint_t                   nfeeds;
} ngx_etcd_agent_services_t;


/* NGX_ERROR: no memory; destroy() frees what there is. */
ngx_int_t ngx_etcd_agent_services_create(ngx_etcd_agent_services_t *services);

/*
 * Reads the sets from the zone, which may be thousands, and have any number of
 * members.  NGX_OK, NGX_AGAIN: call again after other work, or NGX_ERROR: no
 * memory.
 */
ngx_int_t ngx_etcd_agent_services_load(ngx_etcd_agent_services_t *services);

/* Returns 1 while reported changes are not in the zone yet. */
ngx_uint_t ngx_etcd_agent_services_pending(
    ngx_etcd_agent_services_t *services);

/* Nothing is pending, and etcd has proved that all is known. */
void ngx_etcd_agent_services_proved(ngx_etcd_agent_services_t *services);

/* Must be called after the watch stream was destroyed. */
void ngx_etcd_agent_services_destroy(ngx_etcd_agent_services_t *services);

/*
 * The tables of a worker: that of each upstream with a fixed prefix, and those
 * of the sets that requests have asked for.
 */

/* The event calls ngx_etcd_worker_tables_sync(), and is posted by tables. */
void ngx_etcd_worker_tables_init(ngx_etcd_conf_t *conf, ngx_event_t *sync,
    ngx_log_t *log);
void ngx_etcd_worker_tables_done(ngx_etcd_conf_t *conf);

/*
 * Updates the tables from the zone: NGX_OK, NGX_AGAIN (call again after other
 * work), or NGX_BUSY (wait before that).
 */
ngx_int_t ngx_etcd_worker_tables_sync(ngx_etcd_conf_t *conf);

/* Called periodically: see ngx_etcd_table_tick(). */
void ngx_etcd_worker_tables_tick(ngx_etcd_conf_t *conf);


#endif /* _NGX_ETCD_AGENT_SERVICES_H_INCLUDED_ */
