
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Status codes of gRPC.
 */


#ifndef _NGX_ETCD_GRPC_STATUS_H_INCLUDED_
#define _NGX_ETCD_GRPC_STATUS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


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


#endif /* _NGX_ETCD_GRPC_STATUS_H_INCLUDED_ */
