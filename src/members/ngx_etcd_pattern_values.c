
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_pattern_values.h>


ngx_int_t
ngx_etcd_pattern_values_find(ngx_conf_t *cf, ngx_etcd_pattern_t *pattern,
    ngx_etcd_pattern_index_pt find, ngx_int_t *indices)
{
    ngx_uint_t                   i;
    ngx_etcd_pattern_segment_t  *segment;

    segment = pattern->segments.elts;

    for (i = 0; i < pattern->segments.nelts; i++) {

        if (!segment[i].variable) {
            continue;
        }

        *indices = find(cf, &segment[i].text);

        if (*indices++ == NGX_ERROR) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


ngx_int_t
ngx_etcd_pattern_values_read(ngx_etcd_pattern_t *pattern, ngx_int_t *indices,
    ngx_etcd_pattern_value_pt get, void *request, ngx_str_t *values)
{
    ngx_uint_t             i;
    ngx_variable_value_t  *vv;

    for (i = 0; i < pattern->nvariables; i++) {
        vv = get(request, indices[i]);

        if (vv == NULL) {
            return NGX_ERROR;
        }

        values[i].data = vv->data;
        values[i].len = vv->not_found ? 0 : vv->len;
    }

    return NGX_OK;
}


ngx_etcd_table_t *
ngx_etcd_pattern_values_table(ngx_etcd_service_conf_t *service,
    ngx_etcd_pattern_value_pt get, void *request, ngx_int_t *rc)
{
    ngx_str_t                 values[NGX_ETCD_PATTERN_VARIABLES];
    ngx_etcd_catalog_conf_t  *catalog;

    *rc = NGX_OK;
    catalog = ngx_etcd_catalog_of(service);

    if (catalog == NULL) {
        return service->table;
    }

    if (ngx_etcd_pattern_values_read(&catalog->pattern, catalog->variables,
                                     get, request, values)
        != NGX_OK)
    {
        *rc = NGX_DECLINED;
        return NULL;
    }

    return ngx_etcd_catalog_conf_table(catalog, values, rc);
}
