
/*
 * Copyright (C) nginx-etcd contributors
 *
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


#ifndef _NGX_ETCD_LEASE_PATIENCE_H_INCLUDED_
#define _NGX_ETCD_LEASE_PATIENCE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


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


#endif /* _NGX_ETCD_LEASE_PATIENCE_H_INCLUDED_ */
