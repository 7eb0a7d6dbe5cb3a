
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_format.h>
#include <ngx_etcd_group.h>
#include <ngx_etcd_leader.h>
#include <ngx_etcd_service.h>


static void ngx_etcd_source_changed(ngx_etcd_service_t *service,
    ngx_etcd_mirror_entry_t *entry);
static void ngx_etcd_source_removed(ngx_etcd_service_t *service,
    ngx_etcd_mirror_entry_t *entry);


static const ngx_etcd_source_t  ngx_etcd_source_members = {
    .entry_size = sizeof(ngx_etcd_key_t),
    .indexed = 1,
    .changed = ngx_etcd_source_changed,
    .removed = ngx_etcd_source_removed,
};


const ngx_etcd_source_t *
ngx_etcd_source(ngx_etcd_service_conf_t *conf)
{
    if (conf->leader != NULL) {
        return &ngx_etcd_leader_source;
    }

    return ngx_etcd_format_grouped(conf->member.format)
           ? &ngx_etcd_group_source : &ngx_etcd_source_members;
}


static void
ngx_etcd_source_changed(ngx_etcd_service_t *service,
    ngx_etcd_mirror_entry_t *entry)
{
    ngx_etcd_key_t  *key;

    if (service->diff.broken) {
        return;
    }

    key = (ngx_etcd_key_t *) entry;

    ngx_etcd_index_present(&service->diff.index, key);

    ngx_etcd_member_diff_put(&service->diff, key, &entry->value,
                             entry->create_revision, entry->mod_revision);
}


/* also while the service is broken: the entry would be freed */

static void
ngx_etcd_source_removed(ngx_etcd_service_t *service,
    ngx_etcd_mirror_entry_t *entry)
{
    if (ngx_etcd_mirror_known(entry)
        && service->diff.indexed
        && ngx_etcd_index_gone(&service->diff.index, (ngx_etcd_key_t *) entry)
           != NGX_OK)
    {
        service->diff.broken = 1;
    }
}
