
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A Range (etcd's v3 API, KV), answered by the endpoint that the streams
 * channel is connected to.
 *
 * The request uses the connection that carries watches and lease renewals, so
 * an answer, or its absence, is evidence about this endpoint.  It is sent once.
 * Use ngx_etcd_range_t if any endpoint may answer.
 *
 * etcd answers a linearizable Range after a quorum has confirmed to the raft
 * leader that it still leads (ReadIndex; Ongaro's thesis, 6.4), and after the
 * endpoint has applied all entries that were committed before.  An endpoint
 * that cannot reach the quorum, or cannot apply, does not answer.
 */


#ifndef _NGX_ETCD_KV_H_INCLUDED_
#define _NGX_ETCD_KV_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_history.h>
#include <ngx_etcd_proto.pb-c.h>
#include <ngx_etcd_unary.h>


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


/*
 * Range of etcd's v3 API (KV), answered by any endpoint.
 */

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
 * Makes the key as in etcd, behind the namespace, allocated from the pool.  It
 * is followed by a zero byte, with which it is the range_end of this key alone.
 */
ngx_int_t ngx_etcd_kv_key(ngx_str_t *full, ngx_pool_t *pool,
    ngx_str_t *key_namespace, ngx_str_t *key);

/*
 * Returns the range_end of all keys with the prefix, which must not be empty,
 * allocated from the pool.  A data of NULL: no memory.
 */
ngx_str_t ngx_etcd_range_prefix_end(ngx_pool_t *pool, ngx_str_t *prefix);


/*
 * Txn of etcd's v3 API (KV), as keys of leases need it: puts one key if its
 * create revision is the expected one, and reads it otherwise.
 */

#define NGX_ETCD_TXN_ALWAYS  -1
#define NGX_ETCD_TXN_NEVER   -2


typedef struct ngx_etcd_txn_s  ngx_etcd_txn_t;

struct ngx_etcd_txn_s {
    /* set by the caller, the rest zeroed; bytes must stay until done() */

    ngx_etcd_cluster_t       *cluster;
    ngx_str_t                 key;             /* with the namespace */
    ngx_str_t                 value;
    int64_t                   lease;
    int64_t                   created;         /* the create revision that the
                                                  key must have; 0: no such key;
                                                  ALWAYS; or NEVER: nothing is
                                                  put, but etcd refuses who may
                                                  not */

    /*
     * Called once.  With OK, the revision is that of the answer's header, and
     * "put" tells whether the key was put.  If not, kv is its current state, or
     * NULL if there is no such key.
     */
    void                    (*done)(ngx_etcd_txn_t *txn,
                                    ngx_etcd_grpc_status_e status,
                                    ngx_str_t *text, int64_t revision,
                                    ngx_uint_t put, Etcd__KeyValue *kv);
    void                     *data;

    /* private */

    ngx_etcd_unary_t          unary;
    Etcd__TxnRequest          request;
    Etcd__Compare             compare;
    Etcd__RequestOp           success;
    Etcd__RequestOp           failure;
    Etcd__PutRequest          put;
    Etcd__RangeRequest        range;
    Etcd__Compare            *compares[1];
    Etcd__RequestOp          *successes[1];
    Etcd__RequestOp          *failures[1];
};


/*
 * Repeated until it is answered, which is safe: a second attempt puts the same
 * again, or finds the key that the first one has put.
 */
void ngx_etcd_txn_start(ngx_etcd_txn_t *txn);

/*
 * done() is not called any more; does nothing if no call is running.  A request
 * that was sent may still be processed.
 */
void ngx_etcd_txn_cancel(ngx_etcd_txn_t *txn);


#endif /* _NGX_ETCD_KV_H_INCLUDED_ */
