
/*
 * Copyright (C) nginx-etcd contributors
 *
 * How long a lease lasts yet, and which keys are attached to it:
 * LeaseTimeToLive of etcd's v3 API, which says it of anybody's.
 */


#ifndef _NGX_ETCD_LEASE_TTL_H_INCLUDED_
#define _NGX_ETCD_LEASE_TTL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_unary.h>
#include <ngx_etcd_proto.pb-c.h>


#define NGX_ETCD_LEASE_TTL_MAX 9000000000    /* seconds: etcd's own limit */


typedef struct ngx_etcd_lease_ttl_s  ngx_etcd_lease_ttl_t;


/* one question at a time; may be asked again in done() */

struct ngx_etcd_lease_ttl_s {
    /* set by the caller, the rest zeroed */

    ngx_etcd_cluster_t              *cluster;
    int64_t                          lease;
    ngx_msec_t                       timeout;  /* 0: request_timeout */

    /*
     * The keys that are attached to the lease, with the namespace, before
     * done(); valid until this returns.  The revision is one at which the
     * endpoint was then.  NULL: keys are not asked for.
     */
    void                           (*keys)(ngx_etcd_lease_ttl_t *lease_ttl,
                                           ProtobufCBinaryData *keys,
                                           size_t n, int64_t revision);

    /*
     * Called once: until when the lease lasts, by ngx_etcd_clock(), if it is
     * not renewed, counted from when that was asked; 0: it is gone, or etcd
     * did not say.
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

/* done() is not called any more; does nothing where nothing is asked */
void ngx_etcd_lease_ttl_cancel(ngx_etcd_lease_ttl_t *lease_ttl);


#endif /* _NGX_ETCD_LEASE_TTL_H_INCLUDED_ */
