
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_hash.h>
#include <ngx_etcd_health.h>
#include <ngx_etcd_pick_eevdf.h>


#define NGX_ETCD_HASH_TRIES  20

/* points of unusable or removed members to skip */

#define NGX_ETCD_HASH_SKIPS  1000

#define ngx_etcd_hash_step(crc, c)                                            \
    (ngx_crc32_table256[((crc) ^ (c)) & 0xff] ^ ((crc) >> 8))


static ngx_etcd_peer_t *ngx_etcd_hash_pick(ngx_etcd_pick_t *pick,
    ngx_etcd_peer_group_t *group);
static ngx_etcd_peer_t *ngx_etcd_hash_consistent_pick(ngx_etcd_pick_t *pick,
    ngx_etcd_peer_group_t *group);


const ngx_etcd_method_t  ngx_etcd_hash_method = {
    .name = ngx_string("hash"),
    .needs = NGX_ETCD_NEEDS_KEY|NGX_ETCD_NEEDS_TURN|NGX_ETCD_NEEDS_ORDER,
    .pick = ngx_etcd_hash_pick,
};

const ngx_etcd_method_t  ngx_etcd_hash_consistent_method = {
    .name = ngx_string("hash"),
    .parameter = ngx_string("consistent"),
    .needs = NGX_ETCD_NEEDS_KEY|NGX_ETCD_NEEDS_TURN|NGX_ETCD_NEEDS_RING,
    .pick = ngx_etcd_hash_consistent_pick,
};


/* The number as decimal text. */

static uint32_t
ngx_etcd_hash_digits(uint32_t crc, uint32_t n)
{
    if (n > 9) {
        crc = ngx_etcd_hash_digits(crc, n / 10);
    }

    return ngx_etcd_hash_step(crc, '0' + n % 10);
}


/*
 * Processes four bytes per step: the CRC of the key is most of the cost of a
 * pick.
 */

static ngx_inline uint32_t
ngx_etcd_hash_crc(uint32_t rehash, ngx_str_t *key)
{
    u_char    *p;
    size_t     n;
    uint32_t   crc;

    ngx_crc32_init(crc);

    if (rehash != 0) {
        crc = ngx_etcd_hash_digits(crc, rehash);
    }

    p = key->data;

    for (n = key->len; n >= 4; n -= 4) {
        crc = ngx_etcd_hash_step(crc, p[0]);
        crc = ngx_etcd_hash_step(crc, p[1]);
        crc = ngx_etcd_hash_step(crc, p[2]);
        crc = ngx_etcd_hash_step(crc, p[3]);
        p += 4;
    }

    for ( /* void */ ; n != 0; n--) {
        crc = ngx_etcd_hash_step(crc, *p++);
    }

    ngx_crc32_final(crc);

    return crc;
}


/* Rehashes as nginx does: adds (crc32([REHASH] KEY) >> 16) & 0x7fff. */

static ngx_etcd_peer_t *
ngx_etcd_hash_next(ngx_etcd_pick_t *pick, ngx_etcd_peer_group_t *group,
    uint64_t weight)
{
    uint32_t  crc;

    crc = ngx_etcd_hash_crc(pick->rehash, &pick->key);

    if (pick->rehash == 0) {
        pick->crc = crc;
    }

    pick->hash += (crc >> 16) & 0x7fff;
    pick->rehash++;

    return ngx_etcd_weighted_tree_at(&group->weighted, pick->hash % weight);
}


/* A peer in slow start or with failures is usable for a part of its keys. */

static ngx_inline ngx_uint_t
ngx_etcd_hash_usable(ngx_etcd_pick_t *pick, ngx_etcd_peer_group_t *group,
    ngx_etcd_peer_t *peer)
{
    if (pick->ntried != 0 && ngx_etcd_pick_tried(pick, peer)) {
        return 0;
    }

    return ngx_etcd_health_whole(group, peer)
           || (ngx_etcd_health_check(group, peer,
                                     ngx_etcd_table_counts(pick->table))
               && pick->crc % NGX_ETCD_PEER_UNIT
                  < ngx_etcd_health_level(peer));
}


static ngx_etcd_peer_t *
ngx_etcd_hash_pick(ngx_etcd_pick_t *pick, ngx_etcd_peer_group_t *group)
{
    uint64_t          weight;
    ngx_etcd_peer_t  *peer;

    if (pick->key.len == 0 || pick->table->nmembers <= 1) {
        return ngx_etcd_pick_eevdf(pick, group);
    }

    weight = ngx_etcd_weighted_tree_weight(&group->weighted);

    while (pick->hashed <= NGX_ETCD_HASH_TRIES) {
        peer = ngx_etcd_hash_next(pick, group, weight);

        if (ngx_etcd_hash_usable(pick, group, peer)) {
            return peer;
        }

        pick->hashed++;
    }

    return ngx_etcd_pick_eevdf(pick, group);
}


/*
 * Returns the owner of the point; if several members have the same point, the
 * first one by address, as in nginx.
 */

static ngx_etcd_peer_t *
ngx_etcd_hash_consistent_owner(ngx_etcd_pick_t *pick,
    ngx_etcd_peer_group_t *group, ngx_etcd_point_t *point,
    ngx_etcd_ring_place_t *place)
{
    uint32_t           hash;
    ngx_uint_t         n;
    ngx_etcd_peer_t   *peer, *owner;
    ngx_etcd_table_t  *table;

    table = pick->table;
    hash = point->hash;
    owner = NULL;

    for (n = 0; n < group->ring.npoints && point->hash == hash; n++) {
        peer = table->slots[point->index];

        if (peer != NULL
            && peer->group == group
            && (owner == NULL || ngx_etcd_weighted_tree_names(peer, owner) < 0))
        {
            owner = peer;
        }

        point = ngx_etcd_ring_next(place);
    }

    return owner;
}


static ngx_etcd_peer_t *
ngx_etcd_hash_consistent_pick(ngx_etcd_pick_t *pick,
    ngx_etcd_peer_group_t *group)
{
    uint32_t                hash;
    ngx_uint_t              skipped;
    ngx_etcd_peer_t        *peer;
    ngx_etcd_point_t       *point;
    ngx_etcd_ring_place_t   place;

    if (pick->key.len == 0 || pick->table->nmembers <= 1) {
        return ngx_etcd_pick_eevdf(pick, group);
    }

    if (pick->rehash++ == 0) {
        pick->crc = ngx_etcd_hash_crc(0, &pick->key);
        pick->hash = pick->crc;
    }

    skipped = 0;

    while (pick->hashed <= NGX_ETCD_HASH_TRIES
           && skipped < NGX_ETCD_HASH_SKIPS)
    {
        point = ngx_etcd_ring_find(&group->ring, pick->hash, &place);

        if (point == NULL) {
            break;
        }

        hash = point->hash;
        peer = ngx_etcd_hash_consistent_owner(pick, group, point, &place);

        if (peer != NULL && ngx_etcd_hash_usable(pick, group, peer)) {
            pick->hash = hash;
            return peer;
        }

        pick->hash = hash + 1;

        if (peer == NULL || peer->attr.down || peer->attr.drain) {
            skipped++;

        } else {
            pick->hashed++;
        }
    }

    return ngx_etcd_pick_eevdf(pick, group);
}
