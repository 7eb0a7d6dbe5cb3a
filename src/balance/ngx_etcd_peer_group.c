
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_tier.h>


#define ngx_etcd_tier_needs(tier, what)  ((tier)->method->needs & (what))


static ngx_int_t ngx_etcd_tier_grow(ngx_etcd_tier_t *tier);
static ngx_int_t ngx_etcd_tier_turn(ngx_etcd_tier_t *tier,
    ngx_etcd_peer_t *peer, uint32_t weight);
static void ngx_etcd_tier_move(ngx_etcd_tier_t *tier, ngx_etcd_peer_t *peer,
    ngx_etcd_region_e region);
static void ngx_etcd_tier_swap(ngx_etcd_tier_t *tier, ngx_uint_t a,
    ngx_uint_t b);
static void ngx_etcd_tier_weigh(ngx_etcd_tier_t *tier, ngx_etcd_peer_t *peer,
    uint32_t weight);
static void ngx_etcd_tier_sum(ngx_etcd_tier_t *tier, ngx_uint_t pos,
    int64_t delta);
static ngx_etcd_peer_t *ngx_etcd_tier_at(ngx_etcd_tier_t *tier,
    uint64_t point);


void
ngx_etcd_tier_init(ngx_etcd_tier_t *tier, const ngx_etcd_method_t *method,
    ngx_log_t *log)
{
    ngx_memzero(tier, sizeof(ngx_etcd_tier_t));

    tier->method = method;
    tier->log = log;
    tier->chance = (uint64_t) ngx_random() << 1 | 1;

    ngx_etcd_turn_init(&tier->turn, log);
    ngx_etcd_order_init(&tier->order);
    ngx_etcd_ring_init(&tier->ring, log);
    ngx_etcd_vnodes_init(&tier->vnodes, &tier->ring);
}


void
ngx_etcd_tier_done(ngx_etcd_tier_t *tier)
{
    ngx_etcd_vnodes_done(&tier->vnodes);
    ngx_etcd_ring_done(&tier->ring);

    while (ngx_etcd_tier_usable(tier) != 0) {
        ngx_etcd_tier_place(tier, tier->peers[0], NGX_ETCD_REGION_BARRED, 0);
    }

    ngx_etcd_turn_done(&tier->turn);

    if (tier->allocated) {
        ngx_free(tier->peers);
    }

    if (tier->sums != NULL) {
        ngx_free(tier->sums);
    }
}


ngx_int_t
ngx_etcd_tier_reserve(ngx_etcd_tier_t *tier)
{
    if (ngx_etcd_tier_all(tier) == tier->allocated
        && ngx_etcd_tier_grow(tier) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ngx_etcd_tier_needs(tier, NGX_ETCD_NEEDS_TURN)
        && ngx_etcd_turn_reserve(&tier->turn) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_etcd_tier_needs(tier, NGX_ETCD_NEEDS_RING)
           ? ngx_etcd_vnodes_reserve(&tier->vnodes) : NGX_OK;
}


ngx_int_t
ngx_etcd_tier_prepare(ngx_etcd_tier_t *tier, ngx_etcd_peer_t *peer)
{
    return ngx_etcd_tier_needs(tier, NGX_ETCD_NEEDS_ORDER)
           ? ngx_etcd_order_reserve(peer, tier->log) : NGX_OK;
}


static ngx_int_t
ngx_etcd_tier_grow(ngx_etcd_tier_t *tier)
{
    uint64_t          *sums;
    ngx_uint_t         n;
    ngx_etcd_peer_t  **peers;

    n = ngx_max(tier->allocated * 2, 16);

    peers = ngx_alloc(n * sizeof(ngx_etcd_peer_t *), tier->log);
    if (peers == NULL) {
        return NGX_ERROR;
    }

    if (ngx_etcd_tier_needs(tier, NGX_ETCD_NEEDS_SUMS)) {
        sums = ngx_calloc((n + 1) * sizeof(uint64_t), tier->log);
        if (sums == NULL) {
            ngx_free(peers);
            return NGX_ERROR;
        }

        if (tier->allocated) {
            ngx_memcpy(sums, tier->sums,
                       (tier->allocated + 1) * sizeof(uint64_t));
            ngx_free(tier->sums);
        }

        tier->sums = sums;
    }

    if (tier->allocated) {
        ngx_memcpy(peers, tier->peers,
                   tier->allocated * sizeof(ngx_etcd_peer_t *));
        ngx_free(tier->peers);
    }

    tier->peers = peers;
    tier->allocated = n;

    return NGX_OK;
}


void
ngx_etcd_tier_add(ngx_etcd_tier_t *tier, ngx_etcd_peer_t *peer)
{
    ngx_uint_t  i, bit;

    peer->tier = tier;
    peer->weight = 0;
    peer->since = tier->picks;
    peer->pos = tier->ends[NGX_ETCD_REGION_BARRED]++;
    tier->peers[peer->pos] = peer;

    if (tier->sums != NULL) {

        /* a new node of the Fenwick tree sums the range of nodes below it */

        i = peer->pos + 1;
        tier->sums[i] = 0;

        for (bit = 1; (i & bit) == 0; bit <<= 1) {
            tier->sums[i] += tier->sums[i - bit];
        }
    }

    if (ngx_etcd_tier_needs(tier, NGX_ETCD_NEEDS_ORDER)) {
        ngx_etcd_order_add(&tier->order, peer);
    }

    if (ngx_etcd_tier_needs(tier, NGX_ETCD_NEEDS_RING)) {
        ngx_etcd_vnodes_add(&tier->vnodes, peer);
    }
}


void
ngx_etcd_tier_remove(ngx_etcd_tier_t *tier, ngx_etcd_peer_t *peer)
{
    ngx_etcd_tier_place(tier, peer, NGX_ETCD_REGION_BARRED, 0);

    ngx_etcd_tier_swap(tier, peer->pos, ngx_etcd_tier_all(tier) - 1);
    tier->ends[NGX_ETCD_REGION_BARRED]--;

    if (ngx_etcd_tier_needs(tier, NGX_ETCD_NEEDS_ORDER)) {
        ngx_etcd_order_remove(&tier->order, peer);
    }

    if (ngx_etcd_tier_needs(tier, NGX_ETCD_NEEDS_RING)) {
        ngx_etcd_vnodes_remove(&tier->vnodes, peer);
    }
}


void
ngx_etcd_tier_replace(ngx_etcd_tier_t *tier, ngx_etcd_peer_t *peer,
    ngx_etcd_peer_t *old)
{
    peer->tier = tier;
    peer->pos = old->pos;
    peer->weight = old->weight;
    peer->share = old->share;
    tier->peers[peer->pos] = peer;

    if (ngx_etcd_turn_taken_by(&old->turn)) {
        ngx_etcd_turn_replace(&peer->turn, &old->turn);
    }

    if (ngx_etcd_tier_needs(tier, NGX_ETCD_NEEDS_ORDER)) {
        ngx_etcd_order_remove(&tier->order, old);
        ngx_etcd_order_add(&tier->order, peer);
    }
}


ngx_etcd_region_e
ngx_etcd_tier_region(ngx_etcd_tier_t *tier, ngx_etcd_peer_t *peer)
{
    ngx_uint_t  region;

    for (region = 0; peer->pos >= tier->ends[region]; region++) {
        /* void */
    }

    return region;
}


void
ngx_etcd_tier_place(ngx_etcd_tier_t *tier, ngx_etcd_peer_t *peer,
    ngx_etcd_region_e region, uint32_t weight)
{
    if (region > NGX_ETCD_REGION_LIGHT) {
        weight = 0;
    }

    if (peer->weight != weight
        && ngx_etcd_tier_needs(tier, NGX_ETCD_NEEDS_TURN)
        && ngx_etcd_tier_turn(tier, peer, weight) != NGX_OK)
    {
        (void) ngx_etcd_tier_turn(tier, peer, 0);
        region = NGX_ETCD_REGION_PARKED;
        weight = 0;
    }

    ngx_etcd_tier_weigh(tier, peer, weight);
    ngx_etcd_tier_move(tier, peer, region);
}


static ngx_int_t
ngx_etcd_tier_turn(ngx_etcd_tier_t *tier, ngx_etcd_peer_t *peer,
    uint32_t weight)
{
    uint32_t  conns;

    if (weight == 0) {

        if (ngx_etcd_turn_taken_by(&peer->turn)) {
            ngx_etcd_turn_remove(&tier->turn, &peer->turn);
        }

        return NGX_OK;
    }

    if (!ngx_etcd_turn_taken_by(&peer->turn)) {
        conns = ngx_etcd_tier_needs(tier, NGX_ETCD_NEEDS_CONNS)
                ? ngx_etcd_peer_conns(peer) : 0;

        return ngx_etcd_turn_add(&tier->turn, &peer->turn, weight, conns);
    }

    return ngx_etcd_turn_reweigh(&tier->turn, &peer->turn, weight);
}


/* Swaps the peer with the peer at the border of each region on the way. */

static void
ngx_etcd_tier_move(ngx_etcd_tier_t *tier, ngx_etcd_peer_t *peer,
    ngx_etcd_region_e region)
{
    ngx_uint_t  at;

    at = ngx_etcd_tier_region(tier, peer);

    for ( /* void */ ; at > region; at--) {
        ngx_etcd_tier_swap(tier, peer->pos, tier->ends[at - 1]);
        tier->ends[at - 1]++;
    }

    for ( /* void */ ; at < region; at++) {
        tier->ends[at]--;
        ngx_etcd_tier_swap(tier, peer->pos, tier->ends[at]);
    }
}


static void
ngx_etcd_tier_swap(ngx_etcd_tier_t *tier, ngx_uint_t a, ngx_uint_t b)
{
    int64_t           delta;
    ngx_etcd_peer_t  *one, *two;

    if (a == b) {
        return;
    }

    one = tier->peers[a];
    two = tier->peers[b];

    tier->peers[a] = two;
    tier->peers[b] = one;
    two->pos = a;
    one->pos = b;

    delta = (int64_t) two->weight - (int64_t) one->weight;

    if (delta != 0) {
        ngx_etcd_tier_sum(tier, a, delta);
        ngx_etcd_tier_sum(tier, b, -delta);
    }
}


static void
ngx_etcd_tier_weigh(ngx_etcd_tier_t *tier, ngx_etcd_peer_t *peer,
    uint32_t weight)
{
    int64_t  delta;

    delta = (int64_t) weight - (int64_t) peer->weight;

    if (delta != 0) {
        tier->heaviest = (tier->weight == 0) ? weight
                                             : ngx_max(tier->heaviest, weight);
        peer->weight = weight;
        tier->weight += delta;
        ngx_etcd_tier_sum(tier, peer->pos, delta);
    }
}


static void
ngx_etcd_tier_sum(ngx_etcd_tier_t *tier, ngx_uint_t pos, int64_t delta)
{
    ngx_uint_t  i;

    if (tier->sums == NULL) {
        return;
    }

    for (i = pos + 1; i <= ngx_etcd_tier_all(tier); i += i & (~i + 1)) {
        tier->sums[i] += delta;
    }
}


/* Returns the peer at a point of 0 .. tier->weight - 1; needs sums. */

static ngx_etcd_peer_t *
ngx_etcd_tier_at(ngx_etcd_tier_t *tier, uint64_t point)
{
    ngx_uint_t  i, n, bit;

    i = 0;
    n = ngx_etcd_tier_all(tier);

    /* the highest bit of the number of peers, which is not 0 */

    bit = (ngx_uint_t) 1 << (8 * sizeof(long) - 1
                             - __builtin_clzl((unsigned long) n));

    for ( /* void */ ; bit != 0; bit >>= 1) {
        if (i + bit <= n && tier->sums[i + bit] <= point) {
            i += bit;
            point -= tier->sums[i];
        }
    }

    return tier->peers[i];
}


/*
 * Accepts the uniformly drawn peer with probability weight / heaviest,
 * otherwise draws one from the Fenwick tree; both are proportional to
 * weights.
 */

ngx_etcd_peer_t *
ngx_etcd_tier_draw_again(ngx_etcd_tier_t *tier, ngx_etcd_peer_t *peer)
{
    uint64_t  point;

    if (ngx_etcd_tier_random(tier) % tier->heaviest < peer->weight) {
        return peer;
    }

    point = ngx_etcd_tier_random(tier) << 32;

    return ngx_etcd_tier_at(tier, (point | ngx_etcd_tier_random(tier))
                                  % tier->weight);
}
