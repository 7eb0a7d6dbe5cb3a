
/*
 * Copyright (C) nginx-etcd contributors
 *
 * gRPC calls over an HTTP/2 connection: unary and bidirectional streaming,
 * with deadline, cancellation, status, and incremental message framing.
 */


#ifndef _NGX_ETCD_GRPC_H_INCLUDED_
#define _NGX_ETCD_GRPC_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_grpc_call.h>
#include <ngx_etcd_http2.h>


/*
 * Starts a call on a usable connection.  On NGX_ERROR the call was not
 * started and done() will not be called.  No handler is called before this
 * function returns.  The deadline is sent as grpc-timeout and enforced by a
 * local timer too.
 */
ngx_int_t ngx_etcd_grpc_start(ngx_etcd_http2_t *h2, ngx_etcd_grpc_call_t *call);

/*
 * Queues one message; may be called right after the start, and repeatedly for
 * a streaming call.  The message is packed before this function returns.
 * NGX_ERROR: no memory, or the call has ended or is half-closed.
 */
ngx_int_t ngx_etcd_grpc_send(ngx_etcd_grpc_call_t *call,
    ProtobufCMessage *message);

/*
 * Half-closes the stream after the queued messages.  A unary call is
 * half-closed after its message.
 */
void ngx_etcd_grpc_end(ngx_etcd_grpc_call_t *call);

/*
 * While a call is held, the peer soon stops to send messages; those that are
 * under way are still delivered.  Has no effect on an ended call.
 */
void ngx_etcd_grpc_hold(ngx_etcd_grpc_call_t *call, ngx_uint_t hold);

/*
 * Ends the call with RST_STREAM(CANCEL).  done() is not called, and the
 * transport does not access the call afterwards.  Has no effect on an ended
 * call.
 */
void ngx_etcd_grpc_cancel(ngx_etcd_grpc_call_t *call);


/*
 * Starts a call of one message, which is sent, and half-closes it.  NGX_ERROR
 * is as of ngx_etcd_grpc_start().
 */

static ngx_inline ngx_int_t
ngx_etcd_grpc_request(ngx_etcd_http2_t *h2, ngx_etcd_grpc_call_t *call,
    ProtobufCMessage *message)
{
    if (ngx_etcd_grpc_start(h2, call) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_etcd_grpc_send(call, message) != NGX_OK) {
        ngx_etcd_grpc_cancel(call);
        return NGX_ERROR;
    }

    ngx_etcd_grpc_end(call);

    return NGX_OK;
}


#endif /* _NGX_ETCD_GRPC_H_INCLUDED_ */
