
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_catalog_conf.h>


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


void
ngx_etcd_catalog_conf_worker(ngx_etcd_catalog_conf_t *conf, ngx_log_t *log)
{
    ngx_etcd_table_cache_t  *cache;

    cache = &conf->cache;

    cache->zone = conf->service.zone;
    cache->map = conf->map;
    cache->rules = &conf->service.rules;
    cache->method = conf->service.method;
    cache->idle = conf->idle;
    cache->log = log;

    ngx_etcd_table_cache_init(cache);
}


ngx_etcd_table_t *
ngx_etcd_catalog_conf_table(ngx_etcd_catalog_conf_t *conf, ngx_str_t *values,
    ngx_int_t *rc)
{
    u_char     buf[NGX_ETCD_PATTERN_PREFIX];
    ngx_str_t  prefix;

    *rc = ngx_etcd_pattern_prefix(&conf->pattern, values, buf, &prefix);

    return (*rc == NGX_OK) ? ngx_etcd_table_cache_get(&conf->cache, &prefix, rc)
                           : NULL;
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
