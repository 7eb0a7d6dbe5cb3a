
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_single_key.h>


static void ngx_etcd_single_key_changed(ngx_etcd_service_t *service,
    ngx_etcd_mirror_entry_t *entry);
static void ngx_etcd_single_key_removed(ngx_etcd_service_t *service,
    ngx_etcd_mirror_entry_t *entry);


const ngx_etcd_source_t  ngx_etcd_single_key_source = {
    .kind = "members",
    .entry_size = sizeof(ngx_etcd_key_t),
    .indexed = 1,
    .restorable = 1,
    .changed = ngx_etcd_single_key_changed,
    .removed = ngx_etcd_single_key_removed,
};


static void
ngx_etcd_single_key_changed(ngx_etcd_service_t *service,
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


/* Called also while the service is broken: the mirror frees the entry. */

static void
ngx_etcd_single_key_removed(ngx_etcd_service_t *service,
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
