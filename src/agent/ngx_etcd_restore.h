
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Reads the text of a state (ngx_etcd_state.h) into a zone.
 */


#ifndef _NGX_ETCD_RESTORE_H_INCLUDED_
#define _NGX_ETCD_RESTORE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_conf.h>


typedef struct {
    ngx_etcd_conf_t          *conf;
    ngx_pool_t               *pool;        /* temporary */

    uint64_t                  cluster_id;  /* of the text */
    uint64_t                  revision;    /* likewise, the highest seen */
    ngx_uint_t                nmembers;
    ngx_str_t                 reason;      /* from the pool */

    /* private */

    ngx_array_t               sets;        /* ngx_etcd_restore_set_t */
    ngx_uint_t                open;        /* the last one takes members */
    ngx_array_t               changes;     /* ngx_etcd_restore_change_t */
    uint64_t                 *revisions;   /* of each catalog, the lowest one
                                              of its sets */
} ngx_etcd_restore_t;


/*
 * Called by the master, for a zone that no other process knows yet; conf and
 * pool are set, the rest is zeroed:
 *
 *     NGX_OK        the sets and value maps have the members, values and
 *                   revisions of the text; data of others is dropped,
 *     NGX_ERROR     nothing was changed; restore->reason is set.
 */
ngx_int_t ngx_etcd_restore(ngx_etcd_restore_t *restore, ngx_str_t *text);


#endif /* _NGX_ETCD_RESTORE_H_INCLUDED_ */
