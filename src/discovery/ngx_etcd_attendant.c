
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_attendant.h>
#include <ngx_etcd_service.h>


static uint32_t ngx_etcd_attendant_verdicts(ngx_etcd_service_conf_t *conf);


void
ngx_etcd_attendant_add(ngx_etcd_service_conf_t *conf,
    ngx_etcd_attendant_t *attendant)
{
    conf->attendants[conf->nattendants++] = *attendant;
}


ngx_uint_t
ngx_etcd_attendant_judges(ngx_etcd_service_conf_t *conf, uint32_t bits)
{
    return (ngx_etcd_attendant_verdicts(conf) & bits) != 0;
}


static uint32_t
ngx_etcd_attendant_verdicts(ngx_etcd_service_conf_t *conf)
{
    uint32_t    verdicts;
    ngx_uint_t  i;

    verdicts = 0;

    for (i = 0; i < conf->nattendants; i++) {
        verdicts |= conf->attendants[i].verdicts;
    }

    return verdicts;
}


ngx_int_t
ngx_etcd_attendant_create(ngx_etcd_service_t *service, ngx_pool_t *pool)
{
    void                     *data;
    ngx_uint_t                i;
    ngx_etcd_attendant_t     *attendant;
    ngx_etcd_service_conf_t  *conf;

    conf = service->conf;

    ngx_etcd_member_set_pardon(conf->set,
                               (NGX_ETCD_VERDICT_CHECKS
                                |NGX_ETCD_VERDICT_EJECTED)
                               & ~ngx_etcd_attendant_verdicts(conf));

    for (i = 0; i < conf->nattendants; i++) {
        attendant = &conf->attendants[i];
        data = attendant->create(service, attendant->conf, pool);

        if (data == NULL) {
            return NGX_ERROR;
        }

        service->attendants[i] = data;
    }

    return NGX_OK;
}


void
ngx_etcd_attendant_destroy(ngx_etcd_service_t *service)
{
    ngx_uint_t  i;

    for (i = 0; i < service->conf->nattendants; i++) {
        if (service->attendants[i] != NULL) {
            service->conf->attendants[i].destroy(service->attendants[i]);
        }
    }
}


void
ngx_etcd_attendant_published(ngx_etcd_service_t *service)
{
    ngx_uint_t             i;
    ngx_etcd_attendant_t  *attendant;

    for (i = 0; i < service->conf->nattendants; i++) {
        attendant = &service->conf->attendants[i];

        if (attendant->published != NULL) {
            attendant->published(service->attendants[i]);
        }
    }
}
