
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_process.h>


/* Returns the row of that hash, or a free one, or else any. */

static ngx_etcd_shared_id_row_t *
ngx_etcd_shared_id_row(ngx_etcd_shared_id_t *shared, uint64_t url)
{
    ngx_uint_t                 i;
    ngx_etcd_shared_id_row_t  *row;

    for (i = 0; i < NGX_ETCD_SHARED_ID_ROWS; i++) {
        row = &shared->rows[(url + i) % NGX_ETCD_SHARED_ID_ROWS];

        if (row->url == url || row->url == 0) {
            return row;
        }
    }

    return &shared->rows[url % NGX_ETCD_SHARED_ID_ROWS];
}


ngx_uint_t
ngx_etcd_shared_id_mark(ngx_etcd_shared_id_t *shared, ngx_str_t *url,
    uint64_t id)
{
    uint64_t                   hash;
    ngx_etcd_shared_id_row_t  *row;

    /* two URLs of a cluster with the same hash are as good as impossible */

    hash = (uint64_t) ngx_min(url->len, 0xffffffff) << 32
           | ngx_crc32_long(url->data, url->len);

    row = ngx_etcd_shared_id_row(shared, hash);

    if (row->url != hash) {

        if (id == 0) {
            return 0;
        }

        row->id = 0;
        row->url = hash;
    }

    return __atomic_exchange_n(&row->id, id, __ATOMIC_ACQ_REL) != id;
}
