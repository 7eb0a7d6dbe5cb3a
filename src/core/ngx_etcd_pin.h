
/*
 * Copyright (C) nginx-etcd contributors
 *
 * nginx builds a request before it asks the balancer for a peer.  What the
 * request says about the leader is therefore decided while the request is
 * built, and pinned: the balancer then picks that leader, in that term and at
 * that address, or nobody.
 */


#ifndef _NGX_ETCD_PIN_H_INCLUDED_
#define _NGX_ETCD_PIN_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>
#include <ngx_etcd_route.h>


/* 1 if the upstream has a single leader, which alone can be pinned */

#define ngx_etcd_pin_possible(upstream)                                       \
    ((upstream)->initialized && (upstream)->service->rules.sole)

/* the route is pinned for that owner: an address that is only compared */

#define ngx_etcd_pin_owned(route, who)                                        \
    ((route) != NULL && (route)->pin.owner == (who))


/*
 * A route that is pinned, not connected yet, and leads to nobody until it is
 * read.  It lives as long as the pool.  NULL: no memory.
 */
ngx_etcd_route_t *ngx_etcd_pin_create(ngx_etcd_upstream_t *upstream,
    void *owner, ngx_pool_t *pool, ngx_log_t *log);

/*
 * The leader that the request is built for: the present one at the first call,
 * the same one from then on.  NULL: nobody leads.
 */
ngx_etcd_peer_t *ngx_etcd_pin_read(ngx_etcd_route_t *route);

/* as ngx_etcd_route_connect(); pc->get is ngx_etcd_pin_get() then */
void ngx_etcd_pin_connect(ngx_etcd_route_t *route, ngx_peer_connection_t *pc,
    ngx_pool_t *pool);

/* as ngx_etcd_pick_get(), of the pinned leader alone */
ngx_int_t ngx_etcd_pin_get(ngx_peer_connection_t *pc, void *data);

/* 1 if the pinned leader is still the leader, in the same term */
ngx_uint_t ngx_etcd_pin_leads(ngx_etcd_route_t *route);

/*
 * 1 if the request has read the pin as often as when it was built before.  A
 * value that is cached elsewhere (a "map" that is not volatile) is that of the
 * former leader, and the request must not be sent.
 */
#define ngx_etcd_pin_complete(route)                                          \
    ((route)->pin.reads >= (route)->pin.wanted)

/* the request will be built anew, for whoever leads then */
void ngx_etcd_pin_renew(ngx_etcd_route_t *route);

/* drops the reference */
void ngx_etcd_pin_release(ngx_etcd_route_t *route);


#endif /* _NGX_ETCD_PIN_H_INCLUDED_ */
