
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Value maps as objects of a zone, which outlive a configuration.
 */


#ifndef _NGX_ETCD_VALUE_OBJECT_H_INCLUDED_
#define _NGX_ETCD_VALUE_OBJECT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_value_change.h>


/*
 * Called by the master when the zone exists: finds or makes the map.  The map
 * of a new zone gets the values of the old zone, if there is one, as far as
 * there is room.  NGX_ERROR: the zone is too small, or its mutex is held.
 */
ngx_int_t ngx_etcd_value_object_declare(ngx_etcd_value_map_conf_t *conf,
    ngx_str_t *ns, ngx_etcd_zone_t *zone, ngx_etcd_zone_t *old);

/*
 * Excludes the zone from core dumps of this process if there are private keys
 * in it, maybe of a newer configuration.
 */
void ngx_etcd_value_object_hide(ngx_etcd_zone_t *zone);

/* Adds a value of a state file.  Called by the master for a new zone. */
void ngx_etcd_value_object_restore(ngx_etcd_value_map_conf_t *conf,
    ngx_etcd_value_change_t *change);

/*
 * Called by the owner: frees maps that its configuration has not declared.
 * Returns the values of ngx_etcd_retire_sets().
 */
ngx_int_t ngx_etcd_value_object_retire_old(ngx_etcd_zone_t *zone,
    uint64_t until);


#endif /* _NGX_ETCD_VALUE_OBJECT_H_INCLUDED_ */
