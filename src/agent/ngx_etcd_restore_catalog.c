
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_restore_catalog.h>


/* Returns NGX_OK if keys with that prefix form a set. */

static ngx_int_t
ngx_etcd_restore_catalog_match(ngx_etcd_pattern_t *pattern, ngx_str_t *prefix,
    ngx_pool_t *pool)
{
    ngx_str_t  key;

    key.len = prefix->len + pattern->below;
    key.data = ngx_pnalloc(pool, prefix->len + 1);

    if (key.data == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(key.data, prefix->data, prefix->len);
    key.data[prefix->len] = 'x';

    return (prefix->len != 0
            && ngx_etcd_pattern_match(pattern, &key) == prefix->len)
           ? NGX_OK : NGX_DECLINED;
}


ngx_int_t
ngx_etcd_restore_catalog_set(ngx_etcd_catalog_conf_t *catalog,
    ngx_str_t *prefix, ngx_pool_t *pool, ngx_etcd_service_conf_t **conf)
{
    ngx_int_t                 rc;
    ngx_etcd_zone_t          *zone;
    ngx_etcd_set_found_t      found;
    ngx_etcd_service_conf_t  *service;

    zone = catalog->service.zone;
    rc = ngx_etcd_restore_catalog_match(&catalog->pattern, prefix, pool);

    if (rc != NGX_OK) {
        return rc;
    }

    if (ngx_etcd_set_map_find(zone, catalog->map, prefix, &found)
        != NGX_DECLINED)
    {
        return NGX_DECLINED;
    }

    service = ngx_palloc(pool, sizeof(ngx_etcd_service_conf_t));
    if (service == NULL) {
        return NGX_ERROR;
    }

    rc = ngx_etcd_set_map_add(zone, catalog->map, prefix,
                              ngx_etcd_catalog_conf_waits(catalog), 1, &found);

    if (rc != NGX_OK) {
        return (rc == NGX_DECLINED) ? NGX_DECLINED : NGX_ERROR;
    }

    *service = catalog->service;

    service->prefix = *prefix;
    service->set = found.set;
    service->set_id = found.set_id;

    *conf = service;

    return NGX_OK;
}


void
ngx_etcd_restore_catalog_complete(ngx_etcd_catalog_conf_t *catalog,
    uint64_t revision)
{
    catalog->map->revision = revision;

    if (revision != 0) {
        catalog->map->state = NGX_ETCD_MEMBER_SET_SYNCED;
    }
}
