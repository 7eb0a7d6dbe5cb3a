
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_server_versions.h>


/* two URLs of a cluster with the same id are as good as impossible */

static uint64_t
ngx_etcd_server_versions_id(ngx_str_t *url)
{
    return (uint64_t) ngx_min(url->len, 0xffffffff) << 32
           | ngx_crc32_long(url->data, url->len);
}


/* Returns the place of that id, or a free one, or else any. */

static ngx_etcd_zone_version_t *
ngx_etcd_server_versions_find(ngx_etcd_zone_t *zone, uint64_t id)
{
    ngx_uint_t                i;
    ngx_etcd_zone_version_t  *places, *place;

    places = zone->sh->versions;

    for (i = 0; i < NGX_ETCD_ZONE_VERSIONS; i++) {
        place = &places[(id + i) % NGX_ETCD_ZONE_VERSIONS];

        if (place->id == id || place->id == 0) {
            return place;
        }
    }

    return &places[id % NGX_ETCD_ZONE_VERSIONS];
}


void
ngx_etcd_server_versions_set(ngx_etcd_zone_t *zone, ngx_str_t *url,
    uint64_t version)
{
    uint64_t                  id, former;
    ngx_etcd_zone_version_t  *place;

    id = ngx_etcd_server_versions_id(url);
    place = ngx_etcd_server_versions_find(zone, id);

    former = place->id;

    /*
     * A place of another endpoint, which was not found because all are taken,
     * is of this one from now on.
     */

    if (former != id) {
        place->version = 0;

        if (!__atomic_compare_exchange_n(&place->id, &former, id, 0,
                                         __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)
            && former != id)
        {
            return;
        }
    }

    __atomic_store_n(&place->version, version, __ATOMIC_RELEASE);
}


uint64_t
ngx_etcd_server_versions_get(ngx_etcd_zone_t *zone, ngx_str_t *url)
{
    uint64_t                  id, version;
    ngx_etcd_zone_version_t  *place;

    id = ngx_etcd_server_versions_id(url);
    place = ngx_etcd_server_versions_find(zone, id);

    version = __atomic_load_n(&place->version, __ATOMIC_ACQUIRE);

    return (place->id == id) ? version : 0;
}


ngx_uint_t
ngx_etcd_server_versions_first(ngx_etcd_zone_t *zone, ngx_uint_t what)
{
    return (__atomic_fetch_or(&zone->sh->warned, what, __ATOMIC_ACQ_REL) & what)
           == 0;
}
