
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


/* The state of a member: what keeps requests off it, or does not. */

typedef enum {
    NGX_ETCD_MEMBER_UP = 0,
    NGX_ETCD_MEMBER_BACKUP,
    NGX_ETCD_MEMBER_HELD,          /* by the guard, without a key */
    NGX_ETCD_MEMBER_BUSY,          /* max_conns */
    NGX_ETCD_MEMBER_FAILING,       /* max_fails */
    NGX_ETCD_MEMBER_EJECTED,
    NGX_ETCD_MEMBER_UNHEALTHY,     /* failed checks */
    NGX_ETCD_MEMBER_UNPROVEN,      /* not checked yet */
    NGX_ETCD_MEMBER_DRAINED,
    NGX_ETCD_MEMBER_DOWN,
    NGX_ETCD_MEMBER_UNRESOLVED,    /* no address of its host */
    NGX_ETCD_MEMBER_SHADOWED,      /* another key has the address; only in the
                                      status */
    NGX_ETCD_MEMBER_STATES
} ngx_etcd_member_state_e;


/* The state depends on this. */

typedef struct {
    ngx_etcd_member_attr_t  *attr;
    ngx_uint_t               fails;        /* since the last success */
    int64_t                  idle;         /* s since the last try after a
                                              failure */
    ngx_uint_t               conns;
    ngx_uint_t               verdict;      /* NGX_ETCD_VERDICT_ */
    unsigned                 shadowed:1;
    unsigned                 unresolved:1;
    unsigned                 held:1;
    unsigned                 backup:1;
} ngx_etcd_member_condition_t;


/*
 * The state that lasts longest, if several apply.  The sole member of an
 * upstream gets requests though it is failing, as in nginx; a panic of checks
 * lets unhealthy members have some.
 */
ngx_etcd_member_state_e ngx_etcd_health_state(
    ngx_etcd_member_condition_t *member);


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
void ngx_etcd_health_recovered(ngx_etcd_peer_t *peer, ngx_uint_t counts);


/* A connection to the peer has succeeded. */

#define ngx_etcd_health_worked(peer, counts)                                  \
    if (ngx_etcd_peer_suspect(peer)) {                                        \
        ngx_etcd_health_recovered(peer, counts);                              \
    }

/* Returns the progress of slow start, 1 .. NGX_ETCD_PEER_UNIT. */
ngx_uint_t ngx_etcd_health_level(ngx_etcd_peer_t *peer);


#endif /* _NGX_ETCD_HEALTH_H_INCLUDED_ */
