
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Variables with the values of keys: the "etcd_set" directive and the
 * evaluation in a request.
 */


#ifndef _NGX_ETCD_SET_VARIABLE_H_INCLUDED_
#define _NGX_ETCD_SET_VARIABLE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_conf.h>


typedef struct {
    ngx_str_t                  name;          /* including "$" */
    ngx_etcd_conf_t           *cluster;
    ngx_etcd_value_conf_t     *value;
    ngx_str_t                  otherwise;     /* default= */
    u_char                    *file;
    ngx_uint_t                 line;
} ngx_etcd_set_variable_t;


/* Handles the directive at hand.  NULL: invalid (logged), or no memory. */
ngx_etcd_set_variable_t *ngx_etcd_set_variable_add(ngx_conf_t *cf);

/*
 * Called by the master when the zone exists; results as of
 * ngx_etcd_value_declare().
 */
ngx_int_t ngx_etcd_set_variable_declare(ngx_etcd_conf_t *ecf,
    ngx_etcd_zone_t *old);

/*
 * Reads the current value; memory is allocated from the pool.  NGX_OK or
 * NGX_ERROR.
 */
ngx_int_t ngx_etcd_set_variable_get(ngx_etcd_set_variable_t *sv,
    ngx_variable_value_t *v, ngx_pool_t *pool);


#endif /* _NGX_ETCD_SET_VARIABLE_H_INCLUDED_ */
