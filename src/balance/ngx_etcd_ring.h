
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The sorted points of a consistent hashing ring, in blocks of a few hundred:
 * finding, adding and removing a point takes O(log n) plus the moves within a
 * block.  ngx_etcd_ring.h computes the points of a member.
 */


#ifndef _NGX_ETCD_RING_H_INCLUDED_
#define _NGX_ETCD_RING_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_peer.h>


typedef struct ngx_etcd_ring_block_s  ngx_etcd_ring_block_t;


typedef struct {
    uint32_t                     hash;
    uint32_t                     index;         /* of the peer's slot */
} ngx_etcd_point_t;


typedef struct {
    ngx_log_t                   *log;           /* of the owner; the rest is
                                                   zeroed */
    uint32_t                    *firsts;        /* first hash of each block */
    ngx_etcd_ring_block_t      **blocks;
    ngx_uint_t                   nblocks;
    ngx_uint_t                   allocated;
    ngx_uint_t                   npoints;
} ngx_etcd_ring_t;


/* A position in the ring; invalid after any change of the ring. */

typedef struct {
    ngx_etcd_ring_t             *ring;
    ngx_uint_t                   block;
    ngx_uint_t                   n;
} ngx_etcd_ring_place_t;


void ngx_etcd_ring_done(ngx_etcd_ring_t *ring);

/* NGX_ERROR: no memory. */
ngx_int_t ngx_etcd_ring_insert(ngx_etcd_ring_t *ring, uint32_t hash,
    uint32_t index);

/* Deletes one such point, if there is one. */
void ngx_etcd_ring_delete(ngx_etcd_ring_t *ring, uint32_t hash,
    uint32_t index);

/*
 * Returns the first point whose hash is at least "hash", or the first of all
 * points; NULL: the ring is empty.
 */
ngx_etcd_point_t *ngx_etcd_ring_find(ngx_etcd_ring_t *ring, uint32_t hash,
    ngx_etcd_ring_place_t *place);
ngx_etcd_point_t *ngx_etcd_ring_next(ngx_etcd_ring_place_t *place);


/*
 * The virtual nodes of members: their points in a consistent hashing ring
 * (Karger et al.  1997), compatible with ketama.
 *
 * A unit of weight has NGX_ETCD_VNODES_UNIT points, the same ones as a server
 * of that name and weight has in nginx's "hash ... consistent".  If all
 * members together would have more than NGX_ETCD_VNODES_MAX points, all
 * members are scaled down by one factor.  The factor depends on the sum of
 * weights only, so that all workers have the same ring, whatever their
 * history is.
 *
 * Points are numbered: a member that is scaled down has the first points of
 * its full set.  Adding or removing a member moves only its own points,
 * unless the factor changes.  There are eight factors between one half and
 * the next, so that a change of the factor moves at most an eighth of all
 * points.
 *
 * Changes are made piece by piece, in order, except that a lower factor first
 * removes points and then adds others.  A reader must skip the points of a
 * removed member.
 */

#define NGX_ETCD_VNODES_UNIT  160

/* points; at most 16 bytes each, less than 64 MB in total */
#define NGX_ETCD_VNODES_MAX   3900000


typedef struct {
    /* of the owner, which makes the queues; the rest is zeroed */

    ngx_etcd_ring_t             *ring;
    ngx_queue_t                  settled;       /* ngx_etcd_share_t */
    ngx_queue_t                  pending;       /* points to be moved */

    ngx_etcd_share_t            *spare;
    ngx_uint_t                   ngone;         /* pending removals */
    uint64_t                     weight;        /* of all except removed
                                                   ones */
    uint64_t                     scaled;        /* weight for which scale was
                                                   computed */
    ngx_uint_t                   scale;         /* number of the factor */
} ngx_etcd_vnodes_t;


void ngx_etcd_vnodes_done(ngx_etcd_vnodes_t *vnodes);

/* Allocates memory for adding a peer: NGX_OK or NGX_ERROR. */
ngx_int_t ngx_etcd_vnodes_reserve(ngx_etcd_vnodes_t *vnodes);

void ngx_etcd_vnodes_add(ngx_etcd_vnodes_t *vnodes, ngx_etcd_peer_t *peer);
void ngx_etcd_vnodes_remove(ngx_etcd_vnodes_t *vnodes, ngx_etcd_peer_t *peer);

/*
 * Applies pending changes until a time of ngx_etcd_time_budget_now(), 0: all of
 * them.  NGX_AGAIN: changes are left; NGX_ERROR: likewise, and there was no
 * memory.
 */
ngx_int_t ngx_etcd_vnodes_run(ngx_etcd_vnodes_t *vnodes, uint64_t until);

/*
 * Returns the number of points, at least 1, of a weight with the factor of
 * that number.
 */
ngx_uint_t ngx_etcd_vnodes_points(uint64_t weight, ngx_uint_t scale);


#endif /* _NGX_ETCD_RING_H_INCLUDED_ */
