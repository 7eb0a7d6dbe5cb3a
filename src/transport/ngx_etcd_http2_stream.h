
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Streams of an HTTP/2 connection: what the transport's own files share.
 */


#ifndef _NGX_ETCD_HTTP2_STREAM_H_INCLUDED_
#define _NGX_ETCD_HTTP2_STREAM_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_http2.h>
#include <nghttp2/nghttp2.h>


/* what a peer may spend on one header block, counted as HTTP/2 does */
#define NGX_ETCD_HTTP2_HEADERS_SIZE  65536


typedef struct ngx_etcd_http2_stream_s  ngx_etcd_http2_stream_t;


/*
 * Called while nghttp2 is at work, so no handler may do more than open, reset
 * and resume streams and close the connection: all of these only take note.
 */

typedef struct {
    /* a header block: 1xx, the response's or the trailers */
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

    /* it was closed with this error code; free() follows */
    void      (*closed)(ngx_etcd_http2_stream_t *stream, uint32_t code);

    /* nothing will come any more; free() follows later */
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

    /* the request's HEADERS went out: the peer may know of it */
    unsigned                                 sent:1;
    unsigned                                 deferred:1;
    unsigned                                 local_ended:1;
    unsigned                                 remote_ended:1;
};


/*
 * Opens a stream on a usable connection; the caller has set its handlers,
 * keeps its memory and zeroes the rest.  Nothing is called on NGX_ERROR.
 */
ngx_int_t ngx_etcd_http2_stream_open(ngx_etcd_http2_t *h2,
    ngx_etcd_http2_stream_t *stream, nghttp2_nv *headers, size_t n);

/* there is something to read again */
void ngx_etcd_http2_stream_resume(ngx_etcd_http2_stream_t *stream);

/* a stream that both sides have ended is left alone; closed() follows */
void ngx_etcd_http2_stream_reset(ngx_etcd_http2_stream_t *stream,
    uint32_t code);

ngx_etcd_http2_conf_t *ngx_etcd_http2_conf(ngx_etcd_http2_t *h2);
ngx_log_t *ngx_etcd_http2_log(ngx_etcd_http2_t *h2);


#endif /* _NGX_ETCD_HTTP2_STREAM_H_INCLUDED_ */
