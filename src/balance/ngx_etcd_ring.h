
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The points of a ring of consistent hashing, sorted, in blocks of some
 * hundred: one is found, added, or removed in O(log n).  ngx_etcd_vnodes.h says
 * which points a member has.
 */


#ifndef _NGX_ETCD_RING_H_INCLUDED_
#define _NGX_ETCD_RING_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


typedef struct ngx_etcd_ring_block_s  ngx_etcd_ring_block_t;


typedef struct {
    uint32_t                     hash;
    uint32_t                     index;         /* of the peer's slot */
} ngx_etcd_point_t;


typedef struct {
    ngx_log_t                   *log;
    uint32_t                    *firsts;        /* hash of each block's first */
    ngx_etcd_ring_block_t      **blocks;
    ngx_uint_t                   nblocks;
    ngx_uint_t                   allocated;
    ngx_uint_t                   npoints;
} ngx_etcd_ring_t;


/* a place in the ring, of no use after a change */

typedef struct {
    ngx_etcd_ring_t             *ring;
    ngx_uint_t                   block;
    ngx_uint_t                   n;
} ngx_etcd_ring_place_t;


void ngx_etcd_ring_init(ngx_etcd_ring_t *ring, ngx_log_t *log);
void ngx_etcd_ring_done(ngx_etcd_ring_t *ring);

/* NGX_OK, or NGX_ERROR: no memory */
ngx_int_t ngx_etcd_ring_insert(ngx_etcd_ring_t *ring, uint32_t hash,
    uint32_t index);

/* one such point, if there is one */
void ngx_etcd_ring_delete(ngx_etcd_ring_t *ring, uint32_t hash,
    uint32_t index);

/* the first point of at least that hash, or of all; NULL: there are none */
ngx_etcd_point_t *ngx_etcd_ring_find(ngx_etcd_ring_t *ring, uint32_t hash,
    ngx_etcd_ring_place_t *place);
ngx_etcd_point_t *ngx_etcd_ring_next(ngx_etcd_ring_place_t *place);


#endif /* _NGX_ETCD_RING_H_INCLUDED_ */
