
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_grpc_call.h>
#include <ngx_etcd_str.h>


typedef struct {
    ngx_str_t                text;
    ngx_etcd_grpc_status_e   status;
} ngx_etcd_grpc_status_text_t;


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


static ngx_etcd_grpc_status_text_t  ngx_etcd_grpc_status_texts[] = {

    { ngx_string("etcdserver: requested lease not found"),
      NGX_ETCD_GRPC_NOT_FOUND },

    { ngx_string("etcdserver: lease already exists"),
      NGX_ETCD_GRPC_FAILED_PRECONDITION },

    { ngx_string("etcdserver: mvcc: required revision has been compacted"),
      NGX_ETCD_GRPC_OUT_OF_RANGE },

    { ngx_string("etcdserver: mvcc: required revision is a future revision"),
      NGX_ETCD_GRPC_OUT_OF_RANGE },

    { ngx_string("etcdserver: mvcc: database space exceeded"),
      NGX_ETCD_GRPC_RESOURCE_EXHAUSTED },

    { ngx_string("etcdserver: too many requests"),
      NGX_ETCD_GRPC_RESOURCE_EXHAUSTED },

    { ngx_string("etcdserver: request is too large"),
      NGX_ETCD_GRPC_INVALID_ARGUMENT },

    { ngx_string("etcdserver: permission denied"),
      NGX_ETCD_GRPC_PERMISSION_DENIED },

    { ngx_string("etcdserver: invalid auth token"),
      NGX_ETCD_GRPC_UNAUTHENTICATED },

    { ngx_string("etcdserver: user name is empty"),
      NGX_ETCD_GRPC_INVALID_ARGUMENT },

    { ngx_string("etcdserver: revision of auth store is old"),
      NGX_ETCD_GRPC_INVALID_ARGUMENT },

    { ngx_null_string, NGX_ETCD_GRPC_UNKNOWN }
};


char *
ngx_etcd_grpc_status_name(ngx_etcd_grpc_status_e status)
{
    if (status > NGX_ETCD_GRPC_UNAUTHENTICATED) {
        status = NGX_ETCD_GRPC_UNKNOWN;
    }

    return ngx_etcd_grpc_status_names[status];
}


ngx_etcd_grpc_status_e
ngx_etcd_grpc_status_of(ngx_str_t *text)
{
    ngx_etcd_grpc_status_text_t  *known;

    for (known = ngx_etcd_grpc_status_texts; known->text.len != 0; known++) {
        if (ngx_etcd_str_equal(text, &known->text)) {
            break;
        }
    }

    return known->status;
}
