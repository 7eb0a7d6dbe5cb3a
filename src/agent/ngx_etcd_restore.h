
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Reads the text of a state (ngx_etcd_state.h) into sets and shared values that
 * are empty.
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
    ngx_array_t              *values;      /* of ngx_etcd_value_conf_t *,
                                              likewise */
    ngx_array_t              *value_maps;  /* of ngx_etcd_value_map_conf_t *,
                                              likewise */
    ngx_array_t               changes;     /* ngx_etcd_restore_map_t, of
                                              maps; private */
    ngx_pool_t               *pool;        /* temporary */
    ngx_etcd_state_t          state;       /* cluster and namespace that the
                                              text must have; the rest is
                                              filled in */
    ngx_uint_t                nmembers;
    ngx_str_t                 reason;      /* from the pool */
} ngx_etcd_restore_t;


/*
 * Called by the master, for a zone that no other process knows yet:
 *
 *     NGX_OK        the sets and shared values have the members, values and
 *                   revisions of the text; data of others is dropped,
 *     NGX_ERROR     nothing was changed; restore->reason is set.
 */
ngx_int_t ngx_etcd_restore(ngx_etcd_restore_t *restore, ngx_str_t *text);


#endif /* _NGX_ETCD_RESTORE_H_INCLUDED_ */
