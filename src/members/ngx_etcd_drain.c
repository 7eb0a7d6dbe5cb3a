
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_drain.h>
#include <ngx_etcd_member.h>
#include <ngx_etcd_pattern.h>


#define NGX_ETCD_DRAIN  NGX_ETCD_PATTERN_NOT "/"

/* bytes of a key: a prefix is a word of the configuration, or of a set */

#define NGX_ETCD_DRAIN_KEY                                                    \
    (NGX_ETCD_PATTERN_PREFIX + sizeof("/" NGX_ETCD_DRAIN)                     \
     + NGX_ETCD_MEMBER_NAME_LEN)


ngx_uint_t
ngx_etcd_drain_address(ngx_str_t *prefix, ngx_str_t *key, ngx_str_t *address)
{
    size_t   len;
    u_char  *p, *last;

    if (key->len <= prefix->len
        || ngx_memcmp(key->data, prefix->data, prefix->len) != 0)
    {
        return 0;
    }

    p = key->data + prefix->len;
    last = key->data + key->len;
    len = sizeof(NGX_ETCD_DRAIN) - 1;

    /* "/s" has the keys below "/s/", too */

    if ((prefix->len == 0 || p[-1] != '/') && *p++ != '/') {
        return 0;
    }

    if ((size_t) (last - p) < len || ngx_memcmp(p, NGX_ETCD_DRAIN, len) != 0) {
        return 0;
    }

    address->data = p + len;
    address->len = last - address->data;

    return 1;
}


ngx_etcd_mirror_entry_t *
ngx_etcd_drain_find(ngx_etcd_mirror_t *mirror, ngx_str_t *prefix,
    ngx_str_t *address, ngx_uint_t seed)
{
    u_char                    buf[NGX_ETCD_DRAIN_KEY], *p;
    ngx_str_t                 key;
    ngx_etcd_mirror_entry_t  *entry;

    if (prefix->len > NGX_ETCD_PATTERN_PREFIX
        || address->len > NGX_ETCD_MEMBER_NAME_LEN)
    {
        return NULL;
    }

    p = ngx_cpymem(buf, prefix->data, prefix->len);

    if (p == buf || p[-1] != '/') {
        *p++ = '/';
    }

    p = ngx_cpymem(p, NGX_ETCD_DRAIN, sizeof(NGX_ETCD_DRAIN) - 1);
    p = ngx_cpymem(p, address->data, address->len);

    key.data = buf;
    key.len = p - buf;

    entry = ngx_etcd_mirror_find(mirror, &key);

    return (entry == NULL && seed) ? ngx_etcd_mirror_seed(mirror, &key, 0)
                                   : entry;
}
