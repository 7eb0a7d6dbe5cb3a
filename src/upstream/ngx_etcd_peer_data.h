
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The path of one request or connection through an upstream; common to http
 * and stream.
 */


#ifndef _NGX_ETCD_PEER_DATA_H_INCLUDED_
#define _NGX_ETCD_PEER_DATA_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>
#include <ngx_etcd_pick.h>
#include <ngx_etcd_no_member.h>
#include <ngx_etcd_upstream.h>


typedef struct ngx_etcd_peer_data_s  ngx_etcd_peer_data_t;

/* The leader that a request is built for; see ngx_etcd_peer_data.h. */

typedef struct {
    void                  *owner;         /* NULL: not pinned */
    ngx_etcd_peer_t       *peer;          /* referenced; NULL: no leader */
    uint32_t               reads;         /* reads by the current build */
    uint32_t               wanted;        /* reads by the former build */
} ngx_etcd_pin_t;


struct ngx_etcd_peer_data_s {
    ngx_etcd_pick_t        pick;
    ngx_etcd_upstream_t   *upstream;
    ngx_etcd_table_t      *table;         /* of the first line */
    ngx_etcd_pin_t         pin;
    ngx_pool_cleanup_t     cleanup;
    ngx_etcd_peer_data_t  *next;          /* if spare */
};


/* the peer data of a pick */

#define ngx_etcd_peer_data_of(p)                                              \
    ((ngx_etcd_peer_data_t *) ((u_char *) (p)                                 \
                               - offsetof(ngx_etcd_peer_data_t, pick)))


/* the outcomes of the line that the pick has come to */

#define ngx_etcd_peer_data_outcome(pick)                                      \
    (ngx_etcd_service_of((pick)->table)->outcome)


/* AddressSanitizer reports accesses to spare peer datas */

#if (__SANITIZE_ADDRESS__)

#include <sanitizer/asan_interface.h>

#define ngx_etcd_peer_data_poison(pd)                                      \
    ASAN_POISON_MEMORY_REGION(&(pd)->pick, sizeof(ngx_etcd_pick_t))

#define ngx_etcd_peer_data_unpoison(pd)                                    \
    ASAN_UNPOISON_MEMORY_REGION(&(pd)->pick, sizeof(ngx_etcd_pick_t))

#else

#define ngx_etcd_peer_data_poison(pd)
#define ngx_etcd_peer_data_unpoison(pd)

#endif


/*
 * nginx's peer.get: ngx_etcd_pick_get() that says why there is no peer; data
 * are the pick.
 */
ngx_int_t ngx_etcd_peer_data_get(ngx_peer_connection_t *pc, void *data);

/*
 * Says why the connection to the named peer is about to be closed: another
 * leads, the leader is not proved any more, or the member has left or drains
 * and close_after is over.  pd may be NULL: of a leader.
 */
void ngx_etcd_peer_data_cut(ngx_etcd_peer_data_t *pd, ngx_str_t *name,
    ngx_pool_t *pool, ngx_log_t *log);

/* unused peer datas of this worker */
extern ngx_etcd_peer_data_t  *ngx_etcd_peer_data_spare;

/* Pool cleanup handler: its data are peer data, the last ones first. */
void ngx_etcd_peer_data_cleanup(void *data);


/*
 * Creates peer data.  They, and the names and keys of the peers that are
 * picked, exist as long as the pool.  NULL: no memory.
 *
 * Peer data are not allocated from the pool: the pool of a stream session is
 * so small that another block would cost more than the rest of this function.
 */

static ngx_inline ngx_etcd_peer_data_t *
ngx_etcd_peer_data_alloc(ngx_etcd_upstream_t *upstream,
    ngx_etcd_table_t *table, ngx_pool_t *pool, ngx_log_t *log)
{
    ngx_etcd_peer_data_t  *pd;

    pd = ngx_etcd_peer_data_spare;

    if (pd != NULL) {
        ngx_etcd_peer_data_spare = pd->next;
        ngx_etcd_peer_data_unpoison(pd);

    } else {
        pd = ngx_alloc(sizeof(ngx_etcd_peer_data_t), log);
        if (pd == NULL) {
            return NULL;
        }
    }

    /* names and keys of peers are used until the request is logged */

    pd->cleanup.handler = ngx_etcd_peer_data_cleanup;
    pd->cleanup.data = pd;
    pd->cleanup.next = pool->cleanup;
    pool->cleanup = &pd->cleanup;

    pd->upstream = upstream;
    pd->table = table;
    pd->pin.owner = NULL;

    table->users++;

    return pd;
}


/* Sets the balancer's fields of pc, for a pick that has begun. */

static ngx_inline void
ngx_etcd_peer_data_attach(ngx_etcd_peer_data_t *pd, ngx_peer_connection_t *pc,
    ngx_uint_t tries)
{
    pc->data = &pd->pick;
    pc->get = ngx_etcd_peer_data_get;
    pc->free = ngx_etcd_pick_free;
    pc->tries = ngx_max(tries, 1);
#if (NGX_SSL)
    pc->set_session = ngx_etcd_pick_set_session;
    pc->save_session = ngx_etcd_pick_save_session;
#endif
}


/* Sets the balancer's fields of pc, from the table as it is now. */

static ngx_inline void
ngx_etcd_peer_data_connect(ngx_etcd_peer_data_t *pd,
    ngx_peer_connection_t *pc, ngx_pool_t *pool)
{
    ngx_uint_t  tries;

    tries = ngx_etcd_pick_init(&pd->pick, pd->table,
                               &pd->upstream->service->name, pool);

    ngx_etcd_peer_data_attach(pd, pc, tries);
}


/* Creates peer data for a table of the upstream, and connects them. */

static ngx_inline ngx_etcd_peer_data_t *
ngx_etcd_peer_data_create(ngx_etcd_upstream_t *upstream,
    ngx_etcd_table_t *table, ngx_peer_connection_t *pc, ngx_pool_t *pool)
{
    ngx_etcd_peer_data_t  *pd;

    pd = ngx_etcd_peer_data_alloc(upstream, table, pool, pc->log);

    if (pd != NULL) {
        ngx_etcd_peer_data_connect(pd, pc, pool);
    }

    return pd;
}


/*
 * In an upstream that observes its members: the picked peer has answered, or
 * failed to.  Without a peer nothing is noted.
 */
void ngx_etcd_peer_data_answered(ngx_etcd_pick_t *pick, ngx_uint_t error);

/*
 * For variables.  pd may be NULL: the request uses no upstream of this module,
 * and the first cluster of the configuration is used instead.
 */

/* Returns the last picked peer; NULL: none. */
ngx_etcd_peer_t *ngx_etcd_peer_data_peer(ngx_etcd_peer_data_t *pd);

/*
 * Returns the revision that the peer was picked by, or the newest known one;
 * 0: unknown.
 */
uint64_t ngx_etcd_peer_data_revision(ngx_etcd_peer_data_t *pd);

/*
 * Returns the newest revision in the cluster's zone, which is never below
 * that of a published list; 0: unknown.
 */
uint64_t ngx_etcd_peer_data_known(ngx_etcd_conf_t *cluster);

/* Why the request was refused; NONE: it was not. */
ngx_etcd_refusal_e ngx_etcd_peer_data_refusal(ngx_etcd_peer_data_t *pd,
    ngx_pool_t *pool);

/* The first cluster, for a variable without peer data; NULL: there is none. */
ngx_etcd_conf_t *ngx_etcd_peer_data_cluster(void);


/*
 * nginx builds a request before it asks the balancer for a peer.  Therefore
 * variables that describe the leader pin the leader while the request is
 * built: the balancer then picks that leader, in that term and at that
 * address, or no peer.
 */

/* 1 if the upstream has a single leader: no other peer can be pinned */

#define ngx_etcd_pin_possible(upstream)                                       \
    ((upstream)->initialized && (upstream)->service->rules.sole)

/* 1 if a peer is pinned for that owner, whose address is only compared */

#define ngx_etcd_pin_owned(pd, who)                                           \
    ((pd) != NULL && (pd)->pin.owner == (who))


/*
 * Creates pinned peer data, not connected yet, without a leader until they are
 * read.  They exist as long as the pool.  NULL: no memory.
 */
ngx_etcd_peer_data_t *ngx_etcd_pin_create(ngx_etcd_upstream_t *upstream,
    ngx_etcd_table_t *table, void *owner, ngx_pool_t *pool, ngx_log_t *log);

/*
 * Returns the leader that the request is built for: the current one at the
 * first call, the same one afterwards.  NULL: there is no leader.
 */
ngx_etcd_peer_t *ngx_etcd_pin_read(ngx_etcd_peer_data_t *pd);

/*
 * Callback of ngx_peer_connection_t after ngx_etcd_peer_data_connect(): picks
 * the pinned leader only; the table may be newer.
 */
ngx_int_t ngx_etcd_pin_get(ngx_peer_connection_t *pc, void *data);

/* Returns 1 if the pinned peer is still the leader, in the same term. */
ngx_uint_t ngx_etcd_pin_leads(ngx_etcd_peer_data_t *pd);

/*
 * 1 if the request has read the pin as often as it did when it was last
 * built.  Otherwise a value was cached elsewhere (a "map" that is not
 * volatile), belongs to the former leader, and the request must not be sent.
 */
#define ngx_etcd_pin_complete(pd)                                          \
    ((pd)->pin.reads >= (pd)->pin.wanted)

/* Releases the reference to the pinned peer. */
void ngx_etcd_peer_data_unpin(ngx_etcd_peer_data_t *pd);


#endif /* _NGX_ETCD_PEER_DATA_H_INCLUDED_ */
