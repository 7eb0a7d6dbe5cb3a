
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Frees the sets of former configurations, piece by piece.
 */


#ifndef _NGX_ETCD_RETIRE_H_INCLUDED_
#define _NGX_ETCD_RETIRE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_zone.h>


/*
 * Called by the owner: frees the sets that its configuration has not
 * declared, until a time of ngx_etcd_time_budget_now().  The next call goes on
 * with zone->retiring.  Workers of older configurations that still serve
 * requests keep their copies.  Results as of ngx_etcd_zone_work().
 */
ngx_int_t ngx_etcd_retire_sets(ngx_etcd_zone_t *zone, uint64_t until);

/*
 * Frees one set, which the caller has made old: its epoch is 0.  What is left
 * is for the next call of ngx_etcd_retire_sets(), which looks at all sets
 * again, or for the next owner's.  Results as of ngx_etcd_retire_sets().
 */
ngx_int_t ngx_etcd_retire_one(ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, uint64_t until);

#endif /* _NGX_ETCD_RETIRE_H_INCLUDED_ */
