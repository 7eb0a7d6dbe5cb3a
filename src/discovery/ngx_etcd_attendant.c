
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_attendant.h>


ngx_int_t
ngx_etcd_attendant_create(ngx_etcd_attendant_t *attendants, ngx_uint_t n,
    ngx_etcd_service_t *service, ngx_pool_t *pool, void **data)
{
    ngx_uint_t  i;

    for (i = 0; i < n; i++) {
        data[i] = attendants[i].create(service, attendants[i].conf, pool);

        if (data[i] == NULL) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


void
ngx_etcd_attendant_destroy(ngx_etcd_attendant_t *attendants, ngx_uint_t n,
    void **data)
{
    ngx_uint_t  i;

    for (i = 0; i < n; i++) {
        if (data[i] != NULL) {
            attendants[i].destroy(data[i]);
        }
    }
}


void
ngx_etcd_attendant_published(ngx_etcd_attendant_t *attendants, ngx_uint_t n,
    void **data)
{
    ngx_uint_t  i;

    for (i = 0; i < n; i++) {
        if (attendants[i].published != NULL) {
            attendants[i].published(data[i]);
        }
    }
}


uint32_t
ngx_etcd_attendant_verdicts(ngx_etcd_attendant_t *attendants, ngx_uint_t n)
{
    uint32_t    verdicts;
    ngx_uint_t  i;

    verdicts = 0;

    for (i = 0; i < n; i++) {
        verdicts |= attendants[i].verdicts;
    }

    return verdicts;
}
