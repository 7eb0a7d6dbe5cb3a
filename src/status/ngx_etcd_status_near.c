
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_near.h>
#include <ngx_etcd_prefer.h>
#include <ngx_etcd_status_near.h>


void
ngx_etcd_status_near_upstream(ngx_etcd_status_upstream_t *upstream)
{
    upstream->near_percent = NGX_ETCD_STATUS_ABSENT;
    upstream->near_ratio = NGX_ETCD_STATUS_ABSENT;

    if (upstream->service->rules.spill != 0) {
        ngx_etcd_prefer_text(&upstream->service->member.prefer,
                             &upstream->prefer);
    }
}


void
ngx_etcd_status_near_share(ngx_etcd_status_upstream_t *upstream,
    ngx_etcd_table_t *table)
{
    int64_t  share;

    if (table == NULL || upstream->service->rules.spill == 0) {
        return;
    }

    (void) ngx_etcd_table_sync(table);

    share = ngx_etcd_near_now(table);

    upstream->near_percent = (share * 100 + NGX_ETCD_NEAR_UNIT / 2)
                             / NGX_ETCD_NEAR_UNIT;
    upstream->near_ratio = share * 1000000 / NGX_ETCD_NEAR_UNIT;
}

