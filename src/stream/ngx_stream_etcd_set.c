
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_etcd_set.h>


ngx_variable_value_t *
ngx_stream_etcd_set_value(void *session, ngx_uint_t index)
{
    return ngx_stream_get_flushed_variable(session, index);
}


void *
ngx_stream_etcd_set_compile(ngx_conf_t *cf, ngx_str_t *text)
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


ngx_int_t
ngx_stream_etcd_set_text(void *session, void *compiled, ngx_str_t *text)
{
    return ngx_stream_complex_value(session, compiled, text);
}


static ngx_int_t
ngx_stream_etcd_set_get(ngx_stream_session_t *s, ngx_stream_variable_value_t *v,
    uintptr_t data)
{
    ngx_etcd_set_use_t          *use;
    ngx_stream_etcd_srv_conf_t  *escf;

    escf = ngx_stream_get_module_srv_conf(s, ngx_stream_etcd_module);

    use = ngx_etcd_set_use_find(escf->sets, (void *) data);

    if (use == NULL) {
        v->not_found = 1;
        return NGX_OK;
    }

    return ngx_etcd_set_use_get(use, s, v, s->connection->pool);
}


static ngx_int_t
ngx_stream_etcd_set_define(ngx_conf_t *cf, ngx_str_t *name, void **variable)
{
    ngx_stream_variable_t  *v;

    v = ngx_stream_add_variable(cf, name, NGX_STREAM_VAR_CHANGEABLE);
    if (v == NULL) {
        return NGX_ERROR;
    }

    if (v->get_handler != NULL && v->get_handler != ngx_stream_etcd_set_get) {
        return NGX_DECLINED;
    }

    v->get_handler = ngx_stream_etcd_set_get;
    v->data = (uintptr_t) v;

    *variable = v;

    /*
     * An indexed variable is evaluated once per session, also for scripts and
     * logs, which read variables by name.
     */

    return (ngx_stream_get_variable_index(cf, name) != NGX_ERROR) ? NGX_OK
                                                                 : NGX_ERROR;
}


static const ngx_etcd_set_module_t  ngx_stream_etcd_set_module = {
    1,
    ngx_stream_etcd_set_define,
    ngx_stream_get_variable_index,
    ngx_stream_etcd_set_value,
    ngx_stream_etcd_set_compile,
    ngx_stream_etcd_set_text
};


char *
ngx_stream_etcd_set(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_stream_etcd_srv_conf_t *escf = conf;

    return ngx_etcd_set_use(cf, &escf->sets, &ngx_stream_etcd_set_module);
}


static ngx_uint_t
ngx_stream_etcd_set_index(void *variable)
{
    return ((ngx_stream_variable_t *) variable)->index;
}


/* With this status nginx ends what it cannot do with an empty text. */

static ngx_int_t
ngx_stream_etcd_set_log(ngx_stream_session_t *s)
{
    ngx_stream_etcd_srv_conf_t  *escf;

    escf = ngx_stream_get_module_srv_conf(s, ngx_stream_etcd_module);

    if (s->status == NGX_STREAM_INTERNAL_SERVER_ERROR) {
        ngx_etcd_set_use_missing(escf->sets, s, s->variables,
                                 ngx_stream_etcd_set_index, s->connection->log);
    }

    return NGX_OK;
}


ngx_int_t
ngx_stream_etcd_set_check(ngx_conf_t *cf)
{
    ngx_stream_handler_pt        *handler;
    ngx_stream_core_main_conf_t  *cmcf;

    cmcf = ngx_stream_conf_get_module_main_conf(cf, ngx_stream_core_module);

    if (ngx_etcd_conf_main(cf->cycle)->set_variables.nelts != 0) {
        handler = ngx_array_push(&cmcf->phases[NGX_STREAM_LOG_PHASE].handlers);
        if (handler == NULL) {
            return NGX_ERROR;
        }

        *handler = ngx_stream_etcd_set_log;
    }

    return ngx_etcd_set_use_check(cf, &ngx_stream_etcd_set_module,
                                  &cmcf->variables_keys->keys,
                                  &cmcf->prefix_variables);
}
