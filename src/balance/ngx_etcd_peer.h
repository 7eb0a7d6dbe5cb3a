
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A member as one worker knows it.
 */


#ifndef _NGX_ETCD_PEER_H_INCLUDED_
#define _NGX_ETCD_PEER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_set.h>
#include <ngx_etcd_ledger.h>
#include <ngx_etcd_member.h>
#include <ngx_etcd_turn.h>


/* what a member of weight 1 has as long as nothing is wrong with it */

#define NGX_ETCD_PEER_UNIT  64


typedef struct ngx_etcd_peer_s   ngx_etcd_peer_t;
typedef struct ngx_etcd_order_s  ngx_etcd_order_t;
typedef struct ngx_etcd_share_s  ngx_etcd_share_t;
typedef struct ngx_etcd_tier_s   ngx_etcd_tier_t;


/*
 * Who uses a peer, and is to be told when it leaves the table, or leads anew.
 * It is called from the event loop, once, and not for a peer that it has let
 * go of before.
 */

typedef struct {
    ngx_queue_t                  queue;
    void                       (*close)(void *data);
    void                        *data;
    unsigned                     staying:1;
} ngx_etcd_tenant_t;


/*
 * Constant once made, but for the state of balancing: a change makes another
 * object, so that who holds a reference sees what it picked.
 */

struct ngx_etcd_peer_s {
    uint32_t                     refs;
    uint32_t                     uid;
    uint32_t                     index;            /* of its slot */
    uint32_t                     gone;             /* from the table */
    ngx_etcd_slot_t             *slot;             /* shared counters */
    ngx_etcd_word_t             *cell;             /* of this worker; NULL: it
                                                      has none */
    ngx_str_t                    name;
    ngx_str_t                    key;              /* empty: a static server */
    struct sockaddr             *sockaddr;
    uint64_t                     create_revision;
    uint64_t                     mod_revision;
    ngx_etcd_member_attr_t       attr;
    socklen_t                    socklen;

    /* state of balancing, of this worker */

    ngx_etcd_tier_t             *tier;             /* it is in, or was */
    uint32_t                     pos;              /* in its tier */
    uint32_t                     weight;           /* at present, in units; 0:
                                                      it gets nothing */
    uint32_t                     deficit;          /* of weight, by failures */
    uint32_t                     since;            /* picks, when it was so */
    uint32_t                     latency;          /* at its time */
    ngx_msec_t                   measured;
    ngx_etcd_turn_link_t         turn;
    ngx_etcd_order_t            *order;
    ngx_etcd_share_t            *share;            /* of its tier's ring */
    ngx_queue_t                  tenants;          /* of ngx_etcd_tenant_t */
#if (NGX_SSL)
    ngx_ssl_session_t           *ssl_session;
#endif
};


/* a reference is the caller's; NULL: no memory.  Under the zone's mutex */
ngx_etcd_peer_t *ngx_etcd_peer_create(ngx_etcd_slot_t *slot, ngx_log_t *log);

/*
 * The same member, re-weighted or registered anew: takes over its state, and
 * its tenants unless it was registered anew.
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


void ngx_etcd_peer_enter(ngx_etcd_peer_t *peer, ngx_etcd_tenant_t *tenant);
void ngx_etcd_peer_leave(ngx_etcd_tenant_t *tenant);

/* 1 if it is not to be tried now for its failures */
ngx_uint_t ngx_etcd_peer_failed(ngx_etcd_peer_t *peer);

/* over all workers */

#define ngx_etcd_peer_conns(peer)                                             \
    ngx_etcd_counter_get(&(peer)->slot->conns, (peer)->uid)
#define ngx_etcd_peer_fails(peer)                                             \
    ngx_etcd_counter_get(&(peer)->slot->fails, (peer)->uid)

/* the same, where some are compared: of whoever is in the slot by now */
#define ngx_etcd_peer_load(peer)                                              \
    ((uint32_t) __atomic_load_n(&(peer)->slot->conns, __ATOMIC_RELAXED))

/* 0: has not failed; else somebody in its slot has, which may be another */
#define ngx_etcd_peer_suspect(peer)                                           \
    ((uint32_t) __atomic_load_n(&(peer)->slot->fails, __ATOMIC_RELAXED))


#endif /* _NGX_ETCD_PEER_H_INCLUDED_ */
