
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_etcd_catalog.h>


ngx_int_t
ngx_stream_etcd_catalog_variables(ngx_conf_t *cf, ngx_etcd_upstream_t *upstream)
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

        index = ngx_stream_get_variable_index(cf, &segment[i].text);

        if (index == NGX_ERROR) {
            return NGX_ERROR;
        }

        catalog->variables[n++] = index;
    }

    return NGX_OK;
}


ngx_etcd_table_t *
ngx_stream_etcd_catalog_table(ngx_stream_session_t *s,
    ngx_etcd_service_conf_t *service, ngx_int_t *rc)
{
    ngx_str_t                   values[NGX_ETCD_PATTERN_VARIABLES];
    ngx_uint_t                  i;
    ngx_etcd_catalog_conf_t    *catalog;
    ngx_stream_variable_value_t  *vv;

    *rc = NGX_OK;
    catalog = ngx_etcd_catalog_of(service);

    if (catalog == NULL) {
        return service->table;
    }

    for (i = 0; i < catalog->pattern.nvariables; i++) {
        vv = ngx_stream_get_flushed_variable(s, catalog->variables[i]);

        if (vv == NULL || vv->not_found) {
            *rc = NGX_DECLINED;
            return NULL;
        }

        values[i].data = vv->data;
        values[i].len = vv->len;
    }

    return ngx_etcd_catalog_conf_table(catalog, values, rc);
}


ngx_int_t
ngx_stream_etcd_catalog_refuse(ngx_stream_session_t *s,
    ngx_etcd_service_conf_t *service, ngx_int_t rc)
{
    if (rc == NGX_DECLINED) {
        ngx_log_error(NGX_LOG_INFO, s->connection->log, 0,
                      "no such set in upstream \"%V\"", &service->name);

    } else {
        ngx_log_error(NGX_LOG_ERR, s->connection->log, 0,
                      "upstream \"%V\" cannot be read: %s", &service->name,
                      (rc == NGX_AGAIN) ? "its zone is locked" : "no memory");
    }

    return NGX_ERROR;
}
