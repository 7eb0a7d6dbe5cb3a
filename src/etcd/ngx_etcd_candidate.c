
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_candidate.h>


/*
 * The name below the prefix is the lease in hexadecimal digits without padding,
 * or in decimal digits if it equals the key's lease.
 */

const char *
ngx_etcd_candidate_fault(ngx_etcd_mirror_entry_t *entry, size_t prefix)
{
    size_t     i;
    ngx_str_t  name;

    if (entry->value.len > NGX_ETCD_CANDIDATE_MAX_VALUE) {
        return "its value is too long";
    }

    if (ngx_etcd_candidate_decimal(&entry->key, entry->lease, prefix)) {
        return NULL;
    }

    name.data = entry->key.data + prefix;
    name.len = entry->key.len - prefix;

    if (name.len == 0 || name.len > 16 || name.data[0] == '0') {
        return "its name is no lease";
    }

    for (i = 0; i < name.len; i++) {
        if ((name.data[i] < '0' || name.data[i] > '9')
            && (name.data[i] < 'a' || name.data[i] > 'f'))
        {
            return "its name is no lease";
        }
    }

    return NULL;
}


ngx_uint_t
ngx_etcd_candidate_decimal(ngx_str_t *key, int64_t lease, size_t prefix)
{
    size_t  len;
    u_char  name[NGX_INT64_LEN];

    len = ngx_sprintf(name, "%L", lease) - name;

    return lease != 0
           && key->len == prefix + len
           && ngx_memcmp(key->data + prefix, name, len) == 0;
}
