
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_ring.h>
#include <ngx_etcd_stall.h>


#define NGX_ETCD_RING_BLOCK  252     /* points: with the rest some 2 KB */
#define NGX_ETCD_RING_PIECE  32      /* points between two looks at the clock */


struct ngx_etcd_ring_block_s {
    ngx_uint_t           n;
    ngx_etcd_point_t     points[NGX_ETCD_RING_BLOCK];
};


/* points from .. to of a member are to be added, or removed */

typedef struct {
    ngx_queue_t          queue;
    ngx_etcd_peer_t     *peer;          /* referenced */
    ngx_uint_t           add;
    ngx_uint_t           from;
    ngx_uint_t           to;
    ngx_uint_t           n;             /* the next; 0: not begun */
    uint32_t             base;          /* hash of the name */
    uint32_t             prev;          /* hash of point n - 1 */
} ngx_etcd_ring_job_t;


static void ngx_etcd_ring_push(ngx_etcd_ring_t *ring, ngx_etcd_peer_t *peer,
    ngx_uint_t add, ngx_uint_t from, ngx_uint_t to);
static void ngx_etcd_ring_finish(ngx_etcd_ring_t *ring,
    ngx_etcd_ring_job_t *job);
static void ngx_etcd_ring_free(ngx_queue_t *jobs);
static uint32_t ngx_etcd_ring_base(ngx_str_t *name);
static ngx_int_t ngx_etcd_ring_step(ngx_etcd_ring_t *ring,
    ngx_etcd_ring_job_t *job);
static void ngx_etcd_ring_search(ngx_etcd_ring_t *ring, uint32_t hash,
    ngx_etcd_ring_place_t *place);
static ngx_int_t ngx_etcd_ring_insert(ngx_etcd_ring_t *ring, uint32_t hash,
    uint32_t index);
static void ngx_etcd_ring_delete(ngx_etcd_ring_t *ring, uint32_t hash,
    uint32_t index);
static ngx_int_t ngx_etcd_ring_grow(ngx_etcd_ring_t *ring);
static ngx_int_t ngx_etcd_ring_split(ngx_etcd_ring_t *ring, ngx_uint_t n);
static void ngx_etcd_ring_shrink(ngx_etcd_ring_t *ring, ngx_uint_t n);


void
ngx_etcd_ring_init(ngx_etcd_ring_t *ring, ngx_log_t *log)
{
    ngx_memzero(ring, sizeof(ngx_etcd_ring_t));

    ring->log = log;

    ngx_queue_init(&ring->jobs);
    ngx_queue_init(&ring->spare);
}


void
ngx_etcd_ring_done(ngx_etcd_ring_t *ring)
{
    ngx_uint_t  i;

    while (!ngx_queue_empty(&ring->jobs)) {
        ngx_etcd_ring_finish(ring,
                             ngx_queue_data(ngx_queue_head(&ring->jobs),
                                            ngx_etcd_ring_job_t, queue));
    }

    ngx_etcd_ring_free(&ring->spare);

    for (i = 0; i < ring->nblocks; i++) {
        ngx_free(ring->blocks[i]);
    }

    if (ring->allocated) {
        ngx_free(ring->blocks);
        ngx_free(ring->firsts);
    }
}


static void
ngx_etcd_ring_free(ngx_queue_t *jobs)
{
    ngx_queue_t  *q;

    while (!ngx_queue_empty(jobs)) {
        q = ngx_queue_head(jobs);
        ngx_queue_remove(q);
        ngx_free(ngx_queue_data(q, ngx_etcd_ring_job_t, queue));
    }
}


ngx_int_t
ngx_etcd_ring_reserve(ngx_etcd_ring_t *ring)
{
    ngx_etcd_ring_job_t  *job;

    while (ring->nspare < 2) {
        job = ngx_alloc(sizeof(ngx_etcd_ring_job_t), ring->log);
        if (job == NULL) {
            return NGX_ERROR;
        }

        ngx_queue_insert_head(&ring->spare, &job->queue);
        ring->nspare++;
    }

    return NGX_OK;
}


/* what is left of a removal of the same name is not done twice */

void
ngx_etcd_ring_add(ngx_etcd_ring_t *ring, ngx_etcd_peer_t *peer)
{
    ngx_uint_t            had, has;
    ngx_etcd_ring_job_t  *job;

    had = 0;
    has = peer->attr.weight * NGX_ETCD_RING_POINTS;

    if (!ngx_queue_empty(&ring->jobs)) {
        job = ngx_queue_data(ngx_queue_last(&ring->jobs), ngx_etcd_ring_job_t,
                             queue);

        if (!job->add && job->n == 0 && job->from == 0
            && job->peer->index == peer->index
            && job->peer->name.len == peer->name.len
            && ngx_memcmp(job->peer->name.data, peer->name.data,
                          peer->name.len) == 0)
        {
            had = job->to;
            ngx_etcd_ring_finish(ring, job);
        }
    }

    if (has > had) {
        ngx_etcd_ring_push(ring, peer, 1, had, has);

    } else if (has < had) {
        ngx_etcd_ring_push(ring, peer, 0, has, had);
    }
}


void
ngx_etcd_ring_remove(ngx_etcd_ring_t *ring, ngx_etcd_peer_t *peer)
{
    ngx_etcd_ring_push(ring, peer, 0, 0,
                       peer->attr.weight * NGX_ETCD_RING_POINTS);
}


static void
ngx_etcd_ring_push(ngx_etcd_ring_t *ring, ngx_etcd_peer_t *peer,
    ngx_uint_t add, ngx_uint_t from, ngx_uint_t to)
{
    ngx_queue_t          *q;
    ngx_etcd_ring_job_t  *job;

    q = ngx_queue_head(&ring->spare);
    ngx_queue_remove(q);
    ring->nspare--;

    job = ngx_queue_data(q, ngx_etcd_ring_job_t, queue);

    ngx_etcd_peer_ref(peer);

    job->peer = peer;
    job->add = add;
    job->from = from;
    job->to = to;
    job->n = 0;
    job->prev = 0;
    job->base = ngx_etcd_ring_base(&peer->name);

    ngx_queue_insert_tail(&ring->jobs, &job->queue);
}


static void
ngx_etcd_ring_finish(ngx_etcd_ring_t *ring, ngx_etcd_ring_job_t *job)
{
    ngx_etcd_peer_unref(job->peer);

    ngx_queue_remove(&job->queue);

    if (ring->nspare < 2) {
        ngx_queue_insert_head(&ring->spare, &job->queue);
        ring->nspare++;
        return;
    }

    ngx_free(job);
}


/* crc32(HOST \0 PORT ...), as nginx */

static uint32_t
ngx_etcd_ring_base(ngx_str_t *name)
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


ngx_int_t
ngx_etcd_ring_run(ngx_etcd_ring_t *ring, uint64_t until)
{
    ngx_etcd_ring_job_t  *job;

    while (!ngx_queue_empty(&ring->jobs)) {
        job = ngx_queue_data(ngx_queue_head(&ring->jobs), ngx_etcd_ring_job_t,
                             queue);

        if (ngx_etcd_ring_step(ring, job) != NGX_OK) {
            return NGX_AGAIN;
        }

        if (job->n == job->to) {
            ngx_etcd_ring_finish(ring, job);
        }

        if (until != 0 && ngx_etcd_stall_now() >= until) {
            return ngx_queue_empty(&ring->jobs) ? NGX_OK : NGX_AGAIN;
        }
    }

    return NGX_OK;
}


/* each point's hash depends on that of the one before, so all are counted */

static ngx_int_t
ngx_etcd_ring_step(ngx_etcd_ring_t *ring, ngx_etcd_ring_job_t *job)
{
    u_char      bytes[4];
    uint32_t    hash;
    ngx_uint_t  i;

    for (i = 0; i < NGX_ETCD_RING_PIECE && job->n < job->to; job->n++) {

        bytes[0] = (u_char) job->prev;
        bytes[1] = (u_char) (job->prev >> 8);
        bytes[2] = (u_char) (job->prev >> 16);
        bytes[3] = (u_char) (job->prev >> 24);

        hash = job->base;
        ngx_crc32_update(&hash, bytes, 4);
        ngx_crc32_final(hash);

        if (job->n < job->from) {
            i += (job->n % NGX_ETCD_RING_PIECE == 0) ? 1 : 0;

        } else if (!job->add) {
            ngx_etcd_ring_delete(ring, hash, job->peer->index);
            i++;

        } else if (ngx_etcd_ring_insert(ring, hash, job->peer->index)
                   == NGX_OK)
        {
            i++;

        } else {
            return NGX_ERROR;
        }

        job->prev = hash;
    }

    return NGX_OK;
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


/*
 * The first point of at least that hash, or the end of the block that such a
 * point would go into.
 */

static void
ngx_etcd_ring_search(ngx_etcd_ring_t *ring, uint32_t hash,
    ngx_etcd_ring_place_t *place)
{
    ngx_uint_t              i, j, k;
    ngx_etcd_ring_block_t  *block;

    /* the last block whose first is less */

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


static ngx_int_t
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


static void
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

    blocks = ngx_alloc(n * sizeof(ngx_etcd_ring_block_t *), ring->log);
    if (blocks == NULL) {
        return NGX_ERROR;
    }

    firsts = ngx_alloc(n * sizeof(uint32_t), ring->log);
    if (firsts == NULL) {
        ngx_free(blocks);
        return NGX_ERROR;
    }

    if (ring->allocated) {
        ngx_memcpy(blocks, ring->blocks,
                   ring->nblocks * sizeof(ngx_etcd_ring_block_t *));
        ngx_memcpy(firsts, ring->firsts, ring->nblocks * sizeof(uint32_t));

        ngx_free(ring->blocks);
        ngx_free(ring->firsts);
    }

    ring->blocks = blocks;
    ring->firsts = firsts;
    ring->allocated = n;

    return NGX_OK;
}


/* the second half of a block into a new one; or the first block, empty */

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


/* a point of it was removed: what is almost empty goes into its neighbour */

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
