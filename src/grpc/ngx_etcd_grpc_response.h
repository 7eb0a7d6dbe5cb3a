
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The response of a gRPC call: header blocks, status, and messages.  Messages
 * are independent of the bounds of DATA frames.  Private to ngx_etcd_grpc.c.
 */


#ifndef _NGX_ETCD_GRPC_RESPONSE_H_INCLUDED_
#define _NGX_ETCD_GRPC_RESPONSE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_grpc_call.h>
#include <ngx_etcd_grpc_stream.h>


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
