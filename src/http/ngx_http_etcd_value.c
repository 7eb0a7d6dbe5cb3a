
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd_value.h>


ngx_variable_value_t *
ngx_http_etcd_value_get(void *request, ngx_uint_t index)
{
    return ngx_http_get_flushed_variable(request, index);
}


void *
ngx_http_etcd_value_compile(ngx_conf_t *cf, ngx_str_t *text)
{
    ngx_http_complex_value_t          *value;
    ngx_http_compile_complex_value_t   ccv;

    value = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));
    if (value == NULL) {
        return NULL;
    }

    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = text;
    ccv.complex_value = value;

    return (ngx_http_compile_complex_value(&ccv) == NGX_OK) ? value : NULL;
}
