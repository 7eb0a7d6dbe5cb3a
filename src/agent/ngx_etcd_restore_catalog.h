
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Makes the sets of a prefix with variables that the text of a state has.
 */


#ifndef _NGX_ETCD_RESTORE_CATALOG_H_INCLUDED_
#define _NGX_ETCD_RESTORE_CATALOG_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_catalog.h>


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


#endif /* _NGX_ETCD_RESTORE_CATALOG_H_INCLUDED_ */
