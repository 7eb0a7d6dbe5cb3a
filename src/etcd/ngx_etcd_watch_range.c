
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_watch_range.h>
#include <ngx_etcd_range.h>


ngx_int_t
ngx_etcd_watch_range_init(ngx_etcd_watch_range_t *range, ngx_pool_t *pool,
    ngx_str_t *key_namespace, ngx_str_t *prefix, ngx_uint_t exact)
{
    u_char  *p;

    range->prefix = *prefix;
    range->exact = exact;

    range->key.len = key_namespace->len + prefix->len;
    range->key.data = ngx_pnalloc(pool, range->key.len + 1);
    if (range->key.data == NULL) {
        return NGX_ERROR;
    }

    p = ngx_cpymem(range->key.data, key_namespace->data, key_namespace->len);
    p = ngx_cpymem(p, prefix->data, prefix->len);

    if (exact) {

        /* the range ends before the key with a zero byte appended: one key */

        *p = '\0';
        range->range_end.data = range->key.data;
        range->range_end.len = range->key.len + 1;

        return NGX_OK;
    }

    range->range_end = ngx_etcd_range_prefix_end(pool, &range->key);

    return (range->range_end.data != NULL) ? NGX_OK : NGX_ERROR;
}


ngx_uint_t
ngx_etcd_watch_range_contains(ngx_etcd_watch_range_t *range,
    ProtobufCBinaryData *key)
{
    return key->len >= range->key.len
           && (!range->exact || key->len == range->key.len)
           && ngx_memcmp(key->data, range->key.data, range->key.len) == 0;
}


void
ngx_etcd_watch_range_strip(ngx_etcd_watch_range_t *range,
    ProtobufCBinaryData *key)
{
    size_t  len;

    len = range->key.len - range->prefix.len;

    if (key->len >= len) {
        key->data += len;
        key->len -= len;
    }
}
