
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_balance.h>
#include <ngx_etcd_pick.h>
#include <ngx_etcd_str.h>


#define NGX_ETCD_LEAST_CONN_LOOKS  10

/* least_conn: maximum of candidates with outdated numbers per pick */

#define NGX_ETCD_LEAST_CONN_MAX  256

#define NGX_ETCD_HASH_TRIES  20

/* points of unusable or removed members to skip */

#define NGX_ETCD_HASH_SKIPS  1000

#define ngx_etcd_hash_step(crc, c)                                            \
    (ngx_crc32_table256[((crc) ^ (c)) & 0xff] ^ ((crc) >> 8))

/* powers of 2: the code divides by them often */

#define NGX_ETCD_EWMA_HALF  2048       /* ms, half-life */
#define NGX_ETCD_EWMA_NSEC  1024       /* unit of latencies */

#define NGX_ETCD_EWMA_MAX   600000000
#define NGX_ETCD_EWMA_MIN   1000       /* added to every latency */

#define ngx_etcd_ewma_nsec(ts)                                                \
    ((uint64_t) (ts)->tv_sec * 1000000000 + (ts)->tv_nsec)


/*
 * Removes the peers that the request has tried from the rotation; their
 * number is small.
 */

static void
ngx_etcd_round_robin_set_aside(ngx_etcd_pick_t *pick,
    ngx_etcd_peer_group_t *group)
{
    ngx_uint_t        i;
    ngx_etcd_peer_t  *peer;

    for (i = 0; i < pick->ntried; i++) {
        peer = ngx_etcd_table_current(pick->table, pick->tried[i].peer);

        if (peer != NULL
            && peer->group == group
            && ngx_etcd_eevdf_taken_by(&peer->eevdf))
        {
            ngx_etcd_eevdf_remove(&group->eevdf, &peer->eevdf);
        }
    }
}


static void
ngx_etcd_round_robin_put_back(ngx_etcd_pick_t *pick,
    ngx_etcd_peer_group_t *group)
{
    ngx_uint_t        i, conns;
    ngx_etcd_peer_t  *peer;

    for (i = 0; i < pick->ntried; i++) {
        peer = ngx_etcd_table_current(pick->table, pick->tried[i].peer);

        if (peer == NULL
            || peer->group != group
            || ngx_etcd_eevdf_taken_by(&peer->eevdf)
            || peer->weight == 0)
        {
            continue;
        }

        conns = (group->method->needs & NGX_ETCD_NEEDS_CONNS)
                ? ngx_etcd_peer_conns(peer) : 0;

        if (ngx_etcd_eevdf_add(&group->eevdf, &peer->eevdf, peer->weight, conns)
            != NGX_OK)
        {
            ngx_etcd_peer_group_place(group, peer, NGX_ETCD_REGION_PARKED, 0);
        }
    }
}


static ngx_etcd_peer_t *
ngx_etcd_round_robin_pick(ngx_etcd_pick_t *pick, ngx_etcd_peer_group_t *group)
{
    ngx_uint_t              looks, known, conns;
    ngx_etcd_peer_t        *peer;
    ngx_etcd_eevdf_link_t  *link;

    ngx_etcd_round_robin_set_aside(pick, group);

    looks = 0;

    for ( ;; ) {
        link = ngx_etcd_eevdf_next(&group->eevdf);

        if (link == NULL) {
            peer = NULL;
            break;
        }

        peer = ngx_queue_data(link, ngx_etcd_peer_t, eevdf);

        /* an unusable peer was parked: the next one differs */

        if (!ngx_etcd_health_usable(group, peer,
                                    ngx_etcd_table_counts(pick->table)))
        {
            continue;
        }

        if (looks++ < NGX_ETCD_LEAST_CONN_MAX
            && (group->method->needs & NGX_ETCD_NEEDS_CONNS))
        {
            known = ngx_etcd_eevdf_conns(&peer->eevdf);
            conns = ngx_etcd_peer_conns(peer);

            ngx_etcd_eevdf_load(&group->eevdf, &peer->eevdf, conns);

            /* the rotation assumed fewer connections */

            if (conns > known) {
                continue;
            }
        }

        ngx_etcd_eevdf_take(&group->eevdf, &peer->eevdf);
        break;
    }

    ngx_etcd_round_robin_put_back(pick, group);

    return peer;
}


static const ngx_etcd_method_t  ngx_etcd_round_robin_method = {
    .name = ngx_string("round_robin"),
    .needs = NGX_ETCD_NEEDS_TURN,
    .pick = ngx_etcd_round_robin_pick,
};


/*
 * The peer with the fewest connections, over all workers, for its weight;
 * weighted rotation among equals.
 *
 * A worker knows the exact number of connections of a peer right after it has
 * picked the peer, finished with the peer, or read the shared counter.
 * Before a pick, the worker reads the counter of the candidate and goes on to
 * the next candidate if the number has grown: no peer is picked for an
 * outdated low number (unless other workers have picked 256 of the next
 * candidates in the meantime).  In addition, each pick reads the counters of
 * NGX_ETCD_LEAST_CONN_LOOKS other peers in turn.
 *
 * With up to that many peers the result is therefore exact.  With n peers, a
 * peer whose connections other workers have closed may be passed over for up
 * to n / NGX_ETCD_LEAST_CONN_LOOKS picks of this worker.
 */

static ngx_etcd_peer_t *
ngx_etcd_least_conn_pick(ngx_etcd_pick_t *pick, ngx_etcd_peer_group_t *group)
{
    ngx_uint_t        i, n, conns;
    ngx_etcd_peer_t  *peer;

    n = ngx_etcd_peer_group_usable(group);

    for (i = ngx_min(n, NGX_ETCD_LEAST_CONN_LOOKS); i != 0; i--) {

        if (group->cursor >= n) {
            group->cursor = 0;
        }

        peer = group->peers[group->cursor++];
        conns = ngx_etcd_peer_conns(peer);

        if (conns != ngx_etcd_eevdf_conns(&peer->eevdf)) {
            ngx_etcd_eevdf_load(&group->eevdf, &peer->eevdf, conns);
        }
    }

    return ngx_etcd_round_robin_pick(pick, group);
}


static void
ngx_etcd_least_conn_taken(ngx_etcd_pick_t *pick, ngx_etcd_peer_group_t *group,
    ngx_etcd_peer_t *peer, ngx_uint_t conns)
{
    if (ngx_etcd_eevdf_taken_by(&peer->eevdf)) {
        ngx_etcd_eevdf_load(&group->eevdf, &peer->eevdf, conns);
    }
}


static void
ngx_etcd_least_conn_freed(ngx_etcd_peer_group_t *group, ngx_etcd_peer_t *peer)
{
    if (ngx_etcd_eevdf_taken_by(&peer->eevdf)) {
        ngx_etcd_eevdf_load(&group->eevdf, &peer->eevdf,
                            ngx_etcd_peer_conns(peer));
    }
}


static const ngx_etcd_method_t  ngx_etcd_least_conn_method = {
    .name = ngx_string("least_conn"),
    .needs = NGX_ETCD_NEEDS_TURN|NGX_ETCD_NEEDS_CONNS,
    .pick = ngx_etcd_least_conn_pick,
    .taken = ngx_etcd_least_conn_taken,
    .freed = ngx_etcd_least_conn_freed,
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
    uint32_t          crc;
    ngx_etcd_peer_t  *peer;

    if (pick->key.len == 0 || pick->table->nmembers <= 1) {
        return ngx_etcd_round_robin_pick(pick, group);
    }

    weight = ngx_etcd_weighted_tree_weight(&group->weighted);

    while (pick->hashed <= NGX_ETCD_HASH_TRIES) {
        /* nginx adds (crc32([REHASH] KEY) >> 16) & 0x7fff, too */

        crc = ngx_etcd_hash_crc(pick->rehash, &pick->key);

        if (pick->rehash == 0) {
            pick->crc = crc;
        }

        pick->hash += (crc >> 16) & 0x7fff;
        pick->rehash++;

        peer = ngx_etcd_weighted_tree_at(&group->weighted, pick->hash % weight);

        if (ngx_etcd_hash_usable(pick, group, peer)) {
            return peer;
        }

        pick->hashed++;
    }

    return ngx_etcd_round_robin_pick(pick, group);
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
        return ngx_etcd_round_robin_pick(pick, group);
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

    return ngx_etcd_round_robin_pick(pick, group);
}


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


/*
 * The power of two choices (Mitzenmacher 1996): the peer with fewer connections
 * for its weight of two peers, each drawn in proportion to its weight.
 */


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


static const ngx_etcd_method_t  ngx_etcd_random_method = {
    .name = ngx_string("random"),
    .needs = NGX_ETCD_NEEDS_SUMS,
    .pick = ngx_etcd_random_pick,
};


/*
 * Peak EWMA (from Finagle) with the power of two choices (Mitzenmacher 1996):
 * the peer with the lower expected cost of two, each drawn in proportion to
 * its weight.
 *
 * The cost of a peer is its latency, as measured by this worker, times one
 * plus the number of its connections per weight.  Latency is the time from
 * the choice of the peer
 *
 *     in http, to the header of the response, if nginx tells of the header
 *         (since nginx 1.29.6), otherwise to its end;
 *     in stream, to the first byte of the response, if nginx tells of it (since
 *         nginx 1.31.0), otherwise over TCP to the established connection, over
 *         UDP to the end of the session.
 *
 * A latency above the average replaces the average at once ("peak").  A lower
 * latency is averaged with the known one, whose weight halves every
 * NGX_ETCD_EWMA_HALF ms.  The average also decays without samples, so that a
 * slow peer is tried again.  A peer without samples gets the average of all
 * peers.
 *
 * Latencies vary randomly: the second peer is chosen only if its cost is a
 * quarter lower, and NGX_ETCD_EWMA_MIN is added to all latencies so that
 * differences below a millisecond matter little.
 */


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


static const ngx_etcd_method_t  ngx_etcd_ewma_method = {
    .name = ngx_string("ewma"),
    .needs = NGX_ETCD_NEEDS_SUMS,
    .pick = ngx_etcd_ewma_pick,
    .taken = ngx_etcd_ewma_taken,
    .works = ngx_etcd_ewma_works,
    .failed = ngx_etcd_ewma_failed,
};


/* NGX_ETCD_METHOD_NAMES lists them too */

static const ngx_etcd_method_t  *ngx_etcd_balance_methods[] = {
    &ngx_etcd_round_robin_method,
    &ngx_etcd_least_conn_method,
    &ngx_etcd_random_method,
    &ngx_etcd_hash_method,
    &ngx_etcd_hash_consistent_method,
    &ngx_etcd_ewma_method,
    NULL
};

const ngx_etcd_method_t  *ngx_etcd_balance_default =
    &ngx_etcd_round_robin_method;


const ngx_etcd_method_t *
ngx_etcd_balance_method(ngx_str_t *name, ngx_str_t *parameter)
{
    ngx_uint_t                i;
    const ngx_etcd_method_t  *method;

    for (i = 0; ngx_etcd_balance_methods[i] != NULL; i++) {
        method = ngx_etcd_balance_methods[i];

        if (ngx_etcd_str_equal(&method->name, name)
            && ngx_etcd_str_equal(&method->parameter, parameter))
        {
            return method;
        }
    }

    return NULL;
}
