
/*
 * Copyright (C) nginx-etcd contributors
 *
 * One etcd cluster: the state that all parts of a client share.
 * ngx_etcd_client.h creates and destroys it.
 */


#ifndef _NGX_ETCD_CLUSTER_H_INCLUDED_
#define _NGX_ETCD_CLUSTER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_latency.h>
#include <ngx_etcd_grpc.h>
#include <ngx_etcd_endpoints.h>


/* ms between two outages that are logged as errors */

#define NGX_ETCD_CLUSTER_QUIET 30000

/*
 * ping_interval is doubled at most so many times (see
 * ngx_etcd_http2_too_many_pings())
 */

#define NGX_ETCD_CLUSTER_PINGS 8


typedef struct ngx_etcd_cluster_s    ngx_etcd_cluster_t;

/* parts of a cluster that ngx_etcd_client.c creates */

typedef struct ngx_etcd_channel_s    ngx_etcd_channel_t;
typedef struct ngx_etcd_auth_s       ngx_etcd_auth_t;
typedef struct ngx_etcd_auto_sync_s  ngx_etcd_auto_sync_t;
typedef struct ngx_etcd_server_version_s  ngx_etcd_server_version_t;


/* made by the configuration, constant while a client uses it */

typedef struct {
    ngx_str_t                    name;
    ngx_array_t                  endpoints;     /* of ngx_etcd_endpoint_t */
    ngx_str_t                    key_namespace;
    ngx_str_t                    user;          /* empty: none */
    ngx_str_t                    password_file;
    ngx_str_t                    password;      /* first line of the file */
    ngx_msec_t                   connect_timeout;
    ngx_msec_t                   request_timeout;
    ngx_msec_t                   ping_interval;
    ngx_msec_t                   ping_timeout;
    ngx_msec_t                   audit_interval;  /* 0: never */
    size_t                       max_message_size;
    ngx_etcd_ssl_t              *ssl;           /* loaded if an endpoint is
                                                   https */
    ngx_resolver_t              *resolver;      /* NULL unless configured;
                                                   required by host names */
    ngx_msec_t                   resolver_timeout;
    ngx_msec_t                   rebalance;     /* 0: never */
    ngx_msec_t                   auto_sync;     /* 0: never */
} ngx_etcd_cluster_conf_t;


/*
 * The client's view of a cluster.  The owner reads the counters.  changed() is
 * called when a counter, the state of a channel or of an endpoint has changed,
 * or etcd begins or ceases to refuse the user.
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
    ngx_etcd_server_version_t   *server_version;  /* NULL: nobody asks */

    uint64_t                     cluster_id;    /* 0: not known yet */
    int64_t                      revision;      /* the highest seen by watches;
                                                   a member may lag behind */
    int64_t                      linearized;    /* the highest in linearizable
                                                   answers */
    uint64_t                     raft_term;     /* likewise */
    ngx_queue_t                  listeners;     /* ngx_etcd_history.h */
    ngx_event_t                  tell;          /* posted, calls the
                                                   listeners */
    ngx_uint_t                   history;       /* changes of the history */
    ngx_uint_t                   foreign;       /* 1 until the listeners know of
                                                   the last change */
    uint64_t                     proved;        /* ngx_etcd_clock() of the last
                                                   proof; 0: never
                                                   (ngx_etcd_fresh.h) */
    ngx_uint_t                   current;       /* 1: all watches are in force
                                                   and have caught up */
    ngx_uint_t                   reconnects;
    ngx_uint_t                   resyncs;
    ngx_uint_t                   repairs;       /* keys corrected by audits */
    ngx_uint_t                   too_many_pings;
    ngx_msec_t                   reported;      /* time of the last outage that
                                                   was logged; 0: none */
    ngx_etcd_latency_t           latency;
    ngx_uint_t                   lingers;       /* connects though
                                                   ngx_exiting */
    ngx_uint_t                   urgent;        /* pauses are short */
    ngx_uint_t                   hedges;        /* idempotent calls are hedged
                                                   (ngx_etcd_unary.h), set by
                                                   the owner */

    void                       (*changed)(void *data);
    void                        *data;
};


/*
 * Returns 1 if a configured endpoint is on the local machine.  Only then
 * endpoints that members advertise may be local as well.
 */
ngx_uint_t ngx_etcd_cluster_local(ngx_etcd_cluster_conf_t *conf);

/*
 * At that time, by ngx_etcd_clock(), the endpoint was alive, and all watches
 * were in force on it (ngx_etcd_fresh.h).  Ignored unless cluster->current is
 * set.
 */
void ngx_etcd_cluster_prove(ngx_etcd_cluster_t *cluster, uint64_t time);

/*
 * Returns the configured interval in ms, or a longer one if endpoints have
 * complained about too many PINGs.
 */
ngx_msec_t ngx_etcd_cluster_ping_interval(ngx_etcd_cluster_t *cluster);


#endif /* _NGX_ETCD_CLUSTER_H_INCLUDED_ */
