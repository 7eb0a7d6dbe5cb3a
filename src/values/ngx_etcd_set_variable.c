
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_option.h>
#include <ngx_etcd_pem.h>
#include <ngx_etcd_secret.h>
#include <ngx_etcd_set_variable.h>
#include <ngx_etcd_split.h>
#include <ngx_etcd_str.h>
#include <ngx_etcd_value_change.h>
#include <ngx_etcd_value_conf.h>


/* contexts: keys with variables; after "type=pem" */

#define NGX_ETCD_SET_VARIABLES  0x01
#define NGX_ETCD_SET_PEM        0x02


/* in the order of ngx_etcd_value_type_e */

static ngx_conf_enum_t  ngx_etcd_set_types[] = {
    { ngx_string("pem"), NGX_ETCD_VALUE_PEM },
    { ngx_string("int"), NGX_ETCD_VALUE_INT },
    { ngx_string("size"), NGX_ETCD_VALUE_SIZE },
    { ngx_string("flag"), NGX_ETCD_VALUE_FLAG },
    { ngx_null_string, 0 }
};


static ngx_etcd_option_t  ngx_etcd_set_options[] = {

    { .name = ngx_string("cluster="), .type = NGX_ETCD_OPTION_READ,
      .min = 1 },

    { .name = ngx_string("default="), .type = NGX_ETCD_OPTION_STRING,
      .offset = offsetof(ngx_etcd_set_variable_t, otherwise) },

    { .name = ngx_string("default_file="), .type = NGX_ETCD_OPTION_STRING,
      .offset = offsetof(ngx_etcd_set_variable_t, default_file), .min = 1,
      .contexts = NGX_ETCD_SET_VARIABLES|NGX_ETCD_SET_PEM },

    { .name = ngx_string("limit="), .type = NGX_ETCD_OPTION_NUMBER,
      .offset = offsetof(ngx_etcd_set_variable_t, limit),
      .min = 1, .max = NGX_ETCD_VALUE_MAP_MAX_LIMIT,
      .contexts = NGX_ETCD_SET_VARIABLES,
      .otherwise = "it must be a number from 1 to 1000000" },

    { .name = ngx_string("max_key_bits="), .type = NGX_ETCD_OPTION_NUMBER,
      .offset = offsetof(ngx_etcd_set_variable_t, max_bits),
      .min = NGX_ETCD_PEM_LEAST_BITS, .max = NGX_ETCD_PEM_MOST_BITS,
      .contexts = NGX_ETCD_SET_VARIABLES|NGX_ETCD_SET_PEM,
      .otherwise = "it must be a number from 1024 to 16384" },

    { .name = ngx_string("max_size="), .type = NGX_ETCD_OPTION_SIZE,
      .offset = offsetof(ngx_etcd_set_variable_t, max_size),
      .min = 1, .max = NGX_ETCD_VALUE_MAP_MAX_SIZE,
      .contexts = NGX_ETCD_SET_VARIABLES,
      .otherwise = "it must be a size from 1 to 64k" },

    /* compiled by the caller */

    { .name = ngx_string("split="), .type = NGX_ETCD_OPTION_STRING,
      .offset = offsetof(ngx_etcd_set_variable_t, split), .min = 1,
      .otherwise = "it is empty" },

    { .name = ngx_string("type="), .type = NGX_ETCD_OPTION_ENUM,
      .offset = offsetof(ngx_etcd_set_variable_t, type),
      .names = ngx_etcd_set_types,
      .otherwise = "it must be \"int\", \"size\", \"flag\", or \"pem\"" },

    ngx_etcd_null_option
};


/* A namespace, which may come later, lets the literal part be empty. */

static ngx_int_t
ngx_etcd_set_variable_pattern(ngx_conf_t *cf, ngx_etcd_set_variable_t *sv)
{
    char       *err;
    ngx_int_t   rc;

    if (!ngx_etcd_pattern_has_variable(&sv->key)) {
        sv->pattern.text = sv->key;
        sv->pattern.literal = sv->key;
        sv->limit = 1;

        return NGX_OK;
    }

    rc = ngx_etcd_pattern_parse(&sv->pattern, &sv->key, 1, cf->pool, &err);

    if (rc == NGX_OK && sv->pattern.below) {
        err = "it ends with a slash, but names a key";
        rc = NGX_DECLINED;
    }

    if (rc == NGX_DECLINED) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "invalid key \"%V\": %s",
                           &sv->key, err);
    }

    return rc;
}


static char *
ngx_etcd_set_variable_allowed(ngx_etcd_option_t *option, void *conf)
{
    ngx_etcd_set_variable_t *sv = conf;

    if ((option->contexts & NGX_ETCD_SET_VARIABLES)
        && sv->pattern.nvariables == 0)
    {
        return "it needs a key with variables";
    }

    if ((option->contexts & NGX_ETCD_SET_PEM)
        && sv->type != NGX_ETCD_VALUE_PEM)
    {
        return "it needs \"type=pem\" before it";
    }

    return NULL;
}


/* Returns what is wrong with the file, or NULL. */

static char *
ngx_etcd_set_variable_content(ngx_fd_t fd, ngx_uint_t max_bits,
    ngx_str_t *content, ngx_pool_t *pool)
{
    off_t            size;
    u_char          *scratch;
    ngx_file_info_t  fi;

    if (ngx_fd_info(fd, &fi) == NGX_FILE_ERROR || !ngx_is_file(&fi)) {
        return "it is not a regular file";
    }

    size = ngx_file_size(&fi);

    if (size > NGX_ETCD_VALUE_MAP_MAX_SIZE) {
        return "it is larger than 64k";
    }

    content->data = ngx_etcd_secret_palloc(pool, NGX_ETCD_PEM_ROOM(size));
    scratch = ngx_etcd_secret_palloc(pool, ngx_max(size, 1));

    if (content->data == NULL || scratch == NULL) {
        return "it cannot be read: no memory";
    }

    if (ngx_read_fd(fd, content->data, size) != size) {
        return "it cannot be read";
    }

    content->len = size;
    ngx_etcd_value_trim(content);

    return ngx_etcd_pem_blocks(content, max_bits, scratch);
}


/* The file is read with the rights of the master. */

static ngx_int_t
ngx_etcd_set_variable_file(ngx_conf_t *cf, ngx_etcd_set_variable_t *sv)
{
    char       *err;
    ngx_fd_t    fd;
    ngx_str_t   path;

    if (sv->default_file.len == 0) {
        return NGX_OK;
    }

    path = sv->default_file;

    if (ngx_conf_full_name(cf->cycle, &path, 1) != NGX_OK) {
        return NGX_ERROR;
    }

    fd = ngx_open_file(path.data, NGX_FILE_RDONLY|NGX_FILE_NONBLOCK,
                       NGX_FILE_OPEN, 0);

    if (fd == NGX_INVALID_FILE) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           "parameter \"default_file=%V\" cannot be opened: "
                           ngx_open_file_n " \"%V\" failed",
                           &sv->default_file, &path);
        return NGX_ERROR;
    }

    err = ngx_etcd_set_variable_content(fd, sv->max_bits, &sv->otherwise,
                                        cf->pool);

    (void) ngx_close_file(fd);

    if (err == NULL) {
        return NGX_OK;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "parameter \"default_file=%V\" is invalid: \"%V\": %s",
                       &sv->default_file, &path, err);

    return NGX_ERROR;
}


static ngx_int_t
ngx_etcd_set_variable_check_pem(ngx_conf_t *cf, ngx_etcd_set_variable_t *sv)
{
    char  *err;

    err = (sv->pattern.nvariables == 0) ? "it needs a key with variables"
          : sv->stream ? "it is for http only" : NULL;

    if (err != NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"type=pem\": %s", err);
        return NGX_ERROR;
    }

    if (sv->otherwise.data != NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"default=\" and \"type=pem\" of \"%V\" exclude "
                           "each other", &sv->name);
        return NGX_ERROR;
    }

    return ngx_etcd_set_variable_file(cf, sv);
}


/* Parameters may come before "type=". */

static ngx_int_t
ngx_etcd_set_variable_check_type(ngx_conf_t *cf, ngx_etcd_set_variable_t *sv)
{
    u_char      buf[NGX_ETCD_VALUE_REASON];
    ngx_str_t   reason, *name;

    if (sv->type == NGX_ETCD_VALUE_ANY) {
        return NGX_OK;
    }

    name = &ngx_etcd_set_types[sv->type - 1].name;

    if (sv->split.data != NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"split=\" and \"type=%V\" of \"%V\" exclude "
                           "each other", name, &sv->name);
        return NGX_ERROR;
    }

    if (sv->type == NGX_ETCD_VALUE_PEM) {
        return ngx_etcd_set_variable_check_pem(cf, sv);
    }

    if (sv->otherwise.data != NULL
        && ngx_etcd_value_refuse(&sv->otherwise, NGX_ETCD_VALUE_MAP_MAX_SIZE,
                                 sv->type, buf, &reason)
           != NULL)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"default=\" of \"%V\" is not of \"type=%V\": "
                           "%V", &sv->name, name, &reason);
        return NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_set_variable_parameters(ngx_conf_t *cf, ngx_etcd_set_variable_t *sv)
{
    if (ngx_etcd_option_read(cf, 3, ngx_etcd_set_options,
                             ngx_etcd_set_variable_allowed, sv)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ngx_etcd_escape_has_control(sv->otherwise.data, sv->otherwise.len)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"default=\" of \"%V\" has a control byte",
                           &sv->name);
        return NGX_ERROR;
    }

    return ngx_etcd_set_variable_check_type(cf, sv);
}


static ngx_int_t
ngx_etcd_set_variable_arguments(ngx_conf_t *cf, ngx_etcd_set_variable_t *sv)
{
    ngx_str_t  *value, before, name;

    value = cf->args->elts;

    if (!ngx_etcd_str_cut(&value[1], '$', &before, &name)
        || before.len != 0
        || !ngx_etcd_str_is_word(&name))
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid variable name \"%V\"", &value[1]);
        return NGX_ERROR;
    }

    if (value[2].len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" has an empty key", &value[0]);
        return NGX_ERROR;
    }

    sv->cluster = ngx_etcd_option_cluster(cf, 3);
    if (sv->cluster == NULL) {
        return NGX_ERROR;
    }

    if (ngx_etcd_set_variable_pattern(cf, sv) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_etcd_set_variable_parameters(cf, sv);
}


ngx_etcd_set_variable_t *
ngx_etcd_set_variable_add(ngx_conf_t *cf, ngx_uint_t stream)
{
    ngx_str_t                 *value;
    ngx_etcd_main_conf_t      *emcf;
    ngx_etcd_set_variable_t   *sv;
    ngx_etcd_value_pattern_t   pattern;

    value = cf->args->elts;

    sv = ngx_pcalloc(cf->pool, sizeof(ngx_etcd_set_variable_t));
    if (sv == NULL) {
        return NULL;
    }

    sv->name = value[1];
    sv->stream = stream;
    sv->key = value[2];
    sv->limit = NGX_ETCD_VALUE_MAP_LIMIT;
    sv->max_size = NGX_ETCD_VALUE_MAP_SIZE;
    sv->max_bits = NGX_ETCD_PEM_MAX_BITS;
    sv->file = cf->conf_file->file.name.data;
    sv->line = cf->conf_file->line;

    if (ngx_etcd_set_variable_arguments(cf, sv) != NGX_OK) {
        return NULL;
    }

    pattern.pattern = sv->pattern;
    pattern.limit = sv->limit;
    pattern.max_size = sv->max_size;
    pattern.max_bits = sv->max_bits;
    pattern.split = (sv->split.data != NULL);

    sv->map = ngx_etcd_value_conf_add(&sv->cluster->value_maps, &sv->name,
                                      &pattern, sv->type, cf->pool);
    if (sv->map == NULL) {
        return NULL;
    }

    sv->cluster->secrets |= (sv->type == NGX_ETCD_VALUE_PEM);

    emcf = ngx_etcd_conf_main(cf->cycle);

    return (ngx_etcd_conf_push(&emcf->set_variables, sv) == NGX_OK) ? sv : NULL;
}


ngx_int_t
ngx_etcd_set_variable_check(ngx_etcd_main_conf_t *emcf, ngx_log_t *log)
{
    ngx_uint_t                  i;
    ngx_etcd_set_variable_t  **sv;

    sv = emcf->set_variables.elts;

    for (i = 0; i < emcf->set_variables.nelts; i++) {
        if (sv[i]->pattern.nvariables != 0
            && sv[i]->pattern.literal.len <= 1
            && sv[i]->cluster->client.key_namespace.len == 0)
        {
            ngx_log_error(NGX_LOG_EMERG, log, 0,
                          "invalid key \"%V\" of \"etcd_set\" in %s:%ui: "
                          "nothing but \"/\" precedes its first variable, all "
                          "keys of etcd would be watched",
                          ngx_etcd_shown(&sv[i]->key), sv[i]->file,
                          sv[i]->line);
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


ngx_int_t
ngx_etcd_set_variable_declare(ngx_etcd_conf_t *ecf, ngx_etcd_zone_t *old)
{
    ngx_uint_t                   i;
    ngx_etcd_value_map_conf_t  **maps;

    maps = ecf->value_maps.elts;

    for (i = 0; i < ecf->value_maps.nelts; i++) {
        if (ngx_etcd_value_object_declare(maps[i], &ecf->client.key_namespace,
                                          &ecf->zone, old)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}
