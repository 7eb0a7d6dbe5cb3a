
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_commit.h>
#include <ngx_etcd_member.h>
#include <ngx_etcd_static.h>


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
