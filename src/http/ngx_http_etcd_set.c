
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd_set.h>


/* the value of a variable in a context and its nested contexts */

typedef struct {
    ngx_http_variable_t      *variable;
    ngx_etcd_set_variable_t  *sv;
} ngx_http_etcd_set_t;


static ngx_http_variable_t *ngx_http_etcd_set_variable(ngx_conf_t *cf,
    ngx_etcd_set_variable_t *sv);
static ngx_int_t ngx_http_etcd_set_get(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_etcd_set_variable_t *ngx_http_etcd_set_find(ngx_array_t *sets,
    ngx_http_variable_t *variable);


char *
ngx_http_etcd_set(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_etcd_loc_conf_t *elcf = conf;

    ngx_http_variable_t      *variable;
    ngx_http_etcd_set_t      *set;
    ngx_etcd_set_variable_t  *sv;

    sv = ngx_etcd_set_variable_add(cf);
    if (sv == NULL) {
        return NGX_CONF_ERROR;
    }

    variable = ngx_http_etcd_set_variable(cf, sv);
    if (variable == NULL) {
        return NGX_CONF_ERROR;
    }

    if (elcf->sets == NULL) {
        elcf->sets = ngx_array_create(cf->pool, 4,
                                      sizeof(ngx_http_etcd_set_t));
        if (elcf->sets == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    if (ngx_http_etcd_set_find(elcf->sets, variable) != NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "duplicate variable \"%V\"",
                           &sv->name);
        return NGX_CONF_ERROR;
    }

    set = ngx_array_push(elcf->sets);
    if (set == NULL) {
        return NGX_CONF_ERROR;
    }

    set->variable = variable;
    set->sv = sv;

    return NGX_CONF_OK;
}


static ngx_http_variable_t *
ngx_http_etcd_set_variable(ngx_conf_t *cf, ngx_etcd_set_variable_t *sv)
{
    ngx_str_t             name;
    ngx_http_variable_t  *variable;

    name.data = sv->name.data + 1;
    name.len = sv->name.len - 1;

    variable = ngx_http_add_variable(cf, &name, NGX_HTTP_VAR_CHANGEABLE);
    if (variable == NULL) {
        return NULL;
    }

    if (variable->get_handler != NULL
        && variable->get_handler != ngx_http_etcd_set_get)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "variable \"%V\" is already defined",
                           &sv->name);
        return NULL;
    }

    variable->get_handler = ngx_http_etcd_set_get;
    variable->data = (uintptr_t) variable;

    /*
     * An indexed variable is evaluated once per request, also for SSI and
     * scripts, which read variables by name.
     */

    return (ngx_http_get_variable_index(cf, &name) != NGX_ERROR) ? variable
                                                                 : NULL;
}


/* Contexts inherit the variables and may override some of them. */

ngx_int_t
ngx_http_etcd_set_merge(ngx_conf_t *cf, ngx_http_etcd_loc_conf_t *prev,
    ngx_http_etcd_loc_conf_t *conf)
{
    ngx_uint_t            i;
    ngx_http_etcd_set_t  *sets, *set;

    if (conf->sets == NULL) {
        conf->sets = prev->sets;
        return NGX_OK;
    }

    if (prev->sets == NULL) {
        return NGX_OK;
    }

    sets = prev->sets->elts;

    for (i = 0; i < prev->sets->nelts; i++) {

        if (ngx_http_etcd_set_find(conf->sets, sets[i].variable) != NULL) {
            continue;
        }

        set = ngx_array_push(conf->sets);
        if (set == NULL) {
            return NGX_ERROR;
        }

        *set = sets[i];
    }

    return NGX_OK;
}


/* Directives like "map" redefine a variable without a check. */

ngx_int_t
ngx_http_etcd_set_check(ngx_conf_t *cf)
{
    ngx_str_t                  name;
    ngx_uint_t                 i;
    ngx_etcd_set_variable_t  **variables;
    ngx_http_variable_t       *variable;
    ngx_etcd_main_conf_t      *emcf;

    emcf = (ngx_etcd_main_conf_t *) ngx_get_conf(cf->cycle->conf_ctx,
                                                 ngx_etcd_module);
    variables = emcf->set_variables.elts;

    for (i = 0; i < emcf->set_variables.nelts; i++) {
        name.data = variables[i]->name.data + 1;
        name.len = variables[i]->name.len - 1;

        variable = ngx_http_add_variable(cf, &name, NGX_HTTP_VAR_CHANGEABLE);

        if (variable == NULL) {
            return NGX_ERROR;
        }

        if (variable->get_handler != ngx_http_etcd_set_get) {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "variable \"%V\" of \"etcd_set\" in %s:%ui is "
                          "redefined by another directive",
                          &variables[i]->name,
                          variables[i]->file, variables[i]->line);
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_etcd_set_get(ngx_http_request_t *r, ngx_http_variable_value_t *v,
    uintptr_t data)
{
    ngx_etcd_set_variable_t   *sv;
    ngx_http_etcd_loc_conf_t  *elcf;

    elcf = ngx_http_get_module_loc_conf(r, ngx_http_etcd_module);

    sv = ngx_http_etcd_set_find(elcf->sets,
                                     (ngx_http_variable_t *) data);
    if (sv == NULL) {
        v->not_found = 1;
        return NGX_OK;
    }

    return ngx_etcd_set_variable_get(sv, v, r->pool);
}


/* NULL: the variable has no value in this context. */

static ngx_etcd_set_variable_t *
ngx_http_etcd_set_find(ngx_array_t *sets, ngx_http_variable_t *variable)
{
    ngx_uint_t            i;
    ngx_http_etcd_set_t  *set;

    if (sets == NULL) {
        return NULL;
    }

    set = sets->elts;

    for (i = 0; i < sets->nelts; i++) {
        if (set[i].variable == variable) {
            return set[i].sv;
        }
    }

    return NULL;
}
