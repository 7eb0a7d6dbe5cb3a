
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Proofs that the endpoint answers, and that all watches are in force on it.
 *
 * A proof of a time says: at that time the endpoint was alive, it took itself
 * for a part of a cluster with a leader, and all of our watches were in force
 * on it.  Proofs are
 *
 *     a message on the watch stream, for the time when it came: an event, a
 *         progress notification, the answer to a create;
 *     the answer to a PING, to a renewal of a lease, to a request for progress
 *         or to a verification (ngx_etcd_verify.h), for the time when the
 *         question was SENT: nobody knows how long the answer was on its way.
 *
 * Nothing is a proof before every watch is created on the open stream and has
 * caught up: with the revision that the create's answer named, or, since etcd
 * says nothing where nothing happened to the prefix, for NGX_ETCD_FRESH_TURNS
 * of NGX_ETCD_FRESH_TURN ms each (etcd serves watches that have to catch up
 * every 100 ms; a machine that stands still, and etcd with it, uses up one turn
 * for that, however long it lasts).  Nor is anything
 * proved while a part of a revision is here, or by an endpoint that has not
 * come to the revision that a watch goes on from.
 *
 * A prefix that etcd refuses to the user holds up no proof and has none.
 *
 * How much a proof is worth: the stream has "hasleader" set, so that a member
 * that loses its leader ends it, but only after three election timeouts (3 s
 * unless etcd is told otherwise).  A member whose disk stands still applies
 * nothing, and gives proofs all the same: whoever relies on one prefix has its
 * watch verified (ngx_etcd_verify.h), and asks ngx_etcd_member_set_staleness().
 */


#ifndef _NGX_ETCD_FRESH_H_INCLUDED_
#define _NGX_ETCD_FRESH_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_cluster.h>


#define NGX_ETCD_FRESH_TURN    100      /* ms */
#define NGX_ETCD_FRESH_TURNS   10

/* an endpoint that is behind what it was to go on from is left after so many */
#define NGX_ETCD_FRESH_LAGS    3

/* ms without an answer to a request for progress, which etcd may drop */
#define NGX_ETCD_FRESH_AGAIN   1000


typedef struct {
    ngx_etcd_cluster_t          *cluster;
    ngx_uint_t                   in_force;     /* watches on the stream */
    ngx_uint_t                   behind;       /* what holds up proofs */

    uint64_t                     asked;        /* when first; 0: answered */
    uint64_t                     again;        /* not before that */
    ngx_uint_t                   repeated;     /* it was asked more than once */

    /* sends a request for progress, if the stream is open */
    ngx_int_t                  (*ask)(void *data);
    void                        *data;
} ngx_etcd_fresh_t;


void ngx_etcd_fresh_init(ngx_etcd_fresh_t *fresh, ngx_etcd_cluster_t *cluster,
    ngx_int_t (*ask)(void *data), void *data);
void ngx_etcd_fresh_done(ngx_etcd_fresh_t *fresh);

/* adds to both numbers */
void ngx_etcd_fresh_count(ngx_etcd_fresh_t *fresh, ngx_int_t in_force,
    ngx_int_t behind);

/* a message came on the stream */
void ngx_etcd_fresh_received(ngx_etcd_fresh_t *fresh);

/* an answer to a request for progress came on the stream */
void ngx_etcd_fresh_answered(ngx_etcd_fresh_t *fresh);

/* the stream is gone, and so are the answers */
void ngx_etcd_fresh_ended(ngx_etcd_fresh_t *fresh);

/* asks for a proof now, if there can be one */
void ngx_etcd_fresh_ask(ngx_etcd_fresh_t *fresh);


#endif /* _NGX_ETCD_FRESH_H_INCLUDED_ */
