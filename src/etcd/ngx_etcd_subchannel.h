
/*
 * Copyright (C) nginx-etcd contributors
 *
 * One connection to one endpoint, including the lookup of its host name.  All
 * addresses of a name are tried in turn before the endpoint counts as failed.
 *
 * Before the owner may call the endpoint, it tells the id of its cluster: an
 * address of another cluster (ngx_etcd_cluster.h) is one that failed.  For this
 * a watch is created and given up, because the answer to it has a header even
 * if etcd wants a token, or refuses the user.  (Status is for root alone in
 * later releases, and errors have no header.)
 */


#ifndef _NGX_ETCD_SUBCHANNEL_H_INCLUDED_
#define _NGX_ETCD_SUBCHANNEL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_cluster.h>
#include <ngx_etcd_http2.h>
#include <ngx_etcd_lookup.h>


#define NGX_ETCD_SUBCHANNEL_ADDRS  8   /* of a name; the rest is ignored */


typedef struct ngx_etcd_subchannel_s  ngx_etcd_subchannel_t;


typedef enum {
    NGX_ETCD_SUBCHANNEL_CLOSED = 0,
    NGX_ETCD_SUBCHANNEL_RESOLVING,
    NGX_ETCD_SUBCHANNEL_CONNECTING,
    NGX_ETCD_SUBCHANNEL_IDENTIFYING,            /* asked for its cluster */
    NGX_ETCD_SUBCHANNEL_READY
} ngx_etcd_subchannel_state_e;


/* the addresses of an endpoint, which are tried one after the other */

typedef struct {
    ngx_etcd_lookup_t            lookup;
    ngx_addr_t                  *addrs;         /* of the endpoint, or found */
    ngx_uint_t                   naddrs;
    ngx_uint_t                   tried;
    ngx_addr_t                   found[NGX_ETCD_SUBCHANNEL_ADDRS];
    ngx_sockaddr_t               sockaddrs[NGX_ETCD_SUBCHANNEL_ADDRS];
    u_char                       names[NGX_ETCD_SUBCHANNEL_ADDRS]
                                      [NGX_SOCKADDR_STRLEN];
} ngx_etcd_subchannel_addrs_t;


struct ngx_etcd_subchannel_s {
    /* set by the owner, the rest zeroed */

    ngx_etcd_cluster_t          *cluster;
    void                        *data;

    ngx_msec_t                   patience;      /* ms, beyond connect_timeout,
                                                   with an endpoint that has
                                                   taken the connection */

    /* see ngx_etcd_http2_conf_t; alive() and pong() get the subchannel */
    void                       (*alive)(void *data, ngx_uint_t answer);
    void                       (*pong)(void *data, uint64_t sent);
    void                       (*ready)(ngx_etcd_subchannel_t *subchannel);
    void                       (*draining)(ngx_etcd_subchannel_t *subchannel);

    /*
     * The endpoint failed.  The subchannel is closed, and may be opened again
     * in this handler.  Never called before ngx_etcd_subchannel_open() returns.
     */
    void                       (*failed)(ngx_etcd_subchannel_t *subchannel,
                                         ngx_str_t *reason);

    /* read-only for the owner */

    ngx_etcd_subchannel_state_e  state;
    ngx_etcd_place_t            *place;         /* current, or last */
    ngx_etcd_http2_t            *h2;            /* NULL unless connecting or
                                                   ready */
    ngx_msec_t                   since;         /* time of READY */
    ngx_msec_t                   took;          /* ms until the endpoint told
                                                   its cluster */
    uint64_t                     id;            /* of the endpoint's cluster; 0:
                                                   unknown */
    unsigned                     late:1;        /* the endpoint has taken a
                                                   connection, and did not
                                                   answer in time */

    /* private */

    ngx_etcd_http2_conf_t        conf;
    ngx_etcd_subchannel_addrs_t  target;
    ngx_msec_t                   dialed;        /* time of the last attempt */
    ngx_event_t                  next;          /* posted */
    ngx_etcd_grpc_call_t         identify;
    ngx_etcd_waiter_t            undecided;     /* no cluster is known yet */
    unsigned                     pings:1;       /* too_many_pings was counted */
};


/* the subchannel must be closed */
void ngx_etcd_subchannel_open(ngx_etcd_subchannel_t *subchannel,
    ngx_etcd_place_t *place);

/*
 * Closes the subchannel, and its connection by ngx_etcd_http2_close(); does
 * nothing if the subchannel is closed.
 */
void ngx_etcd_subchannel_close(ngx_etcd_subchannel_t *subchannel);


#endif /* _NGX_ETCD_SUBCHANNEL_H_INCLUDED_ */
