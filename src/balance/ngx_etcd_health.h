
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The part of its weight that a peer has at present: none (failing, full,
 * down or drained), a part (after failures, or in slow start), or all.
 *
 * A peer that cannot be used is parked, so that methods do not visit it.
 * Parked peers and peers with a part of their weight are checked again
 *
 *     at every pick, while there are at most NGX_ETCD_HEALTH_FEW of them,
 *     otherwise every NGX_ETCD_HEALTH_SWEEP ms,
 *     every ms while no other peer is usable,
 *
 * and a full peer also when a connection of this worker to the peer ends.
 */


#ifndef _NGX_ETCD_HEALTH_H_INCLUDED_
#define _NGX_ETCD_HEALTH_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_peer_group.h>


/* "counts": these keep requests off a peer */

#define NGX_ETCD_HEALTH_FAILURES  0x01
#define NGX_ETCD_HEALTH_CHECKS    0x02

#define NGX_ETCD_HEALTH_FEW    16
#define NGX_ETCD_HEALTH_SWEEP  100     /* ms */


/*
 * Moves the peer to the region of its state; returns 1 if the peer is usable.
 * "counts" is ngx_etcd_table_counts() of the table, here and below.
 */
ngx_uint_t ngx_etcd_health_check(ngx_etcd_peer_group_t *group,
    ngx_etcd_peer_t *peer, ngx_uint_t counts);

/*
 * 1 if the peer has all of its weight and no limit, slow start, failure or
 * verdict can change that.  A deficit is checked when it arises.
 */
#define ngx_etcd_health_whole(group, peer)                                    \
    ((peer)->pos < (group)->ends[NGX_ETCD_REGION_WHOLE]                       \
     && ((peer)->attr.max_conns | (peer)->attr.slow_start) == 0               \
     && (ngx_etcd_peer_suspect(peer) | ngx_etcd_peer_judged(peer)) == 0)

#define ngx_etcd_health_usable(group, peer, counts)                           \
    (ngx_etcd_health_whole(group, peer)                                       \
     || ngx_etcd_health_check(group, peer, counts))

/*
 * Returns 1 if the peer may be used for a session that is bound to it, which
 * goes on while the peer is drained.
 */
ngx_uint_t ngx_etcd_health_serves(ngx_etcd_peer_t *peer, ngx_uint_t counts);

/*
 * Returns 1 if a peer of the group, which has connections or not, is kept from
 * requests by nothing else.
 */
ngx_uint_t ngx_etcd_health_busy(ngx_etcd_peer_group_t *group,
    ngx_uint_t counts);

/* Checks parked and light peers again when due; called before a pick. */
void ngx_etcd_health_sweep(ngx_etcd_peer_group_t *group, ngx_uint_t counts);

/* Returns 1 if a peer is usable, after such a check. */
ngx_uint_t ngx_etcd_health_swept(ngx_etcd_peer_group_t *group,
    ngx_uint_t counts);

/*
 * A connection to the peer has failed.  Returns the number of failures, over
 * all workers, since the last success; 0: failures are not counted.
 */
ngx_uint_t ngx_etcd_health_failed(ngx_etcd_peer_group_t *group,
    ngx_etcd_peer_t *peer, ngx_uint_t counts);

/* The peer works; resets earlier failures. */
void ngx_etcd_health_recovered(ngx_etcd_peer_t *peer);


/* A connection to the peer has succeeded. */

static ngx_inline void
ngx_etcd_health_worked(ngx_etcd_peer_t *peer)
{
    if (ngx_etcd_peer_suspect(peer)) {
        ngx_etcd_health_recovered(peer);
    }
}


/* Returns the progress of slow start, 1 .. NGX_ETCD_PEER_UNIT. */
ngx_uint_t ngx_etcd_health_level(ngx_etcd_peer_t *peer);


#endif /* _NGX_ETCD_HEALTH_H_INCLUDED_ */
