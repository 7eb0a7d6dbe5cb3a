
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Values of a state file that belong to value maps.  They are collected while
 * the file is read, and enter the maps when the whole file is valid.
 */


#ifndef _NGX_ETCD_RESTORE_MAP_H_INCLUDED_
#define _NGX_ETCD_RESTORE_MAP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_value_object.h>


typedef struct {
    ngx_etcd_value_map_conf_t  *map;
    ngx_etcd_value_change_t     change;
} ngx_etcd_restore_map_t;


/*
 * Adds the value to changes, an array of ngx_etcd_restore_map_t, for each of
 * the maps that may have it; key and value must stay.  NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_restore_map_add(ngx_array_t *changes, ngx_array_t *maps,
    ngx_str_t *key, ngx_str_t *value, uint64_t modified);

/* Called by the master, for a zone that no other process knows yet. */
void ngx_etcd_restore_map_fill(ngx_array_t *changes);


#endif /* _NGX_ETCD_RESTORE_MAP_H_INCLUDED_ */
