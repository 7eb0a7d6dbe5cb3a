
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
#include <ngx_etcd_http2.h>
#include <protobuf-c/protobuf-c.h>


/* sent in "user-agent" */
#define NGX_ETCD_VERSION  "0.1.0"


typedef enum {
    NGX_ETCD_GRPC_OK = 0,
    NGX_ETCD_GRPC_CANCELLED,
    NGX_ETCD_GRPC_UNKNOWN,
    NGX_ETCD_GRPC_INVALID_ARGUMENT,
    NGX_ETCD_GRPC_DEADLINE_EXCEEDED,
    NGX_ETCD_GRPC_NOT_FOUND,
    NGX_ETCD_GRPC_ALREADY_EXISTS,
    NGX_ETCD_GRPC_PERMISSION_DENIED,
    NGX_ETCD_GRPC_RESOURCE_EXHAUSTED,
    NGX_ETCD_GRPC_FAILED_PRECONDITION,
    NGX_ETCD_GRPC_ABORTED,
    NGX_ETCD_GRPC_OUT_OF_RANGE,
    NGX_ETCD_GRPC_UNIMPLEMENTED,
    NGX_ETCD_GRPC_INTERNAL,
    NGX_ETCD_GRPC_UNAVAILABLE,
    NGX_ETCD_GRPC_DATA_LOSS,
    NGX_ETCD_GRPC_UNAUTHENTICATED
} ngx_etcd_grpc_status_e;


typedef struct ngx_etcd_grpc_call_s  ngx_etcd_grpc_call_t;
typedef struct ngx_etcd_grpc_stream_s  ngx_etcd_grpc_stream_t;


/*
 * A message arrived, unpacked into the pool.  The handler's result decides
 * about the pool:
 *     NGX_OK     the caller destroys the pool,
 *     NGX_DONE   the handler keeps the pool and destroys it later,
 *     NGX_ERROR  the caller destroys the pool and ends the call with INTERNAL.
 */
typedef ngx_int_t (*ngx_etcd_grpc_message_pt)(ngx_etcd_grpc_call_t *call,
    ProtobufCMessage *message, ngx_pool_t *pool);

/*
 * The call has ended.  The transport does not access the call afterwards: the
 * handler may reuse or free its memory.  The text is the peer's grpc-message,
 * percent-decoded, or a local reason; the text is valid during the handler
 * only and may contain any byte.
 */
typedef void (*ngx_etcd_grpc_done_pt)(ngx_etcd_grpc_call_t *call,
    ngx_etcd_grpc_status_e status, ngx_str_t *text);


/*
 * The caller owns the memory of the call, which must stay valid from
 * ngx_etcd_grpc_start() until done() or ngx_etcd_grpc_cancel().
 */
struct ngx_etcd_grpc_call_s {
    /* set by the caller; all other fields must be zero */

    char                               *method;   /* "/etcdserverpb.KV/Range" */
    const ProtobufCMessageDescriptor   *response;
    ngx_msec_t                          timeout;  /* 0: no deadline */
    ngx_keyval_t                       *metadata; /* lower-case names */
    ngx_uint_t                          nmetadata;
    ngx_etcd_grpc_message_pt            message;
    ngx_etcd_grpc_done_pt               done;
    void                               *data;
    unsigned                            secret:1; /* clear received data when
                                                     freed */

    /*
     * Valid in done(): the peer provably did not process the call (the
     * request was not sent, REFUSED_STREAM, or an id above the last one of
     * GOAWAY), so that even a write may be retried.
     */
    unsigned                            unprocessed:1;

    /*
     * Valid in done(): a message was longer than max_message_size or had too
     * many parts (ngx_etcd_message.h).
     */
    unsigned                            oversize:1;

    /* private to the transport */

    ngx_etcd_grpc_stream_t             *stream;
};


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
 * Ends the call with RST_STREAM(CANCEL).  done() is not called, and the
 * transport does not access the call afterwards.  Has no effect on an ended
 * call.
 */
void ngx_etcd_grpc_cancel(ngx_etcd_grpc_call_t *call);

/* Returns "unavailable", "permission denied" and so on, for logs. */
char *ngx_etcd_grpc_status_name(ngx_etcd_grpc_status_e status);


#endif /* _NGX_ETCD_GRPC_H_INCLUDED_ */
