
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Static servers, which are members without a key: usable before etcd answers.
 */


#ifndef _NGX_ETCD_STATIC_H_INCLUDED_
#define _NGX_ETCD_STATIC_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_member_set.h>


/*
 * Called by the master: makes servers, of ngx_etcd_member_t, the members of a
 * new set.
 */
ngx_int_t ngx_etcd_static_seed(ngx_array_t *statics, ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set);


#endif /* _NGX_ETCD_STATIC_H_INCLUDED_ */
