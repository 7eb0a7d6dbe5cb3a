
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A way to the cluster that is there for as long as any endpoint is: a
 * subchannel to one endpoint at a time, which moves to another when that fails.
 *
 * The first failure is followed by another endpoint at once, the next ones by
 * a random pause that may be longer each time.
 *
 * Streams that a failure has moved away from the client's home (see
 * ngx_etcd_endpoints.h) go back after a random time of about "rebalance", so
 * that clients which left an endpoint together do not return together.  A
 * second subchannel is opened there first, which is also the probe that tells
 * whether the endpoint is back: while it is not, nothing else happens, and the
 * next one is tried as much later.  Only when the new subchannel is ready the
 * calls on the old one end; their owners find the channel ready again at once.
 * That is neither an outage nor counted as a reconnect.
 *
 * The other channel, of reads, stays where it is: after the first lists it
 * carries little.
 */


#ifndef _NGX_ETCD_CHANNEL_H_INCLUDED_
#define _NGX_ETCD_CHANNEL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_subchannel.h>
#include <ngx_etcd_waiter.h>


/* a connection that answered and lasted so long has proved itself */

#define NGX_ETCD_CHANNEL_HELD  3000


typedef enum {
    NGX_ETCD_CHANNEL_IDLE = 0,
    NGX_ETCD_CHANNEL_CONNECTING,
    NGX_ETCD_CHANNEL_READY,
    NGX_ETCD_CHANNEL_MOVING,        /* from one subchannel to another, now */
    NGX_ETCD_CHANNEL_BACKOFF
} ngx_etcd_channel_state_e;


struct ngx_etcd_channel_s {
    ngx_etcd_cluster_t          *cluster;
    char                        *name;          /* "streams" or "reads" */
    ngx_etcd_channel_state_e     state;
    ngx_etcd_subchannel_t        subchannels[2];
    ngx_etcd_subchannel_t       *subchannel;    /* the one in use */
    ngx_etcd_subchannel_t       *spare;         /* the one to move to */
    ngx_etcd_place_t            *next;          /* to be tried */
    ngx_uint_t                   failures;      /* since the last success */
    ngx_uint_t                   flaps;         /* in a row: answered, but
                                                   did not hold */
    ngx_uint_t                   connected;     /* ever */
    ngx_uint_t                   outage;        /* was logged */
    ngx_uint_t                   answered;      /* this connection, a call */
    ngx_msec_t                   heard;         /* when something came last */
    ngx_event_t                  timer;
    ngx_event_t                  rebalance;
    ngx_queue_t                  waiters;
};


/* for the cluster: the place, or NULL for any, is tried first */
void ngx_etcd_channel_init(ngx_etcd_channel_t *channel,
    ngx_etcd_cluster_t *cluster, char *name, ngx_etcd_place_t *first);
void ngx_etcd_channel_destroy(ngx_etcd_channel_t *channel);

/* the connection, if it takes calls now; starts to connect if there is none */
ngx_etcd_http2_t *ngx_etcd_channel_get(ngx_etcd_channel_t *channel);

/* the waiter is called when it does; ngx_etcd_waiter_forget() takes it back */
void ngx_etcd_channel_wait(ngx_etcd_channel_t *channel,
    ngx_etcd_waiter_t *waiter);

/* the worker shuts down: what there is stays, and what is tried is tried now */
void ngx_etcd_channel_linger(ngx_etcd_channel_t *channel);

/* a pause before the next attempt is an urgent one from now on */
void ngx_etcd_channel_hasten(ngx_etcd_channel_t *channel);

/* a call was answered: whatever failed before is over */
void ngx_etcd_channel_succeeded(ngx_etcd_channel_t *channel);

/*
 * The endpoint answers, but not as it should ("no leader", a deadline passed):
 * goes to another one, at once after the first failure, with backoff after.
 */
void ngx_etcd_channel_failed(ngx_etcd_channel_t *channel, ngx_str_t *reason);

/* streams: it may not be at home any more, and goes there in its time */
void ngx_etcd_channel_settle(ngx_etcd_channel_t *channel);


#endif /* _NGX_ETCD_CHANNEL_H_INCLUDED_ */
