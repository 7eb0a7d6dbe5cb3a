
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_catalog_conf.h>
#include <ngx_etcd_event.h>


ngx_int_t
ngx_etcd_catalog_conf_declare(ngx_etcd_catalog_conf_t *conf,
    ngx_etcd_zone_t *zone, ngx_etcd_zone_t *old)
{
    ngx_uint_t                fresh;
    ngx_etcd_object_id_t      id;
    ngx_etcd_service_conf_t  *service;

    service = &conf->service;

    id.variant = ngx_etcd_member_set_variant(service->stream, service->kind);
    id.name = service->name;
    id.prefix = service->prefix;

    conf->map = ngx_etcd_set_map_declare(zone, &id, conf->limit);
    if (conf->map == NULL) {
        return NGX_ERROR;
    }

    conf->map_id = conf->map->object.id;
    conf->linger = ngx_max(service->awaited, service->rules.closing.after);

    service->zone = zone;

    service->rules.closing.upstream = &service->name;
    service->rules.closing.object = &conf->map->object;
    service->rules.closing.id = conf->map_id;
    service->rules.closing.closed = &conf->map->closed;

    fresh = (conf->map->map.n == 0 && conf->map->revision == 0);

    if (fresh && old != NULL
        && ngx_etcd_set_map_inherit(zone, conf->map, old) == NGX_ERROR)
    {
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* Returns 1 while a set that is not known may be in etcd. */

static ngx_uint_t
ngx_etcd_catalog_conf_loads(ngx_etcd_catalog_conf_t *conf)
{
    if (__atomic_load_n(&conf->map->listed, __ATOMIC_ACQUIRE) == 0) {
        return 1;
    }

    if (conf->reading != NULL && !conf->reading(conf->cluster)) {
        conf->reading = NULL;
    }

    return conf->reading != NULL;
}


static ngx_uint_t
ngx_etcd_catalog_conf_loaded(void *data)
{
    return !ngx_etcd_catalog_conf_loads(data);
}


static ngx_uint_t
ngx_etcd_catalog_conf_always(void *data)
{
    return 1;
}


void
ngx_etcd_catalog_conf_worker(ngx_etcd_catalog_conf_t *conf,
    ngx_etcd_conf_t *cluster, ngx_etcd_catalog_conf_reading_pt reading,
    ngx_event_t *sync, ngx_log_t *log)
{
    ngx_etcd_table_cache_t  *cache;

    cache = &conf->cache;

    cache->zone = conf->service.zone;
    cache->map = conf->map;
    cache->rules = &conf->service.rules;
    cache->method = conf->service.method;
    cache->idle = conf->idle;
    cache->sync = sync;
    cache->log = log;

    ngx_etcd_table_cache_init(cache);

    conf->cluster = cluster;
    conf->reading = reading;

    ngx_etcd_wait_queue_init(&conf->loading, ngx_etcd_catalog_conf_loaded, NULL,
                             conf, log);
    ngx_etcd_wait_queue_init(&conf->known, ngx_etcd_catalog_conf_always, NULL,
                             conf, log);
}


void
ngx_etcd_catalog_conf_done(ngx_etcd_catalog_conf_t *conf)
{
    ngx_etcd_event_stop(&conf->loading.wake);
    ngx_etcd_event_stop(&conf->known.wake);

    ngx_etcd_table_cache_done(&conf->cache);
}


static void
ngx_etcd_catalog_conf_wake(ngx_etcd_catalog_conf_t *conf)
{
    ngx_queue_t                  *q, *next;
    ngx_etcd_wait_queue_t        *loading;
    ngx_etcd_wait_queue_entry_t  *entry;

    loading = &conf->loading;

    if (loading->n == 0) {
        return;
    }

    if (!ngx_etcd_catalog_conf_loads(conf)) {
        ngx_etcd_wait_queue_wake(loading);
        return;
    }

    for (q = ngx_queue_head(&loading->entries);
         q != ngx_queue_sentinel(&loading->entries);
         q = next)
    {
        next = ngx_queue_next(q);
        entry = ngx_queue_data(q, ngx_etcd_wait_queue_entry_t, queue);

        if (entry->hash != 0
            && ngx_etcd_set_map_has(conf->service.zone, conf->map,
                                    entry->hash))
        {
            ngx_etcd_wait_queue_move(entry, &conf->known);
        }
    }

    ngx_etcd_wait_queue_wake(&conf->known);
}


ngx_int_t
ngx_etcd_catalog_conf_sync(ngx_etcd_catalog_conf_t *conf)
{
    ngx_etcd_catalog_conf_wake(conf);

    return ngx_etcd_table_cache_sync(&conf->cache);
}


/* Values are read without a wake-up. */

void
ngx_etcd_catalog_conf_tick(ngx_etcd_catalog_conf_t *conf)
{
    ngx_etcd_catalog_conf_wake(conf);

    ngx_etcd_table_cache_tick(&conf->cache);
}


/*
 * The agent sets "listed" after all sets: it is read before a set is looked
 * for.
 */

ngx_etcd_table_t *
ngx_etcd_catalog_conf_table(ngx_etcd_catalog_conf_t *conf, ngx_str_t *values,
    ngx_int_t *rc)
{
    u_char             buf[NGX_ETCD_PATTERN_PREFIX];
    ngx_str_t          prefix;
    ngx_uint_t         loads;
    ngx_etcd_table_t  *table;

    loads = ngx_etcd_catalog_conf_loads(conf);
    table = NULL;

    ngx_str_null(&prefix);

    *rc = ngx_etcd_pattern_prefix(&conf->pattern, values, buf, &prefix);

    if (*rc == NGX_OK) {
        table = ngx_etcd_table_cache_get(&conf->cache, &prefix, rc);
    }

    if (table == NULL && *rc == NGX_DECLINED && loads) {
        *rc = NGX_BUSY;
        conf->missed = (prefix.len != 0) ? ngx_etcd_shared_map_hash(&prefix)
                                         : 0;
    }

    return table;
}


ngx_uint_t
ngx_etcd_catalog_conf_wants(ngx_etcd_catalog_conf_t *conf, ngx_str_t *key,
    size_t len)
{
    ngx_str_t                 name;
    ngx_etcd_service_conf_t  *service;

    service = &conf->service;

    if (service->source->wants == NULL) {
        return 1;
    }

    name = *key;

    if (service->leader != NULL) {
        name.data += len;
        name.len -= len;
    }

    return service->source->wants(service, &name);
}


void
ngx_etcd_catalog_conf_set_name(ngx_etcd_catalog_conf_t *conf,
    ngx_etcd_table_t *table, ngx_str_t *name)
{
    ngx_etcd_cached_table_t  *cached;

    cached = (ngx_etcd_cached_table_t *) table;

    ngx_etcd_pattern_name(&conf->pattern, &cached->prefix, name);
}
