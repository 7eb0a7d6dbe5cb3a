
/*
 * Copyright (C) nginx-etcd contributors
 *
 * LeaseKeepAlive of etcd's v3 API: all leases that a client keeps in a
 * cluster, on one stream.
 *
 * A lease is valid up to its deadline: the time at which the last request
 * that etcd has acknowledged was sent, and its TTL, less a margin.  etcd
 * counts from a later time, so nobody else gets what the lease holds before.
 */


#ifndef _NGX_ETCD_KEEPER_H_INCLUDED_
#define _NGX_ETCD_KEEPER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_cluster.h>


#define NGX_ETCD_LEASE_MIN_TTL     2        /* seconds; etcd's own minimum */
#define NGX_ETCD_LEASE_MAX_TTL     86400    /* seconds */

#define NGX_ETCD_LEASE_MAX_MARGIN  1000     /* ms; else a tenth of the TTL */

#define NGX_ETCD_LEASE_IN_FLIGHT   4        /* unanswered requests of a lease */

/* an endpoint has that long to answer at least, however short the TTL is */

#define NGX_ETCD_LEASE_PATIENCE    200      /* ms */


typedef struct ngx_etcd_keeper_s  ngx_etcd_keeper_t;
typedef struct ngx_etcd_lease_s   ngx_etcd_lease_t;


/* handlers may forget their own lease and keep others, no more than that */

struct ngx_etcd_lease_s {
    /* set by the caller, the rest zeroed */

    int64_t                      id;
    ngx_msec_t                   ttl;          /* as granted */
    uint64_t                     deadline;     /* ngx_etcd_clock() */

    /* ttl and deadline are new */
    void                       (*renewed)(ngx_etcd_lease_t *lease);

    /* called once: it is not kept any more, etcd may still have it */
    void                       (*lost)(ngx_etcd_lease_t *lease, char *reason);
    void                        *data;

    /* private */

    ngx_queue_t                  queue;
    uint64_t                     renewal;      /* when the next is due */
    uint64_t                     sent[NGX_ETCD_LEASE_IN_FLIGHT];
    ngx_uint_t                   nsent;        /* the oldest first */
    unsigned                     kept:1;
};


struct ngx_etcd_keeper_s {
    ngx_etcd_cluster_t          *cluster;
    ngx_etcd_grpc_call_t         call;
    ngx_etcd_waiter_t            waiter;
    ngx_event_t                  reopen;       /* the stream */
    ngx_event_t                  timer;        /* what is due next */
    ngx_queue_t                  leases;
    ngx_uint_t                   failures;
    ngx_uint_t                   token;        /* its generation */
    unsigned                     open:1;
    unsigned                     answered:1;   /* this stream, at all */
};


/* opens a stream while there is a lease to be kept; NULL: no memory */
ngx_etcd_keeper_t *ngx_etcd_keeper_create(ngx_etcd_cluster_t *cluster);

/* ends the stream; leases are not touched any more, and live on in etcd */
void ngx_etcd_keeper_destroy(ngx_etcd_keeper_t *keeper);

/* keeps a lease, whose first renewal is due at once if now is set */
void ngx_etcd_lease_keep(ngx_etcd_keeper_t *keeper, ngx_etcd_lease_t *lease,
    ngx_uint_t now);

/* it is not kept any more, and no handler called; it lives on in etcd */
void ngx_etcd_lease_forget(ngx_etcd_lease_t *lease);

/* the deadline of a lease that was asked for at that time */
uint64_t ngx_etcd_lease_deadline(uint64_t sent, ngx_msec_t ttl);


#endif /* _NGX_ETCD_KEEPER_H_INCLUDED_ */
