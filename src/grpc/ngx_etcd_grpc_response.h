
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The HTTP/2 stream of a gRPC call, and the response: header blocks, status,
 * and messages, which are independent of the bounds of DATA frames.  Private to
 * ngx_etcd_grpc.c, which sends the request.
 */


#ifndef _NGX_ETCD_GRPC_RESPONSE_H_INCLUDED_
#define _NGX_ETCD_GRPC_RESPONSE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_grpc_call.h>
#include <ngx_etcd_http2.h>
#include <ngx_etcd_http2_session.h>
#include <ngx_etcd_message.h>


/* length-prefixed message: compressed flag and 4 bytes of length */
#define NGX_ETCD_GRPC_PREFIX  5

/* a longer grpc-message is truncated */
#define NGX_ETCD_GRPC_TEXT    512
#define NGX_ETCD_GRPC_TYPE    64


/* the values of one header block */

typedef struct {
    ngx_uint_t                 http_status;    /* 0: no ":status" */
    ngx_uint_t                 grpc_status;

    size_t                     text_len;
    size_t                     type_len;
    u_char                     text[NGX_ETCD_GRPC_TEXT];
    u_char                     type[NGX_ETCD_GRPC_TYPE];

    unsigned                   has_status:1;
    unsigned                   grpc_type:1;    /* application/grpc */
} ngx_etcd_grpc_headers_t;


/* the message that is being received */

typedef struct {
    u_char                     prefix[NGX_ETCD_GRPC_PREFIX];
    size_t                     nprefix;

    size_t                     len;            /* announced length */
    size_t                     got;            /* bytes received */
    ngx_etcd_message_owned_t   buf;            /* no data: none */
} ngx_etcd_grpc_body_t;


struct ngx_etcd_grpc_stream_s {
    ngx_etcd_http2_stream_t    http2;          /* must be first: the base */

    ngx_etcd_grpc_call_t      *call;           /* NULL: the call has ended */
    ngx_event_t                deadline;

    ngx_queue_t                out;            /* packed messages */

    ngx_uint_t                 http_status;    /* of the response */
    ngx_etcd_grpc_headers_t    headers;
    ngx_etcd_grpc_body_t       body;

    unsigned                   half_closed:1;  /* nothing more to queue */
};


/*
 * Separates the call, which must not have ended, from its stream; returns the
 * call.
 */
ngx_etcd_grpc_call_t *ngx_etcd_grpc_stream_detach(
    ngx_etcd_grpc_stream_t *stream);

/*
 * Ends the call unless the call has ended; calls done() last.  A stream that
 * the peer has not closed is reset.
 */
void ngx_etcd_grpc_stream_finish(ngx_etcd_grpc_stream_t *stream,
    ngx_etcd_grpc_status_e status, const char *fmt, ...);


/* the handlers of ngx_etcd_http2_stream_handlers_t for gRPC */

void ngx_etcd_grpc_response_begin(ngx_etcd_http2_stream_t *h2s);
void ngx_etcd_grpc_response_header(ngx_etcd_http2_stream_t *h2s,
    ngx_str_t *name, ngx_str_t *value);
void ngx_etcd_grpc_response_end(ngx_etcd_http2_stream_t *h2s,
    ngx_uint_t last);
void ngx_etcd_grpc_response_data(ngx_etcd_http2_stream_t *h2s, u_char *p,
    size_t n);
void ngx_etcd_grpc_response_last(ngx_etcd_http2_stream_t *h2s);

/*
 * Frees the partly received message; clears the memory first if the call is
 * marked as secret.
 */
void ngx_etcd_grpc_response_free(ngx_etcd_grpc_stream_t *stream);


#endif /* _NGX_ETCD_GRPC_RESPONSE_H_INCLUDED_ */
