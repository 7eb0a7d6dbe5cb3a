
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Reads the values of variables from the text of a state.
 */


#ifndef _NGX_ETCD_RESTORE_VALUE_H_INCLUDED_
#define _NGX_ETCD_RESTORE_VALUE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_restore.h>
#include <ngx_etcd_value_object.h>


/*
 * A value of a map.  Such values are collected while the file is read, and
 * enter the maps when the whole file is valid.
 */

typedef struct {
    ngx_etcd_value_map_conf_t  *map;
    ngx_etcd_value_change_t     change;
} ngx_etcd_restore_change_t;


/*
 * Reads the values, which the text may lack: one view for each of
 * restore->values.  NGX_ERROR: restore->reason is set.
 */
ngx_int_t ngx_etcd_restore_value_read(ngx_etcd_restore_t *restore,
    json_t *content, ngx_etcd_shared_value_view_t *views);

/* Writes them to the zone, which no other process knows yet. */
void ngx_etcd_restore_value_fill(ngx_etcd_restore_t *restore,
    ngx_etcd_shared_value_view_t *views);


#endif /* _NGX_ETCD_RESTORE_VALUE_H_INCLUDED_ */
