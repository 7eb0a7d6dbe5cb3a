
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_catalog_conf.h>
#include <ngx_etcd_catalog_set.h>


#define NGX_ETCD_CATALOG_SET_POOL  2048


static ngx_int_t
ngx_etcd_catalog_set_service(ngx_etcd_catalog_set_t *set,
    ngx_etcd_set_found_t *found, ngx_etcd_service_conf_t *template,
    ngx_etcd_service_owner_t *owner)
{
    ngx_etcd_service_conf_t  *conf;

    conf = &set->conf;

    *conf = *template;

    conf->prefix = set->prefix;
    conf->set = found->set;
    conf->set_id = found->set_id;

    if (conf->source->join != NULL
        && conf->source->join(conf, set->pool) != NGX_OK)
    {
        return NGX_ERROR;
    }

    set->service = ngx_etcd_service_create(conf, owner, set->pool);

    return (set->service != NULL) ? NGX_OK : NGX_ERROR;
}


static void
ngx_etcd_catalog_set_free(ngx_etcd_hash_table_t *sets,
    ngx_etcd_catalog_set_t *set)
{
    if (set->pool != NULL) {
        ngx_destroy_pool(set->pool);
    }

    ngx_etcd_hash_table_remove(sets, &set->prefix);
    ngx_free(set);
}


ngx_etcd_catalog_set_t *
ngx_etcd_catalog_set_create(ngx_etcd_hash_table_t *sets,
    ngx_str_t *prefix, ngx_etcd_set_found_t *found,
    ngx_etcd_service_conf_t *template, ngx_etcd_service_owner_t *owner)
{
    ngx_etcd_catalog_set_t   *set;
    ngx_etcd_catalog_conf_t  *catalog;

    set = ngx_etcd_hash_table_add(sets, prefix,
                                  sizeof(ngx_etcd_catalog_set_t));
    if (set == NULL) {
        return NULL;
    }

    set->pool = ngx_create_pool(NGX_ETCD_CATALOG_SET_POOL, owner->log);

    if (set->pool == NULL
        || ngx_etcd_catalog_set_service(set, found, template, owner) != NGX_OK)
    {
        ngx_etcd_catalog_set_free(sets, set);
        return NULL;
    }

    set->part.mirror = &set->service->mirror;

    /* a former configuration may have counted less */

    catalog = ngx_etcd_catalog_of(template);

    ngx_etcd_set_map_count(template->zone, found->set,
                           ngx_etcd_catalog_conf_waits(catalog), 0);

    return set;
}


void
ngx_etcd_catalog_set_destroy(ngx_etcd_hash_table_t *sets,
    ngx_etcd_catalog_set_t *set)
{
    ngx_etcd_service_destroy(set->service);
    ngx_etcd_catalog_set_free(sets, set);
}


void
ngx_etcd_catalog_set_sleep(ngx_etcd_service_t *service)
{
    ngx_etcd_catalog_set_t  *set;

    set = ngx_etcd_catalog_set_of(service);

    ngx_etcd_dormant_add(&set->dormant, service);
}


/* A key by which an operator releases held members is none of a member. */

static ngx_uint_t
ngx_etcd_catalog_set_unused(ngx_etcd_service_t *service)
{
    ngx_etcd_mirror_t  *mirror;

    mirror = &service->mirror;

    return mirror->entries.n == 0
           || (mirror->entries.n == 1
               && ngx_etcd_guard_is_release(&service->guard,
                                        &ngx_etcd_mirror_first(mirror)->key));
}


ngx_uint_t
ngx_etcd_catalog_set_empty(ngx_etcd_catalog_set_t *set)
{
    ngx_etcd_service_t  *service;

    service = set->service;

    return ngx_etcd_catalog_set_unused(service)
           && service->diff.indexed
           && ngx_queue_empty(&service->diff.index.gone)
           && ngx_queue_empty(&service->diff.index.kept)
           && ngx_queue_empty(&service->diff.index.held)
           && ngx_queue_empty(&service->diff.index.present);
}
