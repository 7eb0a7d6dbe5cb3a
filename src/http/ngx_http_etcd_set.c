
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd_pem.h>
#include <ngx_http_etcd_set.h>


ngx_variable_value_t *
ngx_http_etcd_set_value(void *request, ngx_uint_t index)
{
    return ngx_http_get_flushed_variable(request, index);
}


void *
ngx_http_etcd_set_compile(ngx_conf_t *cf, ngx_str_t *text)
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


ngx_int_t
ngx_http_etcd_set_text(void *request, void *compiled, ngx_str_t *text)
{
    return ngx_http_complex_value(request, compiled, text);
}


static ngx_int_t
ngx_http_etcd_set_get(ngx_http_request_t *r, ngx_http_variable_value_t *v,
    uintptr_t data)
{
    ngx_etcd_set_use_t        *use;
    ngx_http_etcd_loc_conf_t  *elcf;

    elcf = ngx_http_get_module_loc_conf(r, ngx_http_etcd_module);

    use = ngx_etcd_set_use_find(elcf->sets, (void *) data);

    if (use == NULL) {
        v->not_found = 1;
        return NGX_OK;
    }

    if (use->sv->type == NGX_ETCD_VALUE_PEM) {
        return ngx_http_etcd_pem_get(r, elcf->sets, use, v);
    }

    return ngx_etcd_set_use_get(use, r, v, r->pool);
}


static ngx_int_t
ngx_http_etcd_set_define(ngx_conf_t *cf, ngx_str_t *name, void **variable)
{
    ngx_http_variable_t  *v;

    v = ngx_http_add_variable(cf, name, NGX_HTTP_VAR_CHANGEABLE);
    if (v == NULL) {
        return NGX_ERROR;
    }

    if (v->get_handler != NULL && v->get_handler != ngx_http_etcd_set_get) {
        return NGX_DECLINED;
    }

    v->get_handler = ngx_http_etcd_set_get;
    v->data = (uintptr_t) v;

    *variable = v;

    /*
     * An indexed variable is evaluated once per request, also for SSI and
     * scripts, which read variables by name.
     */

    return (ngx_http_get_variable_index(cf, name) != NGX_ERROR) ? NGX_OK
                                                               : NGX_ERROR;
}


static const ngx_etcd_set_module_t  ngx_http_etcd_set_module = {
    0,
    ngx_http_etcd_set_define,
    ngx_http_get_variable_index,
    ngx_http_etcd_set_value,
    ngx_http_etcd_set_compile,
    ngx_http_etcd_set_text
};


char *
ngx_http_etcd_set(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_etcd_loc_conf_t *elcf = conf;

    return ngx_etcd_set_use(cf, &elcf->sets, &ngx_http_etcd_set_module);
}


static ngx_uint_t
ngx_http_etcd_set_index(void *variable)
{
    return ((ngx_http_variable_t *) variable)->index;
}


/* With this status nginx ends what it cannot do with an empty text. */

static ngx_int_t
ngx_http_etcd_set_log(ngx_http_request_t *r)
{
    ngx_http_etcd_loc_conf_t  *elcf;

    elcf = ngx_http_get_module_loc_conf(r, ngx_http_etcd_module);

    if (r->headers_out.status == NGX_HTTP_INTERNAL_SERVER_ERROR) {
        ngx_etcd_set_use_missing(elcf->sets, r, r->variables,
                                 ngx_http_etcd_set_index, r->connection->log);
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_etcd_set_check(ngx_conf_t *cf)
{
    ngx_http_handler_pt        *handler;
    ngx_http_core_main_conf_t  *cmcf;

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    if (ngx_etcd_conf_main(cf->cycle)->set_variables.nelts != 0) {
        handler = ngx_array_push(&cmcf->phases[NGX_HTTP_LOG_PHASE].handlers);
        if (handler == NULL) {
            return NGX_ERROR;
        }

        *handler = ngx_http_etcd_set_log;
    }

    return ngx_etcd_set_use_check(cf, &ngx_http_etcd_set_module,
                                  &cmcf->variables_keys->keys,
                                  &cmcf->prefix_variables);
}
