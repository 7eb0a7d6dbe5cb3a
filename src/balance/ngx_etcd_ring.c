
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_alloc.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_ring.h>


#define NGX_ETCD_RING_BLOCK  252     /* points; a block has about 2 KB */


struct ngx_etcd_ring_block_s {
    ngx_uint_t           n;
    ngx_etcd_point_t     points[NGX_ETCD_RING_BLOCK];
};


void
ngx_etcd_ring_done(ngx_etcd_ring_t *ring)
{
    ngx_uint_t  i;

    for (i = 0; i < ring->nblocks; i++) {
        ngx_free(ring->blocks[i]);
    }

    if (ring->blocks != NULL) {
        ngx_free(ring->blocks);
    }

    if (ring->firsts != NULL) {
        ngx_free(ring->firsts);
    }
}


/*
 * Finds the first point whose hash is at least "hash", or the end of the
 * block in which such a point belongs.
 */

static void
ngx_etcd_ring_search(ngx_etcd_ring_t *ring, uint32_t hash,
    ngx_etcd_ring_place_t *place)
{
    ngx_uint_t              i, j, k;
    ngx_etcd_ring_block_t  *block;

    /* binary search: the last block whose first hash is less */

    i = 0;
    j = ring->nblocks;

    while (j - i > 1) {
        k = (i + j) / 2;

        if (ring->firsts[k] < hash) {
            i = k;

        } else {
            j = k;
        }
    }

    place->ring = ring;
    place->block = i;

    block = ring->blocks[i];

    i = 0;
    j = block->n;

    while (i < j) {
        k = (i + j) / 2;

        if (block->points[k].hash < hash) {
            i = k + 1;

        } else {
            j = k;
        }
    }

    place->n = i;
}


ngx_etcd_point_t *
ngx_etcd_ring_find(ngx_etcd_ring_t *ring, uint32_t hash,
    ngx_etcd_ring_place_t *place)
{
    if (ring->nblocks == 0) {
        return NULL;
    }

    ngx_etcd_ring_search(ring, hash, place);

    if (place->n < ring->blocks[place->block]->n) {
        return &ring->blocks[place->block]->points[place->n];
    }

    place->n--;

    return ngx_etcd_ring_next(place);
}


ngx_etcd_point_t *
ngx_etcd_ring_next(ngx_etcd_ring_place_t *place)
{
    ngx_etcd_ring_t  *ring;

    ring = place->ring;

    if (++place->n >= ring->blocks[place->block]->n) {
        place->n = 0;
        place->block = (place->block + 1) % ring->nblocks;
    }

    return &ring->blocks[place->block]->points[place->n];
}


static ngx_int_t
ngx_etcd_ring_grow(ngx_etcd_ring_t *ring)
{
    uint32_t                *firsts;
    ngx_uint_t               n;
    ngx_etcd_ring_block_t  **blocks;

    if (ring->nblocks < ring->allocated) {
        return NGX_OK;
    }

    n = ngx_max(ring->allocated * 2, 16);

    blocks = ngx_etcd_alloc_grow(ring->blocks,
                                 ring->nblocks
                                 * sizeof(ngx_etcd_ring_block_t *),
                                 n * sizeof(ngx_etcd_ring_block_t *),
                                 ring->log);
    if (blocks == NULL) {
        return NGX_ERROR;
    }

    ring->blocks = blocks;

    firsts = ngx_etcd_alloc_grow(ring->firsts, ring->nblocks * sizeof(uint32_t),
                                 n * sizeof(uint32_t), ring->log);
    if (firsts == NULL) {
        return NGX_ERROR;
    }

    ring->firsts = firsts;
    ring->allocated = n;

    return NGX_OK;
}


/*
 * Moves the second half of a block to a new one; or creates the first block.
 */

static ngx_int_t
ngx_etcd_ring_split(ngx_etcd_ring_t *ring, ngx_uint_t n)
{
    ngx_uint_t              half;
    ngx_etcd_ring_block_t  *block, *old;

    if (ngx_etcd_ring_grow(ring) != NGX_OK) {
        return NGX_ERROR;
    }

    block = ngx_alloc(sizeof(ngx_etcd_ring_block_t), ring->log);
    if (block == NULL) {
        return NGX_ERROR;
    }

    block->n = 0;

    if (ring->nblocks == 0) {
        ring->blocks[0] = block;
        ring->firsts[0] = 0;
        ring->nblocks = 1;
        return NGX_OK;
    }

    old = ring->blocks[n];
    half = old->n / 2;

    block->n = old->n - half;
    old->n = half;
    ngx_memcpy(block->points, &old->points[half],
               block->n * sizeof(ngx_etcd_point_t));

    ngx_memmove(&ring->blocks[n + 2], &ring->blocks[n + 1],
                (ring->nblocks - n - 1) * sizeof(ngx_etcd_ring_block_t *));
    ngx_memmove(&ring->firsts[n + 2], &ring->firsts[n + 1],
                (ring->nblocks - n - 1) * sizeof(uint32_t));

    ring->blocks[n + 1] = block;
    ring->firsts[n + 1] = block->points[0].hash;
    ring->nblocks++;

    return NGX_OK;
}


ngx_int_t
ngx_etcd_ring_insert(ngx_etcd_ring_t *ring, uint32_t hash, uint32_t index)
{
    ngx_etcd_point_t       *point;
    ngx_etcd_ring_block_t  *block;
    ngx_etcd_ring_place_t   place;

    if (ring->nblocks == 0 && ngx_etcd_ring_split(ring, 0) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_etcd_ring_search(ring, hash, &place);

    if (ring->blocks[place.block]->n == NGX_ETCD_RING_BLOCK) {
        if (ngx_etcd_ring_split(ring, place.block) != NGX_OK) {
            return NGX_ERROR;
        }

        ngx_etcd_ring_search(ring, hash, &place);
    }

    block = ring->blocks[place.block];
    point = &block->points[place.n];

    ngx_memmove(point + 1, point,
                (block->n - place.n) * sizeof(ngx_etcd_point_t));

    point->hash = hash;
    point->index = index;

    block->n++;
    ring->npoints++;
    ring->firsts[place.block] = block->points[0].hash;

    return NGX_OK;
}


/* Called after a deletion: merges a small block with its neighbour. */

static void
ngx_etcd_ring_shrink(ngx_etcd_ring_t *ring, ngx_uint_t n)
{
    ngx_etcd_ring_block_t  *block, *next;

    block = ring->blocks[n];

    if (block->n != 0) {
        ring->firsts[n] = block->points[0].hash;
    }

    if (n + 1 < ring->nblocks) {
        next = ring->blocks[n + 1];

        if (block->n + next->n > NGX_ETCD_RING_BLOCK / 2) {
            return;
        }

        ngx_memcpy(&block->points[block->n], next->points,
                   next->n * sizeof(ngx_etcd_point_t));
        block->n += next->n;
        ring->firsts[n] = block->points[0].hash;
        n++;

    } else if (block->n != 0) {
        return;
    }

    ngx_free(ring->blocks[n]);
    ring->nblocks--;

    ngx_memmove(&ring->blocks[n], &ring->blocks[n + 1],
                (ring->nblocks - n) * sizeof(ngx_etcd_ring_block_t *));
    ngx_memmove(&ring->firsts[n], &ring->firsts[n + 1],
                (ring->nblocks - n) * sizeof(uint32_t));
}


void
ngx_etcd_ring_delete(ngx_etcd_ring_t *ring, uint32_t hash, uint32_t index)
{
    ngx_uint_t              n;
    ngx_etcd_point_t       *point;
    ngx_etcd_ring_block_t  *block;
    ngx_etcd_ring_place_t   place;

    point = ngx_etcd_ring_find(ring, hash, &place);

    for (n = 0; n < ring->npoints; n++) {

        if (point->hash != hash || point->index == index) {
            break;
        }

        point = ngx_etcd_ring_next(&place);
    }

    if (point == NULL || point->hash != hash || point->index != index) {
        return;
    }

    block = ring->blocks[place.block];

    block->n--;
    ring->npoints--;

    ngx_memmove(point, point + 1,
                (block->n - place.n) * sizeof(ngx_etcd_point_t));

    ngx_etcd_ring_shrink(ring, place.block);
}


#define NGX_ETCD_VNODES_PIECE  32    /* points per check of the clock */


/*
 * The points of a peer and of the objects that replace it.  The ring has the
 * points 0 .. have - 1, except while a removal is in progress: "moving" is
 * set from the first step of a change to the last one.
 */

struct ngx_etcd_share_s {
    ngx_queue_t          queue;
    ngx_uint_t           have;
    ngx_uint_t           from;          /* range to be moved */
    ngx_uint_t           to;
    ngx_uint_t           n;             /* next point */
    uint32_t             weight;
    uint32_t             index;         /* slot of the peer */
    uint32_t             base;          /* hash of the name */
    uint32_t             prev;          /* hash of point n - 1 */
    unsigned             moving:1;
    unsigned             add:1;
    unsigned             gone:1;
};


void
ngx_etcd_vnodes_done(ngx_etcd_vnodes_t *vnodes)
{
    ngx_queue_t  *q;

    ngx_queue_add(&vnodes->pending, &vnodes->settled);

    while (!ngx_queue_empty(&vnodes->pending)) {
        q = ngx_queue_head(&vnodes->pending);
        ngx_queue_remove(q);
        ngx_free(ngx_queue_data(q, ngx_etcd_share_t, queue));
    }

    if (vnodes->spare != NULL) {
        ngx_free(vnodes->spare);
    }
}


ngx_int_t
ngx_etcd_vnodes_reserve(ngx_etcd_vnodes_t *vnodes)
{
    if (vnodes->spare == NULL) {
        vnodes->spare = ngx_alloc(sizeof(ngx_etcd_share_t), vnodes->ring->log);
    }

    return (vnodes->spare != NULL) ? NGX_OK : NGX_ERROR;
}


/* crc32(HOST \0 PORT ...), as in nginx. */

static uint32_t
ngx_etcd_vnodes_base(ngx_str_t *name)
{
    u_char    *host, *end, *port, *last;
    uint32_t   hash;

    host = name->data;
    last = name->data + name->len;
    end = last;
    port = last;

    if (name->len >= 5
        && ngx_strncasecmp(host, (u_char *) "unix:", 5) == 0)
    {
        host += 5;

    } else {
        while (port > host && port[-1] >= '0' && port[-1] <= '9') {
            port--;
        }

        if (port > host && port[-1] == ':') {
            end = port - 1;

        } else {
            port = last;
        }
    }

    ngx_crc32_init(hash);
    ngx_crc32_update(&hash, host, end - host);
    ngx_crc32_update(&hash, (u_char *) "", 1);
    ngx_crc32_update(&hash, port, last - port);

    return hash;
}


/*
 * Reuses the share of a member that is removed and added again: points that
 * stay are not moved.
 */

static ngx_etcd_share_t *
ngx_etcd_vnodes_again(ngx_etcd_vnodes_t *vnodes, ngx_etcd_peer_t *peer,
    uint32_t base)
{
    ngx_etcd_share_t  *share;

    if (ngx_queue_empty(&vnodes->pending)) {
        return NULL;
    }

    share = ngx_queue_data(ngx_queue_last(&vnodes->pending), ngx_etcd_share_t,
                           queue);

    if (!share->gone || share->index != peer->index || share->base != base) {
        return NULL;
    }

    share->gone = 0;
    vnodes->ngone--;

    return share;
}


void
ngx_etcd_vnodes_add(ngx_etcd_vnodes_t *vnodes, ngx_etcd_peer_t *peer)
{
    uint32_t           base;
    ngx_etcd_share_t  *share;

    base = ngx_etcd_vnodes_base(&peer->name);
    share = ngx_etcd_vnodes_again(vnodes, peer, base);

    if (share == NULL) {
        share = vnodes->spare;
        vnodes->spare = NULL;

        ngx_memzero(share, sizeof(ngx_etcd_share_t));

        share->index = peer->index;
        share->base = base;

        ngx_queue_insert_tail(&vnodes->pending, &share->queue);
    }

    share->weight = (uint32_t) peer->attr.weight;
    vnodes->weight += share->weight;
    peer->share = share;
}


/*
 * Stops an addition.  A removal continues to its end: a partly removed share
 * is not a prefix of points.
 */

static void
ngx_etcd_vnodes_halt(ngx_etcd_share_t *share)
{
    if (share->moving && share->add) {
        share->have = ngx_max(share->from, share->n);
        share->moving = 0;
    }
}


void
ngx_etcd_vnodes_remove(ngx_etcd_vnodes_t *vnodes, ngx_etcd_peer_t *peer)
{
    ngx_etcd_share_t  *share;

    share = peer->share;
    peer->share = NULL;

    ngx_etcd_vnodes_halt(share);

    share->gone = 1;
    vnodes->ngone++;
    vnodes->weight -= share->weight;

    ngx_queue_remove(&share->queue);
    ngx_queue_insert_tail(&vnodes->pending, &share->queue);
}


static void
ngx_etcd_vnodes_rescale(ngx_etcd_vnodes_t *vnodes)
{
    ngx_uint_t         scale;
    ngx_etcd_share_t  *share;

    scale = 0;

    while (ngx_etcd_vnodes_points(vnodes->weight, scale)
           > NGX_ETCD_VNODES_MAX)
    {
        scale++;
    }

    vnodes->scaled = vnodes->weight;

    if (scale == vnodes->scale) {
        return;
    }

    /* only the first pending share may have a partial addition */

    if (!ngx_queue_empty(&vnodes->pending)) {
        share = ngx_queue_data(ngx_queue_head(&vnodes->pending),
                               ngx_etcd_share_t, queue);
        ngx_etcd_vnodes_halt(share);
    }

    /* a lower factor deletes points before others are added */

    if (scale > vnodes->scale) {
        ngx_queue_add(&vnodes->settled, &vnodes->pending);
        ngx_queue_init(&vnodes->pending);
    }

    ngx_queue_add(&vnodes->pending, &vnodes->settled);
    ngx_queue_init(&vnodes->settled);

    vnodes->scale = scale;
}


static ngx_uint_t
ngx_etcd_vnodes_wanted(ngx_etcd_vnodes_t *vnodes, ngx_etcd_share_t *share)
{
    return share->gone ? 0 : ngx_etcd_vnodes_points(share->weight,
                                                    vnodes->scale);
}


/*
 * The hash of a point depends on the hash of the previous one (ketama): all
 * hashes must be computed.
 */

static ngx_int_t
ngx_etcd_vnodes_step(ngx_etcd_vnodes_t *vnodes, ngx_etcd_share_t *share)
{
    u_char      bytes[4];
    uint32_t    hash;
    ngx_uint_t  i;

    for (i = 0; i < NGX_ETCD_VNODES_PIECE && share->n < share->to; share->n++) {

        bytes[0] = (u_char) share->prev;
        bytes[1] = (u_char) (share->prev >> 8);
        bytes[2] = (u_char) (share->prev >> 16);
        bytes[3] = (u_char) (share->prev >> 24);

        hash = share->base;
        ngx_crc32_update(&hash, bytes, 4);
        ngx_crc32_final(hash);

        if (share->n < share->from) {
            i += (share->n % NGX_ETCD_VNODES_PIECE == 0) ? 1 : 0;

        } else if (!share->add) {
            ngx_etcd_ring_delete(vnodes->ring, hash, share->index);
            i++;

        } else if (ngx_etcd_ring_insert(vnodes->ring, hash, share->index)
                   == NGX_OK)
        {
            i++;

        } else {
            return NGX_ERROR;
        }

        share->prev = hash;
    }

    return NGX_OK;
}


static void
ngx_etcd_vnodes_end(ngx_etcd_vnodes_t *vnodes, ngx_etcd_share_t *share)
{
    share->have = share->add ? share->to : share->from;
    share->moving = 0;

    if (share->have != ngx_etcd_vnodes_wanted(vnodes, share)) {
        return;
    }

    ngx_queue_remove(&share->queue);

    if (!share->gone) {
        ngx_queue_insert_tail(&vnodes->settled, &share->queue);
        return;
    }

    vnodes->ngone--;
    ngx_free(share);
}


ngx_int_t
ngx_etcd_vnodes_run(ngx_etcd_vnodes_t *vnodes, uint64_t until)
{
    ngx_uint_t         wanted;
    ngx_etcd_share_t  *share;

    if (vnodes->weight != vnodes->scaled) {
        ngx_etcd_vnodes_rescale(vnodes);
    }

    while (!ngx_queue_empty(&vnodes->pending)) {
        share = ngx_queue_data(ngx_queue_head(&vnodes->pending),
                               ngx_etcd_share_t, queue);

        if (!share->moving) {
            wanted = ngx_etcd_vnodes_wanted(vnodes, share);

            share->add = (wanted > share->have);
            share->from = ngx_min(wanted, share->have);
            share->to = ngx_max(wanted, share->have);
            share->n = (wanted != share->have) ? 0 : share->to;
            share->prev = 0;
            share->moving = 1;
        }

        if (share->add
            && vnodes->ngone != 0
            && vnodes->ring->npoints >= NGX_ETCD_VNODES_MAX)
        {
            /* removed members still have points: delete these first */

            ngx_etcd_vnodes_halt(share);
            ngx_queue_remove(&share->queue);
            ngx_queue_insert_tail(&vnodes->pending, &share->queue);

        } else if (ngx_etcd_vnodes_step(vnodes, share) != NGX_OK) {
            return NGX_ERROR;
        }

        if (share->moving && share->n == share->to) {
            ngx_etcd_vnodes_end(vnodes, share);
        }

        if (until != 0 && ngx_etcd_time_budget_now() >= until) {
            break;
        }
    }

    return ngx_queue_empty(&vnodes->pending) ? NGX_OK : NGX_AGAIN;
}


/* The factors are 1, 15/16, 14/16, ... 8/16, 15/32, and so on. */

ngx_uint_t
ngx_etcd_vnodes_points(uint64_t weight, ngx_uint_t scale)
{
    uint64_t  n;

    n = weight * NGX_ETCD_VNODES_UNIT;

    if (scale != 0) {
        n = (n * (15 - (scale - 1) % 8)) >> (4 + (scale - 1) / 8);
    }

    return ngx_max((ngx_uint_t) n, 1);
}
