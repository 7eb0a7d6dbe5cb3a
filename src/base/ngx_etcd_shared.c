
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_shared.h>


ngx_uint_t
ngx_etcd_shared_id_mark(ngx_etcd_shared_id_t *shared, ngx_str_t *url,
    uint64_t id)
{
    uint64_t                   hash;
    ngx_uint_t                 i;
    ngx_etcd_shared_id_row_t  *row;

    /* two URLs of a cluster with the same hash are as good as impossible */

    hash = (uint64_t) ngx_min(url->len, 0xffffffff) << 32
           | ngx_crc32_long(url->data, url->len);

    /* the row of that hash, or a free one, or else the first that was tried */

    for (i = 0; i < NGX_ETCD_SHARED_ID_ROWS; i++) {
        row = &shared->rows[(hash + i) % NGX_ETCD_SHARED_ID_ROWS];

        if (row->url == hash || row->url == 0) {
            break;
        }
    }

    if (i == NGX_ETCD_SHARED_ID_ROWS) {
        row = &shared->rows[hash % NGX_ETCD_SHARED_ID_ROWS];
    }

    if (row->url != hash) {

        if (id == 0) {
            return 0;
        }

        row->id = 0;
        row->url = hash;
    }

    return __atomic_exchange_n(&row->id, id, __ATOMIC_ACQ_REL) != id;
}
