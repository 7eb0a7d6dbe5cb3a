
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Variables that are the values of keys ("etcd_set"): what the directive says,
 * and what a request asks.
 */


#ifndef _NGX_ETCD_SETTING_H_INCLUDED_
#define _NGX_ETCD_SETTING_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_module.h>


typedef struct {
    ngx_str_t                  name;          /* with the "$" */
    ngx_etcd_conf_t           *cluster;
    ngx_etcd_value_conf_t     *value;
    ngx_str_t                  otherwise;     /* default= */
    u_char                    *file;
    ngx_uint_t                 line;
} ngx_etcd_setting_t;


/* the directive at hand; NULL: it is wrong, which was said, or no memory */
ngx_etcd_setting_t *ngx_etcd_setting_add(ngx_conf_t *cf);

/* the master, when the zone is there, as of ngx_etcd_value_declare() */
ngx_int_t ngx_etcd_setting_declare(ngx_etcd_conf_t *ecf,
    ngx_etcd_zone_t *old);

/* its value now, in memory of the pool; NGX_OK or NGX_ERROR */
ngx_int_t ngx_etcd_setting_get(ngx_etcd_setting_t *setting,
    ngx_variable_value_t *v, ngx_pool_t *pool);


#endif /* _NGX_ETCD_SETTING_H_INCLUDED_ */
