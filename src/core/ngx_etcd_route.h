
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


typedef struct ngx_etcd_route_s  ngx_etcd_route_t;

/* the leader that a request was built for before it was picked: see _pin.h */

typedef struct {
    void                  *owner;         /* NULL: the route is not pinned */
    ngx_etcd_peer_t       *peer;          /* referenced; NULL: nobody led */
    uint32_t               reads;         /* by the request that is built */
    uint32_t               wanted;        /* as many as there were before */
} ngx_etcd_pin_t;


struct ngx_etcd_route_s {
    ngx_etcd_pick_t        pick;
    ngx_etcd_upstream_t   *upstream;
    ngx_etcd_pin_t         pin;
    ngx_pool_cleanup_t     cleanup;
    ngx_etcd_route_t      *next;          /* spare */
};


/* what is in the spare ones is not to be looked at: a sanitizer finds that */

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


/* those that are not in use, of this worker */
extern ngx_etcd_route_t  *ngx_etcd_route_spare;

/* with the pool */
void ngx_etcd_route_cleanup(void *data);


/*
 * The route lives as long as the pool, and so do the names and keys of the
 * peers that it leads to.  NULL: no memory.
 *
 * It is not of the pool: that of a session of stream is so small that another
 * block of it would cost more than all else that is done here.
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

    /* names and keys of peers are used until the request was logged */

    route->cleanup.handler = ngx_etcd_route_cleanup;
    route->cleanup.data = route;
    route->cleanup.next = pool->cleanup;
    pool->cleanup = &route->cleanup;

    route->upstream = upstream;
    route->pin.owner = NULL;

    return route;
}


/* sets all of pc that is the balancer's, from the table as it is */

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


/* both */

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

/* ngx_etcd_service_staleness(); without a route that of the first cluster */
int64_t ngx_etcd_route_staleness(ngx_etcd_route_t *route);


#endif /* _NGX_ETCD_ROUTE_H_INCLUDED_ */
