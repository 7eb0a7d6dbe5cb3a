
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The URLs that the members of a cluster advertise, asked for now and then
 * (Cluster of etcd's v3 API) and added to the endpoints of the configuration.
 *
 * They never take the place of those: what members advertise is what they
 * were told to, and may be of no use from here.  Members that have not
 * started and learners are left out, as are URLs that cannot be used; each of
 * these is reported once.
 */


#ifndef _NGX_ETCD_AUTO_SYNC_H_INCLUDED_
#define _NGX_ETCD_AUTO_SYNC_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_cluster.h>
#include <ngx_etcd_unary.h>
#include <ngx_etcd_proto.pb-c.h>


#define NGX_ETCD_AUTO_SYNC_FIRST    1000    /* ms: the first time within */
#define NGX_ETCD_AUTO_SYNC_URLS     64      /* of one answer; more are too
                                               many for any cluster */
#define NGX_ETCD_AUTO_SYNC_REPORTS  16      /* URLs that are reported */


struct ngx_etcd_auto_sync_s {
    ngx_etcd_cluster_t                 *cluster;
    ngx_etcd_unary_t                    unary;
    Etcd__MemberListRequest             request;
    ngx_event_t                         timer;
    uint32_t                            reported[NGX_ETCD_AUTO_SYNC_REPORTS];
    ngx_uint_t                          nreported;
};


/* memory is of the cluster's pool; NULL: there is none */
ngx_etcd_auto_sync_t *ngx_etcd_auto_sync_create(ngx_etcd_cluster_t *cluster);

/* while the channels are still there */
void ngx_etcd_auto_sync_destroy(ngx_etcd_auto_sync_t *sync);


#endif /* _NGX_ETCD_AUTO_SYNC_H_INCLUDED_ */
