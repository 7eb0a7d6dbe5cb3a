
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The configuration of an HTTP/2 connection.
 */


#ifndef _NGX_ETCD_HTTP2_CONF_H_INCLUDED_
#define _NGX_ETCD_HTTP2_CONF_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_ssl.h>


typedef struct ngx_etcd_http2_s  ngx_etcd_http2_t;


/*
 * Set by the owner of a connection.  Everything pointed to must outlive the
 * connection.  All times are in milliseconds.
 *
 * Handlers are never called from inside ngx_etcd_http2_connect().  Any
 * handler may call ngx_etcd_http2_close() and may start and cancel calls.  The
 * owner may leave out alive(), header(), pong() and draining().
 */

typedef struct {
    ngx_addr_t                *addr;
    ngx_str_t                  authority;          /* ":authority" */
    ngx_str_t                  name;               /* identity in logs */
    ngx_etcd_ssl_t            *ssl;                /* NULL: ":scheme" http */
    ngx_str_t                  ssl_name;           /* the name in the
                                                      certificate */

    ngx_msec_t                 connect_timeout;    /* until ready(); 0: the
                                                      owner's concern */
    ngx_msec_t                 patience;           /* more, with a peer that
                                                      has accepted the
                                                      connection */
    ngx_msec_t                 ping_interval;      /* 0: never ping */
    ngx_msec_t                 ping_timeout;
    size_t                     max_message_size;   /* of one gRPC message */

    /*
     * 1: the connection is for one short call without secrets.  The call is
     * sent with the preface, before SETTINGS arrive (RFC 9113, section 3.4);
     * buffers and windows are small, and memory is ordinary.
     */
    unsigned                   brief:1;

    /*
     * Calls may be started: the peer's SETTINGS arrived or, if "brief" is set,
     * the connection was established.
     */
    void                     (*ready)(void *data);

    /*
     * Something was received: the peer was alive at ngx_current_msec.  "answer"
     * is 1 if a part of the answer to some call was among it: a peer that
     * serves no calls may still send PING, SETTINGS and WINDOW_UPDATE.
     */
    void                     (*alive)(void *data, ngx_uint_t answer);

    /*
     * A message has a header (ResponseHeader of etcd's v3 API) with this id of
     * the cluster, which is 0 if the peer is a proxy.  If the result is not
     * NGX_OK, the message is not handed on, and its call ends with UNAVAILABLE.
     */
    ngx_int_t                (*header)(void *data, uint64_t cluster_id);

    /*
     * A PING was answered.  "sent" is the ngx_etcd_clock() reading at the
     * time the PING was sent: the peer was alive at some time after it.
     * alive() is called next.
     */
    void                     (*pong)(void *data, uint64_t sent);

    /*
     * GOAWAY arrived: no new call is accepted.  The calls that the peer did
     * not accept have already ended as "unprocessed".  The other calls
     * continue; when the last one has ended, the connection closes itself and
     * calls closed().
     */
    void                     (*draining)(void *data);

    /*
     * The connection failed, was closed by the peer, or was closed because
     * the worker process is shutting down (ngx_exiting).  Every call on the
     * connection has already ended with UNAVAILABLE; the object is freed when
     * the handler returns.
     */
    void                     (*closed)(void *data, ngx_str_t *reason);

    void                      *data;
} ngx_etcd_http2_conf_t;


#endif /* _NGX_ETCD_HTTP2_CONF_H_INCLUDED_ */
