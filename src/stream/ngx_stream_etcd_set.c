
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_etcd_shown.h>
#include <ngx_stream_etcd_set.h>


/* the value of a variable in a context and its nested contexts */

typedef struct {
    ngx_stream_variable_t       *variable;
    ngx_etcd_set_variable_t   *sv;
    ngx_int_t                  indices[NGX_ETCD_PATTERN_VARIABLES];
    ngx_stream_complex_value_t  *split;         /* NULL: none */
} ngx_stream_etcd_set_t;


static ngx_stream_variable_t *ngx_stream_etcd_set_variable(ngx_conf_t *cf,
    ngx_etcd_set_variable_t *sv);
static ngx_int_t ngx_stream_etcd_set_compile(ngx_conf_t *cf,
    ngx_stream_etcd_set_t *set);
static ngx_int_t ngx_stream_etcd_set_known(ngx_conf_t *cf,
    ngx_etcd_set_variable_t *sv);
static ngx_uint_t ngx_stream_etcd_set_exists(ngx_stream_core_main_conf_t *cmcf,
    ngx_str_t *name);
static ngx_int_t ngx_stream_etcd_set_get(ngx_stream_session_t *s,
    ngx_stream_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_stream_etcd_set_key(ngx_stream_session_t *s,
    ngx_stream_etcd_set_t *set, u_char *buf, ngx_str_t *key);
static ngx_stream_etcd_set_t *ngx_stream_etcd_set_find(ngx_array_t *sets,
    ngx_stream_variable_t *variable);


char *
ngx_stream_etcd_set(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_stream_etcd_srv_conf_t *escf = conf;

    ngx_stream_variable_t      *variable;
    ngx_stream_etcd_set_t      *set;
    ngx_etcd_set_variable_t  *sv;

    sv = ngx_etcd_set_variable_add(cf, 1);
    if (sv == NULL) {
        return NGX_CONF_ERROR;
    }

    variable = ngx_stream_etcd_set_variable(cf, sv);
    if (variable == NULL) {
        return NGX_CONF_ERROR;
    }

    if (escf->sets == NULL) {
        escf->sets = ngx_array_create(cf->pool, 4,
                                      sizeof(ngx_stream_etcd_set_t));
        if (escf->sets == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    if (ngx_stream_etcd_set_find(escf->sets, variable) != NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "duplicate variable \"%V\"",
                           &sv->name);
        return NGX_CONF_ERROR;
    }

    set = ngx_array_push(escf->sets);
    if (set == NULL) {
        return NGX_CONF_ERROR;
    }

    set->variable = variable;
    set->sv = sv;
    set->split = NULL;

    return (ngx_stream_etcd_set_compile(cf, set) == NGX_OK) ? NGX_CONF_OK
                                                          : NGX_CONF_ERROR;
}


/* Finds the variables of the key, and compiles the text of split=. */

static ngx_int_t
ngx_stream_etcd_set_compile(ngx_conf_t *cf, ngx_stream_etcd_set_t *set)
{
    ngx_int_t                         *index;
    ngx_uint_t                         i;
    ngx_etcd_set_variable_t           *sv;
    ngx_etcd_pattern_segment_t        *segment;
    ngx_stream_compile_complex_value_t   ccv;

    sv = set->sv;
    index = set->indices;
    segment = sv->pattern.segments.elts;

    for (i = 0; i < sv->pattern.segments.nelts; i++) {
        if (!segment[i].variable) {
            continue;
        }

        *index = ngx_stream_get_variable_index(cf, &segment[i].text);

        if (*index++ == NGX_ERROR) {
            return NGX_ERROR;
        }
    }

    if (sv->split.data == NULL) {
        return NGX_OK;
    }

    set->split = ngx_palloc(cf->pool, sizeof(ngx_stream_complex_value_t));
    if (set->split == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(&ccv, sizeof(ngx_stream_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = &sv->split;
    ccv.complex_value = set->split;

    return ngx_stream_compile_complex_value(&ccv);
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
     * An indexed variable is evaluated once per request, also for scripts
     * and logs, which read variables by name.
     */

    return (ngx_stream_get_variable_index(cf, &name) != NGX_ERROR) ? variable
                                                                 : NULL;
}


/* Contexts inherit the variables and may override some of them. */

ngx_int_t
ngx_stream_etcd_set_merge(ngx_conf_t *cf, ngx_stream_etcd_srv_conf_t *prev,
    ngx_stream_etcd_srv_conf_t *conf)
{
    ngx_uint_t            i;
    ngx_stream_etcd_set_t  *sets, *set;

    if (conf->sets == NULL) {
        conf->sets = prev->sets;
        return NGX_OK;
    }

    if (prev->sets == NULL) {
        return NGX_OK;
    }

    sets = prev->sets->elts;

    for (i = 0; i < prev->sets->nelts; i++) {

        if (ngx_stream_etcd_set_find(conf->sets, sets[i].variable) != NULL) {
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
ngx_stream_etcd_set_check(ngx_conf_t *cf)
{
    ngx_str_t                  name;
    ngx_uint_t                 i;
    ngx_etcd_set_variable_t  **variables;
    ngx_stream_variable_t       *variable;
    ngx_etcd_main_conf_t      *emcf;

    emcf = (ngx_etcd_main_conf_t *) ngx_get_conf(cf->cycle->conf_ctx,
                                                 ngx_etcd_module);
    variables = emcf->set_variables.elts;

    for (i = 0; i < emcf->set_variables.nelts; i++) {
        if (!variables[i]->stream) {
            continue;
        }

        if (ngx_stream_etcd_set_known(cf, variables[i]) != NGX_OK) {
            return NGX_ERROR;
        }

        name.data = variables[i]->name.data + 1;
        name.len = variables[i]->name.len - 1;

        variable = ngx_stream_add_variable(cf, &name,
                                           NGX_STREAM_VAR_CHANGEABLE);

        if (variable == NULL) {
            return NGX_ERROR;
        }

        if (variable->get_handler != ngx_stream_etcd_set_get) {
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


/* nginx would not say where the variable is used. */

static ngx_int_t
ngx_stream_etcd_set_known(ngx_conf_t *cf, ngx_etcd_set_variable_t *sv)
{
    ngx_uint_t                   i;
    ngx_stream_core_main_conf_t   *cmcf;
    ngx_etcd_pattern_segment_t  *segment;

    cmcf = ngx_stream_conf_get_module_main_conf(cf, ngx_stream_core_module);
    segment = sv->pattern.segments.elts;

    for (i = 0; i < sv->pattern.segments.nelts; i++) {
        if (segment[i].variable
            && !ngx_stream_etcd_set_exists(cmcf, &segment[i].text))
        {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "unknown \"%V\" variable in the key of \"etcd_set\" "
                          "in %s:%ui", ngx_etcd_shown(&segment[i].text),
                          sv->file, sv->line);
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_uint_t
ngx_stream_etcd_set_exists(ngx_stream_core_main_conf_t *cmcf, ngx_str_t *name)
{
    ngx_uint_t            i;
    ngx_hash_key_t       *key;
    ngx_stream_variable_t  *prefix;

    key = cmcf->variables_keys->keys.elts;

    for (i = 0; i < cmcf->variables_keys->keys.nelts; i++) {
        if (key[i].key.len == name->len
            && ngx_strncasecmp(key[i].key.data, name->data, name->len) == 0)
        {
            return 1;
        }
    }

    prefix = cmcf->prefix_variables.elts;

    for (i = 0; i < cmcf->prefix_variables.nelts; i++) {
        if (name->len >= prefix[i].name.len
            && ngx_strncasecmp(prefix[i].name.data, name->data,
                               prefix[i].name.len)
               == 0)
        {
            return 1;
        }
    }

    return 0;
}


static ngx_int_t
ngx_stream_etcd_set_get(ngx_stream_session_t *s, ngx_stream_variable_value_t *v,
    uintptr_t data)
{
    u_char                     buf[NGX_ETCD_PATTERN_PREFIX];
    ngx_int_t                  rc;
    ngx_str_t                  key, split;
    ngx_stream_etcd_set_t       *set;
    ngx_stream_etcd_srv_conf_t  *escf;

    escf = ngx_stream_get_module_srv_conf(s, ngx_stream_etcd_module);

    set = ngx_stream_etcd_set_find(escf->sets, (ngx_stream_variable_t *) data);

    if (set == NULL) {
        v->not_found = 1;
        return NGX_OK;
    }

    rc = ngx_stream_etcd_set_key(s, set, buf, &key);

    if (rc == NGX_ERROR
        || (set->split != NULL
            && ngx_stream_complex_value(s, set->split, &split) != NGX_OK))
    {
        return NGX_ERROR;
    }

    return ngx_etcd_set_variable_get(set->sv, (rc == NGX_OK) ? &key : NULL,
                                     set->split ? &split : NULL, v,
                                     s->connection->pool);
}


static ngx_int_t
ngx_stream_etcd_set_key(ngx_stream_session_t *s, ngx_stream_etcd_set_t *set,
    u_char *buf, ngx_str_t *key)
{
    ngx_str_t                   values[NGX_ETCD_PATTERN_VARIABLES];
    ngx_uint_t                  i;
    ngx_stream_variable_value_t  *vv;

    if (set->sv->map == NULL) {
        return NGX_DECLINED;
    }

    for (i = 0; i < set->sv->pattern.nvariables; i++) {
        vv = ngx_stream_get_flushed_variable(s, set->indices[i]);

        if (vv == NULL) {
            return NGX_ERROR;
        }

        values[i].data = vv->data;
        values[i].len = vv->not_found ? 0 : vv->len;
    }

    return ngx_etcd_set_variable_key(set->sv, values, buf, key);
}


/* NULL: the variable has no value in this context. */

static ngx_stream_etcd_set_t *
ngx_stream_etcd_set_find(ngx_array_t *sets, ngx_stream_variable_t *variable)
{
    ngx_uint_t            i;
    ngx_stream_etcd_set_t  *set;

    if (sets == NULL) {
        return NULL;
    }

    set = sets->elts;

    for (i = 0; i < sets->nelts; i++) {
        if (set[i].variable == variable) {
            return &set[i];
        }
    }

    return NULL;
}
