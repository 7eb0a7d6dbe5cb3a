
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Counters of the locks of one name, over all workers of the instance.  Locks
 * held or awaited by a dead worker are not counted.
 */


#ifndef _NGX_ETCD_LOCK_STATS_H_INCLUDED_
#define _NGX_ETCD_LOCK_STATS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_gauge.h>
#include <ngx_etcd_object.h>


typedef struct {
    ngx_etcd_object_t    object;
    ngx_etcd_gauge_t     held;
    ngx_etcd_gauge_t     waiting;
    ngx_atomic_t         acquired;
    ngx_atomic_t         timeouts;
    ngx_atomic_t         lost;
    ngx_atomic_t         handoffs;
} ngx_etcd_lock_stats_t;


/*
 * Called by the master: finds or creates the counters of the lock with that
 * name.  NULL: the zone is too small, or its mutex is held.
 */
ngx_etcd_lock_stats_t *ngx_etcd_lock_stats_declare(ngx_etcd_zone_t *zone,
    ngx_str_t *name);


#endif /* _NGX_ETCD_LOCK_STATS_H_INCLUDED_ */
