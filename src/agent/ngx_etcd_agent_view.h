
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Publishes the client's state of the cluster in the zone.
 */


#ifndef _NGX_ETCD_AGENT_VIEW_H_INCLUDED_
#define _NGX_ETCD_AGENT_VIEW_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_cluster.h>
#include <ngx_etcd_zone.h>


/* The state of the cluster in the zone, for the status. */

typedef enum {
    NGX_ETCD_AGENT_IDLE = 0,           /* no agent has connected yet */
    NGX_ETCD_AGENT_CONNECTING,
    NGX_ETCD_AGENT_CONNECTED,
    NGX_ETCD_AGENT_UNAUTHORIZED        /* connected, but authentication
                                          failed */
} ngx_etcd_agent_state_e;


ngx_etcd_agent_state_e ngx_etcd_agent_view_state(ngx_etcd_cluster_t *cluster);

/* Called by the owner: results of ngx_etcd_zone_lock_owned(). */
ngx_int_t ngx_etcd_agent_view_endpoints(ngx_etcd_zone_t *zone,
    ngx_etcd_endpoints_t *known);


#endif /* _NGX_ETCD_AGENT_VIEW_H_INCLUDED_ */
