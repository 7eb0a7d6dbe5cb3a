
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_txn.h>


static void
ngx_etcd_txn_put(ngx_etcd_txn_t *txn)
{
    Etcd__PutRequest  *put;

    put = &txn->put;
    etcd__put_request__init(put);

    put->key = ngx_etcd_bytes(&txn->key);
    put->value = ngx_etcd_bytes(&txn->value);
    put->lease = txn->lease;

    etcd__request_op__init(&txn->success);

    txn->success.request_case = ETCD__REQUEST_OP__REQUEST_REQUEST_PUT;
    txn->success.request_put = put;

    txn->successes[0] = &txn->success;
    txn->request.success = txn->successes;
    txn->request.n_success = 1;
}


static void
ngx_etcd_txn_compare(ngx_etcd_txn_t *txn)
{
    Etcd__Compare  *compare;

    compare = &txn->compare;
    etcd__compare__init(compare);

    compare->result = ETCD__COMPARE__COMPARE_RESULT__EQUAL;
    compare->target = ETCD__COMPARE__COMPARE_TARGET__CREATE;
    compare->key = ngx_etcd_bytes(&txn->key);
    compare->target_union_case = ETCD__COMPARE__TARGET_UNION_CREATE_REVISION;
    compare->create_revision = txn->created;

    txn->compares[0] = compare;
    txn->request.compare = txn->compares;
    txn->request.n_compare = 1;
}


static void
ngx_etcd_txn_range(ngx_etcd_txn_t *txn)
{
    etcd__range_request__init(&txn->range);

    txn->range.key = ngx_etcd_bytes(&txn->key);

    etcd__request_op__init(&txn->failure);

    txn->failure.request_case = ETCD__REQUEST_OP__REQUEST_REQUEST_RANGE;
    txn->failure.request_range = &txn->range;

    txn->failures[0] = &txn->failure;
    txn->request.failure = txn->failures;
    txn->request.n_failure = 1;
}


static Etcd__KeyValue *
ngx_etcd_txn_found(Etcd__TxnResponse *response)
{
    Etcd__ResponseOp     *op;
    Etcd__RangeResponse  *range;

    if (response->succeeded || response->n_responses == 0) {
        return NULL;
    }

    op = response->responses[0];

    if (op->response_case != ETCD__RESPONSE_OP__RESPONSE_RESPONSE_RANGE) {
        return NULL;
    }

    range = op->response_range;

    return (range->n_kvs != 0) ? range->kvs[0] : NULL;
}


static void
ngx_etcd_txn_done(ngx_etcd_unary_t *unary, ngx_etcd_grpc_status_e status,
    ngx_str_t *text, ProtobufCMessage *response, ngx_pool_t *pool)
{
    int64_t             revision;
    ngx_str_t           failed;
    ngx_etcd_txn_t     *txn;
    Etcd__KeyValue     *kv;
    Etcd__TxnResponse  *answer;

    txn = unary->data;

    if (status != NGX_ETCD_GRPC_OK) {
        txn->done(txn, status, text, 0, 0, NULL);
        return;
    }

    answer = (Etcd__TxnResponse *) response;
    revision = (answer->header != NULL) ? answer->header->revision : 0;

    if (revision <= 0) {
        ngx_str_set(&failed, "the response could not be used");
        ngx_destroy_pool(pool);

        txn->done(txn, NGX_ETCD_GRPC_INTERNAL, &failed, 0, 0, NULL);
        return;
    }

    ngx_etcd_history_check(unary->cluster, answer->header, &unary->mark);

    kv = ngx_etcd_txn_found(answer);

    txn->done(txn, status, text, revision, answer->succeeded, kv);

    ngx_destroy_pool(pool);
}


void
ngx_etcd_txn_start(ngx_etcd_txn_t *txn)
{
    ngx_etcd_unary_t  *unary;

    etcd__txn_request__init(&txn->request);

    ngx_etcd_txn_put(txn);

    if (txn->created != NGX_ETCD_TXN_ALWAYS) {
        ngx_etcd_txn_compare(txn);
        ngx_etcd_txn_range(txn);
    }

    unary = &txn->unary;

    unary->cluster = txn->cluster;
    unary->method = "/etcdserverpb.KV/Txn";
    unary->name = "txn";
    unary->request = &txn->request.base;
    unary->response = &etcd__txn_response__descriptor;
    unary->idempotent = 1;
    unary->writes = 1;
    unary->done = ngx_etcd_txn_done;
    unary->data = txn;

    ngx_etcd_unary_start(unary);
}


void
ngx_etcd_txn_cancel(ngx_etcd_txn_t *txn)
{
    ngx_etcd_unary_cancel(&txn->unary);
}
