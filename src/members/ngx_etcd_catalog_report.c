
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_catalog_report.h>
#include <ngx_etcd_str.h>


void
ngx_etcd_catalog_report_init(ngx_etcd_catalog_report_t *report,
    ngx_etcd_catalog_conf_t *conf, ngx_log_t *log)
{
    report->conf = conf;
    report->log = log;
    report->state = conf->map->state;
    report->nover = conf->map->over;
    report->nunmatched = conf->map->unmatched;
}


void
ngx_etcd_catalog_report_list(ngx_etcd_catalog_report_t *report)
{
    report->nover = 0;
    report->nunmatched = 0;
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
        ngx_etcd_set_map_changed_all(map);
    }

    ngx_etcd_zone_unlock(zone);

    return NGX_OK;
}
