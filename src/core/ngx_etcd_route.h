
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The way of one request, or of one connection, through an upstream; the
 * same for http and stream.
 */


#ifndef _NGX_ETCD_ROUTE_H_INCLUDED_
#define _NGX_ETCD_ROUTE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>
#include <ngx_etcd_upstream.h>


typedef struct {
    ngx_etcd_pick_t        pick;
    ngx_etcd_upstream_t   *upstream;
    ngx_pool_cleanup_t     cleanup;
} ngx_etcd_route_t;


/*
 * Sets all of pc that is the balancer's, from the table as it is.  The route
 * lives as long as the pool, and so do the names and keys of the peers that it
 * leads to.  NULL: no memory.
 */
ngx_etcd_route_t *ngx_etcd_route_create(ngx_etcd_upstream_t *upstream,
    ngx_peer_connection_t *pc, ngx_pool_t *pool);

/* the last one that was created with that pool; NULL: none was */
ngx_etcd_route_t *ngx_etcd_route_find(ngx_pool_t *pool);

/*
 * What variables say; the route may be NULL: of no upstream of ours, for which
 * the first cluster of the configuration stands in.
 */

/* that was picked last; NULL: none was */
ngx_etcd_peer_t *ngx_etcd_route_peer(ngx_etcd_route_t *route);

/* that it was picked by, or the newest known; 0: none is */
uint64_t ngx_etcd_route_revision(ngx_etcd_route_t *route);

/*
 * The newest revision of a cluster that anything in its zone says, which is
 * never less than that of a list that can be seen; 0: none is known.
 */
uint64_t ngx_etcd_route_known(ngx_etcd_conf_t *cluster);

/* ms since the data was last proved fresh; -1: it never was */
int64_t ngx_etcd_route_staleness(ngx_etcd_route_t *route);


#endif /* _NGX_ETCD_ROUTE_H_INCLUDED_ */
