
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_etcd_value.h>


ngx_variable_value_t *
ngx_stream_etcd_value_get(void *session, ngx_uint_t index)
{
    return ngx_stream_get_flushed_variable(session, index);
}


void *
ngx_stream_etcd_value_compile(ngx_conf_t *cf, ngx_str_t *text)
{
    ngx_stream_complex_value_t          *value;
    ngx_stream_compile_complex_value_t   ccv;

    value = ngx_palloc(cf->pool, sizeof(ngx_stream_complex_value_t));
    if (value == NULL) {
        return NULL;
    }

    ngx_memzero(&ccv, sizeof(ngx_stream_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = text;
    ccv.complex_value = value;

    return (ngx_stream_compile_complex_value(&ccv) == NGX_OK) ? value : NULL;
}
