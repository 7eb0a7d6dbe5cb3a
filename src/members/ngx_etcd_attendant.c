
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_attendant.h>


void
ngx_etcd_attendant_add(ngx_etcd_attendants_t *attendants,
    ngx_etcd_attendant_t *attendant)
{
    attendants->list[attendants->n++] = *attendant;
}


ngx_uint_t
ngx_etcd_attendant_judges(ngx_etcd_attendants_t *attendants, uint32_t bits)
{
    return (ngx_etcd_attendant_verdicts(attendants) & bits) != 0;
}


uint32_t
ngx_etcd_attendant_verdicts(ngx_etcd_attendants_t *attendants)
{
    uint32_t    verdicts;
    ngx_uint_t  i;

    verdicts = 0;

    for (i = 0; i < attendants->n; i++) {
        verdicts |= attendants->list[i].verdicts;
    }

    return verdicts;
}


ngx_int_t
ngx_etcd_attendant_create(ngx_etcd_attendants_t *attendants,
    ngx_etcd_service_t *service, ngx_pool_t *pool, void **data)
{
    ngx_uint_t             i;
    ngx_etcd_attendant_t  *attendant;

    for (i = 0; i < attendants->n; i++) {
        attendant = &attendants->list[i];
        data[i] = attendant->create(service, attendant->conf, pool);

        if (data[i] == NULL) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


void
ngx_etcd_attendant_destroy(ngx_etcd_attendants_t *attendants, void **data)
{
    ngx_uint_t  i;

    for (i = 0; i < attendants->n; i++) {
        if (data[i] != NULL) {
            attendants->list[i].destroy(data[i]);
        }
    }
}


void
ngx_etcd_attendant_published(ngx_etcd_attendants_t *attendants, void **data)
{
    ngx_uint_t  i;

    for (i = 0; i < attendants->n; i++) {
        if (attendants->list[i].published != NULL) {
            attendants->list[i].published(data[i]);
        }
    }
}
