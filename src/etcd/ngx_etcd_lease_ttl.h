
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
#include <ngx_etcd_unary.h>
#include <ngx_etcd_proto.pb-c.h>


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
