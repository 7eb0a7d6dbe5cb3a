
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
#include <ngx_event.h>
#include <ngx_etcd_cluster.h>
#include <ngx_etcd_lookup.h>


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


/*
 * Endpoints from SRV records (RFC 2782), as etcd's clients find them with
 * "--discovery-srv NAME": _etcd-client-ssl._tcp.NAME has targets of https, and
 * _etcd-client._tcp.NAME has targets of http.
 *
 * Both names are asked for at the same time, and again when the records have
 * expired, or with the client's backoff if no record can be used.  Then, or
 * while a name server fails, the endpoints stay as they are.  Priorities and
 * weights are ignored: all targets are members of one cluster.
 */

#define NGX_ETCD_SRV_AGAIN    1000      /* ms: records are kept for longer */
#define NGX_ETCD_SRV_TARGETS  64        /* of both answers, the rest is
                                           ignored */

/* a name has up to 253 bytes, with "_etcd-client-ssl._tcp." before it */

#define NGX_ETCD_SRV_NAME     (253 - (sizeof("_etcd-client-ssl._tcp.") - 1))


typedef struct {
    ngx_etcd_srv_t                 *srv;
    ngx_etcd_lookup_t               lookup;
    char                           *scheme;
} ngx_etcd_srv_query_t;


struct ngx_etcd_srv_s {
    ngx_etcd_cluster_t             *cluster;
    ngx_etcd_learn_t                learn;
    ngx_etcd_srv_query_t            queries[2];
    ngx_event_t                     timer;
    ngx_uint_t                      open;       /* queries */
    ngx_uint_t                      targets;    /* of their answers */
    ngx_uint_t                      usable;     /* of them */
    ngx_str_t                      *broken;     /* why a query failed, though
                                                   there may be records */
    time_t                          valid;      /* expiry of the records */
    ngx_uint_t                      failures;   /* in a row */
};


/* Asks for the records of cluster->conf->srv.  NULL: no memory. */
ngx_etcd_srv_t *ngx_etcd_srv_create(ngx_etcd_cluster_t *cluster);

void ngx_etcd_srv_destroy(ngx_etcd_srv_t *srv);


#endif /* _NGX_ETCD_LEARN_H_INCLUDED_ */
