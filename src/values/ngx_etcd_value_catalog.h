
/*
 * Copyright (C) nginx-etcd contributors
 *
 * All values that variables of a cluster have, while its agent runs: values of
 * single keys (ngx_etcd_value.h), and value maps (ngx_etcd_value_feed.h).
 */


#ifndef _NGX_ETCD_VALUE_CATALOG_H_INCLUDED_
#define _NGX_ETCD_VALUE_CATALOG_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_value.h>
#include <ngx_etcd_value_feed.h>


typedef struct ngx_etcd_value_catalog_s  ngx_etcd_value_catalog_t;


/*
 * Called by the agent, which owns the zone, before it makes a catalog: frees
 * objects that its configuration has not declared.  Returns the values of
 * ngx_etcd_retire_sets().
 */
ngx_int_t ngx_etcd_value_catalog_retire(ngx_etcd_zone_t *zone);

/*
 * Watches all values, arrays of ngx_etcd_value_conf_t * and
 * ngx_etcd_value_map_conf_t *.  written(): the zone is up to date; lost(): the
 * zone has another owner.  Memory is of the pool; NULL: no memory.
 */
ngx_etcd_value_catalog_t *ngx_etcd_value_catalog_create(ngx_array_t *values,
    ngx_array_t *maps, ngx_etcd_zone_t *zone, ngx_etcd_watch_stream_t *stream,
    ngx_pool_t *pool, void (*written)(void *data), void (*lost)(void *data),
    void *data, ngx_log_t *log);

/* Returns 1 while reported changes are not in the zone yet. */
ngx_uint_t ngx_etcd_value_catalog_pending(ngx_etcd_value_catalog_t *catalog);

/* Must be called after the watch stream was destroyed. */
void ngx_etcd_value_catalog_destroy(ngx_etcd_value_catalog_t *catalog);


#endif /* _NGX_ETCD_VALUE_CATALOG_H_INCLUDED_ */
