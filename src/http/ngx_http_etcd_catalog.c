
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd_catalog.h>
#include <ngx_http_etcd_pause.h>


ngx_int_t
ngx_http_etcd_catalog_variables(ngx_conf_t *cf, ngx_etcd_upstream_t *upstream)
{
    ngx_int_t                    index;
    ngx_uint_t                   i, n;
    ngx_etcd_catalog_conf_t     *catalog;
    ngx_etcd_pattern_segment_t  *segment;

    catalog = ngx_etcd_catalog_of(upstream->service);

    if (catalog == NULL) {
        return NGX_OK;
    }

    segment = catalog->pattern.segments.elts;
    n = 0;

    for (i = 0; i < catalog->pattern.segments.nelts; i++) {

        if (!segment[i].variable) {
            continue;
        }

        index = ngx_http_get_variable_index(cf, &segment[i].text);

        if (index == NGX_ERROR) {
            return NGX_ERROR;
        }

        catalog->variables[n++] = index;
    }

    return NGX_OK;
}


ngx_etcd_table_t *
ngx_http_etcd_catalog_table(ngx_http_request_t *r,
    ngx_etcd_service_conf_t *service, ngx_int_t *rc)
{
    ngx_str_t                   values[NGX_ETCD_PATTERN_VARIABLES];
    ngx_uint_t                  i;
    ngx_etcd_catalog_conf_t    *catalog;
    ngx_http_variable_value_t  *vv;

    *rc = NGX_OK;
    catalog = ngx_etcd_catalog_of(service);

    if (catalog == NULL) {
        return service->table;
    }

    for (i = 0; i < catalog->pattern.nvariables; i++) {
        vv = ngx_http_get_flushed_variable(r, catalog->variables[i]);

        if (vv == NULL || vv->not_found) {
            *rc = NGX_DECLINED;
            return NULL;
        }

        values[i].data = vv->data;
        values[i].len = vv->len;
    }

    return ngx_etcd_catalog_conf_table(catalog, values, rc);
}


/* The request has not been sent: nothing of it is left in the upstream. */

ngx_int_t
ngx_http_etcd_catalog_refuse(ngx_http_request_t *r, ngx_int_t rc)
{
    ngx_uint_t                 status;
    ngx_http_etcd_loc_conf_t  *elcf;

    elcf = ngx_http_get_module_loc_conf(r, ngx_http_etcd_module);

    status = NGX_HTTP_SERVICE_UNAVAILABLE;

    if (rc == NGX_DECLINED) {
        status = elcf->unknown_status;

    } else {
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "upstream cannot be read: %s",
                      (rc == NGX_AGAIN) ? "its zone is locked" : "no memory");
    }

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "etcd: no such set, status %ui", status);

    ngx_http_etcd_pause_detach(r);
    ngx_http_etcd_pause_release(r);
    ngx_http_finalize_request(r, status);

    return NGX_ERROR;
}
