
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_etcd_str.h>
#include <ngx_stream_etcd_set.h>
#include <ngx_stream_etcd_value.h>


static ngx_int_t
ngx_stream_etcd_set_get(ngx_stream_session_t *s, ngx_stream_variable_value_t *v,
    uintptr_t data)
{
    u_char                        buf[NGX_ETCD_PATTERN_PREFIX];
    ngx_int_t                     rc;
    ngx_str_t                     key, split;
    ngx_stream_etcd_srv_conf_t     *escf;
    ngx_etcd_set_variable_use_t  *use;

    escf = ngx_stream_get_module_srv_conf(s, ngx_stream_etcd_module);

    use = ngx_etcd_set_variable_find(escf->sets, (void *) data);

    if (use == NULL) {
        v->not_found = 1;
        return NGX_OK;
    }

    rc = ngx_etcd_set_variable_key(use, ngx_stream_etcd_value_get, s, buf,
                                   &key);

    if (rc == NGX_ERROR
        || (use->split != NULL
            && ngx_stream_complex_value(s, use->split, &split) != NGX_OK))
    {
        return NGX_ERROR;
    }

    return ngx_etcd_set_variable_get(use->sv, (rc == NGX_OK) ? &key : NULL,
                                     use->split ? &split : NULL, v,
                                     s->connection->pool);
}


static ngx_stream_variable_t *
ngx_stream_etcd_set_variable(ngx_conf_t *cf, ngx_etcd_set_variable_t *sv)
{
    ngx_str_t             name;
    ngx_stream_variable_t  *variable;

    name.data = sv->name.data + 1;
    name.len = sv->name.len - 1;

    variable = ngx_stream_add_variable(cf, &name, NGX_STREAM_VAR_CHANGEABLE);
    if (variable == NULL) {
        return NULL;
    }

    if (variable->get_handler != NULL
        && variable->get_handler != ngx_stream_etcd_set_get)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "variable \"%V\" is already defined",
                           &sv->name);
        return NULL;
    }

    variable->get_handler = ngx_stream_etcd_set_get;
    variable->data = (uintptr_t) variable;

    /*
     * An indexed variable is evaluated once per session, also for scripts and
     * logs, which read variables by name.
     */

    return (ngx_stream_get_variable_index(cf, &name) != NGX_ERROR) ? variable
                                                                 : NULL;
}


/* Finds the variables of the key, and compiles the text of split=. */

static ngx_int_t
ngx_stream_etcd_set_compile(ngx_conf_t *cf, ngx_etcd_set_variable_use_t *use)
{
    ngx_etcd_set_variable_t  *sv;

    sv = use->sv;

    if (ngx_etcd_pattern_values_find(cf, &sv->pattern,
                                     ngx_stream_get_variable_index,
                                     use->indices)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (sv->split.data == NULL) {
        return NGX_OK;
    }

    use->split = ngx_stream_etcd_value_compile(cf, &sv->split);

    return (use->split != NULL) ? NGX_OK : NGX_ERROR;
}


char *
ngx_stream_etcd_set(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_stream_etcd_srv_conf_t *escf = conf;

    ngx_stream_variable_t          *variable;
    ngx_etcd_set_variable_t      *sv;
    ngx_etcd_set_variable_use_t  *use;

    sv = ngx_etcd_set_variable_add(cf, 1);
    if (sv == NULL) {
        return NGX_CONF_ERROR;
    }

    variable = ngx_stream_etcd_set_variable(cf, sv);
    if (variable == NULL) {
        return NGX_CONF_ERROR;
    }

    use = ngx_etcd_set_variable_use(cf, &escf->sets, variable, sv);
    if (use == NULL) {
        return NGX_CONF_ERROR;
    }

    return (ngx_stream_etcd_set_compile(cf, use) == NGX_OK) ? NGX_CONF_OK
                                                          : NGX_CONF_ERROR;
}


static ngx_int_t
ngx_stream_etcd_set_check_one(ngx_conf_t *cf, ngx_etcd_set_variable_t *sv)
{
    ngx_str_t                   name, *unknown;
    ngx_stream_variable_t        *variable;
    ngx_stream_core_main_conf_t  *cmcf;

    cmcf = ngx_stream_conf_get_module_main_conf(cf, ngx_stream_core_module);

    /* nginx would not say where the variable is used */

    unknown = ngx_etcd_variable_unknown(&sv->pattern,
                                        &cmcf->variables_keys->keys,
                                        &cmcf->prefix_variables);
    if (unknown != NULL) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "unknown \"%V\" variable in the key of \"etcd_set\" in "
                      "%s:%ui", ngx_etcd_shown(unknown), sv->file, sv->line);
        return NGX_ERROR;
    }

    /* directives like "map" redefine a variable without a check */

    name.data = sv->name.data + 1;
    name.len = sv->name.len - 1;

    variable = ngx_stream_add_variable(cf, &name, NGX_STREAM_VAR_CHANGEABLE);
    if (variable == NULL) {
        return NGX_ERROR;
    }

    if (variable->get_handler != ngx_stream_etcd_set_get) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "variable \"%V\" of \"etcd_set\" in %s:%ui is redefined "
                      "by another directive", ngx_etcd_shown(&sv->name),
                      sv->file, sv->line);
        return NGX_ERROR;
    }

    return NGX_OK;
}


ngx_int_t
ngx_stream_etcd_set_check(ngx_conf_t *cf)
{
    ngx_uint_t                 i;
    ngx_etcd_main_conf_t      *emcf;
    ngx_etcd_set_variable_t  **variables;

    emcf = ngx_etcd_conf_main(cf->cycle);
    variables = emcf->set_variables.elts;

    for (i = 0; i < emcf->set_variables.nelts; i++) {
        if (variables[i]->stream
            && ngx_stream_etcd_set_check_one(cf, variables[i]) != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}
