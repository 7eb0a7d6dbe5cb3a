
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_conf.h>
#include <ngx_etcd_str.h>


static ngx_etcd_conf_t *
ngx_etcd_conf_find(ngx_etcd_main_conf_t *emcf, ngx_str_t *name)
{
    ngx_uint_t         i;
    ngx_etcd_conf_t  **ecf;

    ecf = emcf->clusters.elts;

    for (i = 0; i < emcf->clusters.nelts; i++) {
        if (ngx_etcd_str_equal(&ecf[i]->name, name)) {
            return ecf[i];
        }
    }

    return NULL;
}


ngx_etcd_conf_t *
ngx_etcd_conf_former(ngx_etcd_conf_t *ecf)
{
    ngx_etcd_conf_t       *former;
    ngx_etcd_main_conf_t  *emcf;

    if (ngx_cycle->conf_ctx == NULL) {
        return NULL;
    }

    emcf = ngx_etcd_conf_main(ngx_cycle);
    if (emcf == NULL) {
        return NULL;
    }

    former = ngx_etcd_conf_find(emcf, &ecf->name);

    return (former != NULL && former->zone.sh != NULL) ? former : NULL;
}


ngx_etcd_conf_t *
ngx_etcd_conf_get(ngx_conf_t *cf, ngx_str_t *name)
{
    ngx_str_t              wanted;
    ngx_etcd_conf_t       *ecf;
    ngx_etcd_main_conf_t  *emcf;

    emcf = ngx_etcd_conf_main(cf->cycle);

    ngx_str_set(&wanted, "default");

    if (name->len != 0) {
        wanted = *name;
    }

    ecf = ngx_etcd_conf_find(emcf, &wanted);

    if (ecf != NULL) {
        return ecf;
    }

    ecf = ngx_pcalloc(cf->pool, sizeof(ngx_etcd_conf_t));
    if (ecf == NULL) {
        return NULL;
    }

    ecf->name = wanted;
    ecf->zone_size = NGX_CONF_UNSET_SIZE;
    ecf->lock_ttl = NGX_CONF_UNSET;
    ecf->lock_waiters = NGX_CONF_UNSET_UINT;
    ecf->db_quota = NGX_CONF_UNSET_SIZE;
    ecf->db_check = NGX_CONF_UNSET_MSEC;
    ecf->file = cf->conf_file->file.name.data;
    ecf->line = cf->conf_file->line;

    ngx_str_set(&ecf->client.key_namespace, "");

    ecf->client.resolver_timeout = NGX_CONF_UNSET_MSEC;
    ecf->client.rebalance = NGX_CONF_UNSET_MSEC;
    ecf->client.auto_sync = NGX_CONF_UNSET_MSEC;
    ecf->client.connect_timeout = NGX_CONF_UNSET_MSEC;
    ecf->client.request_timeout = NGX_CONF_UNSET_MSEC;
    ecf->client.ping_interval = NGX_CONF_UNSET_MSEC;
    ecf->client.ping_timeout = NGX_CONF_UNSET_MSEC;
    ecf->client.audit_interval = NGX_CONF_UNSET_MSEC;
    ecf->client.max_message_size = NGX_CONF_UNSET_SIZE;

    /* of pointers, to types of files that include this one */

    if (ngx_array_init(&ecf->services, cf->pool, 4,
                       sizeof(void *))
        != NGX_OK
        || ngx_array_init(&ecf->catalogs, cf->pool, 1,
                          sizeof(void *))
           != NGX_OK
        || ngx_array_init(&ecf->campaigns, cf->pool, 1,
                          sizeof(void *))
           != NGX_OK
        || ngx_array_init(&ecf->locks, cf->pool, 1,
                          sizeof(void *))
           != NGX_OK
        || ngx_array_init(&ecf->values, cf->pool, 1,
                          sizeof(void *))
           != NGX_OK
        || ngx_array_init(&ecf->value_maps, cf->pool, 1,
                          sizeof(void *))
           != NGX_OK)
    {
        return NULL;
    }

    return (ngx_etcd_conf_push(&emcf->clusters, ecf) == NGX_OK) ? ecf : NULL;
}


ngx_int_t
ngx_etcd_conf_push(ngx_array_t *array, void *pointer)
{
    void  **p;

    p = ngx_array_push(array);
    if (p == NULL) {
        return NGX_ERROR;
    }

    *p = pointer;

    return NGX_OK;
}
