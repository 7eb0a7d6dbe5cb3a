
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_catalog_report.h>
#include <ngx_etcd_shown.h>


void
ngx_etcd_catalog_report_unmatched(ngx_etcd_catalog_report_t *report,
    ngx_str_t *key)
{
    report->conf->map->unmatched++;

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
    map->over++;
    map->listed = 0;

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
    map->over++;
    map->listed = 0;
    map->state = NGX_ETCD_MEMBER_SET_FULL;

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
    ngx_etcd_set_map_t  *map;

    map = report->conf->map;

    if (map->over == 0) {
        report->over = 0;
        report->full = 0;
    }

    if (map->unmatched == 0) {
        report->unmatched = 0;
    }

    if (!report->full) {
        map->state = NGX_ETCD_MEMBER_SET_SYNCED;
    }
}
