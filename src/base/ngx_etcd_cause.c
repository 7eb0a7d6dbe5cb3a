
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_cause.h>


ngx_uint_t
ngx_etcd_cause_level(ngx_etcd_causes_t *causes, ngx_uint_t number,
    ngx_str_t *text)
{
    u_char      c;
    size_t      i;
    uint32_t    hash;
    ngx_uint_t  n;

    hash = number;

    for (i = 0; i < text->len; i++) {
        c = text->data[i];

        if (c < '0' || c > '9') {
            hash = ngx_hash(hash, c);
        }
    }

    hash = ngx_max(hash, 1);

    for (n = 0; n < NGX_ETCD_CAUSES; n++) {

        if (causes->known[n] == hash) {
            return NGX_LOG_INFO;
        }

        if (causes->known[n] == 0) {
            causes->known[n] = hash;
            return NGX_LOG_ERR;
        }
    }

    return NGX_LOG_INFO;
}


ngx_uint_t
ngx_etcd_cause_forget(ngx_etcd_causes_t *causes)
{
    ngx_uint_t  any;

    any = ngx_etcd_cause_any(causes);

    ngx_memzero(causes, sizeof(ngx_etcd_causes_t));

    return any;
}
