
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Picks a peer for a request or a connection; common to http and stream.
 */


#ifndef _NGX_ETCD_PICK_H_INCLUDED_
#define _NGX_ETCD_PICK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>
#include <ngx_etcd_compat.h>
#include <ngx_etcd_health.h>
#include <ngx_etcd_peer_group.h>
#include <ngx_etcd_table.h>


/* attempts to draw two usable peers */

#define NGX_ETCD_PICK_DRAWS  20


typedef struct {
    ngx_etcd_peer_t             *peer;
    ngx_uint_t                   again;            /* the try failed on a
                                                      cached connection,
                                                      which is no failure of
                                                      the peer */
} ngx_etcd_try_t;


/*
 * The state of picking for one request, owned by the caller.  The struct is
 * kept small: a request's pool that needs one more block costs more than
 * picking.
 */

struct ngx_etcd_pick_s {
    NGX_ETCD_PEER_HEAD                             /* see ngx_etcd_compat.h */

    ngx_etcd_table_t            *table;            /* of the line at hand */
    ngx_str_t                   *name;             /* upstream name */
    ngx_pool_t                  *pool;
    uint64_t                     revision;         /* of the table when picking
                                                      began */
    ngx_etcd_try_t              *tried;            /* all picked peers,
                                                      referenced until
                                                      ngx_etcd_pick_done() */

    /* zeroed from here on */

    ngx_etcd_peer_t             *peer;             /* the last picked */
    uint32_t                     ntried;
    unsigned                     cached:1;         /* the last connection was a
                                                      cached one, and failed */
    unsigned                     early:1;          /* peer is chosen, not
                                                      returned yet */
    unsigned                     connected:1;      /* without an answer, there
                                                      is no latency */
    unsigned                     failed:1;         /* the last try */
    unsigned                     kept:1;           /* see
                                                      ngx_etcd_pick_keep() */
    uint32_t                     tries;            /* pc->tries after the
                                                      pick */
    ngx_etcd_peer_user_t        *user;             /* or NULL */

    /* state of the method */

    ngx_str_t                    key;              /* set before the first
                                                      pick; must outlive the
                                                      pick; empty: round
                                                      robin */
    uint32_t                     crc;              /* of the key */
    uint32_t                     hash;
    uint32_t                     rehash;           /* number of rehashes */
    uint32_t                     hashed;           /* unusable peers hit */
    struct timespec              begun;            /* start of the latency; 0
                                                      s: not measured */

    ngx_etcd_try_t               first;
};


/* the next pick begins as the first one did */

#define ngx_etcd_pick_restart(pick)                                           \
    (pick)->hash = 0;                                                         \
    (pick)->rehash = 0;                                                       \
    (pick)->hashed = 0


/*
 * Starts picking from the current table; returns the number of peers to try in
 * this line and those after it.
 */

static ngx_inline ngx_uint_t
ngx_etcd_pick_init(ngx_etcd_pick_t *pick, ngx_etcd_table_t *table,
    ngx_str_t *name, ngx_pool_t *pool)
{
    ngx_uint_t  n;

    pick->table = table;
    pick->name = name;
    pick->pool = pool;
    pick->revision = table->reader.revision;
    pick->tried = &pick->first;

    ngx_memzero(&pick->peer, offsetof(ngx_etcd_pick_t, first)
                             - offsetof(ngx_etcd_pick_t, peer));

    for (n = 0; table != NULL; table = table->conf->next) {
        n += ngx_etcd_table_tries(table);
    }

    return n;
}


/*
 * Registers a handler to be called once when the peer in use leaves the table
 * or becomes leader in another term; if the table does not report this
 * ("close"), the handler is never called.  NGX_OK or NGX_ERROR.
 */
ngx_int_t ngx_etcd_pick_subscribe(ngx_etcd_pick_t *pick,
    void (*close)(void *data), void *data);

/* Callbacks of ngx_peer_connection_t; the data are the pick. */

/*
 * Sets pc to the next peer.  A peer that was tried on a new connection is not
 * tried again.  A peer of a further line is picked only if the lines before
 * have none left; then pick->table is that of the peer.  NGX_BUSY: no peer is
 * left; pc->name is the upstream name.
 */
ngx_int_t ngx_etcd_pick_get(ngx_peer_connection_t *pc, void *data);

/*
 * ngx_etcd_pick_get() for a session, whose id nginx gives in pc; NULL: none.
 */
ngx_int_t ngx_etcd_pick_get_bound(ngx_peer_connection_t *pc,
    ngx_etcd_pick_t *pick, ngx_str_t *hint);

/*
 * Picks the peer that the next ngx_etcd_pick_get() returns, or returns
 * NGX_BUSY like ngx_etcd_pick_get() would, so that the caller can wait for a
 * peer.
 */
ngx_int_t ngx_etcd_pick_early(ngx_peer_connection_t *pc, ngx_etcd_pick_t *pick);

/*
 * Ends the use of the peer; state is NGX_PEER_FAILED and so on, as in nginx.
 */
void ngx_etcd_pick_free(ngx_peer_connection_t *pc, void *data,
    ngx_uint_t state);

/*
 * A connection that outlives its request.  ngx_etcd_pick_keep() is called
 * before ngx_etcd_pick_free(), which then does not give the connection back:
 * ngx_etcd_pick_end() does.
 */

typedef struct {
    ngx_etcd_table_t            *table;            /* NULL: none */
    ngx_etcd_peer_t             *peer;             /* referenced */
} ngx_etcd_kept_t;

void ngx_etcd_pick_keep(ngx_etcd_pick_t *pick, ngx_etcd_kept_t *kept);
void ngx_etcd_pick_end(ngx_etcd_kept_t *kept);

/*
 * The peer has accepted the connection, which is a success, and an answer if
 * none is to come that can be told.  Otherwise the latency ends with
 * ngx_etcd_pick_header(); if that is not called, it is not measured.
 */
void ngx_etcd_pick_connected(ngx_etcd_pick_t *pick, ngx_uint_t answered);

/*
 * The peer has begun to answer: the latency is known, but the answer may
 * still fail.
 */
void ngx_etcd_pick_header(ngx_etcd_pick_t *pick);

/* 1 if the latency of the peer in use is being measured */

#define ngx_etcd_pick_measures(pick)                                          \
    ((pick)->peer != NULL && (pick)->begun.tv_sec != 0)

/* The latency begins no earlier than this number of ms ago. */
void ngx_etcd_pick_began(ngx_etcd_pick_t *pick, ngx_msec_t ago);

#if (NGX_SSL)

/* Get and save the peer's TLS session, which is cached by this worker. */

ngx_int_t ngx_etcd_pick_set_session(ngx_peer_connection_t *pc, void *data);
void ngx_etcd_pick_save_session(ngx_peer_connection_t *pc, void *data);

#endif


/* Gives back the peer of ngx_etcd_pick_early(), which is not used. */
void ngx_etcd_pick_undo(ngx_etcd_pick_t *pick);


/* Drops the references: names and keys of peers are invalid afterwards. */

static ngx_inline void
ngx_etcd_pick_done(ngx_etcd_pick_t *pick)
{
    if (pick->early) {
        ngx_etcd_pick_undo(pick);
    }

    if (pick->user != NULL) {
        ngx_etcd_peer_unsubscribe(pick->user);
    }

    while (pick->ntried != 0) {
        ngx_etcd_peer_unref(pick->tried[--pick->ntried].peer);
    }

    pick->peer = NULL;
}


/* for methods */

/* 1 if the request may be sent to the peer now */

#define ngx_etcd_pick_usable(pick, group, peer)                               \
    (((pick)->ntried == 0 || !ngx_etcd_pick_tried(pick, peer))                \
     && ngx_etcd_health_usable(group, peer,                                   \
                               ngx_etcd_table_counts((pick)->table)))

/* Returns 1 if the request was sent to the peer before. */
ngx_uint_t ngx_etcd_pick_tried(ngx_etcd_pick_t *pick, ngx_etcd_peer_t *peer);

/*
 * Returns a random usable peer, for the case that few are left to try or the
 * drawn ones are unusable.
 */
ngx_etcd_peer_t *ngx_etcd_pick_any(ngx_etcd_pick_t *pick,
    ngx_etcd_peer_group_t *group);


/*
 * The power of two choices: draws two usable peers in proportion to their
 * weights; returns the second one if it is better, otherwise the first one.
 */

static ngx_inline ngx_etcd_peer_t *
ngx_etcd_pick_best_of_two(ngx_etcd_pick_t *pick, ngx_etcd_peer_group_t *group,
    ngx_uint_t (*better)(ngx_etcd_peer_group_t *group, ngx_etcd_peer_t *one,
    ngx_etcd_peer_t *two))
{
    ngx_uint_t        i;
    ngx_etcd_peer_t  *peer, *first;

    first = NULL;

    for (i = 0; i < NGX_ETCD_PICK_DRAWS; i++) {

        /* the previous check may have parked the last usable peer */

        if (ngx_etcd_peer_group_usable(group) == 0) {
            break;
        }

        peer = ngx_etcd_peer_group_draw(group);

        if (peer == first || !ngx_etcd_pick_usable(pick, group, peer)) {
            continue;
        }

        if (first == NULL) {
            first = peer;
            continue;
        }

        return better(group, peer, first) ? peer : first;
    }

    return (first != NULL) ? first : ngx_etcd_pick_any(pick, group);
}


#endif /* _NGX_ETCD_PICK_H_INCLUDED_ */
