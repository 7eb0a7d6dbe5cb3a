
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The configuration of value maps: patterns with the same literal part share a
 * map, and those that match the same keys are one.
 */


#ifndef _NGX_ETCD_VALUE_CONF_H_INCLUDED_
#define _NGX_ETCD_VALUE_CONF_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_value.h>
#include <ngx_etcd_value_map.h>


/*
 * Adds a pattern to the maps of a cluster, an array of
 * ngx_etcd_value_map_conf_t *, and returns its map.  NULL: no memory.
 */
ngx_etcd_value_map_conf_t *ngx_etcd_value_conf_add(ngx_array_t *maps,
    ngx_str_t *name, ngx_etcd_value_pattern_t *pattern, ngx_uint_t secret,
    ngx_pool_t *pool);

/*
 * Returns NULL if the key of a map may have the value, otherwise the reason
 * why not, which is written into the buffer of NGX_ETCD_VALUE_REASON bytes.
 */
ngx_str_t *ngx_etcd_value_conf_refuse(ngx_etcd_value_map_conf_t *conf,
    ngx_str_t *key, ngx_str_t *value, u_char *buf, ngx_str_t *reason);


#endif /* _NGX_ETCD_VALUE_CONF_H_INCLUDED_ */
