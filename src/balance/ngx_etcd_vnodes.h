
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The virtual nodes of members: which points each has in a ring of consistent
 * hashing (Karger et al. 1997).
 *
 * A unit of weight has NGX_ETCD_VNODES_UNIT points, the same as a server of
 * that name and weight has in nginx's own "hash ... consistent".  Where that
 * would be more than NGX_ETCD_VNODES_MAX for all members together, all members
 * are scaled down by one factor.  It depends on the sum of weights alone, so
 * that all workers have the same ring, whatever happened to them before.
 *
 * Points are numbered: those of a member scaled down are the first of those
 * that it has otherwise.  A member that comes or goes moves its own points
 * only, unless the factor changes: there are eight factors from one half to
 * the next, so that a change of it moves an eighth of all points at most.
 *
 * Changes are made piece by piece, in their order, but points are removed for
 * a lower factor before any are added.  A point of a member that is not there
 * any more is for the reader to skip.
 */


#ifndef _NGX_ETCD_VNODES_H_INCLUDED_
#define _NGX_ETCD_VNODES_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_peer.h>
#include <ngx_etcd_ring.h>


#define NGX_ETCD_VNODES_UNIT  160

/* points: 16 bytes at most for each, so less than 64 MB */
#define NGX_ETCD_VNODES_MAX   3900000


typedef struct {
    ngx_etcd_ring_t             *ring;
    ngx_queue_t                  settled;       /* of ngx_etcd_share_t */
    ngx_queue_t                  pending;       /* points are to be moved */
    ngx_etcd_share_t            *spare;
    ngx_uint_t                   ngone;         /* pending, to be removed */
    uint64_t                     weight;        /* of all that are not gone */
    uint64_t                     scaled;        /* weight that scale is of */
    ngx_uint_t                   scale;         /* number of the factor */
} ngx_etcd_vnodes_t;


void ngx_etcd_vnodes_init(ngx_etcd_vnodes_t *vnodes, ngx_etcd_ring_t *ring);
void ngx_etcd_vnodes_done(ngx_etcd_vnodes_t *vnodes);

/* memory to add one peer: NGX_OK or NGX_ERROR */
ngx_int_t ngx_etcd_vnodes_reserve(ngx_etcd_vnodes_t *vnodes);

void ngx_etcd_vnodes_add(ngx_etcd_vnodes_t *vnodes, ngx_etcd_peer_t *peer);
void ngx_etcd_vnodes_remove(ngx_etcd_vnodes_t *vnodes, ngx_etcd_peer_t *peer);

/*
 * Does what is to be done until a time of ngx_etcd_stall_now(), 0: all of it.
 * NGX_AGAIN: there is more; NGX_ERROR: the same, and there was no memory.
 */
ngx_int_t ngx_etcd_vnodes_run(ngx_etcd_vnodes_t *vnodes, uint64_t until);

/* how many points a weight has by the factor of that number: 1 or more */
ngx_uint_t ngx_etcd_vnodes_points(uint64_t weight, ngx_uint_t scale);


#endif /* _NGX_ETCD_VNODES_H_INCLUDED_ */
