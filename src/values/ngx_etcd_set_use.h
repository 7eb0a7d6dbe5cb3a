
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The variables of "etcd_set" in the contexts of http or stream, which inherit
 * them, and their values in a request.
 */


#ifndef _NGX_ETCD_SET_USE_H_INCLUDED_
#define _NGX_ETCD_SET_USE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_members_conf.h>
#include <ngx_etcd_set_variable.h>


/* The functions of http or stream. */

typedef struct {
    ngx_uint_t                     stream;     /* 1: of the stream module */

    /*
     * Defines the variable, or finds it.  NGX_DECLINED: another directive has
     * defined it; NGX_ERROR: logged.
     */
    ngx_int_t                    (*define)(ngx_conf_t *cf, ngx_str_t *name,
                                           void **variable);

    ngx_etcd_pattern_index_pt      index;
    ngx_etcd_pattern_value_pt      value;

    /* a text with variables; NULL: an error */
    void                        *(*compile)(ngx_conf_t *cf, ngx_str_t *text);
    ngx_int_t                    (*text)(void *request, void *compiled,
                                         ngx_str_t *text);
} ngx_etcd_set_module_t;


typedef struct {
    void                          *variable;   /* of http or stream */
    ngx_etcd_set_variable_t       *sv;
    const ngx_etcd_set_module_t   *module;
    ngx_int_t                      indices[NGX_ETCD_PATTERN_VARIABLES];
    void                          *split;      /* compiled; NULL: none */
} ngx_etcd_set_use_t;


/* Handles the directive at hand, in a context with these variables. */
char *ngx_etcd_set_use(ngx_conf_t *cf, ngx_array_t **uses,
    const ngx_etcd_set_module_t *module);

/* Contexts inherit the variables, and may override some of them. */
ngx_int_t ngx_etcd_set_use_inherit(ngx_array_t **uses, ngx_array_t *outer);

/*
 * Finds a variable among those of a context, which may be NULL.  NULL: it has
 * no value there.
 */
ngx_etcd_set_use_t *ngx_etcd_set_use_find(ngx_array_t *uses, void *variable);

/*
 * Called after the configuration was read: checks that no other directive has
 * redefined the variables, and that those of keys exist: see
 * ngx_etcd_variable_unknown() for "keys" and "prefixes".
 */
ngx_int_t ngx_etcd_set_use_check(ngx_conf_t *cf,
    const ngx_etcd_set_module_t *module, ngx_array_t *keys,
    ngx_array_t *prefixes);

/*
 * Makes the key of a request in buf, which has NGX_ETCD_PATTERN_PREFIX bytes;
 * "key" is without the literal part, as in the map.  NGX_DECLINED: there is no
 * such key; NGX_ERROR: a variable of the key cannot be evaluated.
 */
ngx_int_t ngx_etcd_set_use_key(ngx_etcd_set_use_t *use, void *request,
    u_char *buf, ngx_str_t *key);

/*
 * Reads the current value; memory is allocated from the pool.  Not for secrets.
 * NGX_OK or NGX_ERROR.
 */
ngx_int_t ngx_etcd_set_use_get(ngx_etcd_set_use_t *use, void *request,
    ngx_variable_value_t *v, ngx_pool_t *pool);

/*
 * Called when a request has failed, whose evaluated variables are "values", by
 * the indices of "index": logs the first one that had no value.  nginx's own
 * line shows what it made of the empty text, and neither the variable nor the
 * key.
 */
void ngx_etcd_set_use_missing(ngx_array_t *uses, void *request,
    ngx_variable_value_t *values, ngx_uint_t (*index)(void *variable),
    ngx_log_t *log);


#endif /* _NGX_ETCD_SET_USE_H_INCLUDED_ */
