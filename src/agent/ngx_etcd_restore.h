
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A state that is being read from its text (ngx_etcd_state.h).
 */


#ifndef _NGX_ETCD_RESTORE_H_INCLUDED_
#define _NGX_ETCD_RESTORE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_catalog.h>
#include <ngx_etcd_state.h>
#include <ngx_etcd_value_change.h>


typedef struct {
    ngx_etcd_zone_t          *zone;
    ngx_array_t              *services;    /* of ngx_etcd_service_conf_t *,
                                              declared */
    ngx_array_t              *catalogs;    /* of ngx_etcd_catalog_conf_t *,
                                              likewise */
    ngx_array_t              *value_maps;  /* of ngx_etcd_value_map_conf_t *,
                                              likewise */
    ngx_array_t               changes;     /* ngx_etcd_restore_change_t, of
                                              maps; private */
    ngx_pool_t               *pool;        /* temporary */
    ngx_etcd_state_t          state;       /* cluster and namespace that the
                                              text must have; the rest is
                                              filled in */
    ngx_uint_t                nmembers;
    ngx_str_t                 reason;      /* from the pool */
} ngx_etcd_restore_t;


/*
 * Read a field of an object of the text: a string, which may be of any bytes,
 * or a number that is not negative.  NGX_ERROR: restore->reason is set.
 */
ngx_int_t ngx_etcd_restore_bytes(ngx_etcd_restore_t *restore, json_t *object,
    char *name, ngx_str_t *value);
ngx_int_t ngx_etcd_restore_number(ngx_etcd_restore_t *restore, json_t *object,
    char *name, uint64_t *value);

/* Sets restore->reason and returns NGX_ERROR. */
ngx_int_t ngx_etcd_restore_refuse(ngx_etcd_restore_t *restore, char *fmt, ...);


/*
 * Makes the sets of a prefix with variables that the text of a state has.
 */

/*
 * Makes the set with that prefix, and the configuration of its service, which
 * is allocated from the pool with the prefix.  NGX_DECLINED: the catalog has no
 * such set, already has the set, or has as many as its limit allows;
 * NGX_ERROR: no memory, or the zone is too small.
 */
ngx_int_t ngx_etcd_restore_catalog_set(ngx_etcd_catalog_conf_t *catalog,
    ngx_str_t *prefix, ngx_pool_t *pool, ngx_etcd_service_conf_t **conf);

/*
 * All sets are complete up to that revision; 0: they are to be listed.
 */
void ngx_etcd_restore_catalog_complete(ngx_etcd_catalog_conf_t *catalog,
    uint64_t revision);


/*
 * Reads the values of variables from the text of a state.
 */

/*
 * A value of a map.  Such values are collected while the file is read, and
 * enter the maps when the whole file is valid.
 */

typedef struct {
    ngx_etcd_value_map_conf_t  *map;
    ngx_etcd_value_change_t     change;
} ngx_etcd_restore_change_t;


/*
 * Reads the values, which the text may lack.  NGX_ERROR: restore->reason is
 * set.
 */
ngx_int_t ngx_etcd_restore_value_read(ngx_etcd_restore_t *restore,
    json_t *content);

/* Writes them to the zone, which no other process knows yet. */
void ngx_etcd_restore_value_fill(ngx_etcd_restore_t *restore);


#endif /* _NGX_ETCD_RESTORE_H_INCLUDED_ */
