
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_escape.h>
#include <ngx_etcd_set_variable.h>
#include <ngx_etcd_upstream.h>
#include <ngx_etcd_variable.h>


static ngx_int_t ngx_etcd_set_variable_arguments(ngx_conf_t *cf,
    ngx_etcd_set_variable_t *sv);
static ngx_uint_t ngx_etcd_set_variable_is_name(ngx_str_t *name);
static ngx_etcd_value_conf_t *ngx_etcd_set_variable_value(ngx_conf_t *cf,
    ngx_etcd_set_variable_t *sv, ngx_str_t *key);


ngx_etcd_set_variable_t *
ngx_etcd_set_variable_add(ngx_conf_t *cf)
{
    ngx_str_t                *value;
    ngx_etcd_set_variable_t  *sv, **p;
    ngx_etcd_main_conf_t     *emcf;

    value = cf->args->elts;

    sv = ngx_pcalloc(cf->pool, sizeof(ngx_etcd_set_variable_t));
    if (sv == NULL) {
        return NULL;
    }

    sv->name = value[1];
    sv->file = cf->conf_file->file.name.data;
    sv->line = cf->conf_file->line;

    if (ngx_etcd_set_variable_arguments(cf, sv) != NGX_OK) {
        return NULL;
    }

    sv->value = ngx_etcd_set_variable_value(cf, sv, &value[2]);
    if (sv->value == NULL) {
        return NULL;
    }

    emcf = (ngx_etcd_main_conf_t *) ngx_get_conf(cf->cycle->conf_ctx,
                                                 ngx_etcd_module);

    p = ngx_array_push(&emcf->set_variables);
    if (p == NULL) {
        return NULL;
    }

    *p = sv;

    return sv;
}


static ngx_int_t
ngx_etcd_set_variable_arguments(ngx_conf_t *cf, ngx_etcd_set_variable_t *sv)
{
    ngx_str_t   *value, *otherwise;
    ngx_uint_t   i;

    value = cf->args->elts;

    if (!ngx_etcd_set_variable_is_name(&value[1])) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid variable name \"%V\"", &value[1]);
        return NGX_ERROR;
    }

    if (value[2].len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" has an empty key", &value[0]);
        return NGX_ERROR;
    }

    sv->cluster = ngx_etcd_upstream_cluster(cf, 3);
    if (sv->cluster == NULL) {
        return NGX_ERROR;
    }

    otherwise = &sv->otherwise;

    for (i = 3; i < cf->args->nelts; i++) {

        if (ngx_strncmp(value[i].data, "cluster=", 8) == 0) {
            continue;
        }

        if (ngx_strncmp(value[i].data, "default=", 8) != 0) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\"", &value[i]);
            return NGX_ERROR;
        }

        if (otherwise->data != NULL) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "duplicate parameter \"%V\"", &value[i]);
            return NGX_ERROR;
        }

        otherwise->data = value[i].data + 8;
        otherwise->len = value[i].len - 8;
    }

    if (otherwise->data == NULL) {
        ngx_str_set(otherwise, "");
    }

    if (ngx_etcd_escape_has_control(otherwise->data, otherwise->len)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"default=\" of \"%V\" has a control byte",
                           &value[1]);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* Checks the syntax of variables in other directives. */

static ngx_uint_t
ngx_etcd_set_variable_is_name(ngx_str_t *name)
{
    u_char  *p;

    if (name->len < 2 || name->data[0] != '$') {
        return 0;
    }

    for (p = name->data + 1; p < name->data + name->len; p++) {
        if (!isalnum(*p) && *p != '_') {
            return 0;
        }
    }

    return 1;
}


/* A key with several variables is watched once. */

static ngx_etcd_value_conf_t *
ngx_etcd_set_variable_value(ngx_conf_t *cf, ngx_etcd_set_variable_t *sv,
    ngx_str_t *key)
{
    ngx_uint_t               i;
    ngx_array_t             *values;
    ngx_etcd_value_conf_t   *value, **p;

    values = &sv->cluster->values;
    p = values->elts;

    for (i = 0; i < values->nelts; i++) {
        if (p[i]->key.len == key->len
            && ngx_memcmp(p[i]->key.data, key->data, key->len) == 0)
        {
            return p[i];
        }
    }

    value = ngx_pcalloc(cf->pool, sizeof(ngx_etcd_value_conf_t));
    if (value == NULL) {
        return NULL;
    }

    value->name = sv->name;
    value->key = *key;

    p = ngx_array_push(values);
    if (p == NULL) {
        return NULL;
    }

    *p = value;

    return value;
}


ngx_int_t
ngx_etcd_set_variable_declare(ngx_etcd_conf_t *ecf, ngx_etcd_zone_t *old)
{
    ngx_uint_t               i;
    ngx_etcd_value_conf_t  **values;

    values = ecf->values.elts;

    for (i = 0; i < ecf->values.nelts; i++) {
        if (ngx_etcd_value_declare(values[i], &ecf->client.key_namespace,
                                   &ecf->zone, old)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/* Copies the value: a request keeps its value when the key changes. */

ngx_int_t
ngx_etcd_set_variable_get(ngx_etcd_set_variable_t *sv, ngx_variable_value_t *v,
    ngx_pool_t *pool)
{
    u_char                        *p;
    ngx_str_t                      name;
    ngx_etcd_shared_value_view_t  *view;

    name.data = sv->name.data + 1;
    name.len = sv->name.len - 1;

    view = ngx_etcd_value_get(sv->value);

    if (view->modified == 0) {
        ngx_etcd_variable_value(&name, v, sv->otherwise.data,
                                sv->otherwise.len);
        return NGX_OK;
    }

    p = ngx_pnalloc(pool, ngx_max(view->len, 1));
    if (p == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(p, view->value, view->len);
    ngx_etcd_variable_value(&name, v, p, view->len);

    return NGX_OK;
}
