
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Range of etcd's v3 API (KV), answered by any endpoint.
 */


#ifndef _NGX_ETCD_RANGE_H_INCLUDED_
#define _NGX_ETCD_RANGE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_unary.h>
#include <ngx_etcd_proto.pb-c.h>


typedef struct ngx_etcd_range_s  ngx_etcd_range_t;


/* one Range: an idempotent unary call */

struct ngx_etcd_range_s {
    /* set by the caller, the rest zeroed; bytes must stay until done() */

    ngx_etcd_cluster_t          *cluster;
    Etcd__RangeRequest           request;

    /*
     * Called once.  The response is NULL unless the status is OK.  It lives in
     * the pool, which the callee must destroy.
     */
    void                       (*done)(ngx_etcd_range_t *range,
                                       ngx_etcd_grpc_status_e status,
                                       ngx_str_t *text,
                                       Etcd__RangeResponse *response,
                                       ngx_pool_t *pool);
    void                        *data;

    /* private */

    ngx_etcd_unary_t             unary;
};

/* done() is never called before this returns */
void ngx_etcd_range_start(ngx_etcd_range_t *range);

/* done() is not called any more; does nothing if no call is running */
void ngx_etcd_range_cancel(ngx_etcd_range_t *range);


/*
 * Returns the range_end of all keys with the prefix, which must not be empty,
 * allocated from the pool.  A data of NULL: no memory.
 */
ngx_str_t ngx_etcd_range_prefix_end(ngx_pool_t *pool, ngx_str_t *prefix);


#endif /* _NGX_ETCD_RANGE_H_INCLUDED_ */
