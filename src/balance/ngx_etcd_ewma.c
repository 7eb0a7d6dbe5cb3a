
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The peer that may be expected to answer first: the better of two, each drawn
 * in proportion to its weight.
 *
 * What is expected is the peer's latency, as this worker has measured it, for
 * each of its connections for its weight and one more.  Latency is the time
 * from the choice of the peer to the end of the response, or, in stream over
 * TCP, until the peer is connected.  A longer one than was known counts at
 * once, a shorter one by its share of an average in which what was known has
 * lost half of its weight every NGX_ETCD_EWMA_HALF ms; that goes on while
 * nothing is measured, so that a peer that was slow is asked again.  A peer
 * that was never measured is taken to be as others are.
 *
 * Latencies differ by chance: the second is better where a quarter less is
 * expected of it, and a millisecond more or less than none says little.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_balance.h>


/* powers of 2: there is a lot to divide by them */

#define NGX_ETCD_EWMA_HALF  2048       /* ms */
#define NGX_ETCD_EWMA_NSEC  1024       /* the unit of latencies */

#define NGX_ETCD_EWMA_MAX   600000000
#define NGX_ETCD_EWMA_MIN   1000       /* added to all */

#define ngx_etcd_ewma_nsec(ts)                                                \
    ((uint64_t) (ts)->tv_sec * 1000000000 + (ts)->tv_nsec)


static ngx_etcd_peer_t *ngx_etcd_ewma_pick(ngx_etcd_pick_t *pick,
    ngx_etcd_tier_t *tier);
static ngx_uint_t ngx_etcd_ewma_better(ngx_etcd_tier_t *tier,
    ngx_etcd_peer_t *one, ngx_etcd_peer_t *two);
static ngx_inline uint64_t ngx_etcd_ewma_cost(ngx_etcd_tier_t *tier,
    ngx_etcd_peer_t *peer, ngx_msec_t now);
static ngx_inline uint64_t ngx_etcd_ewma_latency(ngx_etcd_peer_t *peer,
    ngx_msec_t now);
static void ngx_etcd_ewma_taken(ngx_etcd_pick_t *pick, ngx_etcd_tier_t *tier,
    ngx_etcd_peer_t *peer, ngx_uint_t conns);
static void ngx_etcd_ewma_works(ngx_etcd_pick_t *pick, ngx_etcd_tier_t *tier,
    ngx_etcd_peer_t *peer);
static void ngx_etcd_ewma_failed(ngx_etcd_pick_t *pick, ngx_etcd_tier_t *tier,
    ngx_etcd_peer_t *peer);
static ngx_inline uint64_t ngx_etcd_ewma_elapsed(ngx_etcd_pick_t *pick);
static ngx_inline void ngx_etcd_ewma_measure(ngx_etcd_tier_t *tier,
    ngx_etcd_peer_t *peer, uint64_t elapsed);


const ngx_etcd_method_t  ngx_etcd_method_ewma = {
    ngx_string("ewma"),
    ngx_null_string,
    NGX_ETCD_NEEDS_SUMS,
    ngx_etcd_ewma_pick,
    ngx_etcd_ewma_taken,
    ngx_etcd_ewma_works,
    ngx_etcd_ewma_failed,
    NULL
};


static ngx_etcd_peer_t *
ngx_etcd_ewma_pick(ngx_etcd_pick_t *pick, ngx_etcd_tier_t *tier)
{
    return ngx_etcd_pick_best_of_two(pick, tier, ngx_etcd_ewma_better);
}


static ngx_uint_t
ngx_etcd_ewma_better(ngx_etcd_tier_t *tier, ngx_etcd_peer_t *one,
    ngx_etcd_peer_t *two)
{
    uint64_t    cost;
    ngx_msec_t  now;

    now = ngx_current_msec;
    cost = ngx_etcd_ewma_cost(tier, two, now);

    return ngx_etcd_ewma_cost(tier, one, now) < cost - cost / 4;
}


/* below 2^64, as latencies are below 2^30, with up to 2^22 connections */

static ngx_inline uint64_t
ngx_etcd_ewma_cost(ngx_etcd_tier_t *tier, ngx_etcd_peer_t *peer,
    ngx_msec_t now)
{
    uint64_t  latency;

    latency = (peer->measured != 0) ? ngx_etcd_ewma_latency(peer, now)
                                    : tier->latency;

    return (latency + NGX_ETCD_EWMA_MIN)
           * (NGX_ETCD_PEER_UNIT
              + (uint64_t) ngx_etcd_peer_load(peer)
                * NGX_ETCD_PEER_UNIT * NGX_ETCD_PEER_UNIT / peer->weight);
}


/* what is left of the one that was measured */

static ngx_inline uint64_t
ngx_etcd_ewma_latency(ngx_etcd_peer_t *peer, ngx_msec_t now)
{
    uint64_t    latency;
    ngx_msec_t  elapsed;

    elapsed = now - peer->measured;

    if (elapsed >= NGX_ETCD_EWMA_HALF * 32) {
        return 0;
    }

    /* between two halves in a straight line */

    latency = peer->latency >> (elapsed / NGX_ETCD_EWMA_HALF);

    return latency - latency * (elapsed % NGX_ETCD_EWMA_HALF)
                     / (2 * NGX_ETCD_EWMA_HALF);
}


static void
ngx_etcd_ewma_taken(ngx_etcd_pick_t *pick, ngx_etcd_tier_t *tier,
    ngx_etcd_peer_t *peer, ngx_uint_t conns)
{
    (void) clock_gettime(CLOCK_MONOTONIC, &pick->begun);
}


static void
ngx_etcd_ewma_works(ngx_etcd_pick_t *pick, ngx_etcd_tier_t *tier,
    ngx_etcd_peer_t *peer)
{
    if (pick->begun.tv_sec != 0) {
        ngx_etcd_ewma_measure(tier, peer, ngx_etcd_ewma_elapsed(pick));
    }

    /* how long a session of stream goes on says nothing */

    pick->begun.tv_sec = 0;
}


static void
ngx_etcd_ewma_failed(ngx_etcd_pick_t *pick, ngx_etcd_tier_t *tier,
    ngx_etcd_peer_t *peer)
{
    uint64_t  latency, known;

    if (pick->begun.tv_sec == 0) {
        return;
    }

    /* to fail at once is not to be fast */

    latency = ngx_etcd_ewma_elapsed(pick);
    known = (peer->measured != 0) ? peer->latency : tier->latency;

    ngx_etcd_ewma_measure(tier, peer, ngx_max(latency, 2 * known));
}


/* from then on to now, which it begins anew at */

static ngx_inline uint64_t
ngx_etcd_ewma_elapsed(ngx_etcd_pick_t *pick)
{
    uint64_t  begun;

    begun = ngx_etcd_ewma_nsec(&pick->begun);

    (void) clock_gettime(CLOCK_MONOTONIC, &pick->begun);

    return (ngx_etcd_ewma_nsec(&pick->begun) - begun) / NGX_ETCD_EWMA_NSEC;
}


static ngx_inline void
ngx_etcd_ewma_measure(ngx_etcd_tier_t *tier, ngx_etcd_peer_t *peer,
    uint64_t elapsed)
{
    uint64_t    latency, known;
    ngx_msec_t  now;

    now = ngx_current_msec;
    latency = ngx_min(elapsed, NGX_ETCD_EWMA_MAX);
    known = ngx_etcd_ewma_latency(peer, now);

    /* what is left of the old, and the new for what that has lost */

    if (latency >= known) {
        peer->latency = latency;

    } else {
        peer->latency = known + latency * (peer->latency - known)
                                / peer->latency;
    }

    peer->measured = now;

    tier->latency = (tier->latency == 0)
                    ? latency
                    : tier->latency - tier->latency / 16 + latency / 16;
}
