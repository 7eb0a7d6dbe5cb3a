
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_status.h>
#include <ngx_etcd_status_near.h>
#include <ngx_etcd_str.h>


static ngx_int_t
ngx_etcd_status_list_upstreams(ngx_etcd_status_t *status)
{
    ngx_uint_t                   i, n;
    ngx_etcd_conf_t            **ecf;
    ngx_etcd_service_conf_t    **services;
    ngx_etcd_catalog_conf_t    **catalogs;
    ngx_etcd_status_upstream_t  *upstream;

    if (ngx_array_init(&status->upstreams, status->pool, 4,
                       sizeof(ngx_etcd_status_upstream_t))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    ecf = status->conf->clusters.elts;

    for (i = 0; i < status->conf->clusters.nelts; i++) {
        services = ecf[i]->services.elts;

        for (n = 0; n < ecf[i]->services.nelts; n++) {
            upstream = ngx_array_push(&status->upstreams);
            if (upstream == NULL) {
                return NGX_ERROR;
            }

            ngx_etcd_status_object_upstream(upstream, ecf[i], services[n]);
            ngx_etcd_status_near_upstream(upstream);
        }

        catalogs = ecf[i]->catalogs.elts;

        for (n = 0; n < ecf[i]->catalogs.nelts; n++) {
            upstream = ngx_array_push(&status->upstreams);
            if (upstream == NULL) {
                return NGX_ERROR;
            }

            ngx_etcd_status_object_upstream(upstream, ecf[i],
                                            &catalogs[n]->service);
            ngx_etcd_status_near_upstream(upstream);
        }
    }

    return NGX_OK;
}


ngx_etcd_status_t *
ngx_etcd_status_create(ngx_etcd_main_conf_t *conf,
    const ngx_etcd_status_part_t *parts, ngx_buf_tag_t tag, ngx_pool_t *pool)
{
    ngx_etcd_status_t  *status;

    status = ngx_palloc(pool, sizeof(ngx_etcd_status_t));
    if (status == NULL) {
        return NULL;
    }

    ngx_memzero(status, offsetof(ngx_etcd_status_t, object));

    status->conf = conf;
    status->pool = pool;
    status->parts = parts;

    ngx_etcd_text_buffer_init(&status->out, pool, tag);

    if (ngx_etcd_status_list_upstreams(status) != NGX_OK) {
        return NULL;
    }

    return status;
}


void
ngx_etcd_status_destroy(ngx_etcd_status_t *status)
{
    if (status->temp != NULL) {
        ngx_destroy_pool(status->temp);
        status->temp = NULL;
    }
}


ngx_int_t
ngx_etcd_status_run(ngx_etcd_status_t *status, uint64_t until, size_t size)
{
    ngx_int_t                      rc;
    const ngx_etcd_status_part_t  *part;

    part = &status->parts[status->part];

    while (part->write != NULL) {

        rc = part->write(status, part->kind);

        if (status->out.failed) {
            return NGX_ERROR;
        }

        if (rc == NGX_OK) {
            ngx_etcd_status_destroy(status);

            part++;
            status->part++;
            status->row = 0;
            status->stage = 0;
            status->items = 0;
            status->begun = 0;

        } else if (rc != NGX_AGAIN) {
            return rc;
        }

        if (status->out.size >= size || ngx_etcd_time_budget_now() >= until) {
            break;
        }
    }

    return (part->write != NULL) ? NGX_AGAIN : NGX_OK;
}


ngx_uint_t
ngx_etcd_status_wanted(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream)
{
    ngx_str_t  *only;

    only = &status->only;

    return only->len == 0 || ngx_etcd_str_equal(only, &upstream->name);
}


ngx_int_t
ngx_etcd_status_open(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream)
{
    ngx_int_t                 rc;
    ngx_etcd_service_conf_t  *service;

    service = upstream->service;

    /* the table knows the lowest priority: update it */

    if (service->table != NULL) {
        (void) ngx_etcd_table_sync(service->table);
        upstream->lowest = service->table->priority;
    }

    rc = ngx_etcd_view_open(&status->view, service->zone, service->set,
                            service->set_id);

    if (rc == NGX_AGAIN) {
        return NGX_BUSY;
    }

    ngx_etcd_status_object_update(upstream, &status->view);
    ngx_etcd_status_near_share(upstream, service->table);

    return NGX_OK;
}


ngx_int_t
ngx_etcd_status_read(ngx_etcd_status_t *status)
{
    ngx_int_t  rc;

    rc = ngx_etcd_view_read(&status->view);

    switch (rc) {

    case NGX_AGAIN:
        return NGX_BUSY;

    case NGX_DECLINED:
        return NGX_DONE;

    default:
        return rc;
    }
}
