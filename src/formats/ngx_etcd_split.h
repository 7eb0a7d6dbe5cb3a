
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Values with weights, such as {"stable":95,"canary":5}, of which a hash picks
 * a name.
 */


#ifndef _NGX_ETCD_SPLIT_H_INCLUDED_
#define _NGX_ETCD_SPLIT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_ETCD_SPLIT_WEIGHT  1000000       /* the greatest */


/*
 * Sets *name, in memory of the pool, so that of all hashes each name has its
 * share, in the order in which the names are written.  NGX_DECLINED: the value
 * is invalid, *err says why; NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_split_pick(ngx_str_t *value, uint32_t hash,
    ngx_pool_t *pool, ngx_str_t *name, char **err);


#endif /* _NGX_ETCD_SPLIT_H_INCLUDED_ */
