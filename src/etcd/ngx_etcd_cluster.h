
/*
 * Copyright (C) nginx-etcd contributors
 *
 * One etcd cluster: its endpoints, its id, the state that all parts of a client
 * share, and the pauses between their attempts.  ngx_etcd_client.h creates and
 * destroys it.
 */


#ifndef _NGX_ETCD_CLUSTER_H_INCLUDED_
#define _NGX_ETCD_CLUSTER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_cause.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_grpc.h>
#include <ngx_etcd_shared.h>
#include <ngx_etcd_url.h>


/*
 * The endpoints of a cluster as one client knows them: the configured ones,
 * which always stay, and the ones that SRV records name or members advertise;
 * the results of the last attempts at each, and the choice of the next one.
 * There is none until name servers have answered, if none is configured.
 *
 * An endpoint that fails is set aside for a random time, which may be longer
 * with each failure in a row.  The next endpoint is drawn among the others, so
 * that many clients that lose the same endpoint at the same time do not all
 * turn to the same other one.  If all are set aside, the client tries the one
 * that was tried the longest ago: no endpoint is ever given up.
 *
 * One endpoint is the client's home, drawn when the client starts.  The streams
 * channel returns to it when it is back, so that the clients of a cluster are
 * distributed after an outage as they were before.  A learned endpoint becomes
 * the home of its share of the clients; the clients of an endpoint that is
 * dropped draw another home.
 */

#define NGX_ETCD_ENDPOINTS_MAX    16

/* bytes of the last error of an endpoint that are remembered */

#define NGX_ETCD_ENDPOINTS_ERROR  128

/* ms set aside: a random time up to BASE * 2^(failures - 1), up to MAX */

#define NGX_ETCD_ENDPOINTS_ASIDE   5000
#define NGX_ETCD_ENDPOINTS_ASIDE_MAX  60000


typedef enum {
    NGX_ETCD_ENDPOINT_UNUSED = 0,
    NGX_ETCD_ENDPOINT_CONNECTING,
    NGX_ETCD_ENDPOINT_CONNECTED,
    NGX_ETCD_ENDPOINT_FAILED
} ngx_etcd_endpoint_state_e;


typedef enum {
    NGX_ETCD_ENDPOINT_CONFIGURED = 0,
    NGX_ETCD_ENDPOINT_ADVERTISED,               /* by a member */
    NGX_ETCD_ENDPOINT_SRV                       /* named by a SRV record */
} ngx_etcd_endpoint_source_e;


typedef struct {
    ngx_etcd_endpoint_t         *endpoint;      /* NULL: free */
    ngx_etcd_endpoint_source_e   source;
    ngx_pool_t                  *pool;          /* of a learned endpoint; NULL:
                                                   it is of the configuration */
    uint64_t                     until;         /* ngx_etcd_clock(), until then
                                                   set aside */
    uint64_t                     tried;         /* time of the last attempt */
    ngx_uint_t                   failures;      /* in a row */
    uint64_t                     lost;          /* time of the last failure */
    uint64_t                     foreign;       /* cluster id, if it is not that
                                                   of the cluster in use */
    ngx_uint_t                   connecting;    /* subchannels in this state */
    ngx_uint_t                   connected;
    time_t                       since;         /* of the first failure in a
                                                   row */
    size_t                       error_len;     /* of the last one */
    u_char                       error[NGX_ETCD_ENDPOINTS_ERROR];
    unsigned                     failed:1;      /* at the last attempt */
    unsigned                     listed:1;      /* added by this merge */
} ngx_etcd_place_t;


typedef struct {
    ngx_etcd_place_t             places[NGX_ETCD_ENDPOINTS_MAX];
    ngx_uint_t                   home;          /* index */
    ngx_int_t                    current;       /* of the streams channel, in
                                                   use or tried last; -1:
                                                   none */
    uint64_t                     missing;       /* time of the first failure
                                                   since an endpoint of the
                                                   cluster in use answered; 0:
                                                   none */
    ngx_uint_t                   version;       /* number of changes */
    ngx_log_t                   *log;
} ngx_etcd_endpoints_t;


/*
 * The array of ngx_etcd_endpoint_t must stay.  Draws the home.  The pools of
 * learned endpoints are destroyed by the owner.
 */
void ngx_etcd_endpoints_init(ngx_etcd_endpoints_t *endpoints,
    ngx_array_t *array, ngx_log_t *log);

/* Returns the home; NULL: there are no endpoints. */
ngx_etcd_place_t *ngx_etcd_endpoints_home(ngx_etcd_endpoints_t *endpoints);

/*
 * Returns the place to try next: a random one among those that are not set
 * aside, or else the one that was tried the longest ago.  Returns the place to
 * avoid, which may be NULL, only if there is no other.
 */
ngx_etcd_place_t *ngx_etcd_endpoints_choose(ngx_etcd_endpoints_t *endpoints,
    ngx_etcd_place_t *except);

/* Returns the number of endpoints; 0: SRV records are awaited. */
ngx_uint_t ngx_etcd_endpoints_count(ngx_etcd_endpoints_t *endpoints);

/*
 * A subchannel reports its progress at a place: from UNUSED to CONNECTING, to
 * CONNECTED when it is ready, and back to UNUSED when it is closed.
 */
void ngx_etcd_endpoints_move(ngx_etcd_endpoints_t *endpoints,
    ngx_etcd_place_t *place, ngx_etcd_endpoint_state_e from,
    ngx_etcd_endpoint_state_e to);

/*
 * The endpoint failed and is set aside.  If its connection was stable before
 * ("proved"), this is its first failure in a row.
 */
void ngx_etcd_endpoints_failed(ngx_etcd_endpoints_t *endpoints,
    ngx_etcd_place_t *place, ngx_uint_t proved, ngx_str_t *reason);

/*
 * Returns 1 if each endpoint has failed at that time or later, by
 * ngx_etcd_clock(), or belongs to another cluster.
 */
ngx_uint_t ngx_etcd_endpoints_silent(ngx_etcd_endpoints_t *endpoints,
    uint64_t time);

/* the streams channel connects to the place, or moves to it */
void ngx_etcd_endpoints_set_current(ngx_etcd_endpoints_t *endpoints,
    ngx_etcd_place_t *place);

ngx_etcd_endpoint_state_e ngx_etcd_endpoints_state(ngx_etcd_place_t *place);

/*
 * Merges the endpoints of a source: add() for each, then end(), which drops
 * the source's endpoints that were not added again and are not in use.  Of two
 * sources that name the same endpoint, the first one owns it.
 *
 * add() takes over the pool, which holds the endpoint, if it returns NGX_OK.
 * NGX_DECLINED: all places are taken.
 */
ngx_int_t ngx_etcd_endpoints_merge_add(ngx_etcd_endpoints_t *endpoints,
    ngx_pool_t *pool, ngx_etcd_endpoint_t *endpoint,
    ngx_etcd_endpoint_source_e source);
void ngx_etcd_endpoints_merge_end(ngx_etcd_endpoints_t *endpoints,
    ngx_etcd_endpoint_source_e source);


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
typedef struct ngx_etcd_srv_s        ngx_etcd_srv_t;
typedef struct ngx_etcd_server_version_s  ngx_etcd_server_version_t;
typedef struct ngx_etcd_vote_s       ngx_etcd_vote_t;


/* made by the configuration, constant while a client uses it */

typedef struct {
    ngx_str_t                    name;
    ngx_array_t                  endpoints;     /* of ngx_etcd_endpoint_t */
    ngx_str_t                    srv;           /* SRV records of this name
                                                   name more endpoints; empty:
                                                   none */
    ngx_str_t                    key_namespace;
    ngx_str_t                    user;          /* empty: none */
    ngx_str_t                    password_file; /* or token_file */
    ngx_str_t                    password;      /* first line of the file */
    ngx_uint_t                   token;         /* 1: the line is a token */
    ngx_msec_t                   connect_timeout;
    ngx_msec_t                   request_timeout;
    ngx_msec_t                   ping_interval;
    ngx_msec_t                   ping_timeout;
    ngx_msec_t                   audit_interval;  /* 0: never */
    size_t                       max_message_size;
    ngx_etcd_ssl_t              *ssl;           /* loaded if an endpoint is
                                                   https */
    ngx_resolver_t              *resolver;      /* NULL unless configured;
                                                   required by "srv" */
    ngx_msec_t                   resolver_timeout;
    ngx_msec_t                   rebalance;     /* 0: never */
    ngx_msec_t                   auto_sync;     /* 0: never */
    uint64_t                     cluster_id;    /* 0: not configured */
    ngx_etcd_shared_id_t        *shared_id;     /* NULL: each client has its
                                                   own */
    ngx_uint_t                   epoch;         /* of the configuration */
} ngx_etcd_cluster_conf_t;


/* 1 if requests carry a token */

#define ngx_etcd_cluster_authenticates(conf)                                  \
    ((conf)->user.len != 0 || (conf)->token)

/* the directive that names the file */

#define ngx_etcd_cluster_password_name(conf)                                  \
    ((conf)->token ? "token_file" : "password_file")


/* the history of the cluster (ngx_etcd_history.h) */

typedef struct {
    ngx_uint_t                   changes;
    int64_t                      linearized;    /* the highest revision in
                                                   linearizable answers */
    uint64_t                     raft_term;     /* likewise */
    ngx_queue_t                  listeners;
    ngx_event_t                  tell;          /* posted, calls them */
    ngx_uint_t                   foreign;       /* 1 until they know of the last
                                                   change */
} ngx_etcd_cluster_history_t;


typedef struct {
    ngx_uint_t                   reconnects;
    ngx_uint_t                   resyncs;
    ngx_uint_t                   repairs;       /* lists after audits */
    ngx_uint_t                   too_many_pings;
} ngx_etcd_cluster_counts_t;


/* an outage as the log has it */

typedef struct {
    ngx_msec_t                   reported;      /* time of the line; 0: none */
    ngx_etcd_causes_t            causes;
} ngx_etcd_outage_t;


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
    ngx_etcd_srv_t              *srv;           /* NULL: no SRV records */
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
    ngx_etcd_cluster_history_t   history;
    uint64_t                     proved;        /* ngx_etcd_clock() of the last
                                                   proof; 0: never
                                                   (ngx_etcd_proof.h) */
    ngx_uint_t                   current;       /* 1: all watches are in force
                                                   and have caught up */
    ngx_etcd_cluster_counts_t    counts;
    ngx_etcd_outage_t            outage;        /* the last one */
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
 * all clients of an nginx agree (ngx_etcd_shared.h): it stays over reloads,
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


/*
 * Random pauses between attempts: exponential backoff with full jitter
 * (Brooker, "Exponential Backoff And Jitter", 2015).
 */

/* ms; a pause is at most _URGENT while cluster->urgent is set */

#define NGX_ETCD_BACKOFF_BASE    50
#define NGX_ETCD_BACKOFF_MAX     3000
#define NGX_ETCD_BACKOFF_URGENT  500


/* Returns a random time from 1 to min(BASE * 2^failures, MAX or URGENT) ms. */
ngx_msec_t ngx_etcd_backoff(ngx_etcd_cluster_t *cluster, ngx_uint_t failures);

/* Returns a random time, in ms, from half of the mean to one and a half. */
ngx_msec_t ngx_etcd_backoff_around(ngx_msec_t mean);

/* a pause that would end later ends within URGENT ms */
void ngx_etcd_backoff_hasten(ngx_event_t *timer);

/*
 * Returns 1 if a call that failed with this status may succeed at another
 * endpoint, or later.
 */
ngx_uint_t ngx_etcd_backoff_retriable(ngx_etcd_grpc_status_e status);


#endif /* _NGX_ETCD_CLUSTER_H_INCLUDED_ */
