
/*
 * Copyright (C) nginx-etcd contributors
 *
 * One etcd cluster as a client sees it: what all parts of the client share.
 * ngx_etcd_client.h creates and destroys it.
 */


#ifndef _NGX_ETCD_CLUSTER_H_INCLUDED_
#define _NGX_ETCD_CLUSTER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_grpc.h>
#include <ngx_etcd_endpoints.h>


/* ms between two outages that are logged as errors */

#define NGX_ETCD_CLUSTER_QUIET 30000

/* endpoints that get too many PINGs: ping_interval is doubled so often */

#define NGX_ETCD_CLUSTER_PINGS 8


typedef struct ngx_etcd_cluster_s    ngx_etcd_cluster_t;

/* what ngx_etcd_client.c adds to a cluster */

typedef struct ngx_etcd_channel_s    ngx_etcd_channel_t;
typedef struct ngx_etcd_auth_s       ngx_etcd_auth_t;
typedef struct ngx_etcd_auto_sync_s  ngx_etcd_auto_sync_t;


/* made by configuration, constant while a client uses it */

typedef struct {
    ngx_str_t                    name;
    ngx_array_t                  endpoints;     /* of ngx_etcd_endpoint_t */
    ngx_str_t                    key_namespace;
    ngx_str_t                    user;          /* empty: none */
    ngx_str_t                    password_file;
    ngx_str_t                    password;      /* what was in there */
    ngx_msec_t                   connect_timeout;
    ngx_msec_t                   request_timeout;
    ngx_msec_t                   ping_interval;
    ngx_msec_t                   ping_timeout;
    ngx_msec_t                   audit_interval;  /* 0: never */
    size_t                       max_message_size;
    ngx_etcd_ssl_t              *ssl;           /* loaded if any is secure */
    ngx_resolver_t              *resolver;      /* NULL: none; there is one
                                                   if a host is a name */
    ngx_msec_t                   resolver_timeout;
    ngx_msec_t                   rebalance;     /* 0: never */
    ngx_msec_t                   auto_sync;     /* 0: never */
} ngx_etcd_cluster_conf_t;


/*
 * The client's view of a cluster.  The counters are read by the owner; the
 * owner's handler is called whenever one of them, the state of a channel or
 * of an endpoint, or whether the user is refused has changed.
 */

struct ngx_etcd_cluster_s {
    ngx_etcd_cluster_conf_t     *conf;
    ngx_log_t                   *log;
    ngx_pool_t                  *pool;

    ngx_etcd_channel_t          *streams;
    ngx_etcd_channel_t          *reads;
    ngx_etcd_auth_t             *auth;

    ngx_etcd_endpoints_t         endpoints;
    ngx_etcd_auto_sync_t        *auto_sync;     /* NULL: off */

    uint64_t                     cluster_id;    /* 0: not known yet */
    int64_t                      revision;      /* the highest seen by watches,
                                                   which a member may lag
                                                   behind */
    int64_t                      linearized;    /* the highest in linearizable
                                                   answers */
    uint64_t                     raft_term;     /* likewise, of answers that
                                                   are linearizable */
    ngx_queue_t                  listeners;     /* ngx_etcd_history.h */
    ngx_event_t                  tell;          /* posted: the listeners */
    ngx_uint_t                   history;       /* counts its changes */
    ngx_uint_t                   foreign;       /* listeners are still to be
                                                   told of the last one */
    uint64_t                     proved;        /* ngx_etcd_clock() of the
                                                   last proof; 0: never */
    ngx_uint_t                   current;       /* what is received on streams
                                                   is one (ngx_etcd_fresh.h) */
    ngx_uint_t                   reconnects;
    ngx_uint_t                   resyncs;
    ngx_uint_t                   repairs;       /* keys, by audits */
    ngx_uint_t                   too_many_pings;
    ngx_msec_t                   reported;      /* the last outage; 0: none */
    ngx_uint_t                   lingers;       /* while ngx_exiting */
    ngx_uint_t                   urgent;        /* pauses are short */
    ngx_uint_t                   hedges;        /* set by the owner, see
                                                   ngx_etcd_unary.h */

    void                       (*changed)(void *data);
    void                        *data;
};


/*
 * 1 if an endpoint of the configuration leads to the own machine: then those
 * that are learned may
 */
ngx_uint_t ngx_etcd_cluster_local(ngx_etcd_cluster_conf_t *conf);

/* what the watches have reported was so at that time, if they are in force */
void ngx_etcd_cluster_prove(ngx_etcd_cluster_t *cluster, uint64_t time);

/* the configured one, or longer where endpoints do not take so many PINGs */
ngx_msec_t ngx_etcd_cluster_ping_interval(ngx_etcd_cluster_t *cluster);


#endif /* _NGX_ETCD_CLUSTER_H_INCLUDED_ */
