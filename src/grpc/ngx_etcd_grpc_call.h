
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A gRPC call as its caller sees it.
 */


#ifndef _NGX_ETCD_GRPC_CALL_H_INCLUDED_
#define _NGX_ETCD_GRPC_CALL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_message.h>


/*
 * Status codes of gRPC.
 */

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


/*
 * Returns the status that an error of etcd with this text has.  "etcd
 * grpc-proxy" passes most errors on with the same text, and the status UNKNOWN.
 * UNKNOWN: etcd has no such error, or its status makes no difference.
 */
ngx_etcd_grpc_status_e ngx_etcd_grpc_status_of(ngx_str_t *text);

/* Returns "unavailable", "permission denied" and so on, for logs. */
char *ngx_etcd_grpc_status_name(ngx_etcd_grpc_status_e status);


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
    unsigned                            brief:1;  /* no data is under way when
                                                     it is cancelled */

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


#endif /* _NGX_ETCD_GRPC_CALL_H_INCLUDED_ */
