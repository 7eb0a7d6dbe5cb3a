
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The state of an HTTP/2 connection, shared by its parts: its lifetime
 * (ngx_etcd_http2.c), the callbacks of nghttp2 (ngx_etcd_http2_session.c),
 * and streams (ngx_etcd_http2_stream.c).  Private to these files.
 */


#ifndef _NGX_ETCD_HTTP2_STATE_H_INCLUDED_
#define _NGX_ETCD_HTTP2_STATE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_connection.h>
#include <ngx_etcd_http2_conf.h>
#include <nghttp2/nghttp2.h>


#define NGX_ETCD_HTTP2_SHOWN   48
#define NGX_ETCD_HTTP2_REASON  256


typedef enum {
    ngx_etcd_http2_connecting = 0,
    ngx_etcd_http2_handshake,       /* connected, SETTINGS awaited */
    ngx_etcd_http2_ready,
    ngx_etcd_http2_draining,        /* no new streams */
    ngx_etcd_http2_closed           /* memory is to be released */
} ngx_etcd_http2_state_e;


struct ngx_etcd_http2_s {
    ngx_etcd_http2_state_e   state;
    ngx_etcd_http2_conf_t    conf;

    ngx_pool_t              *pool;
    ngx_log_t                log;
    ngx_etcd_connection_t   *connection;
    nghttp2_session         *session;

    ngx_queue_t              streams;
    ngx_queue_t              ended;        /* failed, not closed yet */
    ngx_uint_t               nstreams;     /* in both queues */

    /* connect_timeout, then PINGs */
    ngx_event_t              timer;
    ngx_msec_t               quiet;        /* last time of input */
    ngx_msec_t               pinged;
    uint64_t                 ping_sent;    /* ngx_etcd_clock() in the PING */

    ngx_event_t              work;
    ngx_event_t              release;

    /* the peer's first bytes, to be logged if the peer speaks no HTTP/2 */
    size_t                   nfirst;
    u_char                   first[NGX_ETCD_HTTP2_SHOWN];

    /* overhead received, see NGX_ETCD_HTTP2_OVERHEAD */
    ngx_msec_t               second;       /* start of the current second */
    ssize_t                  overhead;
    size_t                   unheard;      /* DATA in flight on reset
                                              streams */

    ngx_str_t                reason;
    u_char                   reason_buf[NGX_ETCD_HTTP2_REASON];

    unsigned                 settings:1;       /* SETTINGS arrived */
    unsigned                 goaway:1;         /* GOAWAY arrived */
    unsigned                 broken:1;         /* nghttp2 failed fatally */
    unsigned                 ping:1;           /* nothing received since the
                                                  PING */
    unsigned                 pong:1;           /* the last PING was answered */
    unsigned                 answer:1;         /* payload is being received */
    unsigned                 too_many_pings:1;
    unsigned                 disowned:1;       /* closed by the owner */
};


/* Counts n of the bytes being received as payload: parts of an answer. */
void ngx_etcd_http2_state_payload(ngx_etcd_http2_t *h2, size_t n);

/*
 * Sends queued frames and handles ended streams later in this iteration of
 * the event loop.
 */
void ngx_etcd_http2_state_post(ngx_etcd_http2_t *h2);

/* Sets the reason unless one is set: the first one is the cause. */
void ngx_etcd_http2_state_reason(ngx_etcd_http2_t *h2, const char *fmt, ...);

/* Returns 1 if a new stream would be accepted. */
ngx_uint_t ngx_etcd_http2_state_usable(ngx_etcd_http2_t *h2);


#endif /* _NGX_ETCD_HTTP2_STATE_H_INCLUDED_ */
