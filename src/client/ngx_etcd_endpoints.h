
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The endpoints of a cluster as one client knows them: those of the
 * configuration, which always stay, and those that members advertise; what
 * became of the last attempts at each, and which one to try next.
 *
 * An endpoint that fails is set aside for a random time, which may be longer
 * with each failure in a row.  The next one is drawn from those that are not
 * set aside: many clients that lose the same endpoint at the same time do not
 * all turn to the same other one.  Where all are set aside it is the one whose
 * time is up first: nothing is ever given up.
 *
 * One of them is the client's home, drawn when the client starts: there its
 * streams belong, and there they return when it is back.  So the clients of a
 * cluster are spread again after an outage as they were before it.  An
 * endpoint that is learned becomes the home of its share of the clients; the
 * clients of one that is dropped draw another home.
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
    ngx_pool_t                  *pool;          /* of a learned one */
    uint64_t                     until;         /* set aside: by
                                                   ngx_etcd_clock() */
    uint64_t                     tried;         /* when last */
    ngx_uint_t                   failures;      /* in a row */
    ngx_uint_t                   connecting;    /* subchannels that do so */
    ngx_uint_t                   connected;
    unsigned                     failed:1;      /* at the last attempt */
    unsigned                     listed:1;      /* still advertised */
} ngx_etcd_place_t;


typedef struct {
    ngx_etcd_place_t             places[NGX_ETCD_ENDPOINTS_MAX];
    ngx_uint_t                   home;          /* index */
    ngx_int_t                    current;       /* of the streams, in use or
                                                   tried last; or -1 */
    ngx_uint_t                   version;       /* counts all changes */
    ngx_log_t                   *log;
} ngx_etcd_endpoints_t;


/* the configured ones, of ngx_etcd_endpoint_t, which stay; draws the home */
void ngx_etcd_endpoints_init(ngx_etcd_endpoints_t *endpoints,
    ngx_array_t *array, ngx_log_t *log);
void ngx_etcd_endpoints_done(ngx_etcd_endpoints_t *endpoints);

ngx_etcd_place_t *ngx_etcd_endpoints_home(ngx_etcd_endpoints_t *endpoints);

/*
 * The one to try next: any that is not set aside, or the one whose last try
 * is the longest ago; the exception, or NULL, only where there is no other.
 */
ngx_etcd_place_t *ngx_etcd_endpoints_choose(ngx_etcd_endpoints_t *endpoints,
    ngx_etcd_place_t *except);

ngx_uint_t ngx_etcd_endpoints_count(ngx_etcd_endpoints_t *endpoints);

/* what a subchannel does there: in this order, left() at any time */
void ngx_etcd_endpoints_connecting(ngx_etcd_endpoints_t *endpoints,
    ngx_etcd_place_t *place);
void ngx_etcd_endpoints_connected(ngx_etcd_endpoints_t *endpoints,
    ngx_etcd_place_t *place);
void ngx_etcd_endpoints_left(ngx_etcd_endpoints_t *endpoints,
    ngx_etcd_place_t *place, ngx_uint_t connected);

/*
 * It did not do what it should, now: it is set aside.  A connection that had
 * proved itself before makes this the first failure.
 */
void ngx_etcd_endpoints_failed(ngx_etcd_endpoints_t *endpoints,
    ngx_etcd_place_t *place, ngx_uint_t proved);

/* an attempt as of now is the streams' */
void ngx_etcd_endpoints_set_current(ngx_etcd_endpoints_t *endpoints,
    ngx_etcd_place_t *place);

ngx_etcd_endpoint_state_e ngx_etcd_endpoints_state(ngx_etcd_place_t *place);
ngx_uint_t ngx_etcd_endpoints_learned(ngx_etcd_place_t *place);

/*
 * What members advertise: begin(), add() for each, end(), which drops those
 * learned before that were not added again and are not in use.
 *
 * add() takes over the pool, which holds the endpoint, with NGX_OK;
 * NGX_DECLINED: there is no room.
 */
void ngx_etcd_endpoints_merge_begin(ngx_etcd_endpoints_t *endpoints);
ngx_int_t ngx_etcd_endpoints_merge_add(ngx_etcd_endpoints_t *endpoints,
    ngx_pool_t *pool, ngx_etcd_endpoint_t *endpoint);
void ngx_etcd_endpoints_merge_end(ngx_etcd_endpoints_t *endpoints);


#endif /* _NGX_ETCD_ENDPOINTS_H_INCLUDED_ */
