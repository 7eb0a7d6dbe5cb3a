
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_set_use.h>
#include <ngx_etcd_split.h>
#include <ngx_etcd_str.h>
#include <ngx_etcd_value_conf.h>
#include <ngx_etcd_variable.h>


ngx_etcd_set_use_t *
ngx_etcd_set_use_find(ngx_array_t *uses, void *variable)
{
    ngx_uint_t           i;
    ngx_etcd_set_use_t  *use;

    if (uses == NULL) {
        return NULL;
    }

    use = uses->elts;

    for (i = 0; i < uses->nelts; i++) {
        if (use[i].variable == variable) {
            return &use[i];
        }
    }

    return NULL;
}


static ngx_int_t
ngx_etcd_set_use_define(ngx_conf_t *cf, const ngx_etcd_set_module_t *module,
    ngx_etcd_set_variable_t *sv, void **variable)
{
    ngx_str_t  name;

    name.data = sv->name.data + 1;
    name.len = sv->name.len - 1;

    return module->define(cf, &name, variable);
}


char *
ngx_etcd_set_use(ngx_conf_t *cf, ngx_array_t **uses,
    const ngx_etcd_set_module_t *module)
{
    void                     *variable;
    ngx_int_t                 rc;
    ngx_etcd_set_use_t       *use;
    ngx_etcd_set_variable_t  *sv;

    sv = ngx_etcd_set_variable_add(cf, module->stream);
    if (sv == NULL) {
        return NGX_CONF_ERROR;
    }

    rc = ngx_etcd_set_use_define(cf, module, sv, &variable);

    if (rc == NGX_DECLINED) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "variable \"%V\" is already defined", &sv->name);
    }

    if (rc != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    if (ngx_etcd_set_use_find(*uses, variable) != NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "duplicate variable \"%V\"",
                           &sv->name);
        return NGX_CONF_ERROR;
    }

    if (*uses == NULL) {
        *uses = ngx_array_create(cf->pool, 4, sizeof(ngx_etcd_set_use_t));
    }

    use = (*uses != NULL) ? ngx_array_push(*uses) : NULL;
    if (use == NULL) {
        return NGX_CONF_ERROR;
    }

    use->variable = variable;
    use->sv = sv;
    use->module = module;
    use->split = NULL;

    if (ngx_etcd_pattern_values_find(cf, &sv->pattern, module->index,
                                     use->indices)
        != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    if (sv->split.data != NULL) {
        use->split = module->compile(cf, &sv->split);

        if (use->split == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


ngx_int_t
ngx_etcd_set_use_inherit(ngx_array_t **uses, ngx_array_t *outer)
{
    ngx_uint_t           i;
    ngx_etcd_set_use_t  *use, *inherited;

    if (*uses == NULL) {
        *uses = outer;
        return NGX_OK;
    }

    if (outer == NULL) {
        return NGX_OK;
    }

    use = outer->elts;

    for (i = 0; i < outer->nelts; i++) {

        if (ngx_etcd_set_use_find(*uses, use[i].variable) != NULL) {
            continue;
        }

        inherited = ngx_array_push(*uses);
        if (inherited == NULL) {
            return NGX_ERROR;
        }

        *inherited = use[i];
    }

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_set_use_check_one(ngx_conf_t *cf, ngx_etcd_set_variable_t *sv,
    const ngx_etcd_set_module_t *module, ngx_array_t *keys,
    ngx_array_t *prefixes)
{
    void       *variable;
    ngx_int_t   rc;
    ngx_str_t  *unknown;

    /* nginx would not say where the variable is used */

    unknown = ngx_etcd_variable_unknown(&sv->pattern, keys, prefixes);

    if (unknown != NULL) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "unknown \"%V\" variable in the key of \"etcd_set\" in "
                      "%s:%ui", ngx_etcd_shown(unknown), sv->file, sv->line);
        return NGX_ERROR;
    }

    /* directives like "map" redefine a variable without a check */

    rc = ngx_etcd_set_use_define(cf, module, sv, &variable);

    if (rc == NGX_DECLINED) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "variable \"%V\" of \"etcd_set\" in %s:%ui is redefined "
                      "by another directive", ngx_etcd_shown(&sv->name),
                      sv->file, sv->line);
    }

    return rc;
}


ngx_int_t
ngx_etcd_set_use_check(ngx_conf_t *cf, const ngx_etcd_set_module_t *module,
    ngx_array_t *keys, ngx_array_t *prefixes)
{
    ngx_uint_t                 i;
    ngx_etcd_main_conf_t      *emcf;
    ngx_etcd_set_variable_t  **variables;

    emcf = ngx_etcd_conf_main(cf->cycle);
    variables = emcf->set_variables.elts;

    for (i = 0; i < emcf->set_variables.nelts; i++) {
        if (variables[i]->stream == module->stream
            && ngx_etcd_set_use_check_one(cf, variables[i], module, keys,
                                          prefixes)
               != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


ngx_int_t
ngx_etcd_set_use_key(ngx_etcd_set_use_t *use, void *request, u_char *buf,
    ngx_str_t *key)
{
    ngx_str_t            prefix, values[NGX_ETCD_PATTERN_VARIABLES];
    ngx_etcd_pattern_t  *pattern;

    pattern = &use->sv->pattern;

    if (ngx_etcd_pattern_values_read(pattern, use->indices,
                                     use->module->value, request, values)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ngx_etcd_pattern_prefix(pattern, values, buf, &prefix) != NGX_OK) {
        return NGX_DECLINED;
    }

    ngx_etcd_pattern_name(pattern, &prefix, key);

    return NGX_OK;
}


/*
 * Reads the value, or the name that split= picks, valid until the next call.
 * NGX_DECLINED: there is none.
 */

static ngx_int_t
ngx_etcd_set_use_read(ngx_etcd_set_use_t *use, void *request, ngx_str_t *value)
{
    u_char                      buf[NGX_ETCD_PATTERN_PREFIX];
    ngx_int_t                   rc;
    ngx_str_t                   key, text;
    ngx_etcd_value_map_read_t   read;
    ngx_etcd_value_map_conf_t  *map;

    rc = ngx_etcd_set_use_key(use, request, buf, &key);

    if (rc != NGX_ERROR
        && use->split != NULL
        && use->module->text(request, use->split, &text) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (rc != NGX_OK) {
        return rc;
    }

    map = use->sv->map;

    read.part = (use->split != NULL) ? NGX_ETCD_VALUE_MAP_TABLE
                                     : NGX_ETCD_VALUE_MAP_TEXT;
    read.buf = map->copy;

    if (ngx_etcd_value_map_get(map, &key, &read) != NGX_OK) {
        return NGX_DECLINED;
    }

    *value = read.value;

    if (use->split == NULL) {
        return NGX_OK;
    }

    if (value->len == 0) {
        return NGX_DECLINED;
    }

    *value = ngx_etcd_split_pick(value, ngx_murmur_hash2(text.data, text.len));

    return NGX_OK;
}


/* Copies the value: a request keeps its value when the key changes. */

ngx_int_t
ngx_etcd_set_use_get(ngx_etcd_set_use_t *use, void *request,
    ngx_variable_value_t *v, ngx_pool_t *pool)
{
    u_char                   *p;
    ngx_int_t                 rc;
    ngx_str_t                 name, value;
    ngx_etcd_set_variable_t  *sv;

    sv = use->sv;

    name.data = sv->name.data + 1;
    name.len = sv->name.len - 1;

    rc = ngx_etcd_set_use_read(use, request, &value);

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    if (rc == NGX_OK) {
        p = ngx_pnalloc(pool, ngx_max(value.len, 1));
        if (p == NULL) {
            return NGX_ERROR;
        }

        ngx_memcpy(p, value.data, value.len);
        value.data = p;

    } else {
        value = sv->otherwise;

        if (value.data == NULL) {
            ngx_str_set(&value, "");
        }
    }

    if (sv->type == NGX_ETCD_VALUE_FLAG) {
        ngx_etcd_value_flag(&value);
    }

    ngx_etcd_variable_value(&name, v, value.data, value.len);

    /* a request that waits until etcd was read does not keep the default */

    v->no_cacheable = (rc != NGX_OK
                       && sv->map->map->state == NGX_ETCD_VALUE_LOADING);

    return NGX_OK;
}


void
ngx_etcd_set_use_missing(ngx_array_t *uses, void *request,
    ngx_variable_value_t *values, ngx_uint_t (*index)(void *variable),
    ngx_log_t *log)
{
    u_char                    buf[NGX_ETCD_PATTERN_PREFIX];
    ngx_str_t                 key, *literal;
    ngx_uint_t                i;
    ngx_etcd_set_use_t       *use;
    ngx_variable_value_t     *v;
    ngx_etcd_set_variable_t  *sv;

    static time_t  told;

    /* anybody may be able to cause the line */

    if (uses == NULL || told == ngx_time()) {
        return;
    }

    use = uses->elts;

    for (i = 0; i < uses->nelts; i++) {
        sv = use[i].sv;
        v = &values[index(use[i].variable)];

        if (sv->type == NGX_ETCD_VALUE_PEM
            || !(v->not_found || (v->valid && v->len == 0)))
        {
            continue;
        }

        if (ngx_etcd_set_use_key(&use[i], request, buf, &key) != NGX_OK) {
            key.len = 0;
        }

        literal = (key.len != 0) ? &sv->map->literal : &sv->key;
        told = ngx_time();

        ngx_log_error(NGX_LOG_ERR, log, 0,
                      "etcd: variable \"%V\" is empty: key \"%V%V\" has no "
                      "value", ngx_etcd_shown(&sv->name),
                      ngx_etcd_shown(literal), ngx_etcd_shown(&key));
        return;
    }
}
