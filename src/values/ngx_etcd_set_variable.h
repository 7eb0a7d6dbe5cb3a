
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Variables with the values of keys: the "etcd_set" directive.
 *
 * The values are in value maps (ngx_etcd_value_map.h): one for each key without
 * variables, and one for all patterns of a cluster with the same literal part.
 */


#ifndef _NGX_ETCD_SET_VARIABLE_H_INCLUDED_
#define _NGX_ETCD_SET_VARIABLE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_conf.h>
#include <ngx_etcd_pattern.h>
#include <ngx_etcd_value_map.h>


typedef struct {
    ngx_str_t                  name;          /* including "$" */
    ngx_uint_t                 stream;        /* 1: of the stream module */
    ngx_etcd_conf_t           *cluster;
    ngx_str_t                  key;           /* the configured key */
    ngx_etcd_pattern_t         pattern;       /* of the key */
    ngx_etcd_value_map_conf_t *map;           /* has the pattern */
    ngx_str_t                  otherwise;     /* default=, or the content of
                                                 default_file= */
    ngx_str_t                  split;         /* no data: none */
    ngx_uint_t                 limit;
    size_t                     max_size;
    ngx_uint_t                 max_bits;      /* max_key_bits= */
    ngx_str_t                  default_file;  /* of secrets; no data: none */
    ngx_uint_t                 type;          /* ngx_etcd_value_type_e */
    ngx_uint_t                 reported;      /* by this worker */
    u_char                    *file;
    ngx_uint_t                 line;
} ngx_etcd_set_variable_t;


/* Handles the directive at hand.  NULL: invalid (logged), or no memory. */
ngx_etcd_set_variable_t *ngx_etcd_set_variable_add(ngx_conf_t *cf,
    ngx_uint_t stream);

/* Called after the whole configuration was read. */
ngx_int_t ngx_etcd_set_variable_check(ngx_etcd_main_conf_t *emcf,
    ngx_log_t *log);

/*
 * Called by the master when the zone exists; results as of
 * ngx_etcd_value_object_declare().
 */
ngx_int_t ngx_etcd_set_variable_declare(ngx_etcd_conf_t *ecf,
    ngx_etcd_zone_t *old);


#endif /* _NGX_ETCD_SET_VARIABLE_H_INCLUDED_ */
