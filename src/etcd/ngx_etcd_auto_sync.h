
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Adds the client URLs that the members of a cluster advertise (MemberList of
 * etcd's v3 API, Cluster) to the endpoints, at intervals of about the
 * "auto_sync" directive.
 *
 * The configured endpoints always stay: members advertise the URLs that they
 * were told to, which may not be reachable from here.  Learners, members that
 * have not started, and unusable URLs are left out; each unusable URL is logged
 * once.
 */


#ifndef _NGX_ETCD_AUTO_SYNC_H_INCLUDED_
#define _NGX_ETCD_AUTO_SYNC_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_cluster.h>
#include <ngx_etcd_unary.h>
#include <ngx_etcd_proto.pb-c.h>


#define NGX_ETCD_AUTO_SYNC_FIRST    1000    /* ms: the first request comes
                                               within */
#define NGX_ETCD_AUTO_SYNC_URLS     64      /* of one answer, the rest is
                                               ignored */
#define NGX_ETCD_AUTO_SYNC_REPORTS  16      /* unusable URLs that are logged */


struct ngx_etcd_auto_sync_s {
    ngx_etcd_cluster_t                 *cluster;
    ngx_etcd_unary_t                    unary;
    Etcd__MemberListRequest             request;
    ngx_event_t                         timer;
    uint32_t                            reported[NGX_ETCD_AUTO_SYNC_REPORTS];
    ngx_uint_t                          nreported;
};


/* Allocates from the cluster's pool; returns NULL if there is no memory. */
ngx_etcd_auto_sync_t *ngx_etcd_auto_sync_create(ngx_etcd_cluster_t *cluster);

/* Must be called while the channels exist. */
void ngx_etcd_auto_sync_destroy(ngx_etcd_auto_sync_t *sync);


#endif /* _NGX_ETCD_AUTO_SYNC_H_INCLUDED_ */
