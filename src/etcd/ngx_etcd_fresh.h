
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Proofs that the endpoint is alive, and that all watches are in force on it.
 *
 * A proof is a time at which the endpoint was alive, believed itself to be part
 * of a cluster with a leader, and had all watches of this client in force.
 * Proofs are
 *
 *     a message on the watch stream, for the time of its arrival: an event, a
 *         progress notification, the answer to a create;
 *     the answer to a PING, to the renewal of a lease, to a request for
 *         progress, or to a verification (ngx_etcd_verify.h), for the time when
 *         the request was SENT: the answer may have been delayed on its way.
 *
 * Nothing is a proof until every watch is created on the open stream and has
 * caught up with the revision that the answer to its create named.  etcd sends
 * nothing if the prefix has not changed, so a watch counts as caught up after
 * NGX_ETCD_FRESH_TURNS of NGX_ETCD_FRESH_TURN ms each as well (etcd serves
 * watches that have to catch up every 100 ms; a machine that stands still uses
 * up one turn, however long it stands).  Nothing is proved, either, while a
 * part of a revision is buffered, or by an endpoint that has not reached the
 * revision at which a watch continues.
 *
 * A prefix that etcd does not allow the user to read neither holds up proofs
 * nor has any.
 *
 * Limits: the stream has "hasleader" set, so that a member that loses its
 * leader ends the stream, but only after three election timeouts (3 s unless
 * etcd is configured otherwise).  A member whose disk stands still applies
 * nothing, and gives proofs all the same, until it is found out
 * (ngx_etcd_watch_quorum.h).  Consumers that depend on one prefix
 * have its watch verified (ngx_etcd_verify.h), and use
 * ngx_etcd_member_set_staleness().
 */


#ifndef _NGX_ETCD_FRESH_H_INCLUDED_
#define _NGX_ETCD_FRESH_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_cluster.h>


#define NGX_ETCD_FRESH_TURN    100      /* ms */
#define NGX_ETCD_FRESH_TURNS   10

/* an endpoint is left when it was found behind a watch so many times */
#define NGX_ETCD_FRESH_LAGS    3

/* ms without an answer to a request for progress, which etcd may drop */
#define NGX_ETCD_FRESH_AGAIN   1000


typedef struct {
    ngx_etcd_cluster_t          *cluster;
    ngx_uint_t                   in_force;     /* watches on the stream */
    ngx_uint_t                   behind;       /* number of reasons that hold up
                                                  proofs */

    uint64_t                     asked;        /* time of the first request; 0:
                                                  answered */
    uint64_t                     again;        /* no request before that time */
    ngx_uint_t                   repeated;     /* requested more than once */

    /* sends a request for progress if the stream is open */
    ngx_int_t                  (*ask)(void *data);
    void                        *data;
} ngx_etcd_fresh_t;


/* After done() nothing is a proof any more. */
void ngx_etcd_fresh_init(ngx_etcd_fresh_t *fresh, ngx_etcd_cluster_t *cluster,
    ngx_int_t (*ask)(void *data), void *data);
void ngx_etcd_fresh_done(ngx_etcd_fresh_t *fresh);

/* Adds to the numbers of watches in force, and of reasons against proofs. */
void ngx_etcd_fresh_count(ngx_etcd_fresh_t *fresh, ngx_int_t in_force,
    ngx_int_t behind);

/* a message came on the stream */
void ngx_etcd_fresh_received(ngx_etcd_fresh_t *fresh);

/* an answer to a request for progress came on the stream */
void ngx_etcd_fresh_answered(ngx_etcd_fresh_t *fresh);

/* the stream has ended: its requests get no answers */
void ngx_etcd_fresh_ended(ngx_etcd_fresh_t *fresh);

/* Requests progress now, if the answer can be a proof. */
void ngx_etcd_fresh_ask(ngx_etcd_fresh_t *fresh);


#endif /* _NGX_ETCD_FRESH_H_INCLUDED_ */
