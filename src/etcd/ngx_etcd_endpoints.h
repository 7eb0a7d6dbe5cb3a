
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The endpoints of a cluster as one client knows them: the configured ones,
 * which always stay, and the ones that members advertise; the results of the
 * last attempts at each, and the choice of the next one.
 *
 * An endpoint that fails is set aside for a random time, which may be longer
 * with each failure in a row.  The next endpoint is drawn among the others, so
 * that many clients that lose the same endpoint at the same time do not all
 * turn to the same other one.  If all are set aside, the client tries the one
 * that was tried the longest ago: no endpoint is ever given up.
 *
 * One endpoint is the client's home, drawn when the client starts.  The streams
 * channel returns to it when it is back, so that the clients of a cluster are
 * distributed after an outage as they were before.  A learned endpoint becomes
 * the home of its share of the clients; the clients of an endpoint that is
 * dropped draw another home.
 */


#ifndef _NGX_ETCD_ENDPOINTS_H_INCLUDED_
#define _NGX_ETCD_ENDPOINTS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_url.h>


#define NGX_ETCD_ENDPOINTS_MAX    16

/* ms set aside: a random time up to BASE * 2^(failures - 1), up to MAX */

#define NGX_ETCD_ENDPOINTS_ASIDE   5000
#define NGX_ETCD_ENDPOINTS_ASIDE_MAX  60000


typedef enum {
    NGX_ETCD_ENDPOINT_UNUSED = 0,
    NGX_ETCD_ENDPOINT_CONNECTING,
    NGX_ETCD_ENDPOINT_CONNECTED,
    NGX_ETCD_ENDPOINT_FAILED
} ngx_etcd_endpoint_state_e;


typedef struct {
    ngx_etcd_endpoint_t         *endpoint;      /* NULL: free */
    ngx_pool_t                  *pool;          /* of a learned endpoint */
    uint64_t                     until;         /* ngx_etcd_clock(), until then
                                                   set aside */
    uint64_t                     tried;         /* time of the last attempt */
    ngx_uint_t                   failures;      /* in a row */
    uint64_t                     lost;          /* time of the last failure */
    uint64_t                     foreign;       /* cluster id, if it is not that
                                                   of the cluster in use */
    ngx_uint_t                   connecting;    /* subchannels in this state */
    ngx_uint_t                   connected;
    unsigned                     failed:1;      /* at the last attempt */
    unsigned                     listed:1;      /* still advertised */
} ngx_etcd_place_t;


typedef struct {
    ngx_etcd_place_t             places[NGX_ETCD_ENDPOINTS_MAX];
    ngx_uint_t                   home;          /* index */
    ngx_int_t                    current;       /* of the streams channel, in
                                                   use or tried last; -1:
                                                   none */
    uint64_t                     missing;       /* time of the first failure
                                                   since an endpoint of the
                                                   cluster in use answered; 0:
                                                   none */
    ngx_uint_t                   version;       /* number of changes */
    ngx_log_t                   *log;
} ngx_etcd_endpoints_t;


/* The array of ngx_etcd_endpoint_t must stay.  Draws the home. */
void ngx_etcd_endpoints_init(ngx_etcd_endpoints_t *endpoints,
    ngx_array_t *array, ngx_log_t *log);
void ngx_etcd_endpoints_done(ngx_etcd_endpoints_t *endpoints);

/* Returns the home, which exists at all times. */
ngx_etcd_place_t *ngx_etcd_endpoints_home(ngx_etcd_endpoints_t *endpoints);

/*
 * Returns the place to try next: a random one among those that are not set
 * aside, or else the one that was tried the longest ago.  Returns the place to
 * avoid, which may be NULL, only if there is no other.
 */
ngx_etcd_place_t *ngx_etcd_endpoints_choose(ngx_etcd_endpoints_t *endpoints,
    ngx_etcd_place_t *except);

/* Returns the number of endpoints, at least 1. */
ngx_uint_t ngx_etcd_endpoints_count(ngx_etcd_endpoints_t *endpoints);

/*
 * A subchannel reports its progress at a place: connecting(), connected() when
 * it is ready, left() when it is closed in either state, with "connected" set
 * if connected() was called.
 */
void ngx_etcd_endpoints_connecting(ngx_etcd_endpoints_t *endpoints,
    ngx_etcd_place_t *place);
void ngx_etcd_endpoints_connected(ngx_etcd_endpoints_t *endpoints,
    ngx_etcd_place_t *place);
void ngx_etcd_endpoints_left(ngx_etcd_endpoints_t *endpoints,
    ngx_etcd_place_t *place, ngx_uint_t connected);

/*
 * The endpoint failed and is set aside.  If its connection was stable before
 * ("proved"), this is its first failure in a row.
 */
void ngx_etcd_endpoints_failed(ngx_etcd_endpoints_t *endpoints,
    ngx_etcd_place_t *place, ngx_uint_t proved);

/*
 * Returns 1 if each endpoint has failed at that time or later, by
 * ngx_etcd_clock(), or belongs to another cluster.
 */
ngx_uint_t ngx_etcd_endpoints_silent(ngx_etcd_endpoints_t *endpoints,
    uint64_t time);

/* the streams channel connects to the place, or moves to it */
void ngx_etcd_endpoints_set_current(ngx_etcd_endpoints_t *endpoints,
    ngx_etcd_place_t *place);

/* The state of an endpoint, and whether a member has advertised it. */
ngx_etcd_endpoint_state_e ngx_etcd_endpoints_state(ngx_etcd_place_t *place);
ngx_uint_t ngx_etcd_endpoints_learned(ngx_etcd_place_t *place);

/*
 * Merges the endpoints that members advertise: begin(), add() for each, end(),
 * which drops learned endpoints that were not added again and are not in use.
 *
 * add() takes over the pool, which holds the endpoint, if it returns NGX_OK.
 * NGX_DECLINED: all places are taken.
 */
void ngx_etcd_endpoints_merge_begin(ngx_etcd_endpoints_t *endpoints);
ngx_int_t ngx_etcd_endpoints_merge_add(ngx_etcd_endpoints_t *endpoints,
    ngx_pool_t *pool, ngx_etcd_endpoint_t *endpoint);
void ngx_etcd_endpoints_merge_end(ngx_etcd_endpoints_t *endpoints);


#endif /* _NGX_ETCD_ENDPOINTS_H_INCLUDED_ */
