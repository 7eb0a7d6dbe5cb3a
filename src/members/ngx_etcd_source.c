
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_format.h>
#include <ngx_etcd_multi_key.h>
#include <ngx_etcd_source.h>


static void ngx_etcd_source_changed(ngx_etcd_service_t *service,
    ngx_etcd_mirror_entry_t *entry);
static void ngx_etcd_source_removed(ngx_etcd_service_t *service,
    ngx_etcd_mirror_entry_t *entry);


/*
 * The source of services whose keys are members one by one: each key registers
 * the members that its value names.
 */

static const ngx_etcd_source_t  ngx_etcd_source_single = {
    .kind = "members",
    .entry_size = sizeof(ngx_etcd_key_t),
    .indexed = 1,
    .restorable = 1,
    .changed = ngx_etcd_source_changed,
    .removed = ngx_etcd_source_removed,
};


const ngx_etcd_source_t *
ngx_etcd_source_members(ngx_etcd_service_conf_t *conf)
{
    return (conf->member.format->takes & NGX_ETCD_TAKES_GROUPS)
           ? &ngx_etcd_multi_key_source : &ngx_etcd_source_single;
}


int64_t
ngx_etcd_source_staleness(ngx_etcd_service_conf_t *conf,
    ngx_etcd_member_set_t *set)
{
    return conf->source->verified ? ngx_etcd_member_set_staleness(set)
                                  : ngx_etcd_zone_staleness(conf->zone);
}


static void
ngx_etcd_source_changed(ngx_etcd_service_t *service,
    ngx_etcd_mirror_entry_t *entry)
{
    ngx_etcd_key_t  *key;
    Etcd__KeyValue   kv;

    if (service->diff.broken) {
        return;
    }

    key = (ngx_etcd_key_t *) entry;

    ngx_etcd_index_present(&service->diff.index, key);

    etcd__key_value__init(&kv);

    kv.create_revision = entry->create_revision;
    kv.mod_revision = entry->mod_revision;
    kv.lease = entry->lease;

    ngx_etcd_member_diff_put(&service->diff, key, &entry->value, NULL, &kv);
}


/* Called also while the service is broken: the mirror frees the entry. */

static void
ngx_etcd_source_removed(ngx_etcd_service_t *service,
    ngx_etcd_mirror_entry_t *entry)
{
    if (ngx_etcd_mirror_known(entry) && service->diff.indexed) {
        ngx_etcd_member_diff_removed(&service->diff, (ngx_etcd_key_t *) entry);
    }
}
