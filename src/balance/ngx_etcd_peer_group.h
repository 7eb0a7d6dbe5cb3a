
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Peers of one kind (ordinary or backup), arranged so that a method does not
 * visit peers that cannot be used.
 *
 * All peers are in one array, ordered by region: peers with all of their
 * weight, peers with a part of their weight, parked peers, and peers that are
 * down or drained.
 */


#ifndef _NGX_ETCD_PEER_GROUP_H_INCLUDED_
#define _NGX_ETCD_PEER_GROUP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_eevdf.h>
#include <ngx_etcd_peer.h>
#include <ngx_etcd_ring.h>
#include <ngx_etcd_treap.h>


/* the structures that peer groups maintain for a method */

#define NGX_ETCD_NEEDS_TURN   0x01
#define NGX_ETCD_NEEDS_CONNS  0x02     /* rotation by connections */
#define NGX_ETCD_NEEDS_SUMS   0x04
#define NGX_ETCD_NEEDS_ORDER  0x08
#define NGX_ETCD_NEEDS_RING   0x10
#define NGX_ETCD_NEEDS_KEY    0x20     /* the request's key */


typedef struct ngx_etcd_pick_s    ngx_etcd_pick_t;
typedef struct ngx_etcd_method_s  ngx_etcd_method_t;


/* a balancing method */

struct ngx_etcd_method_s {
    ngx_str_t              name;
    ngx_str_t              parameter;     /* second parameter */
    ngx_uint_t             needs;         /* NGX_ETCD_NEEDS_ */

    /* Returns a peer for which ngx_etcd_pick_usable() is true; NULL: none. */
    ngx_etcd_peer_t     *(*pick)(ngx_etcd_pick_t *pick,
                                 ngx_etcd_peer_group_t *group);

    /* the peer has one connection more, "conns" in total; or NULL */
    void                 (*taken)(ngx_etcd_pick_t *pick,
                                  ngx_etcd_peer_group_t *group,
                                  ngx_etcd_peer_t *peer, ngx_uint_t conns);

    /*
     * The peer has answered or, in stream, is connected; or NULL.  An nginx
     * that tells of the header calls this for the header, and again for the
     * end.
     */
    void                 (*works)(ngx_etcd_pick_t *pick,
                                  ngx_etcd_peer_group_t *group,
                                  ngx_etcd_peer_t *peer);

    /* the peer has failed; or NULL */
    void                 (*failed)(ngx_etcd_pick_t *pick,
                                   ngx_etcd_peer_group_t *group,
                                   ngx_etcd_peer_t *peer);

    /* the peer has one connection less; or NULL */
    void                 (*freed)(ngx_etcd_peer_group_t *group,
                                  ngx_etcd_peer_t *peer);
};


typedef enum {
    NGX_ETCD_REGION_WHOLE = 0,
    NGX_ETCD_REGION_LIGHT,             /* slow start, or lost weight */
    NGX_ETCD_REGION_PARKED,            /* failing, or at max_conns */
    NGX_ETCD_REGION_BARRED,            /* down or drained */
    NGX_ETCD_REGIONS
} ngx_etcd_region_e;


struct ngx_etcd_peer_group_s {
    const ngx_etcd_method_t     *method;
    ngx_log_t                   *log;

    ngx_etcd_peer_t            **peers;
    ngx_uint_t                   allocated;
    ngx_uint_t                   ends[NGX_ETCD_REGIONS];
    uint64_t                     weight;           /* total, in units */
    uint64_t                     whole;            /* total of all peers, not
                                                      in units */
    uint32_t                     heaviest;         /* upper limit of weights */

    /* structures that the method needs */

    uint64_t                    *sums;             /* Fenwick tree of weights,
                                                      1-based */
    ngx_etcd_eevdf_t             eevdf;            /* usable peers */
    ngx_etcd_treap_t             weighted;         /* all peers */
    ngx_etcd_ring_t              ring;             /* all peers */
    ngx_etcd_vnodes_t            vnodes;           /* in the ring */

    uint32_t                     picks;            /* number of picks */
    ngx_msec_t                   swept;            /* time of last sweep */
    uint64_t                     chance;           /* random state, odd */
    ngx_uint_t                   cursor;           /* least_conn: next peer
                                                      whose connections are
                                                      read */
    uint32_t                     latency;          /* average over peers */
};


#define ngx_etcd_peer_group_usable(g)  ((g)->ends[NGX_ETCD_REGION_LIGHT])
#define ngx_etcd_peer_group_tries(g)   ((g)->ends[NGX_ETCD_REGION_PARKED])
#define ngx_etcd_peer_group_all(g)     ((g)->ends[NGX_ETCD_REGION_BARRED])

/* number of peers that may recover without a change */
#define ngx_etcd_peer_group_unwell(group)                                     \
    ((group)->ends[NGX_ETCD_REGION_PARKED]                                    \
     - (group)->ends[NGX_ETCD_REGION_WHOLE])

void ngx_etcd_peer_group_init(ngx_etcd_peer_group_t *group,
    const ngx_etcd_method_t *method, ngx_log_t *log);
void ngx_etcd_peer_group_done(ngx_etcd_peer_group_t *group);

/*
 * Allocates memory for adding or removing one peer: NGX_OK or NGX_ERROR.  The
 * peer has a node if the method needs one (NGX_ETCD_NEEDS_ORDER), see
 * ngx_etcd_weighted_tree_reserve().
 */
ngx_int_t ngx_etcd_peer_group_reserve(ngx_etcd_peer_group_t *group);

/* A new peer is in the last region until it is placed. */
void ngx_etcd_peer_group_add(ngx_etcd_peer_group_t *group,
    ngx_etcd_peer_t *peer);
void ngx_etcd_peer_group_remove(ngx_etcd_peer_group_t *group,
    ngx_etcd_peer_t *peer);

/* Replaces the object of a member by another one with the same weight. */
void ngx_etcd_peer_group_replace(ngx_etcd_peer_group_t *group,
    ngx_etcd_peer_t *peer, ngx_etcd_peer_t *old);

/*
 * Sets the region and the weight of a peer, in units, not 0; the weight is
 * ignored if the peer is unusable.  If there is no memory, the peer is
 * parked.
 */
void ngx_etcd_peer_group_place(ngx_etcd_peer_group_t *group,
    ngx_etcd_peer_t *peer, ngx_etcd_region_e region, uint32_t weight);
ngx_etcd_region_e ngx_etcd_peer_group_region(ngx_etcd_peer_group_t *group,
    ngx_etcd_peer_t *peer);

/* Draws a usable peer in proportion to weights; there must be one. */
ngx_etcd_peer_t *ngx_etcd_peer_group_draw(ngx_etcd_peer_group_t *group);


/*
 * Returns 32 random bits: the upper half of a multiplicative congruential
 * generator (multiplier by Steele, Vigna 2021).  random() of libc takes a
 * lock and ten times as long.
 */

static ngx_inline uint64_t
ngx_etcd_peer_group_random(ngx_etcd_peer_group_t *group)
{
    group->chance *= 0xd1342543de82ef95;

    return group->chance >> 32;
}


/*
 * Members in the bytewise order of their addresses as text, each as long as
 * its weight; the order is the same in all workers and on all machines.
 */

struct ngx_etcd_weighted_tree_s {
    ngx_etcd_node_t              node;
    ngx_etcd_peer_t             *peer;
    uint64_t                     sum;           /* weights of the subtree */
};


void ngx_etcd_weighted_tree_init(ngx_etcd_treap_t *treap);

/*
 * Allocates the peer's node, which is freed with the peer: NGX_OK or
 * NGX_ERROR.
 */
ngx_int_t ngx_etcd_weighted_tree_reserve(ngx_etcd_peer_t *peer, ngx_log_t *log);

/* Compares two peers by name: < 0, 0, > 0. */
ngx_int_t ngx_etcd_weighted_tree_names(ngx_etcd_peer_t *one,
    ngx_etcd_peer_t *two);

#define ngx_etcd_weighted_tree(n)                                             \
    (ngx_queue_data(n, ngx_etcd_weighted_tree_t, node))
#define ngx_etcd_weighted_tree_sum(n)                                         \
    ((n) == NULL ? 0 : ngx_etcd_weighted_tree(n)->sum)

/* the tree must not be empty */
#define ngx_etcd_weighted_tree_weight(treap)                                  \
    (ngx_etcd_weighted_tree((treap)->root)->sum)

/* Returns the peer that covers the point; 0 <= point < total weight. */
ngx_etcd_peer_t *ngx_etcd_weighted_tree_at(ngx_etcd_treap_t *treap,
    uint64_t point);


#endif /* _NGX_ETCD_PEER_GROUP_H_INCLUDED_ */
