
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A channel connects the client with one endpoint at a time, through a
 * subchannel.  When the endpoint fails, the channel connects to another one.
 *
 * After the first failure the channel tries another endpoint at once, after
 * further failures it pauses for a random time that may grow with each.
 *
 * The channel of streams returns to the client's home (see
 * ngx_etcd_cluster.h) after a failure has moved it away.  It waits for a
 * random time around the "rebalance" directive, so that clients that left an
 * endpoint together do not return together.  Then it opens a second subchannel
 * to the home, which shows whether the endpoint is back.  If this attempt
 * fails, the first subchannel stays in use, and the channel tries again after
 * another such time.  If it succeeds, the calls on the first subchannel end,
 * and their owners find the channel ready again at once.  The return is neither
 * an outage nor counted as a reconnect.
 *
 * The channel of reads does not return: after the first lists it carries
 * little.
 */


#ifndef _NGX_ETCD_CHANNEL_H_INCLUDED_
#define _NGX_ETCD_CHANNEL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_subchannel.h>


/* ms; a connection that has answered a call and lasts longer is stable */

#define NGX_ETCD_CHANNEL_HELD  3000

/* ms until an endpoint that is not busy has answered for the first time */

#define NGX_ETCD_CHANNEL_SLOW  500

/*
 * An endpoint that takes a connection and does not answer in time stands still,
 * or is busy, as etcd is after a restart under thousands of clients: what is
 * given up then has cost etcd as much as what succeeds, and is repeated.  One
 * endpoint is left for another one.  Where all are late, with a connection or
 * with the answer to a call, the time that each is given doubles with each
 * round of them, so many times at most.
 */

#define NGX_ETCD_CHANNEL_LATE  2

/*
 * An endpoint may take connections and fail soon after each return: the time
 * until the next return doubles so many times.
 */

#define NGX_ETCD_CHANNEL_RETURNS  4


typedef enum {
    NGX_ETCD_CHANNEL_IDLE = 0,
    NGX_ETCD_CHANNEL_CONNECTING,
    NGX_ETCD_CHANNEL_READY,
    NGX_ETCD_CHANNEL_MOVING,        /* between two subchannels */
    NGX_ETCD_CHANNEL_BACKOFF
} ngx_etcd_channel_state_e;


struct ngx_etcd_channel_s {
    ngx_etcd_cluster_t          *cluster;
    char                        *name;          /* "streams" or "reads" */
    ngx_etcd_channel_state_e     state;
    ngx_etcd_subchannel_t        subchannels[2];
    ngx_etcd_subchannel_t       *subchannel;    /* in use */
    ngx_etcd_subchannel_t       *spare;         /* to return home */
    ngx_etcd_place_t            *next;          /* to try next */
    ngx_uint_t                   connection;    /* serial number, from 1 */
    ngx_uint_t                   probed;        /* the connection on which
                                                   RangeStream was called, */
    ngx_uint_t                   streamed;      /* and on which it works */
    ngx_uint_t                   failures;      /* since the last success */
    ngx_uint_t                   late;          /* endpoints left since then,
                                                   too late to connect or to
                                                   answer */
    ngx_uint_t                   flaps;         /* connections in a row that
                                                   answered and failed before
                                                   HELD */
    ngx_uint_t                   returns;       /* to the home, since the last
                                                   connection that lasted half
                                                   of "rebalance" */
    ngx_uint_t                   connected;     /* 1 after the first time */
    ngx_uint_t                   outage;        /* was logged */
    ngx_uint_t                   answered;      /* a call on this connection */
    ngx_msec_t                   heard;         /* when a part of some answer
                                                   was last received */
    ngx_msec_t                   asked;         /* when the first call since
                                                   then was made, by this
                                                   connection; 0: none was */
    ngx_event_t                  timer;
    ngx_event_t                  rebalance;
    ngx_queue_t                  waiters;
};


/* Tries the place first, or any if it is NULL.  The name must stay. */
void ngx_etcd_channel_init(ngx_etcd_channel_t *channel,
    ngx_etcd_cluster_t *cluster, char *name, ngx_etcd_place_t *first);
void ngx_etcd_channel_destroy(ngx_etcd_channel_t *channel);

/*
 * Returns the connection if it takes calls now, or NULL.  Starts to connect if
 * the channel is idle.
 */
ngx_etcd_http2_t *ngx_etcd_channel_get(ngx_etcd_channel_t *channel);

/* Returns how many ms an endpoint is given that has "patience" ms at first. */
ngx_msec_t ngx_etcd_channel_patience(ngx_etcd_channel_t *channel,
    ngx_msec_t patience);

/* Returns 1 if the endpoint was slow when the connection began. */
ngx_uint_t ngx_etcd_channel_slow(ngx_etcd_channel_t *channel);

/*
 * Calls the waiter's handler once when the channel becomes ready.
 * ngx_etcd_waiter_forget() withdraws the waiter.
 */
void ngx_etcd_channel_wait(ngx_etcd_channel_t *channel,
    ngx_etcd_waiter_t *waiter);

/*
 * The worker shuts down: keeps the connection open, and ends a pause before the
 * next attempt.
 */
void ngx_etcd_channel_linger(ngx_etcd_channel_t *channel);

/* Shortens a pause before the next attempt to NGX_ETCD_BACKOFF_URGENT. */
void ngx_etcd_channel_hasten(ngx_etcd_channel_t *channel);

/*
 * Endpoints were learned: a channel that had none to connect to tries now, the
 * streams channel begins with its home.
 */
void ngx_etcd_channel_learned(ngx_etcd_channel_t *channel);

/* a call was answered: earlier failures do not count any more */
void ngx_etcd_channel_succeeded(ngx_etcd_channel_t *channel);

/*
 * The endpoint answers, but cannot serve calls ("no leader", a deadline
 * passed): closes the subchannel and connects to another endpoint, at once
 * after the first failure, with backoff after further ones.
 */
void ngx_etcd_channel_failed(ngx_etcd_channel_t *channel, ngx_str_t *reason);

/*
 * The endpoint of the streams lags, or does not answer a watch, the renewal of
 * a lease, or the read that confirms one.  As ngx_etcd_channel_failed(), and
 * the reads channel leaves the endpoint, too, if its last call there has no
 * answer.
 */
void ngx_etcd_channel_stuck(ngx_etcd_channel_t *streams, ngx_str_t *reason);

/*
 * The client's home may have changed: schedules the return of the streams
 * channel to it, if the channel is elsewhere.
 */
void ngx_etcd_channel_settle(ngx_etcd_channel_t *channel);


#endif /* _NGX_ETCD_CHANNEL_H_INCLUDED_ */
