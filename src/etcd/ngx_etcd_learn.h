
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Endpoints that are not of the configuration: URLs that members advertise or
 * SRV records name are checked, and added to those of the client.
 */


#ifndef _NGX_ETCD_LEARN_H_INCLUDED_
#define _NGX_ETCD_LEARN_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_cluster.h>


#define NGX_ETCD_LEARN_REPORTS  16      /* unusable URLs that are logged */


/* "cluster" and "source" are set by the owner, the rest must be zero */

typedef struct {
    ngx_etcd_cluster_t             *cluster;
    ngx_etcd_endpoint_source_e      source;
    uint32_t                        reported[NGX_ETCD_LEARN_REPORTS];
    ngx_uint_t                      nreported;
} ngx_etcd_learn_t;


/*
 * Adds the URL to the endpoints: see ngx_etcd_endpoints_merge_add().  Returns
 * 0 if it cannot be used, which is logged once for each URL.
 */
ngx_uint_t ngx_etcd_learn_url(ngx_etcd_learn_t *learn, u_char *data,
    size_t len);


#endif /* _NGX_ETCD_LEARN_H_INCLUDED_ */
