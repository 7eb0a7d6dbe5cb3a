
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_value_catalog.h>
#include <ngx_etcd_value_object.h>


struct ngx_etcd_value_catalog_s {
    ngx_etcd_values_t           *values;
    ngx_etcd_value_feed_t       *feeds;
    ngx_uint_t                   nfeeds;
};


ngx_int_t
ngx_etcd_value_catalog_retire(ngx_etcd_zone_t *zone)
{
    if (ngx_etcd_shared_value_retire_old(zone) != NGX_OK) {
        return NGX_BUSY;
    }

    return ngx_etcd_value_object_retire_old(zone, ngx_etcd_time_budget_now()
                                               + NGX_ETCD_TIME_BUDGET);
}


ngx_etcd_value_catalog_t *
ngx_etcd_value_catalog_create(ngx_array_t *values, ngx_array_t *maps,
    ngx_etcd_zone_t *zone, ngx_etcd_watch_stream_t *stream, ngx_pool_t *pool,
    void (*written)(void *data), void (*lost)(void *data), void *data,
    ngx_log_t *log)
{
    ngx_uint_t                   i;
    ngx_etcd_value_feed_t       *feed;
    ngx_etcd_value_catalog_t    *catalog;
    ngx_etcd_value_map_conf_t  **conf;

    catalog = ngx_pcalloc(pool, sizeof(ngx_etcd_value_catalog_t));
    if (catalog == NULL) {
        return NULL;
    }

    catalog->feeds = ngx_pcalloc(pool, ngx_max(maps->nelts, 1)
                                       * sizeof(ngx_etcd_value_feed_t));
    if (catalog->feeds == NULL) {
        return NULL;
    }

    catalog->values = ngx_etcd_value_create(values, zone, stream, pool,
                                            written, lost, data, log);
    if (catalog->values == NULL) {
        return NULL;
    }

    conf = maps->elts;

    for (i = 0; i < maps->nelts; i++) {
        feed = &catalog->feeds[catalog->nfeeds++];

        feed->conf = conf[i];
        feed->log = log;
        feed->written = written;
        feed->lost = lost;
        feed->data = data;

        if (ngx_etcd_value_feed_start(feed, stream, pool) != NGX_OK) {
            ngx_etcd_value_catalog_destroy(catalog);
            return NULL;
        }
    }

    return catalog;
}


ngx_uint_t
ngx_etcd_value_catalog_pending(ngx_etcd_value_catalog_t *catalog)
{
    ngx_uint_t  i;

    for (i = 0; i < catalog->nfeeds; i++) {
        if (ngx_etcd_value_feed_pending(&catalog->feeds[i])) {
            return 1;
        }
    }

    return ngx_etcd_value_pending(catalog->values);
}


void
ngx_etcd_value_catalog_destroy(ngx_etcd_value_catalog_t *catalog)
{
    ngx_uint_t  i;

    for (i = 0; i < catalog->nfeeds; i++) {
        ngx_etcd_value_feed_stop(&catalog->feeds[i]);
    }

    ngx_etcd_value_destroy(catalog->values);
}
