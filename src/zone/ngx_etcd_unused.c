
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_str.h>
#include <ngx_etcd_unused.h>


static ngx_etcd_invalid_t *
ngx_etcd_unused_name(ngx_etcd_zone_t *zone, ngx_etcd_unused_row_t *row)
{
    size_t               len;
    ngx_etcd_invalid_t  *named;

    if (row->key.data == NULL || row->key.len > NGX_ETCD_MEMBER_SET_MAX_KEY) {
        return NULL;
    }

    len = offsetof(ngx_etcd_invalid_t, bytes) + row->key.len + row->reason.len;

    named = ngx_slab_alloc_locked(zone->shpool, len);
    if (named == NULL) {
        return NULL;
    }

    named->next = NULL;
    named->mod_revision = row->mod_revision;
    named->key_len = row->key.len;
    named->len = row->reason.len;

    ngx_memcpy(ngx_cpymem(named->bytes, row->key.data, row->key.len),
               row->reason.data, row->reason.len);

    return named;
}


static ngx_uint_t
ngx_etcd_unused_named(ngx_etcd_invalid_t *named, ngx_etcd_unused_row_t *row)
{
    ngx_str_t  key, reason;

    if (named == NULL || row->key.data == NULL) {
        return named == NULL && row->key.data == NULL;
    }

    key.data = named->bytes;
    key.len = named->key_len;
    reason.data = named->bytes + named->key_len;
    reason.len = named->len;

    return named->mod_revision == row->mod_revision
           && ngx_etcd_str_equal(&key, &row->key)
           && ngx_etcd_str_equal(&reason, &row->reason);
}


ngx_int_t
ngx_etcd_unused_write(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_etcd_unused_t *unused, ngx_uint_t force)
{
    ngx_int_t                       rc;
    ngx_uint_t                      i, any;
    ngx_etcd_invalid_t             *old;
    ngx_etcd_unused_row_t          *row;
    ngx_etcd_member_set_remarks_t  *remarks;

    rc = ngx_etcd_zone_lock_owned(zone, force);
    if (rc != NGX_OK) {
        return rc;
    }

    any = (unused->told[0] != 0);

    for (i = 0; i < NGX_ETCD_MEMBER_SET_UNUSED; i++) {
        row = &unused->rows[i];
        set->unused[i] = row->keys;
        any |= (row->key.data != NULL);
    }

    if (any && set->remarks == NULL) {
        set->remarks = ngx_slab_calloc_locked(zone->shpool,
                                        sizeof(ngx_etcd_member_set_remarks_t));
    }

    remarks = set->remarks;

    for (i = 0; remarks != NULL && i < NGX_ETCD_MEMBER_SET_UNUSED; i++) {
        row = &unused->rows[i];
        old = remarks->named[i];

        if (ngx_etcd_unused_named(old, row)) {
            continue;
        }

        /* a kill in between loses the block, and no reader finds it freed */

        remarks->named[i] = ngx_etcd_unused_name(zone, row);

        ngx_memory_barrier();

        if (old != NULL) {
            ngx_slab_free_locked(zone->shpool, old);
        }
    }

    if (remarks != NULL) {
        ngx_memcpy(remarks->told, unused->told, sizeof(remarks->told));
    }

    ngx_etcd_zone_unlock(zone);

    return NGX_OK;
}


ngx_int_t
ngx_etcd_unused_copy(ngx_etcd_member_set_t *set, ngx_etcd_unused_t *unused,
    ngx_pool_t *pool)
{
    u_char                 *p;
    ngx_uint_t              i;
    ngx_etcd_invalid_t     *named;
    ngx_etcd_unused_row_t  *row;

    ngx_memzero(unused, sizeof(ngx_etcd_unused_t));

    if (set->remarks != NULL) {
        ngx_memcpy(unused->told, set->remarks->told, sizeof(unused->told));
    }

    for (i = 0; i < NGX_ETCD_MEMBER_SET_UNUSED; i++) {
        row = &unused->rows[i];
        named = set->remarks ? set->remarks->named[i] : NULL;

        row->keys = set->unused[i];

        if (named == NULL) {
            continue;
        }

        p = ngx_pnalloc(pool, named->key_len + named->len + 1);
        if (p == NULL) {
            return NGX_ERROR;
        }

        ngx_memcpy(p, named->bytes, named->key_len + named->len);

        row->mod_revision = named->mod_revision;
        row->key.data = p;
        row->key.len = named->key_len;
        row->reason.data = p + named->key_len;
        row->reason.len = named->len;
    }

    return NGX_OK;
}


ngx_uint_t
ngx_etcd_unused_any(ngx_etcd_member_set_t *set)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_ETCD_UNUSED_HIDDEN; i++) {
        if (set->unused[i] != 0) {
            return 1;
        }
    }

    return 0;
}
