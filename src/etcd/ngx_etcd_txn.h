
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Txn of etcd's v3 API (KV), as keys of leases need it: puts one key if its
 * create revision is the expected one, and reads it otherwise.
 */


#ifndef _NGX_ETCD_TXN_H_INCLUDED_
#define _NGX_ETCD_TXN_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_unary.h>
#include <ngx_etcd_proto.pb-c.h>


#define NGX_ETCD_TXN_ALWAYS  -1


typedef struct ngx_etcd_txn_s  ngx_etcd_txn_t;

struct ngx_etcd_txn_s {
    /* set by the caller, the rest zeroed; bytes must stay until done() */

    ngx_etcd_cluster_t       *cluster;
    ngx_str_t                 key;             /* with the namespace */
    ngx_str_t                 value;
    int64_t                   lease;
    int64_t                   created;         /* the create revision that the
                                                  key must have; 0: no such key;
                                                  or ALWAYS */

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


#endif /* _NGX_ETCD_TXN_H_INCLUDED_ */
