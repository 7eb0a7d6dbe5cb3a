
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_grpc_status.h>


static char  *ngx_etcd_grpc_status_names[] = {
    "ok",
    "cancelled",
    "unknown",
    "invalid argument",
    "deadline exceeded",
    "not found",
    "already exists",
    "permission denied",
    "resource exhausted",
    "failed precondition",
    "aborted",
    "out of range",
    "unimplemented",
    "internal",
    "unavailable",
    "data loss",
    "unauthenticated"
};


char *
ngx_etcd_grpc_status_name(ngx_etcd_grpc_status_e status)
{
    if (status > NGX_ETCD_GRPC_UNAUTHENTICATED) {
        status = NGX_ETCD_GRPC_UNKNOWN;
    }

    return ngx_etcd_grpc_status_names[status];
}
