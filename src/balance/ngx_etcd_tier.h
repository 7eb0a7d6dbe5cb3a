
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Peers of one kind (ordinary, or backup), kept so that a method picks among
 * those that can be used without looking at the others.
 *
 * All are in one array, by what is known of them: first those with all of
 * their weight, then those with a part of it, then those that cannot be used
 * at the moment, then those that are not to be used.
 */


#ifndef _NGX_ETCD_TIER_H_INCLUDED_
#define _NGX_ETCD_TIER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_method.h>
#include <ngx_etcd_order.h>
#include <ngx_etcd_peer.h>
#include <ngx_etcd_ring.h>
#include <ngx_etcd_vnodes.h>
#include <ngx_etcd_turn.h>


typedef enum {
    NGX_ETCD_REGION_WHOLE = 0,
    NGX_ETCD_REGION_LIGHT,             /* starts slowly, or has failed */
    NGX_ETCD_REGION_PARKED,            /* failing, or full */
    NGX_ETCD_REGION_BARRED,            /* down or drained */
    NGX_ETCD_REGIONS
} ngx_etcd_region_e;


struct ngx_etcd_tier_s {
    const ngx_etcd_method_t     *method;
    ngx_log_t                   *log;

    ngx_etcd_peer_t            **peers;
    ngx_uint_t                   allocated;
    ngx_uint_t                   ends[NGX_ETCD_REGIONS];
    uint64_t                     weight;           /* of all, in units */
    uint32_t                     heaviest;         /* no peer weighs more */

    /* those that the method needs */

    uint64_t                    *sums;             /* Fenwick tree of weights,
                                                      from 1 */
    ngx_etcd_turn_t              turn;             /* of those in use */
    ngx_etcd_treap_t             order;            /* of all */
    ngx_etcd_ring_t              ring;             /* of all */
    ngx_etcd_vnodes_t            vnodes;           /* in the ring */

    uint32_t                     picks;            /* so far */
    ngx_msec_t                   swept;            /* last time */
    uint64_t                     chance;           /* the last drawn; odd */
    ngx_uint_t                   cursor;           /* of those asked for their
                                                      connections in turn */
    uint32_t                     latency;          /* of any peer */
};


#define ngx_etcd_tier_usable(tier)  ((tier)->ends[NGX_ETCD_REGION_LIGHT])
#define ngx_etcd_tier_tries(tier)   ((tier)->ends[NGX_ETCD_REGION_PARKED])
#define ngx_etcd_tier_all(tier)     ((tier)->ends[NGX_ETCD_REGION_BARRED])

/* those that may get better by themselves */
#define ngx_etcd_tier_unwell(tier)                                            \
    ((tier)->ends[NGX_ETCD_REGION_PARKED]                                     \
     - (tier)->ends[NGX_ETCD_REGION_WHOLE])

void ngx_etcd_tier_init(ngx_etcd_tier_t *tier,
    const ngx_etcd_method_t *method, ngx_log_t *log);
void ngx_etcd_tier_done(ngx_etcd_tier_t *tier);

/*
 * Memory for a peer that is to be removed, or added, in this tier; and for
 * what belongs to the peer, in any of the method: NGX_OK or NGX_ERROR.
 */
ngx_int_t ngx_etcd_tier_reserve(ngx_etcd_tier_t *tier);
ngx_int_t ngx_etcd_tier_prepare(ngx_etcd_tier_t *tier, ngx_etcd_peer_t *peer);

/* it is barred, until it is placed */
void ngx_etcd_tier_add(ngx_etcd_tier_t *tier, ngx_etcd_peer_t *peer);
void ngx_etcd_tier_remove(ngx_etcd_tier_t *tier, ngx_etcd_peer_t *peer);

/* another object of the same member, of the same weight, in its place */
void ngx_etcd_tier_replace(ngx_etcd_tier_t *tier, ngx_etcd_peer_t *peer,
    ngx_etcd_peer_t *old);

/*
 * A peer's region and weight (in units, not 0; of no meaning where it is not
 * used).  Where there is no memory to use it, it is parked.
 */
void ngx_etcd_tier_place(ngx_etcd_tier_t *tier, ngx_etcd_peer_t *peer,
    ngx_etcd_region_e region, uint32_t weight);
ngx_etcd_region_e ngx_etcd_tier_region(ngx_etcd_tier_t *tier,
    ngx_etcd_peer_t *peer);

/* instead of one that anybody might have been, and who has not all weight */
ngx_etcd_peer_t *ngx_etcd_tier_draw_again(ngx_etcd_tier_t *tier,
    ngx_etcd_peer_t *peer);


/*
 * 32 bits, the better ones of a multiplicative congruential generator; libc's
 * random() takes a lock, and ten times as long.
 */

static ngx_inline uint64_t
ngx_etcd_tier_random(ngx_etcd_tier_t *tier)
{
    tier->chance *= 0xd1342543de82ef95;

    return tier->chance >> 32;
}


/*
 * One at random, in proportion to weight; some can be used.  Anybody, if the
 * weight permits, which it always does where all are equal.
 */

static ngx_inline ngx_etcd_peer_t *
ngx_etcd_tier_draw(ngx_etcd_tier_t *tier)
{
    ngx_etcd_peer_t  *peer;

    peer = tier->peers[ngx_etcd_tier_random(tier)
                       % ngx_etcd_tier_usable(tier)];

    return (peer->weight == tier->heaviest)
           ? peer : ngx_etcd_tier_draw_again(tier, peer);
}


#endif /* _NGX_ETCD_TIER_H_INCLUDED_ */
