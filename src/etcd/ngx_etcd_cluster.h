
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
#include <ngx_etcd_clock.h>
#include <ngx_etcd_endpoints.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_grpc.h>
#include <ngx_etcd_process.h>


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
typedef struct ngx_etcd_vote_s       ngx_etcd_vote_t;


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
    uint64_t                     cluster_id;    /* 0: not configured */
    ngx_etcd_shared_id_t        *shared_id;     /* NULL: each client has its
                                                   own */
    ngx_uint_t                   epoch;         /* of the configuration */
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

    ngx_etcd_shared_id_t         id;            /* if conf->shared_id is NULL,
                                                   and what was read of it */
    ngx_etcd_vote_t             *vote;

    /*
     * No cluster is known yet: the place belongs to the one of that id.  The
     * waiter is woken when one was chosen.  Set by ngx_etcd_vote_create().
     */
    void                       (*undecided)(ngx_etcd_cluster_t *cluster,
                                            ngx_etcd_place_t *place,
                                            uint64_t id,
                                            ngx_etcd_waiter_t *waiter);

    uint64_t                     cluster_id;    /* of the history; 0: not known
                                                   yet */
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
                                                   (ngx_etcd_proof.h) */
    ngx_uint_t                   current;       /* 1: all watches are in force
                                                   and have caught up */
    ngx_uint_t                   reconnects;
    ngx_uint_t                   resyncs;
    ngx_uint_t                   repairs;       /* lists after audits */
    ngx_uint_t                   too_many_pings;
    ngx_msec_t                   reported;      /* time of the last outage that
                                                   was logged; 0: none */
    ngx_etcd_latency_t           latency;
    ngx_uint_t                   lingers;       /* connects though
                                                   ngx_exiting */
    ngx_uint_t                   urgent;        /* pauses are short */

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
 * were in force on it (ngx_etcd_proof.h).  Ignored unless cluster->current is
 * set.
 */
void ngx_etcd_cluster_prove(ngx_etcd_cluster_t *cluster, uint64_t time);

/*
 * Returns the configured interval in ms, or a longer one if endpoints have
 * complained about too many PINGs.
 */
ngx_msec_t ngx_etcd_cluster_ping_interval(ngx_etcd_cluster_t *cluster);


/*
 * An address may belong to another cluster by now: it was used again after a
 * member was replaced, or a name leads to an old cluster and a new one.  So
 * each connection first tells the id of its cluster (ngx_etcd_subchannel.h),
 * and no other call is made on a connection of another one.  The id in the
 * header of each later answer is compared, too.
 *
 * The id is that of "cluster_id", or else the one in shared memory, on which
 * all clients of an nginx agree (ngx_etcd_process.h): it stays over reloads,
 * and is kept in the state file.  If none is known, the endpoints vote
 * (ngx_etcd_history.h).
 *
 * Another cluster takes the place of the known one only if no endpoint of the
 * known one has answered any client for request_timeout, and each endpoint has
 * failed once more after that, or belongs to another cluster.  Then
 * ngx_etcd_history.h discards what is known of the former one.
 *
 * Clients of a former configuration, whose endpoints may be others, keep the
 * id that they know.
 */

/* Returns the id of the cluster in use; 0: not known yet. */
uint64_t ngx_etcd_cluster_id_known(ngx_etcd_cluster_t *cluster);

/*
 * An endpoint answers with that cluster id; 0: it does not tell one (a proxy).
 *
 *     NGX_OK        the endpoint may be used,
 *     NGX_DECLINED  it belongs to another cluster,
 *     NGX_AGAIN     no cluster is known yet: see ngx_etcd_cluster_id_adopt().
 */
ngx_int_t ngx_etcd_cluster_id_check(ngx_etcd_cluster_t *cluster, uint64_t id);

/* something was received from an endpoint of the cluster in use */
void ngx_etcd_cluster_id_answered(ngx_etcd_cluster_t *cluster);

/*
 * Another id becomes that of the cluster in use, unless another client was
 * faster, whose choice is taken then.  Returns 1 if this one was the first.
 */
ngx_uint_t ngx_etcd_cluster_id_adopt(ngx_etcd_cluster_t *cluster, uint64_t id);

/*
 * Logs an endpoint that belongs to another cluster, with that id, or (0) to
 * the one in use again; once for all processes.
 */
void ngx_etcd_cluster_id_report(ngx_etcd_cluster_t *cluster,
    ngx_etcd_place_t *place, uint64_t id);

/*
 * Reads an id as etcd and its tools print it: up to 16 hexadecimal digits, with
 * or without "0x" before them, or a decimal number of more digits.  Returns 0
 * if it is none.
 */
uint64_t ngx_etcd_cluster_id_parse(ngx_str_t *text);


#endif /* _NGX_ETCD_CLUSTER_H_INCLUDED_ */
