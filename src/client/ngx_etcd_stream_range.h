
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A Range by the endpoint that the streams channel is connected to.
 *
 * The request goes over the connection that carries watches and renewals of
 * leases, so its answer, or its want, is evidence of that very endpoint.  It is
 * sent once; ngx_etcd_range_t (ngx_etcd_list.h) is for what any endpoint may
 * answer.
 */


#ifndef _NGX_ETCD_STREAM_RANGE_H_INCLUDED_
#define _NGX_ETCD_STREAM_RANGE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_history.h>


typedef struct ngx_etcd_stream_range_s  ngx_etcd_stream_range_t;

struct ngx_etcd_stream_range_s {
    /* set by the caller, the rest zeroed */

    ngx_etcd_cluster_t          *cluster;
    ngx_msec_t                   timeout;      /* 0: the caller cancels it */

    /*
     * Called once, and may start the next Range.  The response is valid until
     * the handler returns, and NULL unless the status is OK.
     */
    void                       (*done)(ngx_etcd_stream_range_t *range,
                                       ngx_etcd_grpc_status_e status,
                                       ngx_str_t *text,
                                       Etcd__RangeResponse *response);
    void                        *data;

    /*
     * valid in done(): it failed for want of a valid token, and may be started
     * again when ngx_etcd_auth_wait() says so
     */
    unsigned                     refused:1;

    /* private but for running */

    unsigned                     running:1;
    unsigned                     serializable:1;
    ngx_uint_t                   token;        /* its generation */
    ngx_etcd_grpc_call_t         call;
    ngx_etcd_history_mark_t      mark;
    Etcd__RangeResponse         *response;
    ngx_pool_t                  *pool;
};


/*
 * The request need not stay.  done() is not called before this returns.  The
 * header of a linearizable answer goes to ngx_etcd_history_check() first.
 * NGX_DECLINED: not now, for want of a connection or a token; done() is not
 * called.
 */
ngx_int_t ngx_etcd_stream_range_start(ngx_etcd_stream_range_t *range,
    Etcd__RangeRequest *request);

/* done() is not called any more; does nothing where none is running */
void ngx_etcd_stream_range_cancel(ngx_etcd_stream_range_t *range);


#endif /* _NGX_ETCD_STREAM_RANGE_H_INCLUDED_ */
