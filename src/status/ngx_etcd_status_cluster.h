
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The state of a cluster, from all that its configuration reads of it.
 */


#ifndef _NGX_ETCD_STATUS_CLUSTER_H_INCLUDED_
#define _NGX_ETCD_STATUS_CLUSTER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_conf.h>


typedef enum {
    NGX_ETCD_STATUS_IDLE = 0,
    NGX_ETCD_STATUS_CONNECTING,
    NGX_ETCD_STATUS_UNAUTHORIZED,
    NGX_ETCD_STATUS_SYNCING,
    NGX_ETCD_STATUS_DENIED,
    NGX_ETCD_STATUS_FULL,
    NGX_ETCD_STATUS_STALE,
    NGX_ETCD_STATUS_SYNCED           /* every prefix and key was read, and the
                                        last proof of this state is recent */
} ngx_etcd_status_cluster_state_e;


ngx_etcd_status_cluster_state_e ngx_etcd_status_cluster_state(
    ngx_etcd_conf_t *ecf);


#endif /* _NGX_ETCD_STATUS_CLUSTER_H_INCLUDED_ */
