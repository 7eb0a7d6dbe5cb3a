
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The path of one request or connection through an upstream; common to http
 * and stream.
 */


#ifndef _NGX_ETCD_ROUTE_H_INCLUDED_
#define _NGX_ETCD_ROUTE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>
#include <ngx_etcd_upstream.h>


typedef struct ngx_etcd_route_s  ngx_etcd_route_t;

/* The leader that a request is built for; see ngx_etcd_pin.h. */

typedef struct {
    void                  *owner;         /* NULL: not pinned */
    ngx_etcd_peer_t       *peer;          /* referenced; NULL: no leader */
    uint32_t               reads;         /* reads by the current build */
    uint32_t               wanted;        /* reads by the former build */
} ngx_etcd_pin_t;


struct ngx_etcd_route_s {
    ngx_etcd_pick_t        pick;
    ngx_etcd_upstream_t   *upstream;
    ngx_etcd_pin_t         pin;
    ngx_pool_cleanup_t     cleanup;
    ngx_etcd_route_t      *next;          /* if spare */
};


/* AddressSanitizer reports accesses to spare routes */

#if (__SANITIZE_ADDRESS__)

#include <sanitizer/asan_interface.h>

#define ngx_etcd_route_poison(route)                                          \
    ASAN_POISON_MEMORY_REGION(&(route)->pick, sizeof(ngx_etcd_pick_t))

#define ngx_etcd_route_unpoison(route)                                        \
    ASAN_UNPOISON_MEMORY_REGION(&(route)->pick, sizeof(ngx_etcd_pick_t))

#else

#define ngx_etcd_route_poison(route)
#define ngx_etcd_route_unpoison(route)

#endif


/* unused routes of this worker */
extern ngx_etcd_route_t  *ngx_etcd_route_spare;

/* Pool cleanup handler. */
void ngx_etcd_route_cleanup(void *data);


/*
 * Creates a route.  The route, and the names and keys of the peers that it
 * picks, exist as long as the pool.  NULL: no memory.
 *
 * The route is not allocated from the pool: the pool of a stream session is
 * so small that another block would cost more than the rest of this function.
 */

static ngx_inline ngx_etcd_route_t *
ngx_etcd_route_alloc(ngx_etcd_upstream_t *upstream, ngx_pool_t *pool,
    ngx_log_t *log)
{
    ngx_etcd_route_t  *route;

    route = ngx_etcd_route_spare;

    if (route != NULL) {
        ngx_etcd_route_spare = route->next;
        ngx_etcd_route_unpoison(route);

    } else {
        route = ngx_alloc(sizeof(ngx_etcd_route_t), log);
        if (route == NULL) {
            return NULL;
        }
    }

    /* names and keys of peers are used until the request is logged */

    route->cleanup.handler = ngx_etcd_route_cleanup;
    route->cleanup.data = route;
    route->cleanup.next = pool->cleanup;
    pool->cleanup = &route->cleanup;

    route->upstream = upstream;
    route->pin.owner = NULL;

    return route;
}


/* Sets the balancer's fields of pc, from the current table. */

static ngx_inline void
ngx_etcd_route_connect(ngx_etcd_route_t *route, ngx_peer_connection_t *pc,
    ngx_pool_t *pool)
{
    ngx_uint_t                tries;
    ngx_etcd_service_conf_t  *service;

    service = route->upstream->service;

    tries = ngx_etcd_pick_init(&route->pick, &service->table, &service->name,
                               pool);

    pc->data = &route->pick;
    pc->get = ngx_etcd_pick_get;
    pc->free = ngx_etcd_pick_free;
    pc->tries = ngx_max(tries, 1);
#if (NGX_SSL)
    pc->set_session = ngx_etcd_pick_set_session;
    pc->save_session = ngx_etcd_pick_save_session;
#endif
}


/* Creates and connects a route. */

static ngx_inline ngx_etcd_route_t *
ngx_etcd_route_create(ngx_etcd_upstream_t *upstream,
    ngx_peer_connection_t *pc, ngx_pool_t *pool)
{
    ngx_etcd_route_t  *route;

    route = ngx_etcd_route_alloc(upstream, pool, pc->log);

    if (route != NULL) {
        ngx_etcd_route_connect(route, pc, pool);
    }

    return route;
}


/* Releases the route's reference to its pinned peer. */
void ngx_etcd_route_unpin(ngx_etcd_route_t *route);

/* Returns the last route created with the pool; NULL: there is none. */
ngx_etcd_route_t *ngx_etcd_route_find(ngx_pool_t *pool);

/*
 * For variables.  The route may be NULL: the request uses no upstream of this
 * module, and the first cluster of the configuration is used instead.
 */

/* Returns the last picked peer; NULL: none. */
ngx_etcd_peer_t *ngx_etcd_route_peer(ngx_etcd_route_t *route);

/*
 * Returns the revision that the peer was picked by, or the newest known one;
 * 0: unknown.
 */
uint64_t ngx_etcd_route_revision(ngx_etcd_route_t *route);

/*
 * Returns the newest revision in the cluster's zone, which is never below
 * that of a published list; 0: unknown.
 */
uint64_t ngx_etcd_route_known(ngx_etcd_conf_t *cluster);

/* ngx_etcd_service_staleness(); without a route, of the first cluster. */
int64_t ngx_etcd_route_staleness(ngx_etcd_route_t *route);


#endif /* _NGX_ETCD_ROUTE_H_INCLUDED_ */
