
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_leader_keys.h>
#include <ngx_etcd_pattern.h>


/* the last one is the watched prefix */

static const size_t  ngx_etcd_leader_keys[] = {
    offsetof(ngx_etcd_leader_conf_t, key),
    offsetof(ngx_etcd_leader_conf_t, members),
    offsetof(ngx_etcd_leader_conf_t, failover),
    offsetof(ngx_etcd_leader_conf_t, sync),
    offsetof(ngx_etcd_leader_conf_t, config),
    offsetof(ngx_etcd_leader_conf_t, failsafe),
    offsetof(ngx_etcd_leader_conf_t, watched),
};

#define NGX_ETCD_LEADER_KEYS                                                  \
    (sizeof(ngx_etcd_leader_keys) / sizeof(ngx_etcd_leader_keys[0]))

#define ngx_etcd_leader_keys_at(leader, i)                                    \
    ((ngx_str_t *) ((u_char *) (leader) + ngx_etcd_leader_keys[i]))


ngx_int_t
ngx_etcd_leader_keys_cut(ngx_etcd_leader_conf_t *leader)
{
    size_t       len;
    ngx_str_t   *key, rest;
    ngx_uint_t   i;

    len = leader->watched.len;

    for (i = 0; i < NGX_ETCD_LEADER_KEYS; i++) {
        key = ngx_etcd_leader_keys_at(leader, i);

        if (key->data == NULL) {
            continue;
        }

        rest.data = key->data + len;
        rest.len = key->len - len;

        if (ngx_etcd_pattern_has_variable(&rest)) {
            return NGX_DECLINED;
        }
    }

    for (i = 0; i < NGX_ETCD_LEADER_KEYS; i++) {
        key = ngx_etcd_leader_keys_at(leader, i);

        if (key->data != NULL) {
            key->data += len;
            key->len -= len;
        }
    }

    return NGX_OK;
}


ngx_int_t
ngx_etcd_leader_keys_join(ngx_etcd_service_conf_t *service, ngx_pool_t *pool)
{
    u_char                  *p;
    ngx_str_t               *key, rest;
    ngx_uint_t               i;
    ngx_etcd_leader_conf_t  *leader;

    leader = ngx_palloc(pool, sizeof(ngx_etcd_leader_conf_t));
    if (leader == NULL) {
        return NGX_ERROR;
    }

    *leader = *service->leader;

    for (i = 0; i < NGX_ETCD_LEADER_KEYS; i++) {
        key = ngx_etcd_leader_keys_at(leader, i);

        if (key->data == NULL) {
            continue;
        }

        rest = *key;
        key->len = service->prefix.len + rest.len;

        key->data = ngx_pnalloc(pool, key->len);
        if (key->data == NULL) {
            return NGX_ERROR;
        }

        p = ngx_cpymem(key->data, service->prefix.data, service->prefix.len);
        ngx_memcpy(p, rest.data, rest.len);
    }

    service->leader = leader;

    return NGX_OK;
}
