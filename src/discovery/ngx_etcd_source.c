
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_group.h>
#include <ngx_etcd_leader.h>
#include <ngx_etcd_registration.h>


static void ngx_etcd_source_changed(ngx_etcd_service_t *service,
    ngx_etcd_mirror_entry_t *entry);
static void ngx_etcd_source_removed(ngx_etcd_service_t *service,
    ngx_etcd_mirror_entry_t *entry);


static const ngx_etcd_source_t  ngx_etcd_source_members = {
    .resumes = 1,
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
    if (!service->broken) {
        ngx_etcd_service_put(service, &entry->key, &entry->value,
                             entry->create_revision, entry->mod_revision);
    }
}


static void
ngx_etcd_source_removed(ngx_etcd_service_t *service,
    ngx_etcd_mirror_entry_t *entry)
{
    if (!service->broken) {
        ngx_etcd_service_delete(service, &entry->key);
    }
}
