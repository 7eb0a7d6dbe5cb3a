
/*
 * Copyright (C) nginx-etcd contributors
 *
 * nginx builds a request before it asks the balancer for a peer.  Therefore
 * variables that describe the leader pin the leader while the request is
 * built: the balancer then picks that leader, in that term and at that
 * address, or no peer.
 */


#ifndef _NGX_ETCD_PIN_H_INCLUDED_
#define _NGX_ETCD_PIN_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>
#include <ngx_etcd_peer_data.h>


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

/* Like ngx_etcd_peer_data_connect(), but pc->get is ngx_etcd_pin_get(). */
void ngx_etcd_pin_connect(ngx_etcd_peer_data_t *pd,
    ngx_peer_connection_t *pc, ngx_pool_t *pool);

/* Like ngx_etcd_pick_get(), for the pinned leader only. */
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

/* The request will be built again, for the leader at that time. */
void ngx_etcd_pin_renew(ngx_etcd_peer_data_t *pd);


#endif /* _NGX_ETCD_PIN_H_INCLUDED_ */
