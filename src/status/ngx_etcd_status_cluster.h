
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
#include <ngx_etcd_zone.h>


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


/* The prefix or key that a state is about; no kind: the whole cluster. */

typedef struct {
    ngx_str_t                  prefix;
    ngx_str_t                  name;         /* of the upstream or variable */
    char                      *kind;         /* "upstream" or "variable" */
} ngx_etcd_status_culprit_t;


/* The first culprit, where several have that state. */
ngx_etcd_status_cluster_state_e ngx_etcd_status_cluster_state(
    ngx_etcd_conf_t *ecf, ngx_etcd_status_culprit_t *culprit);


#define NGX_ETCD_STATUS_REASON  512          /* bytes */

/*
 * Writes why the cluster is not synced to the buffer of NGX_ETCD_STATUS_REASON
 * bytes: the endpoint, prefix or key, and what is known of it.  Returns the
 * end; the buffer: nothing is known.
 */
u_char *ngx_etcd_status_cluster_reason(u_char *p,
    ngx_etcd_status_cluster_state_e state, ngx_etcd_status_culprit_t *culprit,
    ngx_etcd_zone_endpoints_t *endpoints);


#endif /* _NGX_ETCD_STATUS_CLUSTER_H_INCLUDED_ */
