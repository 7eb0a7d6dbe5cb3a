
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Variables with the values of keys: the "etcd_set" directive and the
 * evaluation in a request.
 *
 * The values are in value maps (ngx_etcd_value_map.h): one for each key without
 * variables, and one for all patterns of a cluster with the same literal part.
 */


#ifndef _NGX_ETCD_SET_VARIABLE_H_INCLUDED_
#define _NGX_ETCD_SET_VARIABLE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_conf.h>
#include <ngx_etcd_pattern_values.h>
#include <ngx_etcd_value_map.h>


typedef struct {
    ngx_str_t                  name;          /* including "$" */
    ngx_uint_t                 stream;        /* 1: of the stream module */
    ngx_etcd_conf_t           *cluster;
    ngx_str_t                  key;           /* the configured key */
    ngx_etcd_pattern_t         pattern;       /* of the key */
    ngx_etcd_value_map_conf_t *map;           /* that has the pattern */
    ngx_str_t                  otherwise;     /* default=, or the content of
                                                 default_file= */
    ngx_str_t                  split;         /* no data: none */
    ngx_uint_t                 limit;
    size_t                     max_size;
    ngx_uint_t                 max_bits;      /* max_key_bits= */
    ngx_str_t                  default_file;  /* of secrets; no data: none */
    ngx_uint_t                 secret;        /* type=pem */
    ngx_uint_t                 reported;      /* by this worker */
    u_char                    *file;
    ngx_uint_t                 line;
} ngx_etcd_set_variable_t;


/* A variable in a context and those within it. */

typedef struct {
    void                      *variable;      /* of http or stream */
    ngx_etcd_set_variable_t   *sv;
    ngx_int_t                  indices[NGX_ETCD_PATTERN_VARIABLES];
    void                      *split;         /* a complex value; NULL: none */
} ngx_etcd_set_variable_use_t;


/* Handles the directive at hand.  NULL: invalid (logged), or no memory. */
ngx_etcd_set_variable_t *ngx_etcd_set_variable_add(ngx_conf_t *cf,
    ngx_uint_t stream);

/*
 * Adds a variable to those of a context; NULL: it is there already (logged),
 * or no memory.
 */
ngx_etcd_set_variable_use_t *ngx_etcd_set_variable_use(ngx_conf_t *cf,
    ngx_array_t **uses, void *variable, ngx_etcd_set_variable_t *sv);

/* Contexts inherit the variables, and may override some of them. */
ngx_int_t ngx_etcd_set_variable_inherit(ngx_array_t **uses,
    ngx_array_t *outer);

/*
 * Finds a variable among those of a context, which may be NULL.  NULL: it has
 * no value there.
 */
ngx_etcd_set_variable_use_t *ngx_etcd_set_variable_find(ngx_array_t *uses,
    void *variable);

/* Called after the whole configuration was read. */
ngx_int_t ngx_etcd_set_variable_check(ngx_etcd_main_conf_t *emcf,
    ngx_log_t *log);

/*
 * Called by the master when the zone exists; results as of
 * ngx_etcd_value_object_declare().
 */
ngx_int_t ngx_etcd_set_variable_declare(ngx_etcd_conf_t *ecf,
    ngx_etcd_zone_t *old);

/*
 * Makes the key of a request in buf, which has NGX_ETCD_PATTERN_PREFIX bytes;
 * "key" is without the literal part, as in the map.  NGX_DECLINED: there is no
 * such key; NGX_ERROR: a variable of the key cannot be evaluated.
 */
ngx_int_t ngx_etcd_set_variable_key(ngx_etcd_set_variable_use_t *use,
    ngx_etcd_pattern_value_pt get, void *request, u_char *buf, ngx_str_t *key);

/*
 * Reads the current value; memory is allocated from the pool.  "key" is that
 * in the map, NULL: none; "split" is the text whose hash picks a name.  Not
 * for secrets.  NGX_OK or NGX_ERROR.
 */
ngx_int_t ngx_etcd_set_variable_get(ngx_etcd_set_variable_t *sv,
    ngx_str_t *key, ngx_str_t *split, ngx_variable_value_t *v,
    ngx_pool_t *pool);

/* Reports once in this worker why the variable has no value. */
void ngx_etcd_set_variable_report(ngx_etcd_set_variable_t *sv, char *why);


#endif /* _NGX_ETCD_SET_VARIABLE_H_INCLUDED_ */
