
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Picking a peer for a request or a connection; the same code for http and
 * stream.
 */


#ifndef _NGX_ETCD_BALANCE_H_INCLUDED_
#define _NGX_ETCD_BALANCE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>
#include <ngx_etcd_health.h>
#include <ngx_etcd_method.h>
#include <ngx_etcd_table.h>


/* best of two: peers drawn before it takes any */

#define NGX_ETCD_PICK_DRAWS  20


typedef struct {
    ngx_etcd_peer_t             *peer;
    ngx_uint_t                   again;            /* a kept connection to it
                                                      was broken, which says
                                                      nothing of the peer */
} ngx_etcd_try_t;


/*
 * One request's way through the peers, owned by the caller.  It is
 * small: what does not fit into a request's pool any more costs another block
 * of it, which is more than picking does.
 */

struct ngx_etcd_pick_s {
    ngx_etcd_table_t            *table;
    ngx_str_t                   *name;             /* of the upstream */
    ngx_pool_t                  *pool;
    uint64_t                     revision;         /* that it is picked by */
    ngx_etcd_try_t              *tried;            /* all picked; referenced
                                                      until done */

    /* zeroed from here */

    ngx_etcd_peer_t             *peer;             /* the last picked */
    uint32_t                     ntried;
    unsigned                     cached:1;         /* the last connection was
                                                      a kept one, and failed */
    unsigned                     early:1;          /* peer: not yet got */
    uint32_t                     tries;            /* left after that */
    ngx_etcd_tenant_t           *tenant;           /* or NULL */

    /* of the method */

    ngx_str_t                    key;              /* set before the first
                                                      peer; outlives the pick;
                                                      empty: round robin */
    uint32_t                     crc;              /* of the key */
    uint32_t                     hash;
    uint32_t                     rehash;           /* times hashed */
    uint32_t                     hashed;           /* to who is not usable */
    struct timespec              begun;            /* the last taken; 0 s: is
                                                      not measured */

    ngx_etcd_try_t               first;
};


/* for an error message */
#define NGX_ETCD_METHOD_NAMES                                                 \
    "round_robin, least_conn, random, hash, ewma"

/*
 * The method of that name and parameter ("hash" has "consistent"); NULL if
 * there is none.
 */
const ngx_etcd_method_t *ngx_etcd_method_find(ngx_str_t *name,
    ngx_str_t *parameter);
extern const ngx_etcd_method_t  *ngx_etcd_method_default;


/* from the table as it is; returns how many peers there are to try */

static ngx_inline ngx_uint_t
ngx_etcd_pick_init(ngx_etcd_pick_t *pick, ngx_etcd_table_t *table,
    ngx_str_t *name, ngx_pool_t *pool)
{
    pick->table = table;
    pick->name = name;
    pick->pool = pool;
    pick->revision = table->reader.revision;
    pick->tried = &pick->first;

    ngx_memzero(&pick->peer, offsetof(ngx_etcd_pick_t, first)
                             - offsetof(ngx_etcd_pick_t, peer));

    return ngx_etcd_tier_tries(&table->primary)
           + ngx_etcd_tier_tries(&table->backup);
}


/*
 * To be called, once, when the peer in use leaves the table or leads anew;
 * where such tenants are not told, never.  NGX_OK, or NGX_ERROR.
 */

#define ngx_etcd_pick_tell(pick, handler, arg)                                \
    ((pick)->table->conf->close ? ngx_etcd_pick_enter(pick, handler, arg)     \
                                : NGX_OK)

ngx_int_t ngx_etcd_pick_enter(ngx_etcd_pick_t *pick,
    void (*close)(void *data), void *data);

/*
 * What nginx calls of a connection to a peer; the data are the pick.
 */

/*
 * The next peer into pc: never one that was tried on a connection of its own.
 * NGX_BUSY when there is none, with pc->name set to the upstream's.
 */
ngx_int_t ngx_etcd_pick_get(ngx_peer_connection_t *pc, void *data);

/*
 * Picks the peer that ngx_etcd_pick_get() returns when it is called next, or
 * returns NGX_BUSY as that would: for who can do something about it.
 */
ngx_int_t ngx_etcd_pick_early(ngx_peer_connection_t *pc,
    ngx_etcd_pick_t *pick);

/* the peer is done with; state is NGX_PEER_FAILED and others, as nginx's */
void ngx_etcd_pick_free(ngx_peer_connection_t *pc, void *data,
    ngx_uint_t state);

/* the peer works, which is known before it is done with */
void ngx_etcd_pick_works(ngx_etcd_pick_t *pick);

#if (NGX_SSL)

/* the peer's TLS session, kept by this worker between connections to it */

ngx_int_t ngx_etcd_pick_set_session(ngx_peer_connection_t *pc, void *data);
void ngx_etcd_pick_save_session(ngx_peer_connection_t *pc, void *data);

#endif


/* drops the references: names and keys of peers are not valid any more */

static ngx_inline void
ngx_etcd_pick_done(ngx_etcd_pick_t *pick)
{
    if (pick->tenant != NULL) {
        ngx_etcd_peer_leave(pick->tenant);
    }

    while (pick->ntried != 0) {
        ngx_etcd_peer_unref(pick->tried[--pick->ntried].peer);
    }

    pick->peer = NULL;
}


/* for methods */

/* may this request go to the peer now? */

#define ngx_etcd_pick_usable(pick, tier, peer)                                \
    (((pick)->ntried == 0 || !ngx_etcd_pick_tried(pick, peer))                \
     && ngx_etcd_health_usable((pick)->table, tier, peer))

/* was the request there before? */
ngx_uint_t ngx_etcd_pick_tried(ngx_etcd_pick_t *pick, ngx_etcd_peer_t *peer);

/* the usable peer whose turn it is, which has had it then */
ngx_etcd_peer_t *ngx_etcd_pick_turn(ngx_etcd_pick_t *pick,
    ngx_etcd_tier_t *tier);

/* any usable peer: few were not tried yet, or have a share of the draws */
ngx_etcd_peer_t *ngx_etcd_pick_any(ngx_etcd_pick_t *pick,
    ngx_etcd_tier_t *tier);


/*
 * Of two usable peers, drawn in proportion to their weights, the second where
 * it is better, or else the first.
 */

static ngx_inline ngx_etcd_peer_t *
ngx_etcd_pick_best_of_two(ngx_etcd_pick_t *pick, ngx_etcd_tier_t *tier,
    ngx_uint_t (*better)(ngx_etcd_tier_t *tier, ngx_etcd_peer_t *one,
    ngx_etcd_peer_t *two))
{
    ngx_uint_t        i;
    ngx_etcd_peer_t  *peer, *first;

    first = NULL;

    for (i = 0; i < NGX_ETCD_PICK_DRAWS; i++) {

        /* the peer before may have been parked */

        if (ngx_etcd_tier_usable(tier) == 0) {
            break;
        }

        peer = ngx_etcd_tier_draw(tier);

        if (peer == first || !ngx_etcd_pick_usable(pick, tier, peer)) {
            continue;
        }

        if (first == NULL) {
            first = peer;
            continue;
        }

        return better(tier, peer, first) ? peer : first;
    }

    return (first != NULL) ? first : ngx_etcd_pick_any(pick, tier);
}


#endif /* _NGX_ETCD_BALANCE_H_INCLUDED_ */
