
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Changes of a value map by the owner of the zone, under the mutex.
 */


#ifndef _NGX_ETCD_VALUE_CHANGE_H_INCLUDED_
#define _NGX_ETCD_VALUE_CHANGE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_value_map.h>


typedef enum {
    NGX_ETCD_VALUE_PUT = 0,
    NGX_ETCD_VALUE_REFUSE,           /* an invalid value */
    NGX_ETCD_VALUE_REMOVE
} ngx_etcd_value_op_e;


typedef struct {
    ngx_etcd_value_op_e              op;
    uint64_t                         revision;
    uint64_t                         source;       /* see
                                                      ngx_etcd_value_conf.h */
    ngx_str_t                        key;          /* without the literal
                                                      part */
    ngx_str_t                        value;        /* only of PUT */
    ngx_str_t                        table;        /* of the value; or empty */

    ngx_uint_t                       made;         /* 0: nothing has changed */
    ngx_etcd_change_e                change;
} ngx_etcd_value_change_t;


/*
 * Copies the change with its key and value, if it is not longer than any value
 * of the map may be, a secret into memory of secrets with room for its blocks.
 * NULL: no memory.
 */
ngx_etcd_value_change_t *ngx_etcd_value_change_copy(
    ngx_etcd_value_map_conf_t *conf, ngx_etcd_value_change_t *change,
    ngx_log_t *log);

/* Frees the copy. */
void ngx_etcd_value_change_done(ngx_etcd_value_map_conf_t *conf,
    ngx_etcd_value_change_t *change);

/*
 * Returns 1 if the newest value that the map has seen of the key, valid or
 * refused, is just this one; 0 also if the mutex is held.  Called by the owner.
 */
ngx_uint_t ngx_etcd_value_change_known(ngx_etcd_value_map_conf_t *conf,
    ngx_etcd_value_change_t *change);

/*
 * Called by the owner, which holds the mutex: makes the changes, up to
 * NGX_ETCD_BATCH_STEPS; a key that is removed may be put by a later one.
 * Readers see all or none of them.  A key beyond the limit is not added.
 * NGX_ERROR: the zone has no room for all values, and no change was made.
 */
ngx_int_t ngx_etcd_value_change(ngx_etcd_value_map_conf_t *conf,
    ngx_etcd_value_change_t **changes, ngx_uint_t n);


/*
 * Value maps as objects of a zone, which outlive a configuration.
 */

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

/*
 * Adds a value of a state file, which has several of a key that is in maps of
 * several types: the newest stays.  Called by the master for a new zone.
 */
void ngx_etcd_value_object_restore(ngx_etcd_value_map_conf_t *conf,
    ngx_etcd_value_change_t *change);

/*
 * Called by the owner: frees maps that its configuration has not declared.
 * Returns the values of ngx_etcd_retire_sets().
 */
ngx_int_t ngx_etcd_value_object_retire_old(ngx_etcd_zone_t *zone,
    uint64_t until);


#endif /* _NGX_ETCD_VALUE_CHANGE_H_INCLUDED_ */
