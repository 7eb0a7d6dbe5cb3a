
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The points of "hash KEY consistent": 160 for each unit of a member's weight,
 * the same as those of nginx's own method for a server of that name.
 *
 * Points are sorted, in blocks of some hundred: one is found, added, or
 * removed in O(log n), and a member that comes or goes moves its own points
 * only.  Where that are many it happens piece by piece, in the order of the
 * changes; a point of who is not there any more is for the reader to skip.
 */


#ifndef _NGX_ETCD_RING_H_INCLUDED_
#define _NGX_ETCD_RING_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_peer.h>


#define NGX_ETCD_RING_POINTS  160


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
    ngx_queue_t                  jobs;
    ngx_queue_t                  spare;         /* jobs */
    ngx_uint_t                   nspare;
} ngx_etcd_ring_t;


/* a place in the ring, of no use after a change */

typedef struct {
    ngx_etcd_ring_t             *ring;
    ngx_uint_t                   block;
    ngx_uint_t                   n;
} ngx_etcd_ring_place_t;


void ngx_etcd_ring_init(ngx_etcd_ring_t *ring, ngx_log_t *log);
void ngx_etcd_ring_done(ngx_etcd_ring_t *ring);

/* memory to remove one peer and to add one: NGX_OK or NGX_ERROR */
ngx_int_t ngx_etcd_ring_reserve(ngx_etcd_ring_t *ring);

void ngx_etcd_ring_add(ngx_etcd_ring_t *ring, ngx_etcd_peer_t *peer);
void ngx_etcd_ring_remove(ngx_etcd_ring_t *ring, ngx_etcd_peer_t *peer);

/*
 * Does what is to be done until a time of ngx_etcd_stall_now(), 0: all of it.
 * NGX_AGAIN: there is more, or there was no memory.
 */
ngx_int_t ngx_etcd_ring_run(ngx_etcd_ring_t *ring, uint64_t until);

/* the first point of at least that hash, or of all; NULL: there are none */
ngx_etcd_point_t *ngx_etcd_ring_find(ngx_etcd_ring_t *ring, uint32_t hash,
    ngx_etcd_ring_place_t *place);
ngx_etcd_point_t *ngx_etcd_ring_next(ngx_etcd_ring_place_t *place);


#endif /* _NGX_ETCD_RING_H_INCLUDED_ */
