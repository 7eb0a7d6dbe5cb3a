
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The parameters of "etcd_leader", as http and stream share them.
 */


#ifndef _NGX_ETCD_LEADER_CONF_H_INCLUDED_
#define _NGX_ETCD_LEADER_CONF_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_upstream.h>


/*
 * ms without a proof of freshness that a leader is used for, by default: half
 * of what leaders' leases are usually given.  Below the least of them it would
 * be out of use whenever another endpoint is gone to.
 */

#define NGX_ETCD_LEADER_MAX_STALE  15000
#define NGX_ETCD_LEADER_MIN_STALE  1000


/* all but cluster= into the service, whose prefix is set; logs errors */
char *ngx_etcd_leader_conf(ngx_conf_t *cf, ngx_etcd_service_conf_t *service);

#endif /* _NGX_ETCD_LEADER_CONF_H_INCLUDED_ */
