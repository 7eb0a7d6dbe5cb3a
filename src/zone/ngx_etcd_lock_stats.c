
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_lock_stats.h>


static const ngx_etcd_object_type_t  ngx_etcd_lock_stats_type = {
    NGX_ETCD_ZONE_LOCK_STATS, sizeof(ngx_etcd_lock_stats_t), NULL
};


ngx_etcd_lock_stats_t *
ngx_etcd_lock_stats_declare(ngx_etcd_zone_t *zone, ngx_str_t *name)
{
    ngx_etcd_object_id_t  id;

    ngx_memzero(&id, sizeof(ngx_etcd_object_id_t));
    id.name = *name;

    return ngx_etcd_object_declare(zone, &ngx_etcd_lock_stats_type, &id);
}
