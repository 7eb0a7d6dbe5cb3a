
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The sorted points of a consistent hashing ring, in blocks of a few hundred:
 * finding, adding and removing a point takes O(log n) plus the moves within a
 * block.  ngx_etcd_vnodes.h computes the points of a member.
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


void ngx_etcd_ring_init(ngx_etcd_ring_t *ring, ngx_log_t *log);
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


#endif /* _NGX_ETCD_RING_H_INCLUDED_ */
