
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Giving back the sets of former configurations, a piece at a time.
 */


#ifndef _NGX_ETCD_RETIRE_H_INCLUDED_
#define _NGX_ETCD_RETIRE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_zone.h>


/*
 * The owner: gives back the sets that its configuration does not have, until
 * some time of ngx_etcd_stall_now().  Workers of older configurations that
 * still serve requests keep their own copies.
 *
 *     NGX_OK        there are none left,
 *     NGX_AGAIN     there is more to be given back,
 *     NGX_BUSY      the mutex was not free,
 *     NGX_DECLINED  this process is not the owner any more.
 */
ngx_int_t ngx_etcd_retire_sets(ngx_etcd_zone_t *zone, uint64_t until);


#endif /* _NGX_ETCD_RETIRE_H_INCLUDED_ */
