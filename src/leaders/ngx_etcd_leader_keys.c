
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_leader_keys.h>
#include <ngx_etcd_pattern.h>


/* Vitess stores candidates below ELECTION/locks/ */

#define NGX_ETCD_LEADER_KEYS_VITESS  "locks/"


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


/* Sets the keys of the leader, and of the members that it may name. */

static ngx_int_t
ngx_etcd_leader_keys_names(ngx_conf_t *cf, ngx_etcd_leader_conf_t *leader)
{
    size_t  i, n;

    leader->watched = leader->key;

    if (leader->members.len == 0) {
        return NGX_OK;
    }

    /* the common directory, up to the last common slash */

    n = 0;

    for (i = 0; i < leader->key.len && i < leader->members.len; i++) {

        if (leader->key.data[i] != leader->members.data[i]) {
            break;
        }

        if (leader->key.data[i] == '/') {
            n = i + 1;
        }
    }

    leader->watched.len = n;

    /* "/" alone is not accepted */

    if (n > 1) {
        return NGX_OK;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "\"%V\" and \"members=%V\" must be below a common "
                       "directory",
                       &leader->key, &leader->members);

    return NGX_ERROR;
}


static ngx_int_t
ngx_etcd_leader_keys_add(ngx_conf_t *cf, ngx_str_t *to, ngx_str_t *prefix,
    char *rest)
{
    u_char     *p;
    ngx_str_t   joined;

    joined.len = prefix->len + ngx_strlen(rest);

    joined.data = ngx_pnalloc(cf->pool, joined.len);
    if (joined.data == NULL) {
        return NGX_ERROR;
    }

    p = ngx_cpymem(joined.data, prefix->data, prefix->len);
    ngx_memcpy(p, rest, ngx_strlen(rest));

    *to = joined;

    return NGX_OK;
}


/* Sets the keys of Patroni; keys that the role does not need are not read. */

static ngx_int_t
ngx_etcd_leader_keys_patroni(ngx_conf_t *cf, ngx_etcd_service_conf_t *service)
{
    ngx_str_t               *prefix;
    ngx_uint_t               sync;
    ngx_etcd_leader_conf_t  *leader;

    leader = service->leader;
    prefix = &service->prefix;

    sync = (leader->role == NGX_ETCD_ROLE_SYNC
            || leader->role == NGX_ETCD_ROLE_QUORUM
            || leader->role == NGX_ETCD_ROLE_ASYNC);

    if (ngx_etcd_leader_keys_add(cf, &leader->key, prefix,
                                 NGX_ETCD_PATRONI_LEADER)
        != NGX_OK
        || ngx_etcd_leader_keys_add(cf, &leader->failover, prefix,
                                    NGX_ETCD_PATRONI_FAILOVER)
           != NGX_OK
        || ngx_etcd_leader_keys_add(cf, &leader->members, prefix,
                                    NGX_ETCD_PATRONI_MEMBERS)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (sync
        && (ngx_etcd_leader_keys_add(cf, &leader->sync, prefix,
                                     NGX_ETCD_PATRONI_SYNC)
            != NGX_OK
            || ngx_etcd_leader_keys_add(cf, &leader->config, prefix,
                                        NGX_ETCD_PATRONI_CONFIG)
               != NGX_OK))
    {
        return NGX_ERROR;
    }

    if (!service->rules.failsafe) {
        return NGX_OK;
    }

    return ngx_etcd_leader_keys_add(cf, &leader->failsafe, prefix,
                                    NGX_ETCD_PATRONI_FAILSAFE);
}


/*
 * Sets the watched prefix: all keys that decide about the leader are in one
 * watch, so that their changes are seen in order.
 */

ngx_int_t
ngx_etcd_leader_keys_set(ngx_conf_t *cf, ngx_etcd_service_conf_t *service)
{
    ngx_str_t               *prefix;
    ngx_etcd_leader_conf_t  *leader;

    leader = service->leader;
    prefix = &service->prefix;

    if (leader->format == NGX_ETCD_LEADER_KEY) {
        leader->key = *prefix;
        return ngx_etcd_leader_keys_names(cf, leader);
    }

    /*
     * "/db" must not match "/db2/", like in the programs that write the keys
     */

    if (prefix->data[prefix->len - 1] != '/'
        && ngx_etcd_leader_keys_add(cf, prefix, prefix, "/") != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (leader->format == NGX_ETCD_LEADER_VITESS) {

        if (ngx_etcd_leader_keys_add(cf, &leader->key, prefix,
                                     NGX_ETCD_LEADER_KEYS_VITESS)
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        return ngx_etcd_leader_keys_names(cf, leader);
    }

    if (leader->format == NGX_ETCD_LEADER_ELECTION) {
        leader->key = *prefix;
        return ngx_etcd_leader_keys_names(cf, leader);
    }

    leader->watched = *prefix;

    return ngx_etcd_leader_keys_patroni(cf, service);
}


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
