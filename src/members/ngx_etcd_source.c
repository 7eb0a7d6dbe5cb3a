
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_commit.h>
#include <ngx_etcd_format.h>
#include <ngx_etcd_member.h>
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
    return ngx_etcd_format_grouped(conf->member.format)
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


ngx_int_t
ngx_etcd_static_seed(ngx_array_t *statics, ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set)
{
    u_char                  payload[NGX_ETCD_MEMBER_PACK_MAX];
    ngx_uint_t              i;
    ngx_array_t             ops;
    ngx_etcd_op_t           op;
    ngx_etcd_commit_t       commit;
    ngx_etcd_member_t      *member;
    ngx_etcd_entry_data_t   data;

    ngx_memzero(&data, sizeof(ngx_etcd_entry_data_t));
    ngx_memzero(&op, sizeof(ngx_etcd_op_t));
    ngx_memzero(&commit, sizeof(ngx_etcd_commit_t));

    ngx_str_set(&data.key, "");

    op.op = NGX_ETCD_OP_PUT;
    ops.elts = &op;
    ops.nelts = 1;

    commit.ops = &ops;
    commit.force = 1;

    member = statics->elts;

    for (i = 0; i < statics->nelts; i++) {

        if (i == set->nslots && ngx_etcd_member_set_grow(zone, set,
                                                         1) != NGX_OK) {
            return NGX_ERROR;
        }

        data.payload = payload;
        data.len = ngx_etcd_member_pack(payload, &member[i]);

        op.slot = i;
        if (ngx_etcd_entry_create(zone, set, &data, 1, &op.entry) != NGX_OK) {
            return NGX_ERROR;
        }

        op.shown = op.entry;
        commit.done = 0;

        if (ngx_etcd_commit(zone, set, &commit) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}
