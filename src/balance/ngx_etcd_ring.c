
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_alloc.h>
#include <ngx_etcd_ring.h>


#define NGX_ETCD_RING_BLOCK  252     /* points; a block has about 2 KB */


struct ngx_etcd_ring_block_s {
    ngx_uint_t           n;
    ngx_etcd_point_t     points[NGX_ETCD_RING_BLOCK];
};


void
ngx_etcd_ring_init(ngx_etcd_ring_t *ring, ngx_log_t *log)
{
    ngx_memzero(ring, sizeof(ngx_etcd_ring_t));

    ring->log = log;
}


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
