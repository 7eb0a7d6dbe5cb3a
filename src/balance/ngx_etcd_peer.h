
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A member as seen by one worker.
 */


#ifndef _NGX_ETCD_PEER_H_INCLUDED_
#define _NGX_ETCD_PEER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_compat.h>
#include <ngx_etcd_connection_count.h>
#include <ngx_etcd_counter.h>
#include <ngx_etcd_eevdf.h>
#include <ngx_etcd_member.h>
#include <ngx_etcd_outcome.h>
#include <ngx_etcd_member_set.h>
#include <ngx_etcd_treap.h>


/* effective weight of a healthy member with weight 1 */

#define NGX_ETCD_PEER_UNIT  64


typedef struct ngx_etcd_peer_s   ngx_etcd_peer_t;
typedef struct ngx_etcd_weighted_tree_s  ngx_etcd_weighted_tree_t;
typedef struct ngx_etcd_share_s  ngx_etcd_share_t;
typedef struct ngx_etcd_sid_s    ngx_etcd_sid_t;
typedef struct ngx_etcd_peer_group_s  ngx_etcd_peer_group_t;


/*
 * A user of a peer, to be notified when the peer leaves the table, becomes
 * leader in another term or is not proved to lead any more, and with
 * close_after some time after it has left or begun to drain.  close() is called
 * once, from the event loop, unless the user has left the peer before.
 */

typedef struct {
    ngx_queue_t                  queue;
    void                       (*close)(void *data);
    void                        *data;
    unsigned                     staying:1;
} ngx_etcd_peer_user_t;


/* the weight that a peer has lost by failures */

typedef struct {
    uint32_t                     weight;
    uint32_t                     since;            /* peer group->picks */
} ngx_etcd_deficit_t;


/*
 * Constant, except for the state of balancing: a changed member gets a new
 * object, so that the holder of a reference keeps the data it picked.
 */

struct ngx_etcd_peer_s {
    unsigned                     refs:24;          /* a worker has fewer
                                                      connections */
    unsigned                     socklen:8;
    uint32_t                     uid;
    uint32_t                     latency;          /* at "measured" */
    unsigned                     index:31;         /* of its slot */
    unsigned                     gone:1;           /* not in the table */
    ngx_etcd_slot_t             *slot;             /* shared counters */
    ngx_etcd_atomic64_t         *cell;             /* of this worker; NULL:
                                                      none */
    ngx_etcd_member_outcome_t   *outcome;          /* likewise */
    ngx_str_t                    name;
    uint64_t                     create_revision;
    uint64_t                     mod_revision;
    ngx_etcd_member_attr_t       attr;
    uint32_t                     key_len;          /* 0: a static server */

    /* the state of balancing in this worker */

    uint32_t                     measured;         /* the end of
                                                      ngx_current_msec; 0:
                                                      never */
    uint32_t                     pos;              /* in its peer group */
    ngx_etcd_peer_group_t       *group;            /* current or last one */
    uint32_t                     weight;           /* effective, in units; 0:
                                                      unused */
    ngx_etcd_deficit_t           deficit;
    ngx_etcd_eevdf_link_t        eevdf;
    ngx_etcd_weighted_tree_t    *weighted;
    ngx_etcd_share_t            *share;            /* in the ring */
    ngx_etcd_sid_t              *sid;              /* NULL: no sessions are
                                                      bound to peers */
    ngx_queue_t                  users;            /* of ngx_etcd_peer_user_t */
#if (NGX_SSL)
    ngx_ssl_session_t           *ssl_session;
#endif
};


/* the address of "socklen" bytes, the name and the key follow the peer */
#define ngx_etcd_peer_sockaddr(peer)  ((struct sockaddr *) ((peer) + 1))


static ngx_inline ngx_str_t
ngx_etcd_peer_key(ngx_etcd_peer_t *peer)
{
    ngx_str_t  key;

    key.len = peer->key_len;
    key.data = peer->name.data + peer->name.len;

    return key;
}


/*
 * Creates a peer of the slot, whose entry has that record; the caller owns the
 * reference and holds the zone's mutex.  NULL: no memory.
 */
ngx_etcd_peer_t *ngx_etcd_peer_create(ngx_etcd_slot_t *slot,
    ngx_etcd_member_pack_t *record, ngx_log_t *log);

/*
 * Copies the state of balancing from the former object of the same member.
 * The users move to the new object too, unless the member was registered
 * anew.
 */
void ngx_etcd_peer_inherit(ngx_etcd_peer_t *peer, ngx_etcd_peer_t *old);

#define ngx_etcd_peer_ref(peer)    ((peer)->refs++)

void ngx_etcd_peer_destroy(ngx_etcd_peer_t *peer);


static ngx_inline void
ngx_etcd_peer_unref(ngx_etcd_peer_t *peer)
{
    if (--peer->refs == 0) {
        ngx_etcd_peer_destroy(peer);
    }
}


/* A user is told when its peer leaves, until it unsubscribes. */
void ngx_etcd_peer_subscribe(ngx_etcd_peer_t *peer, ngx_etcd_peer_user_t *user);
void ngx_etcd_peer_unsubscribe(ngx_etcd_peer_user_t *user);

/*
 * 1 if a member with so many failures, last tried "idle" s ago, must not be
 * tried now
 */
#define ngx_etcd_peer_failing(attr, fails, idle)                              \
    ((attr)->max_fails != 0                                                   \
     && (fails) >= (attr)->max_fails                                          \
     && (idle) <= (attr)->fail_timeout)

/* Returns 1 if the peer must not be tried now because of failures. */
ngx_uint_t ngx_etcd_peer_failed(ngx_etcd_peer_t *peer);

/* A worker's own outcomes of the peer; NULL: none. */

#define ngx_etcd_peer_answers(peer)                                           \
    ngx_etcd_member_outcome_of((peer)->outcome, (peer)->slot, (peer)->uid)

/* over all workers */

#define ngx_etcd_peer_conns(peer)                                             \
    ngx_etcd_counter_get(&(peer)->slot->conns, (peer)->uid)
#define ngx_etcd_peer_fails(peer)                                             \
    ngx_etcd_counter_get(&(peer)->slot->fails, (peer)->uid)

/*
 * For comparisons only: without the check of the unique id, the slot may
 * belong to another member.
 */
#define ngx_etcd_peer_load(peer)                                              \
    ((uint32_t) __atomic_load_n(&(peer)->slot->conns, __ATOMIC_RELAXED))

/* 0: no failures; otherwise the slot has some, maybe of another member */
#define ngx_etcd_peer_suspect(peer)                                           \
    ((uint32_t) __atomic_load_n(&(peer)->slot->fails, __ATOMIC_RELAXED))

/* 0: no verdict (NGX_ETCD_VERDICT_); otherwise one, maybe on another member */
#define ngx_etcd_peer_judged(peer)                                            \
    ((uint32_t) __atomic_load_n(&(peer)->slot->verdict, __ATOMIC_RELAXED))

#define ngx_etcd_peer_verdict(peer)                                           \
    ngx_etcd_counter_get(&(peer)->slot->verdict, (peer)->uid)

/* s since a failed peer was tried; another worker's clock may be ahead */
#define ngx_etcd_peer_idle(peer)                                              \
    ((int64_t) (int32_t) ((uint32_t) ngx_time() - (peer)->slot->checked))


/*
 * Ids of peers in sessions, for nginx's "sticky": the route of a member or,
 * without a route, the MD5 of its address in hex, as nginx computes it for a
 * "server".
 */

struct ngx_etcd_sid_s {
    ngx_etcd_node_t              node;             /* in the tree of ids */
    ngx_etcd_peer_t             *peer;
    ngx_str_t                    id;
    u_char                       data[NGX_ETCD_MEMBER_MAX_ROUTE];
};


/* a tree of ids; several peers may have the same one */
void ngx_etcd_sid_init(ngx_etcd_treap_t *sids);

/*
 * Creates the id of a peer, which is freed with the peer.  An empty route:
 * none.  NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_sid_create(ngx_etcd_peer_t *peer, ngx_str_t *route,
    ngx_log_t *log);


/*
 * Returns the peer with this id that follows "after" in the order of slots,
 * which is the same in all workers; after NULL: the first one.  NULL: there
 * is none.
 */
ngx_etcd_peer_t *ngx_etcd_sid_find(ngx_etcd_treap_t *sids, ngx_str_t *text,
    ngx_etcd_peer_t *after);


#endif /* _NGX_ETCD_PEER_H_INCLUDED_ */
