
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The peer that may be expected to answer first: the better of two, each drawn
 * in proportion to its weight.
 *
 * What is expected is the peer's latency, as this worker has measured it, for
 * each of its connections for its weight and one more.  Latency is the time
 * from the choice of the peer to the end of the response, or, in stream over
 * TCP, until the peer is connected.  A longer one than
 * was known counts at once, a shorter one by its share of an average in which
 * what was known has lost half of its weight every NGX_ETCD_EWMA_HALF ms; that
 * goes on while nothing is measured, so that a peer that was slow is asked
 * again.  A peer that was never measured is taken to be as others are.
 *
 * Latencies differ by chance: the second is better where a quarter less is
 * expected of it, and a millisecond more or less than none says little.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_balance.h>
#include <ngx_etcd_stall.h>


#define NGX_ETCD_EWMA_HALF  2000       /* ms */
#define NGX_ETCD_EWMA_MAX   600000000  /* us */
#define NGX_ETCD_EWMA_MIN   1000       /* us, added to all */


static ngx_etcd_peer_t *ngx_etcd_ewma_pick(ngx_etcd_pick_t *pick,
    ngx_etcd_tier_t *tier);
static ngx_uint_t ngx_etcd_ewma_better(ngx_etcd_tier_t *tier,
    ngx_etcd_peer_t *one, ngx_etcd_peer_t *two);
static uint64_t ngx_etcd_ewma_cost(ngx_etcd_tier_t *tier,
    ngx_etcd_peer_t *peer);
static uint32_t ngx_etcd_ewma_latency(ngx_etcd_peer_t *peer);
static void ngx_etcd_ewma_taken(ngx_etcd_pick_t *pick, ngx_etcd_tier_t *tier,
    ngx_etcd_peer_t *peer, ngx_uint_t conns);
static void ngx_etcd_ewma_works(ngx_etcd_pick_t *pick, ngx_etcd_tier_t *tier,
    ngx_etcd_peer_t *peer);
static void ngx_etcd_ewma_measure(ngx_etcd_tier_t *tier,
    ngx_etcd_peer_t *peer, uint64_t us);
static void ngx_etcd_ewma_freed(ngx_etcd_pick_t *pick, ngx_etcd_tier_t *tier,
    ngx_etcd_peer_t *peer, ngx_uint_t state);


const ngx_etcd_method_t  ngx_etcd_method_ewma = {
    ngx_string("ewma"),
    ngx_null_string,
    NGX_ETCD_NEEDS_SUMS,
    ngx_etcd_ewma_pick,
    ngx_etcd_ewma_taken,
    ngx_etcd_ewma_works,
    ngx_etcd_ewma_freed
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
    uint64_t  cost;

    cost = ngx_etcd_ewma_cost(tier, two);

    return ngx_etcd_ewma_cost(tier, one) < cost - cost / 4;
}


/* below 2^60: latencies are less than 2^30 */

static uint64_t
ngx_etcd_ewma_cost(ngx_etcd_tier_t *tier, ngx_etcd_peer_t *peer)
{
    uint64_t  latency, conns;

    latency = (peer->measured != 0) ? ngx_etcd_ewma_latency(peer)
                                    : tier->latency;

    conns = ngx_min(ngx_etcd_peer_conns(peer), 0xffff);

    return (latency + NGX_ETCD_EWMA_MIN)
           * (NGX_ETCD_PEER_UNIT
              + conns * NGX_ETCD_PEER_UNIT * NGX_ETCD_PEER_UNIT
                / peer->weight);
}


static uint32_t
ngx_etcd_ewma_latency(ngx_etcd_peer_t *peer)
{
    uint64_t    latency;
    ngx_msec_t  elapsed;

    elapsed = ngx_current_msec - peer->measured;

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
    pick->begun = ngx_etcd_stall_now();
}


static void
ngx_etcd_ewma_works(ngx_etcd_pick_t *pick, ngx_etcd_tier_t *tier,
    ngx_etcd_peer_t *peer)
{
    if (pick->begun != 0) {
        ngx_etcd_ewma_measure(tier, peer,
                              ngx_etcd_stall_now() - pick->begun);
    }

    /* how long a session of stream goes on says nothing */

    pick->begun = 0;
}


static void
ngx_etcd_ewma_freed(ngx_etcd_pick_t *pick, ngx_etcd_tier_t *tier,
    ngx_etcd_peer_t *peer, ngx_uint_t state)
{
    uint64_t  latency, known;

    if (pick->begun == 0 || !(state & NGX_PEER_FAILED)) {
        return;
    }

    /* to fail at once is not to be fast */

    latency = ngx_etcd_stall_now() - pick->begun;
    known = (peer->measured != 0) ? peer->latency : tier->latency;

    ngx_etcd_ewma_measure(tier, peer, ngx_max(latency, 2 * known));
}


static void
ngx_etcd_ewma_measure(ngx_etcd_tier_t *tier, ngx_etcd_peer_t *peer,
    uint64_t us)
{
    uint32_t  latency, known;

    latency = ngx_min(us, NGX_ETCD_EWMA_MAX);
    known = ngx_etcd_ewma_latency(peer);

    /* what is left of the old, and the new for what that has lost */

    if (peer->measured == 0 || latency >= known) {
        peer->latency = latency;

    } else {
        peer->latency = known + (uint64_t) latency * (peer->latency - known)
                                / peer->latency;
    }

    peer->measured = ngx_max(ngx_current_msec, 1);

    tier->latency += ((int64_t) latency - (int64_t) tier->latency)
                     / (tier->latency == 0 ? 1 : 16);
}
