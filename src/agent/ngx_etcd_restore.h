
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A state that is being read from its text (ngx_etcd_state.h).
 */


#ifndef _NGX_ETCD_RESTORE_H_INCLUDED_
#define _NGX_ETCD_RESTORE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_state.h>


typedef struct {
    ngx_etcd_zone_t          *zone;
    ngx_array_t              *services;    /* of ngx_etcd_service_conf_t *,
                                              declared */
    ngx_array_t              *catalogs;    /* of ngx_etcd_catalog_conf_t *,
                                              likewise */
    ngx_array_t              *values;      /* of ngx_etcd_value_conf_t *,
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


#endif /* _NGX_ETCD_RESTORE_H_INCLUDED_ */
