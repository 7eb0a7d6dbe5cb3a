
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A Range (etcd's v3 API, KV), answered by the endpoint that the streams
 * channel is connected to.
 *
 * The request uses the connection that carries watches and lease renewals, so
 * an answer, or its absence, is evidence about this endpoint.  It is sent once.
 * Use ngx_etcd_range_t (ngx_etcd_range.h) if any endpoint may answer.
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
    ngx_msec_t                   timeout;      /* ms; 0: no deadline */

    /*
     * Called once, and may start the next Range.  The response is NULL unless
     * the status is OK, and valid until the handler returns.
     */
    void                       (*done)(ngx_etcd_stream_range_t *range,
                                       ngx_etcd_grpc_status_e status,
                                       ngx_str_t *text,
                                       Etcd__RangeResponse *response);
    void                        *data;

    /*
     * Valid in done(): the call failed for lack of a valid token, and may be
     * started again when ngx_etcd_auth_wait() calls the waiter.
     */
    unsigned                     refused:1;

    /* private but for running */

    unsigned                     running:1;
    unsigned                     serializable:1;
    ngx_uint_t                   token;        /* token's generation */
    ngx_etcd_grpc_call_t         call;
    ngx_etcd_history_mark_t      mark;
    Etcd__RangeResponse         *response;
    ngx_pool_t                  *pool;
};


/*
 * The request need not stay.  done() is not called before this returns.  The
 * header of a linearizable answer is passed to ngx_etcd_history_check() before
 * done().  NGX_DECLINED: no connection or no token now; done() is not called.
 */
ngx_int_t ngx_etcd_stream_range_start(ngx_etcd_stream_range_t *range,
    Etcd__RangeRequest *request);

/* done() is not called any more; does nothing if no call is running */
void ngx_etcd_stream_range_cancel(ngx_etcd_stream_range_t *range);


#endif /* _NGX_ETCD_STREAM_RANGE_H_INCLUDED_ */
