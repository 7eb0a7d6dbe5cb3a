
/*
 * Copyright (C) nginx-etcd contributors
 *
 * One call of grpc.health.v1.Health/Check, on a connection of its own.
 */


#ifndef _NGX_ETCD_CHECK_GRPC_H_INCLUDED_
#define _NGX_ETCD_CHECK_GRPC_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_check_result.h>
#include <ngx_etcd_grpc.h>
#include <ngx_etcd_proto.pb-c.h>


typedef struct {
    /* set by the caller, the rest zeroed */

    ngx_etcd_check_conf_t     *conf;
    ngx_addr_t                 addr;
    ngx_log_t                 *log;

    /*
     * Called once, from the event loop.  The text says more about a failure,
     * may have any bytes, and is valid in there only.
     */
    void                     (*done)(void *data,
                                     ngx_etcd_check_result_e result,
                                     ngx_uint_t status, ngx_str_t *text);
    void                      *data;

    /* private */

    ngx_etcd_http2_t          *h2;
    ngx_etcd_grpc_call_t       call;
    Etcd__HealthCheckRequest   request;
    ngx_event_t                timer;
    ngx_event_t                ended;        /* posted: done() is due */
    ngx_uint_t                 connected;    /* over TLS if it is to be */
    ngx_uint_t                 answered;
    ngx_int_t                  serving;      /* the status of the answer */
    ngx_etcd_check_result_e    result;
    ngx_uint_t                 status;
    size_t                     len;          /* of the text */
    u_char                     bytes[128];
} ngx_etcd_check_grpc_t;


void ngx_etcd_check_grpc_start(ngx_etcd_check_grpc_t *grpc);

/* May be called at any time: done() is not called any more. */
void ngx_etcd_check_grpc_cancel(ngx_etcd_check_grpc_t *grpc);


#endif /* _NGX_ETCD_CHECK_GRPC_H_INCLUDED_ */
