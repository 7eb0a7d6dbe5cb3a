
/*
 * Copyright (C) nginx-etcd contributors
 *
 * What a peer may get at present: nothing (it is failing, full, down or
 * drained), a part of its weight (it has failed, or starts slowly), or all.
 *
 * A peer that cannot be used is parked: out of the way of picking.  Parked
 * ones and those with a part of their weight are looked at again
 *
 *     at every pick, while there are no more than NGX_ETCD_HEALTH_FEW of them,
 *     every NGX_ETCD_HEALTH_SWEEP ms otherwise,
 *     and every ms while no other peer is left,
 *
 * and one that was full when a connection of this worker to it ends.
 */


#ifndef _NGX_ETCD_HEALTH_H_INCLUDED_
#define _NGX_ETCD_HEALTH_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_table.h>


#define NGX_ETCD_HEALTH_FEW    16
#define NGX_ETCD_HEALTH_SWEEP  100     /* ms */


/* puts the peer where it belongs; returns 1 if it may be used */
ngx_uint_t ngx_etcd_health_check(ngx_etcd_table_t *table,
    ngx_etcd_tier_t *tier, ngx_etcd_peer_t *peer);

/*
 * It has all of its weight, and nothing could have changed that: the same.  A
 * deficit is looked at when it arises.
 */
#define ngx_etcd_health_whole(tier, peer)                                     \
    ((peer)->pos < (tier)->ends[NGX_ETCD_REGION_WHOLE]                        \
     && ((peer)->attr.max_conns | (peer)->attr.slow_start) == 0               \
     && !ngx_etcd_peer_suspect(peer))

#define ngx_etcd_health_usable(table, tier, peer)                             \
    (ngx_etcd_health_whole(tier, peer)                                        \
     || ngx_etcd_health_check(table, tier, peer))

/* before a pick: looks at those again that it is time for */
void ngx_etcd_health_sweep(ngx_etcd_table_t *table, ngx_etcd_tier_t *tier);

/*
 * A connection to the peer has failed: returns its failures, over all workers
 * and since it worked last; 0: they are not counted.
 */
ngx_uint_t ngx_etcd_health_failed(ngx_etcd_table_t *table,
    ngx_etcd_tier_t *tier, ngx_etcd_peer_t *peer);

/* the peer works; it may have failed before */
void ngx_etcd_health_recovered(ngx_etcd_peer_t *peer);


/* a connection to the peer has not failed */

static ngx_inline void
ngx_etcd_health_worked(ngx_etcd_peer_t *peer)
{
    if (ngx_etcd_peer_suspect(peer)) {
        ngx_etcd_health_recovered(peer);
    }
}


/* 1 .. NGX_ETCD_PEER_UNIT: how far a slow start is */
ngx_uint_t ngx_etcd_health_level(ngx_etcd_peer_t *peer);


#endif /* _NGX_ETCD_HEALTH_H_INCLUDED_ */
