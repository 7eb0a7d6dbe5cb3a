
/*
 * Copyright (C) nginx-etcd contributors
 *
 * LeaseTimeToLive of etcd's v3 API (Lease): the time left of any client's
 * lease, and the keys that are attached to it.
 */


#ifndef _NGX_ETCD_LEASE_TTL_H_INCLUDED_
#define _NGX_ETCD_LEASE_TTL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_proto.pb-c.h>
#include <ngx_etcd_unary.h>


/*
 * How long an endpoint may leave the renewal of a lease without an answer, or
 * without confirmation, until the client goes to another endpoint.
 *
 * A sixth of the TTL is enough for an etcd that works, and leaves time to try
 * several other endpoints.  All endpoints may be slow, though, if their disks
 * are: the time doubles with each endpoint in a row that is left, so that one
 * of them is given time to answer.  The time grows no further than up to the
 * moment from which another endpoint can still renew the lease before the
 * deadline.
 *
 * A slow etcd answers promptly while there is nothing to write.  So the first
 * time comes back only after many renewals in a row that were confirmed
 * promptly.
 */

/* ms that an endpoint has to answer at least, for any TTL */

#define NGX_ETCD_LEASE_PATIENCE    200      /* ms */

/* so many prompt renewals in a row end a greater patience */

#define NGX_ETCD_LEASE_PROMPT      16


typedef struct {
    ngx_uint_t                   misses;       /* endpoints left in a row */
    ngx_msec_t                   ttl;          /* of the lease that the last one
                                                  did not renew in time */
    ngx_uint_t                   prompt;       /* renewals since then */
} ngx_etcd_lease_patience_t;


/* Returns when it is over, for a renewal that was sent at that time. */
uint64_t ngx_etcd_lease_patience(ngx_etcd_lease_patience_t *patience,
    uint64_t sent, uint64_t deadline, ngx_msec_t ttl);

/* an endpoint did not renew a lease with that TTL in time */
void ngx_etcd_lease_patience_missed(ngx_etcd_lease_patience_t *patience,
    ngx_msec_t ttl);

/* a renewal that was sent at that time counts */
void ngx_etcd_lease_patience_proved(ngx_etcd_lease_patience_t *patience,
    uint64_t sent);


#define NGX_ETCD_LEASE_TTL_MAX 9000000000    /* seconds: etcd's limit */


typedef struct ngx_etcd_lease_ttl_s  ngx_etcd_lease_ttl_t;


/* one request at a time; the next one may be made in done() */

struct ngx_etcd_lease_ttl_s {
    /* set by the caller, the rest zeroed */

    ngx_etcd_cluster_t              *cluster;
    int64_t                          lease;
    ngx_msec_t                       timeout;  /* 0: request_timeout */

    /*
     * Called before done() with the keys that are attached to the lease,
     * including the namespace; valid until this returns.  The revision is that
     * of the answer's header.  NULL: keys are not asked for.
     */
    void                           (*keys)(ngx_etcd_lease_ttl_t *lease_ttl,
                                           ProtobufCBinaryData *keys,
                                           size_t n, int64_t revision);

    /*
     * Called once.  The time is when the lease expires unless it is renewed, by
     * ngx_etcd_clock(), counted from when the request was sent.  0: there is no
     * such lease, or etcd did not answer.
     */
    void                           (*done)(ngx_etcd_lease_ttl_t *lease_ttl,
                                           uint64_t until);
    void                            *data;

    /* private */

    ngx_etcd_unary_t                 unary;
    Etcd__LeaseTimeToLiveRequest     request;
};


/* done() is never called before this returns */
void ngx_etcd_lease_ttl_ask(ngx_etcd_lease_ttl_t *lease_ttl);

/* done() is not called any more; does nothing if no call is running */
void ngx_etcd_lease_ttl_cancel(ngx_etcd_lease_ttl_t *lease_ttl);


#endif /* _NGX_ETCD_LEASE_TTL_H_INCLUDED_ */
