
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_catalog_set.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_members_conf.h>
#include <ngx_etcd_str.h>


static void
ngx_etcd_dormant_wake(ngx_etcd_dormant_t *dormant)
{
    ngx_queue_t             *q, *next;
    ngx_etcd_service_t      *service;
    ngx_etcd_dormant_set_t  *set;

    for (q = ngx_queue_head(&dormant->sets);
         q != ngx_queue_sentinel(&dormant->sets);
         q = next)
    {
        next = ngx_queue_next(q);

        set = ngx_queue_data(q, ngx_etcd_dormant_set_t, queue);
        service = set->service;

        if (ngx_etcd_service_used(service)) {
            ngx_etcd_dormant_remove(set);
            service->source->wake(service);
        }
    }
}


static void
ngx_etcd_dormant_look(ngx_event_t *ev)
{
    ngx_atomic_uint_t    asked;
    ngx_etcd_dormant_t  *dormant;

    dormant = ev->data;

    /* read before the sets: a request that comes later is seen next time */

    asked = __atomic_load_n(&dormant->map->asked, __ATOMIC_ACQUIRE);

    if (asked != dormant->asked) {
        dormant->asked = asked;
        ngx_etcd_dormant_wake(dormant);
    }

    if (!ngx_queue_empty(&dormant->sets) && !ev->timer_set) {
        ngx_add_timer(ev, NGX_ETCD_DORMANT_INTERVAL);
    }
}


void
ngx_etcd_dormant_init(ngx_etcd_dormant_t *dormant, ngx_etcd_set_map_t *map,
    ngx_log_t *log)
{
    ngx_queue_init(&dormant->sets);

    dormant->map = map;

    ngx_etcd_event_init_timer(&dormant->look, ngx_etcd_dormant_look, dormant,
                              log);
}


void
ngx_etcd_dormant_add(ngx_etcd_dormant_set_t *set, ngx_etcd_service_t *service)
{
    ngx_etcd_dormant_t  *dormant;

    if (set->service != NULL) {
        return;
    }

    dormant = set->list;

    set->service = service;
    ngx_queue_insert_tail(&dormant->sets, &set->queue);

    if (!dormant->look.timer_set) {
        ngx_add_timer(&dormant->look, NGX_ETCD_DORMANT_INTERVAL);
    }
}


void
ngx_etcd_dormant_remove(ngx_etcd_dormant_set_t *set)
{
    if (set->service != NULL) {
        set->service = NULL;
        ngx_queue_remove(&set->queue);
    }
}


#define NGX_ETCD_CATALOG_SET_POOL  256


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


void
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
ngx_etcd_catalog_set_sleep(ngx_etcd_service_t *service)
{
    ngx_etcd_catalog_set_t  *set;

    set = ngx_etcd_catalog_set_of(service);

    ngx_etcd_dormant_add(&set->dormant, service);
}


ngx_uint_t
ngx_etcd_catalog_set_empty(ngx_etcd_catalog_set_t *set)
{
    ngx_etcd_mirror_t   *mirror;
    ngx_etcd_service_t  *service;

    service = set->service;
    mirror = &service->mirror;

    /* a key by which an operator releases held members is none of a member */

    return (mirror->entries.n == 0
            || (mirror->entries.n == 1
                && ngx_etcd_guard_is_release(&service->guard,
                                       &ngx_etcd_mirror_first(mirror)->key)))
           && service->diff.indexed
           && ngx_queue_empty(&service->diff.index.gone)
           && ngx_queue_empty(&service->diff.index.kept)
           && ngx_queue_empty(&service->diff.index.held)
           && ngx_queue_empty(&service->diff.index.present);
}


void
ngx_etcd_catalog_report_unmatched(ngx_etcd_catalog_report_t *report,
    ngx_str_t *key)
{
    report->nunmatched++;

    if (report->unmatched) {
        return;
    }

    report->unmatched = 1;

    ngx_log_error(NGX_LOG_WARN, report->log, 0,
                  "etcd: upstream \"%V\": key \"%V\" does not match \"%V\", "
                  "it is not used, and neither are others like it",
                  &report->conf->service.name, ngx_etcd_shown(key),
                  &report->conf->pattern.text);
}


void
ngx_etcd_catalog_report_over(ngx_etcd_catalog_report_t *report,
    ngx_str_t *prefix)
{
    ngx_etcd_set_map_t  *map;

    map = report->conf->map;
    report->nover++;

    if (report->over) {
        return;
    }

    report->over = 1;

    ngx_log_error(NGX_LOG_ERR, report->log, 0,
                  "etcd: upstream \"%V\": \"%V\" is not used, since there are "
                  "%ui sets: \"limit=%ui\"",
                  &report->conf->service.name, ngx_etcd_shown(prefix),
                  map->map.n, map->limit);
}


void
ngx_etcd_catalog_report_full(ngx_etcd_catalog_report_t *report,
    ngx_str_t *prefix)
{
    ngx_etcd_set_map_t  *map;

    map = report->conf->map;
    report->nover++;
    report->state = NGX_ETCD_MEMBER_SET_FULL;

    if (report->full) {
        return;
    }

    report->full = 1;

    ngx_log_error(NGX_LOG_ERR, report->log, 0,
                  "etcd: upstream \"%V\": no room for \"%V\" beside the %ui "
                  "sets present: the zone is full",
                  &report->conf->service.name, ngx_etcd_shown(prefix),
                  map->map.n);
}


void
ngx_etcd_catalog_report_listed(ngx_etcd_catalog_report_t *report)
{
    if (report->nover == 0) {
        report->over = 0;
        report->full = 0;
    }

    if (report->nunmatched == 0) {
        report->unmatched = 0;
    }

    if (!report->full) {
        report->state = NGX_ETCD_MEMBER_SET_SYNCED;
    }

    if (report->listed) {
        return;
    }

    report->listed = 1;

    if (report->conf->map->map.n == 0
        && report->nover == 0
        && report->nunmatched == 0)
    {
        ngx_log_error(NGX_LOG_NOTICE, report->log, 0,
                      "etcd: upstream \"%V\": prefix \"%V\" has no keys",
                      &report->conf->service.name,
                      &report->conf->pattern.literal);
    }
}


void
ngx_etcd_catalog_report_changed(ngx_etcd_catalog_report_t *report,
    ngx_etcd_member_set_t *set)
{
    ngx_etcd_zone_t  *zone;

    zone = report->conf->service.zone;

    if (ngx_etcd_zone_lock_owned(zone, 0) != NGX_OK) {
        report->missed = 1;
        return;
    }

    ngx_etcd_set_map_changed(report->conf->map, set);

    ngx_etcd_zone_unlock(zone);
}


void
ngx_etcd_catalog_report_settled(ngx_etcd_catalog_report_t *report,
    int64_t revision, uint64_t verified)
{
    ngx_etcd_zone_t     *zone;
    ngx_etcd_set_map_t  *map;

    zone = report->conf->service.zone;
    map = report->conf->map;

    if (ngx_etcd_zone_lock_owned(zone, 0) != NGX_OK) {
        return;
    }

    /* the next agent lists the keys that had no room */

    map->revision = (report->nover != 0) ? 0 : revision;

    ngx_etcd_zone_prove(&map->verified, verified);

    ngx_etcd_zone_unlock(zone);
}


ngx_int_t
ngx_etcd_catalog_report_store(ngx_etcd_catalog_report_t *report)
{
    ngx_int_t            rc;
    ngx_etcd_zone_t     *zone;
    ngx_etcd_set_map_t  *map;

    zone = report->conf->service.zone;
    map = report->conf->map;

    if (!report->missed
        && map->state == report->state
        && map->over == report->nover
        && map->unmatched == report->nunmatched)
    {
        return NGX_OK;
    }

    rc = ngx_etcd_zone_lock_owned(zone, 0);

    if (rc != NGX_OK) {
        return rc;
    }

    if (report->nover != 0) {
        map->listed = 0;
    }

    map->over = report->nover;
    map->unmatched = report->nunmatched;
    map->state = report->state;

    if (report->missed) {
        report->missed = 0;
        ngx_etcd_set_map_changed(map, NULL);
    }

    ngx_etcd_zone_unlock(zone);

    return NGX_OK;
}
