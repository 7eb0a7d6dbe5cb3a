
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_status_unused.h>


ngx_str_t  ngx_etcd_status_unused_kinds[] = {
    ngx_string("field"),
    ngx_string("tag"),
    ngx_string("scheme"),
    ngx_string("lease"),
    ngx_string("other"),
    ngx_string("hidden"),
    ngx_null_string
};


void
ngx_etcd_status_unused(ngx_uint_t *unused, ngx_etcd_view_t *view)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_ETCD_STATUS_UNUSED; i++) {
        unused[i] = view->unused[i + 1];
    }
}


void
ngx_etcd_status_unused_row(ngx_etcd_status_unused_t *item,
    ngx_etcd_unused_t *unused, ngx_uint_t n)
{
    ngx_etcd_unused_row_t  *row;

    row = &unused->rows[n + 1];

    item->kind = ngx_etcd_status_unused_kinds[n];
    item->keys = row->keys;
    item->key = row->key;
    item->reason = row->reason;
    item->mod_revision = row->mod_revision;
}
