
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_alloc.h>
#include <ngx_etcd_peer_group.h>


#define ngx_etcd_peer_group_needs(group, what)                                \
    ((group)->method->needs & (what))


static ngx_int_t
ngx_etcd_weighted_tree_compare(ngx_etcd_node_t *one, ngx_etcd_node_t *two)
{
    ngx_int_t         rc;
    ngx_etcd_peer_t  *a, *b;

    a = ngx_etcd_weighted_tree(one)->peer;
    b = ngx_etcd_weighted_tree(two)->peer;

    rc = ngx_etcd_weighted_tree_names(a, b);

    return (rc != 0) ? rc : (ngx_int_t) a->uid - (ngx_int_t) b->uid;
}


static void
ngx_etcd_weighted_tree_update(ngx_etcd_node_t *node)
{
    ngx_etcd_weighted_tree_t  *weighted;

    weighted = ngx_etcd_weighted_tree(node);

    weighted->sum = weighted->peer->attr.weight
                    + ngx_etcd_weighted_tree_sum(node->left)
                    + ngx_etcd_weighted_tree_sum(node->right);
}


void
ngx_etcd_weighted_tree_init(ngx_etcd_treap_t *treap)
{
    treap->root = NULL;
    treap->compare = ngx_etcd_weighted_tree_compare;
    treap->update = ngx_etcd_weighted_tree_update;
}


ngx_int_t
ngx_etcd_weighted_tree_reserve(ngx_etcd_peer_t *peer, ngx_log_t *log)
{
    peer->weighted = ngx_alloc(sizeof(ngx_etcd_weighted_tree_t), log);
    if (peer->weighted == NULL) {
        return NGX_ERROR;
    }

    peer->weighted->node.priority = 0;
    peer->weighted->peer = peer;

    return NGX_OK;
}


ngx_etcd_peer_t *
ngx_etcd_weighted_tree_at(ngx_etcd_treap_t *treap, uint64_t point)
{
    uint64_t          left;
    ngx_etcd_node_t  *node;
    ngx_etcd_peer_t  *peer;

    node = treap->root;

    for ( ;; ) {
        left = ngx_etcd_weighted_tree_sum(node->left);

        if (point < left) {
            node = node->left;
            continue;
        }

        point -= left;
        peer = ngx_etcd_weighted_tree(node)->peer;

        if (point < peer->attr.weight) {
            return peer;
        }

        point -= peer->attr.weight;
        node = node->right;
    }
}


ngx_int_t
ngx_etcd_weighted_tree_names(ngx_etcd_peer_t *one, ngx_etcd_peer_t *two)
{
    ngx_int_t  rc;

    rc = ngx_memcmp(one->name.data, two->name.data,
                    ngx_min(one->name.len, two->name.len));

    return (rc != 0) ? rc : (ngx_int_t) one->name.len
                            - (ngx_int_t) two->name.len;
}


void
ngx_etcd_peer_group_init(ngx_etcd_peer_group_t *group,
    const ngx_etcd_method_t *method, ngx_log_t *log)
{
    ngx_memzero(group, sizeof(ngx_etcd_peer_group_t));

    group->method = method;
    group->log = log;
    group->chance = (uint64_t) ngx_random() << 1 | 1;

    ngx_etcd_eevdf_init(&group->eevdf, log);
    ngx_etcd_weighted_tree_init(&group->weighted);

    group->ring.log = log;
    group->vnodes.ring = &group->ring;
    ngx_queue_init(&group->vnodes.settled);
    ngx_queue_init(&group->vnodes.pending);
}


void
ngx_etcd_peer_group_done(ngx_etcd_peer_group_t *group)
{
    ngx_etcd_vnodes_done(&group->vnodes);
    ngx_etcd_ring_done(&group->ring);

    while (ngx_etcd_peer_group_usable(group) != 0) {
        ngx_etcd_peer_group_place(group, group->peers[0],
                                  NGX_ETCD_REGION_BARRED, 0);
    }

    ngx_etcd_eevdf_done(&group->eevdf);

    if (group->peers != NULL) {
        ngx_free(group->peers);
    }

    if (group->sums != NULL) {
        ngx_free(group->sums);
    }
}


static ngx_int_t
ngx_etcd_peer_group_grow(ngx_etcd_peer_group_t *group)
{
    uint64_t          *sums;
    ngx_uint_t         n;
    ngx_etcd_peer_t  **peers;

    n = ngx_max(group->allocated * 2, 16);

    peers = ngx_etcd_alloc_grow(group->peers,
                                group->allocated * sizeof(ngx_etcd_peer_t *),
                                n * sizeof(ngx_etcd_peer_t *), group->log);
    if (peers == NULL) {
        return NGX_ERROR;
    }

    group->peers = peers;

    if (ngx_etcd_peer_group_needs(group, NGX_ETCD_NEEDS_SUMS)) {
        sums = ngx_etcd_alloc_grow(group->sums,
                                   (group->sums ? group->allocated + 1 : 0)
                                   * sizeof(uint64_t),
                                   (n + 1) * sizeof(uint64_t), group->log);
        if (sums == NULL) {
            return NGX_ERROR;
        }

        group->sums = sums;
    }

    group->allocated = n;

    return NGX_OK;
}


ngx_int_t
ngx_etcd_peer_group_reserve(ngx_etcd_peer_group_t *group)
{
    if (ngx_etcd_peer_group_all(group) == group->allocated
        && ngx_etcd_peer_group_grow(group) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ngx_etcd_peer_group_needs(group, NGX_ETCD_NEEDS_TURN)
        && ngx_etcd_eevdf_reserve(&group->eevdf) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_etcd_peer_group_needs(group, NGX_ETCD_NEEDS_RING)
           ? ngx_etcd_vnodes_reserve(&group->vnodes) : NGX_OK;
}


void
ngx_etcd_peer_group_add(ngx_etcd_peer_group_t *group, ngx_etcd_peer_t *peer)
{
    ngx_uint_t  i, bit;

    peer->group = group;
    peer->weight = 0;
    peer->deficit.since = group->picks;
    peer->pos = group->ends[NGX_ETCD_REGION_BARRED]++;
    group->peers[peer->pos] = peer;
    group->whole += peer->attr.weight;

    if (group->sums != NULL) {

        /* a new node of the Fenwick tree sums the range of nodes below it */

        i = peer->pos + 1;
        group->sums[i] = 0;

        for (bit = 1; (i & bit) == 0; bit <<= 1) {
            group->sums[i] += group->sums[i - bit];
        }
    }

    if (ngx_etcd_peer_group_needs(group, NGX_ETCD_NEEDS_ORDER)) {
        ngx_etcd_treap_insert(&group->weighted, &peer->weighted->node);
    }

    if (ngx_etcd_peer_group_needs(group, NGX_ETCD_NEEDS_RING)) {
        ngx_etcd_vnodes_add(&group->vnodes, peer);
    }
}


static void
ngx_etcd_peer_group_sum(ngx_etcd_peer_group_t *group, ngx_uint_t pos,
    int64_t delta)
{
    ngx_uint_t  i;

    if (group->sums == NULL) {
        return;
    }

    for (i = pos + 1; i <= ngx_etcd_peer_group_all(group); i += i & (~i + 1)) {
        group->sums[i] += delta;
    }
}


static void
ngx_etcd_peer_group_swap(ngx_etcd_peer_group_t *group, ngx_uint_t a,
    ngx_uint_t b)
{
    int64_t           delta;
    ngx_etcd_peer_t  *one, *two;

    if (a == b) {
        return;
    }

    one = group->peers[a];
    two = group->peers[b];

    group->peers[a] = two;
    group->peers[b] = one;
    two->pos = a;
    one->pos = b;

    delta = (int64_t) two->weight - (int64_t) one->weight;

    if (delta != 0) {
        ngx_etcd_peer_group_sum(group, a, delta);
        ngx_etcd_peer_group_sum(group, b, -delta);
    }
}


void
ngx_etcd_peer_group_remove(ngx_etcd_peer_group_t *group, ngx_etcd_peer_t *peer)
{
    ngx_etcd_peer_group_place(group, peer, NGX_ETCD_REGION_BARRED, 0);

    ngx_etcd_peer_group_swap(group, peer->pos,
                             ngx_etcd_peer_group_all(group) - 1);
    group->ends[NGX_ETCD_REGION_BARRED]--;
    group->whole -= peer->attr.weight;

    if (ngx_etcd_peer_group_needs(group, NGX_ETCD_NEEDS_ORDER)) {
        ngx_etcd_treap_remove(&group->weighted, &peer->weighted->node);
    }

    if (ngx_etcd_peer_group_needs(group, NGX_ETCD_NEEDS_RING)) {
        ngx_etcd_vnodes_remove(&group->vnodes, peer);
    }
}


void
ngx_etcd_peer_group_replace(ngx_etcd_peer_group_t *group, ngx_etcd_peer_t *peer,
    ngx_etcd_peer_t *old)
{
    peer->group = group;
    peer->pos = old->pos;
    peer->weight = old->weight;
    peer->share = old->share;
    group->peers[peer->pos] = peer;

    if (ngx_etcd_eevdf_taken_by(&old->eevdf)) {
        ngx_etcd_eevdf_replace(&peer->eevdf, &old->eevdf);
    }

    if (ngx_etcd_peer_group_needs(group, NGX_ETCD_NEEDS_ORDER)) {
        ngx_etcd_treap_remove(&group->weighted, &old->weighted->node);
        ngx_etcd_treap_insert(&group->weighted, &peer->weighted->node);
    }
}


ngx_etcd_region_e
ngx_etcd_peer_group_region(ngx_etcd_peer_group_t *group, ngx_etcd_peer_t *peer)
{
    ngx_uint_t  region;

    for (region = 0; peer->pos >= group->ends[region]; region++) {
        /* void */
    }

    return region;
}


static ngx_int_t
ngx_etcd_peer_group_eevdf(ngx_etcd_peer_group_t *group, ngx_etcd_peer_t *peer,
    uint32_t weight)
{
    uint32_t  conns;

    if (weight == 0) {

        if (ngx_etcd_eevdf_taken_by(&peer->eevdf)) {
            ngx_etcd_eevdf_remove(&group->eevdf, &peer->eevdf);
        }

        return NGX_OK;
    }

    if (!ngx_etcd_eevdf_taken_by(&peer->eevdf)) {
        conns = ngx_etcd_peer_group_needs(group, NGX_ETCD_NEEDS_CONNS)
                ? ngx_etcd_peer_conns(peer) : 0;

        return ngx_etcd_eevdf_add(&group->eevdf, &peer->eevdf, weight, conns);
    }

    return ngx_etcd_eevdf_reweigh(&group->eevdf, &peer->eevdf, weight);
}


void
ngx_etcd_peer_group_place(ngx_etcd_peer_group_t *group, ngx_etcd_peer_t *peer,
    ngx_etcd_region_e region, uint32_t weight)
{
    int64_t     delta;
    ngx_uint_t  at;

    if (region > NGX_ETCD_REGION_LIGHT) {
        weight = 0;
    }

    if (peer->weight != weight
        && ngx_etcd_peer_group_needs(group, NGX_ETCD_NEEDS_TURN)
        && ngx_etcd_peer_group_eevdf(group, peer, weight) != NGX_OK)
    {
        (void) ngx_etcd_peer_group_eevdf(group, peer, 0);
        region = NGX_ETCD_REGION_PARKED;
        weight = 0;
    }

    delta = (int64_t) weight - (int64_t) peer->weight;

    if (delta != 0) {
        group->heaviest = (group->weight == 0) ? weight
                                             : ngx_max(group->heaviest, weight);
        peer->weight = weight;
        group->weight += delta;
        ngx_etcd_peer_group_sum(group, peer->pos, delta);
    }

    /* swaps it with the peer at the border of each region on the way */

    at = ngx_etcd_peer_group_region(group, peer);

    for ( /* void */ ; at > region; at--) {
        ngx_etcd_peer_group_swap(group, peer->pos, group->ends[at - 1]);
        group->ends[at - 1]++;
    }

    for ( /* void */ ; at < region; at++) {
        group->ends[at]--;
        ngx_etcd_peer_group_swap(group, peer->pos, group->ends[at]);
    }
}


/* Returns the peer at a point of 0 .. peer group->weight - 1; needs sums. */

static ngx_etcd_peer_t *
ngx_etcd_peer_group_at(ngx_etcd_peer_group_t *group, uint64_t point)
{
    ngx_uint_t  i, n, bit;

    i = 0;
    n = ngx_etcd_peer_group_all(group);

    /* the highest bit of the number of peers, which is not 0 */

    bit = (ngx_uint_t) 1 << (8 * sizeof(long) - 1
                             - __builtin_clzl((unsigned long) n));

    for ( /* void */ ; bit != 0; bit >>= 1) {
        if (i + bit <= n && group->sums[i + bit] <= point) {
            i += bit;
            point -= group->sums[i];
        }
    }

    return group->peers[i];
}


/*
 * Accepts a uniformly drawn peer with probability weight / heaviest, which is
 * 1 for equal weights, and otherwise draws one from the Fenwick tree; both are
 * proportional to weights.
 */

ngx_etcd_peer_t *
ngx_etcd_peer_group_draw(ngx_etcd_peer_group_t *group)
{
    uint64_t          point;
    ngx_etcd_peer_t  *peer;

    peer = group->peers[ngx_etcd_peer_group_random(group)
                        % ngx_etcd_peer_group_usable(group)];

    if (peer->weight == group->heaviest
        || ngx_etcd_peer_group_random(group) % group->heaviest < peer->weight)
    {
        return peer;
    }

    point = ngx_etcd_peer_group_random(group) << 32;

    return ngx_etcd_peer_group_at(group,
                                  (point | ngx_etcd_peer_group_random(group))
                                  % group->weight);
}
