
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The two halves of an HTTP/2 connection: its life (ngx_etcd_http2.c) and
 * what nghttp2 calls (ngx_etcd_http2_session.c).  Of no use to others.
 */


#ifndef _NGX_ETCD_HTTP2_SESSION_H_INCLUDED_
#define _NGX_ETCD_HTTP2_SESSION_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_connection.h>
#include <ngx_etcd_http2_stream.h>


#define NGX_ETCD_HTTP2_SHOWN   48
#define NGX_ETCD_HTTP2_REASON  256


typedef enum {
    ngx_etcd_http2_connecting = 0,
    ngx_etcd_http2_handshake,       /* connected, SETTINGS are awaited */
    ngx_etcd_http2_ready,
    ngx_etcd_http2_draining,        /* no new streams */
    ngx_etcd_http2_closed           /* memory will be released */
} ngx_etcd_http2_state_e;


struct ngx_etcd_http2_s {
    ngx_etcd_http2_state_e   state;
    ngx_etcd_http2_conf_t    conf;

    ngx_pool_t              *pool;
    ngx_log_t                log;
    ngx_etcd_connection_t   *connection;
    nghttp2_session         *session;

    ngx_queue_t              streams;
    ngx_queue_t              ended;        /* failed, not yet closed */
    ngx_uint_t               nstreams;     /* in both */

    /* timeout of the handshake, then liveness */
    ngx_event_t              timer;
    ngx_msec_t               quiet;        /* nothing received since */
    ngx_msec_t               pinged;
    uint64_t                 ping_sent;    /* ngx_etcd_clock(): its content */

    ngx_event_t              work;
    ngx_event_t              release;

    /* the peer's first bytes, to tell what it is if it speaks no HTTP/2 */
    size_t                   nfirst;
    u_char                   first[NGX_ETCD_HTTP2_SHOWN];

    /* bytes received that carry nothing: see NGX_ETCD_HTTP2_OVERHEAD */
    ngx_msec_t               second;       /* of which they are counted */
    ssize_t                  overhead;
    size_t                   unheard;      /* DATA that may come until the peer
                                              hears of the resets */

    ngx_str_t                reason;
    u_char                   reason_buf[NGX_ETCD_HTTP2_REASON];

    unsigned                 settings:1;       /* SETTINGS arrived */
    unsigned                 goaway:1;         /* GOAWAY arrived */
    unsigned                 broken:1;         /* nghttp2 gave up */
    unsigned                 ping:1;           /* nothing came since a PING */
    unsigned                 pong:1;           /* the last one is answered */
    unsigned                 too_many_pings:1;
    unsigned                 disowned:1;       /* closed by the owner */
};


/* n of the bytes that are being received are no overhead */
void ngx_etcd_http2_payload(ngx_etcd_http2_t *h2, size_t n);

/* makes h2->session, with SETTINGS queued */
ngx_int_t ngx_etcd_http2_session_create(ngx_etcd_http2_t *h2);

/* sends what is queued and does what follows, later in this iteration */
void ngx_etcd_http2_post(ngx_etcd_http2_t *h2);

/* the first reason is the cause, what follows are consequences */
void ngx_etcd_http2_reason(ngx_etcd_http2_t *h2, const char *fmt, ...);


#endif /* _NGX_ETCD_HTTP2_SESSION_H_INCLUDED_ */
