
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The parameters of "etcd_leader"; common to http and stream.
 */


#ifndef _NGX_ETCD_LEADER_CONF_H_INCLUDED_
#define _NGX_ETCD_LEADER_CONF_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_service.h>


/*
 * The "api_*" parameters of "etcd_leader": TLS to the APIs of members.
 */

/* Called after the last parameter: loads the files; logs errors. */
ngx_int_t ngx_etcd_leader_api_done(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service);


/*
 * ms, the default and minimum of max_stale.  The default is half of a typical
 * leader lease.  Below the minimum the leader would be unusable during each
 * change of the endpoint.
 */

#define NGX_ETCD_LEADER_MAX_STALE  15000
#define NGX_ETCD_LEADER_MIN_STALE  1000


/*
 * Reads all parameters except cluster= into the service, whose prefix is set;
 * logs errors.
 */
char *ngx_etcd_leader_conf(ngx_conf_t *cf, ngx_etcd_service_conf_t *service);


#endif /* _NGX_ETCD_LEADER_CONF_H_INCLUDED_ */
