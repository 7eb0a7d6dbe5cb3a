
/*
 * Copyright (C) nginx-etcd contributors
 *
 * One etcd cluster as a client sees it: its endpoints, and two channels, each
 * a connection to one endpoint at a time that moves to another when that
 * fails.  Long-lived streams and bulk reads go over separate channels, since
 * big reads starve watches.
 */


#ifndef _NGX_ETCD_CLUSTER_H_INCLUDED_
#define _NGX_ETCD_CLUSTER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_http2.h>
#include <ngx_etcd_grpc.h>


/* full-jitter backoff: a random time up to base * 2^failures, up to max */

#define NGX_ETCD_BACKOFF_BASE  50
#define NGX_ETCD_BACKOFF_MAX   3000

/* a connection that answered and lasted so long has proved itself */

#define NGX_ETCD_CHANNEL_HELD  3000

/* ms between two outages that are logged as errors */

#define NGX_ETCD_CLUSTER_QUIET 30000


typedef struct ngx_etcd_cluster_s   ngx_etcd_cluster_t;
typedef struct ngx_etcd_channel_s   ngx_etcd_channel_t;
typedef struct ngx_etcd_auth_s      ngx_etcd_auth_t;


typedef struct {
    ngx_str_t                    url;
    ngx_str_t                    authority;     /* host:port */
    ngx_str_t                    host;          /* ends with a zero */
    ngx_addr_t                   addr;
    ngx_uint_t                   secure;        /* https */
} ngx_etcd_endpoint_t;


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
    size_t                       max_message_size;
    ngx_etcd_ssl_t              *ssl;           /* loaded if any is secure */
} ngx_etcd_cluster_conf_t;


typedef enum {
    NGX_ETCD_CHANNEL_IDLE = 0,
    NGX_ETCD_CHANNEL_CONNECTING,
    NGX_ETCD_CHANNEL_READY,
    NGX_ETCD_CHANNEL_BACKOFF
} ngx_etcd_channel_state_e;


typedef enum {
    NGX_ETCD_ENDPOINT_UNUSED = 0,
    NGX_ETCD_ENDPOINT_CONNECTING,
    NGX_ETCD_ENDPOINT_CONNECTED,
    NGX_ETCD_ENDPOINT_FAILED
} ngx_etcd_endpoint_state_e;


/* who wants to be called once when a channel, or the token, is ready */

typedef struct {
    ngx_queue_t                  queue;
    void                       (*handler)(void *data);
    void                        *data;
    unsigned                     waiting:1;
} ngx_etcd_waiter_t;


struct ngx_etcd_channel_s {
    ngx_etcd_cluster_t          *cluster;
    char                        *name;          /* "streams" or "reads" */
    ngx_etcd_channel_state_e     state;
    ngx_etcd_http2_t            *h2;
    ngx_etcd_http2_conf_t        conf;
    ngx_uint_t                   endpoint;      /* index in use or tried */
    ngx_uint_t                   failures;      /* since the last success */
    ngx_uint_t                   flaps;         /* in a row: answered, but
                                                   did not hold */
    ngx_uint_t                   connected;     /* ever */
    ngx_uint_t                   outage;        /* was logged */
    ngx_uint_t                   answered;      /* this connection, a call */
    ngx_msec_t                   since;         /* when it was ready */
    ngx_msec_t                   heard;         /* when something came last */
    ngx_event_t                  timer;
    ngx_queue_t                  waiters;
};


/*
 * The client's view of a cluster.  The counters are read by the owner; the
 * owner's handler is called whenever one of them, the state of a channel or
 * of an endpoint, or whether the user is refused has changed.
 */

struct ngx_etcd_cluster_s {
    ngx_etcd_cluster_conf_t     *conf;
    ngx_log_t                   *log;
    ngx_pool_t                  *pool;

    ngx_etcd_channel_t           streams;
    ngx_etcd_channel_t           reads;
    ngx_etcd_auth_t             *auth;

    ngx_uint_t                  *endpoints;     /* states */

    uint64_t                     cluster_id;    /* 0: not known yet */
    int64_t                      revision;      /* the highest seen */
    ngx_msec_t                   proved;        /* ngx_current_msec of what
                                                   was received last on
                                                   streams; 0: never */
    ngx_uint_t                   reconnects;
    ngx_uint_t                   resyncs;
    ngx_uint_t                   too_many_pings;
    ngx_msec_t                   reported;      /* the last outage; 0: none */

    void                       (*changed)(void *data);
    void                        *data;
};


/* connects when a channel is first wanted; NULL: no memory */
ngx_etcd_cluster_t *ngx_etcd_cluster_create(ngx_etcd_cluster_conf_t *conf,
    void (*changed)(void *data), void *data, ngx_log_t *log);

/*
 * Closes the connections.  Calls still open end with UNAVAILABLE first;
 * waiters are dropped.  Must not be called from a call's handler.
 */
void ngx_etcd_cluster_destroy(ngx_etcd_cluster_t *cluster);

/* the connection, if it takes calls now; starts to connect if there is none */
ngx_etcd_http2_t *ngx_etcd_channel_get(ngx_etcd_channel_t *channel);

void ngx_etcd_channel_wait(ngx_etcd_channel_t *channel,
    ngx_etcd_waiter_t *waiter);
void ngx_etcd_channel_forget(ngx_etcd_waiter_t *waiter);

/* calls all that wait now, once; who waits again is left in the queue */
void ngx_etcd_waiters_wake(ngx_queue_t *queue);

/* a call was answered: whatever failed before is over */
void ngx_etcd_channel_succeeded(ngx_etcd_channel_t *channel);

/*
 * The endpoint answers, but not as it should ("no leader", a deadline passed):
 * goes to another one, at once after the first failure, with backoff after.
 */
void ngx_etcd_channel_failed(ngx_etcd_channel_t *channel, ngx_str_t *reason);

/* full jitter: 1 .. min(BASE * 2^failures, MAX) */
ngx_msec_t ngx_etcd_backoff(ngx_uint_t failures);

/* 1 if a status says that another endpoint, or a later time, may do better */
ngx_uint_t ngx_etcd_retriable(ngx_etcd_grpc_status_e status);


#endif /* _NGX_ETCD_CLUSTER_H_INCLUDED_ */
