
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The nghttp2 session of a connection, and its callbacks.  Private to
 * ngx_etcd_http2.c.
 */


#ifndef _NGX_ETCD_HTTP2_SESSION_H_INCLUDED_
#define _NGX_ETCD_HTTP2_SESSION_H_INCLUDED_


#include <nghttp2/nghttp2.h>

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_connection.h>
#include <ngx_etcd_http2_conf.h>


/*
 * The state of an HTTP/2 connection, shared by its parts: its lifetime
 * (ngx_etcd_http2.c), the callbacks of nghttp2 (ngx_etcd_http2_session.c),
 * and streams (ngx_etcd_http2_session.c).  Private to these files.
 */

#define NGX_ETCD_HTTP2_SHOWN   48
#define NGX_ETCD_HTTP2_REASON  256


typedef enum {
    ngx_etcd_http2_connecting = 0,
    ngx_etcd_http2_handshake,       /* connected, SETTINGS awaited */
    ngx_etcd_http2_ready,
    ngx_etcd_http2_draining,        /* no new streams */
    ngx_etcd_http2_closed           /* memory is to be released */
} ngx_etcd_http2_state_e;


typedef struct {
    ngx_msec_t               input;        /* last time of any */
    ngx_msec_t               sent;
    uint64_t                 clock;        /* ngx_etcd_clock() in the PING */
    unsigned                 waiting:1;    /* nothing received since then */
    unsigned                 answered:1;   /* the last one was */
    unsigned                 refused:1;    /* the peer got too many */
} ngx_etcd_http2_ping_t;


/* overhead received, see NGX_ETCD_HTTP2_OVERHEAD */

typedef struct {
    ngx_msec_t               second;       /* start of the current second */
    ssize_t                  bytes;
    size_t                   unheard;      /* DATA in flight on reset
                                              streams */
} ngx_etcd_http2_overhead_t;


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
    ngx_etcd_http2_ping_t    ping;

    ngx_event_t              work;
    ngx_event_t              release;

    /* the peer's first bytes, to be logged if the peer speaks no HTTP/2 */
    size_t                   nfirst;
    u_char                   first[NGX_ETCD_HTTP2_SHOWN];

    ngx_etcd_http2_overhead_t  overhead;

    ngx_str_t                reason;
    u_char                   reason_buf[NGX_ETCD_HTTP2_REASON];

    unsigned                 settings:1;       /* SETTINGS arrived */
    unsigned                 goaway:1;         /* GOAWAY arrived */
    unsigned                 broken:1;         /* nghttp2 failed fatally */
    unsigned                 answer:1;         /* payload is being received */
    unsigned                 disowned:1;       /* closed by the owner */
    unsigned                 patient:1;        /* "patience" has begun */
    unsigned                 late:1;           /* and is over */
};


/*
 * Sends queued frames and handles ended streams later in this iteration of
 * the event loop.
 */
void ngx_etcd_http2_state_post(ngx_etcd_http2_t *h2);

/* Sets the reason unless one is set: the first one is the cause. */
void ngx_etcd_http2_state_reason(ngx_etcd_http2_t *h2, const char *fmt, ...);

/* Returns 1 if a new stream would be accepted. */
ngx_uint_t ngx_etcd_http2_state_usable(ngx_etcd_http2_t *h2);


/*
 * Streams of an HTTP/2 connection.  Private to the transport.
 */

/* limit of one header block, counted as in RFC 9113, section 6.5.2 */
#define NGX_ETCD_HTTP2_HEADERS_SIZE   65536
#define NGX_ETCD_HTTP2_STREAM_WINDOW  (4 * 1024 * 1024)


typedef struct ngx_etcd_http2_stream_s  ngx_etcd_http2_stream_t;


/*
 * Handlers are called while nghttp2 is running: a handler may only open,
 * reset and resume streams and close the connection.  All of these functions
 * defer their work.
 */

typedef struct {
    /*
     * begin(), header() and end() report a header block: 1xx, response,
     * trailers
     */
    void      (*begin)(ngx_etcd_http2_stream_t *stream);
    void      (*header)(ngx_etcd_http2_stream_t *stream, ngx_str_t *name,
                        ngx_str_t *value);
    void      (*end)(ngx_etcd_http2_stream_t *stream, ngx_uint_t last);

    void      (*data)(ngx_etcd_http2_stream_t *stream, u_char *p, size_t n);

    /* the peer ended its side with a DATA frame */
    void      (*last)(ngx_etcd_http2_stream_t *stream);

    /*
     * Puts up to size bytes to be sent into buf and returns their number, or
     * NGX_AGAIN when there are none until ngx_etcd_http2_stream_resume().
     * *last is set to 1 when nothing will follow.
     */
    ssize_t   (*read)(ngx_etcd_http2_stream_t *stream, u_char *buf,
                      size_t size, ngx_uint_t *last);

    /* the stream was closed with this error code; free() follows */
    void      (*closed)(ngx_etcd_http2_stream_t *stream, uint32_t code);

    /* the stream will receive nothing more; free() follows later */
    void      (*failed)(ngx_etcd_http2_stream_t *stream, ngx_str_t *reason);

    void      (*free)(ngx_etcd_http2_stream_t *stream);
} ngx_etcd_http2_stream_handlers_t;


struct ngx_etcd_http2_stream_s {
    ngx_queue_t                              queue;
    ngx_etcd_http2_t                        *h2;
    const ngx_etcd_http2_stream_handlers_t  *handlers;

    int32_t                                  id;
    size_t                                   header_size;
    ngx_uint_t                               nblocks;      /* of headers */

    /* HEADERS of the request were sent: the peer may know the stream */
    unsigned                                 sent:1;
    unsigned                                 brief:1;      /* see reset() */
    unsigned                                 deferred:1;
    unsigned                                 local_ended:1;
    unsigned                                 remote_ended:1;
};


/*
 * Opens a stream on a usable connection.  The caller sets the handlers, owns
 * the memory until free(), and zeroes all other fields.  On NGX_ERROR no
 * handler is called.
 */
ngx_int_t ngx_etcd_http2_stream_open(ngx_etcd_http2_t *h2,
    ngx_etcd_http2_stream_t *stream, nghttp2_nv *headers, size_t n);

/* Makes read() be called again after NGX_AGAIN. */
void ngx_etcd_http2_stream_resume(ngx_etcd_http2_stream_t *stream);

/*
 * Holds the stream: the peer may send what is left of the stream's window, and
 * goes on with the rest when the stream is no longer held.
 */
void ngx_etcd_http2_stream_hold(ngx_etcd_http2_stream_t *stream,
    ngx_uint_t hold);

/*
 * Has no effect on a stream that both sides have ended: closed() follows.  What
 * was under way is no overhead, up to the window of the stream; nothing is,
 * for a brief stream.
 */
void ngx_etcd_http2_stream_reset(ngx_etcd_http2_stream_t *stream,
    uint32_t code);


/* Creates h2->session and queues SETTINGS. */
ngx_int_t ngx_etcd_http2_session_create(ngx_etcd_http2_t *h2);


#endif /* _NGX_ETCD_HTTP2_SESSION_H_INCLUDED_ */
