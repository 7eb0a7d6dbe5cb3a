
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_pick.h>
#include <ngx_etcd_random.h>


/* Compares connections per weight. */

static ngx_uint_t
ngx_etcd_random_better(ngx_etcd_peer_group_t *group, ngx_etcd_peer_t *one,
    ngx_etcd_peer_t *two)
{
    return (uint64_t) ngx_etcd_peer_load(one) * two->weight
           < (uint64_t) ngx_etcd_peer_load(two) * one->weight;
}


static ngx_etcd_peer_t *
ngx_etcd_random_pick(ngx_etcd_pick_t *pick, ngx_etcd_peer_group_t *group)
{
    return ngx_etcd_pick_best_of_two(pick, group, ngx_etcd_random_better);
}


const ngx_etcd_method_t  ngx_etcd_random_method = {
    .name = ngx_string("random"),
    .needs = NGX_ETCD_NEEDS_SUMS,
    .pick = ngx_etcd_random_pick,
};


/* powers of 2: the code divides by them often */

#define NGX_ETCD_EWMA_HALF  2048       /* ms, half-life */
#define NGX_ETCD_EWMA_NSEC  1024       /* unit of latencies */

#define NGX_ETCD_EWMA_MAX   600000000
#define NGX_ETCD_EWMA_MIN   1000       /* added to every latency */

#define ngx_etcd_ewma_nsec(ts)                                                \
    ((uint64_t) (ts)->tv_sec * 1000000000 + (ts)->tv_nsec)


/* Returns the decayed latency. */

static ngx_inline uint64_t
ngx_etcd_ewma_latency(ngx_etcd_peer_t *peer, ngx_msec_t now)
{
    uint64_t  latency;
    uint32_t  elapsed;

    elapsed = (uint32_t) now - peer->measured;

    if (elapsed >= NGX_ETCD_EWMA_HALF * 32) {
        return 0;
    }

    /* linear interpolation between two half-lives */

    latency = peer->latency >> (elapsed / NGX_ETCD_EWMA_HALF);

    return latency - latency * (elapsed % NGX_ETCD_EWMA_HALF)
                     / (2 * NGX_ETCD_EWMA_HALF);
}


/* No overflow: latencies are below 2^30, and connections below 2^22. */

static ngx_inline uint64_t
ngx_etcd_ewma_cost(ngx_etcd_peer_group_t *group, ngx_etcd_peer_t *peer,
    ngx_msec_t now)
{
    uint64_t  latency;

    latency = (peer->measured != 0) ? ngx_etcd_ewma_latency(peer, now)
                                    : group->latency;

    return (latency + NGX_ETCD_EWMA_MIN)
           * (NGX_ETCD_PEER_UNIT
              + (uint64_t) ngx_etcd_peer_load(peer)
                * NGX_ETCD_PEER_UNIT * NGX_ETCD_PEER_UNIT / peer->weight);
}


static ngx_uint_t
ngx_etcd_ewma_better(ngx_etcd_peer_group_t *group, ngx_etcd_peer_t *one,
    ngx_etcd_peer_t *two)
{
    uint64_t    cost;
    ngx_msec_t  now;

    now = ngx_current_msec;
    cost = ngx_etcd_ewma_cost(group, two, now);

    return ngx_etcd_ewma_cost(group, one, now) < cost - cost / 4;
}


static ngx_etcd_peer_t *
ngx_etcd_ewma_pick(ngx_etcd_pick_t *pick, ngx_etcd_peer_group_t *group)
{
    return ngx_etcd_pick_best_of_two(pick, group, ngx_etcd_ewma_better);
}


static void
ngx_etcd_ewma_taken(ngx_etcd_pick_t *pick, ngx_etcd_peer_group_t *group,
    ngx_etcd_peer_t *peer, ngx_uint_t conns)
{
    (void) clock_gettime(CLOCK_MONOTONIC, &pick->begun);
}


static ngx_inline void
ngx_etcd_ewma_measure(ngx_etcd_peer_group_t *group, ngx_etcd_peer_t *peer,
    uint64_t elapsed)
{
    uint64_t    latency, known;
    ngx_msec_t  now;

    now = ngx_current_msec;
    latency = ngx_min(elapsed, NGX_ETCD_EWMA_MAX);
    known = ngx_etcd_ewma_latency(peer, now);

    /*
     * the new sample has the weight that the known latency has lost by decay
     */

    if (latency >= known) {
        peer->latency = latency;

    } else {
        peer->latency = known + latency * (peer->latency - known)
                                / peer->latency;
    }

    peer->measured = (uint32_t) now;

    group->latency = (group->latency == 0)
                    ? latency
                    : group->latency - group->latency / 16 + latency / 16;
}


/* Returns the time since pick->begun and sets pick->begun to now. */

static ngx_inline uint64_t
ngx_etcd_ewma_elapsed(ngx_etcd_pick_t *pick)
{
    uint64_t  begun;

    begun = ngx_etcd_ewma_nsec(&pick->begun);

    (void) clock_gettime(CLOCK_MONOTONIC, &pick->begun);

    return (ngx_etcd_ewma_nsec(&pick->begun) - begun) / NGX_ETCD_EWMA_NSEC;
}


static void
ngx_etcd_ewma_works(ngx_etcd_pick_t *pick, ngx_etcd_peer_group_t *group,
    ngx_etcd_peer_t *peer)
{
    if (pick->begun.tv_sec != 0) {
        ngx_etcd_ewma_measure(group, peer, ngx_etcd_ewma_elapsed(pick));
    }

    /* the duration of a stream session is no latency */

    pick->begun.tv_sec = 0;
}


static void
ngx_etcd_ewma_failed(ngx_etcd_pick_t *pick, ngx_etcd_peer_group_t *group,
    ngx_etcd_peer_t *peer)
{
    uint64_t  latency, known;

    if (pick->begun.tv_sec == 0) {
        return;
    }

    /* a quick failure must not count as a low latency */

    latency = ngx_etcd_ewma_elapsed(pick);
    known = (peer->measured != 0) ? peer->latency : group->latency;

    ngx_etcd_ewma_measure(group, peer, ngx_max(latency, 2 * known));
}


const ngx_etcd_method_t  ngx_etcd_ewma_method = {
    .name = ngx_string("ewma"),
    .needs = NGX_ETCD_NEEDS_SUMS,
    .pick = ngx_etcd_ewma_pick,
    .taken = ngx_etcd_ewma_taken,
    .works = ngx_etcd_ewma_works,
    .failed = ngx_etcd_ewma_failed,
};
