
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd_set_key.h>


ngx_int_t
ngx_http_etcd_set_key(ngx_http_request_t *r, ngx_etcd_set_variable_use_t *use,
    u_char *buf, ngx_str_t *key)
{
    ngx_str_t                   values[NGX_ETCD_PATTERN_VARIABLES];
    ngx_uint_t                  i;
    ngx_http_variable_value_t  *vv;

    if (use->sv->map == NULL) {
        return NGX_DECLINED;
    }

    for (i = 0; i < use->sv->pattern.nvariables; i++) {
        vv = ngx_http_get_flushed_variable(r, use->indices[i]);

        if (vv == NULL) {
            return NGX_ERROR;
        }

        values[i].data = vv->data;
        values[i].len = vv->not_found ? 0 : vv->len;
    }

    return ngx_etcd_set_variable_key(use->sv, values, buf, key);
}
