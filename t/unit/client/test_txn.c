
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_kv.h>
#include <ngx_etcd_txn_batch.h>
#include "test_etcd.h"


#define TEST_TXN_OPS  200


static struct {
    ngx_etcd_txn_t         txn;
    ngx_etcd_txn_batch_t   batch;
    ngx_etcd_txn_op_t      ops[TEST_TXN_OPS];
    u_char                 keys[TEST_TXN_OPS][8];
    ngx_uint_t             done[TEST_TXN_OPS];
    int64_t                revision;
    ngx_uint_t             put;
    int64_t                found;        /* create revision of the key */
} test_txn_state;


static void
test_txn_done(ngx_etcd_txn_t *txn, ngx_etcd_grpc_status_e status,
    ngx_str_t *text, int64_t revision, ngx_uint_t put, Etcd__KeyValue *kv)
{
    test_etcd_done(status, text);

    test_txn_state.revision = revision;
    test_txn_state.put = put;
    test_txn_state.found = (kv != NULL) ? kv->create_revision : -1;
}


static void
test_txn_op_done(ngx_etcd_txn_op_t *op, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    test_etcd_done(status, text);
    test_txn_state.done[op - test_txn_state.ops]++;
}


static void
test_txn_cleanup(void *data)
{
    if (test_txn_state.txn.unary.cluster != NULL) {
        ngx_etcd_txn_cancel(&test_txn_state.txn);
    }

    ngx_etcd_txn_batch_done(&test_txn_state.batch);
}


static ngx_int_t
test_txn_init(ngx_pool_t *pool)
{
    ngx_uint_t          i;
    ngx_etcd_txn_op_t  *op;

    test_etcd_conf(pool, 2);

    if (test_etcd_create(pool) != NGX_OK) {
        return NGX_ERROR;
    }

    test_alloc_cleanup(pool, test_txn_cleanup);

    ngx_memzero(&test_txn_state, sizeof(test_txn_state));

    test_txn_state.txn.cluster = test_etcd.cluster;
    test_txn_state.txn.key = *tap_string(pool, "/k");
    test_txn_state.txn.value = *tap_string(pool, "v");
    test_txn_state.txn.lease = 99;
    test_txn_state.txn.done = test_txn_done;

    ngx_etcd_txn_batch_init(&test_txn_state.batch, test_etcd.cluster);

    for (i = 0; i < TEST_TXN_OPS; i++) {
        op = &test_txn_state.ops[i];
        op->key.data = test_txn_state.keys[i];
        op->key.len = ngx_sprintf(op->key.data, "/l/%ui", i) - op->key.data;
        op->lease = 99;
        ngx_str_set(&op->from, "/l/");
        ngx_str_set(&op->to, "/l0");
        op->done = test_txn_op_done;
    }

    return NGX_OK;
}


/* An answer of n nested transactions, or of one that is alone. */

static void
test_txn_answer(ngx_etcd_grpc_stream_t *call, ngx_uint_t n, ngx_uint_t put,
    int64_t lease)
{
    ngx_uint_t                i;
    Etcd__KeyValue            kv, *kvs[1];
    Etcd__ResponseOp          op[TEST_TXN_OPS], *ops[TEST_TXN_OPS];
    Etcd__PutResponse         put_response;
    Etcd__TxnResponse         response;
    Etcd__RangeResponse       range;
    Etcd__ResponseHeader      header;
    Etcd__NestedResponseOp    nested[2], *nesteds[2];
    Etcd__NestedTxnResponse   txn;

    etcd__key_value__init(&kv);
    etcd__put_response__init(&put_response);
    etcd__txn_response__init(&response);
    etcd__range_response__init(&range);
    etcd__response_header__init(&header);
    etcd__nested_txn_response__init(&txn);

    header.revision = 50;
    kv.create_revision = 17;
    kv.lease = lease;
    kvs[0] = &kv;
    range.count = 3;

    if (!put) {
        range.kvs = kvs;
        range.n_kvs = (lease != 0);
    }

    for (i = 0; i < 2; i++) {
        etcd__nested_response_op__init(&nested[i]);
        nesteds[i] = &nested[i];
    }

    i = put ? 1 : 0;
    nested[i].response_case =
                             ETCD__NESTED_RESPONSE_OP__RESPONSE_RESPONSE_RANGE;
    nested[i].response_range = &range;

    txn.succeeded = put;
    txn.responses = nesteds;
    txn.n_responses = i + 1;

    for (i = 0; i < n; i++) {
        etcd__response_op__init(&op[i]);
        op[i].response_case = ETCD__RESPONSE_OP__RESPONSE_RESPONSE_TXN;
        op[i].response_txn = &txn;
        ops[i] = &op[i];
    }

    response.header = &header;
    response.succeeded = 1;
    response.responses = ops;
    response.n_responses = n;

    if (n == 0) {
        etcd__response_op__init(&op[0]);
        etcd__response_op__init(&op[1]);
        ops[0] = &op[0];
        ops[1] = &op[1];

        i = put ? 1 : 0;
        op[0].response_case = ETCD__RESPONSE_OP__RESPONSE_RESPONSE_PUT;
        op[0].response_put = &put_response;
        op[i].response_case = ETCD__RESPONSE_OP__RESPONSE_RESPONSE_RANGE;
        op[i].response_range = &range;

        response.succeeded = put;
        response.n_responses = i + 1;
    }

    test_etcd_answer(call, &response.base);
}


static ngx_etcd_grpc_stream_t *
test_txn_call(ngx_uint_t n)
{
    test_loop_run();

    return test_etcd_call("/etcdserverpb.KV/Txn", n);
}


static Etcd__TxnRequest *
test_txn_request(ngx_pool_t *pool, ngx_etcd_grpc_stream_t *call)
{
    return (Etcd__TxnRequest *)
           test_etcd_request(pool, call, &etcd__txn_request__descriptor);
}


static void
test_txn_one(ngx_pool_t *pool)
{
    Etcd__TxnRequest        *request;
    Etcd__TxnResponse        empty;
    ngx_etcd_grpc_stream_t  *call;

    tap_expect(test_txn_init(pool) == NGX_OK);

    test_txn_state.txn.created = 17;
    ngx_etcd_txn_start(&test_txn_state.txn);
    call = test_txn_call(0);
    tap_expect(call != NULL);

    request = test_txn_request(pool, call);
    tap_check(request->n_compare == 1 && request->n_success == 1
              && request->n_failure == 1);
    tap_check(request->compare[0]->create_revision == 17);
    tap_check(request->compare[0]->target_union_case
              == ETCD__COMPARE__TARGET_UNION_CREATE_REVISION);
    tap_check(request->success[0]->request_put->lease == 99);
    tap_check(request->failure[0]->request_range->key.len == 2);

    test_txn_answer(call, 0, 1, 0);
    tap_check(test_etcd.done == 1 && test_txn_state.put);
    tap_check(test_txn_state.revision == 50 && test_txn_state.found == -1);

    /* the comparison fails: the key is another one, then there is no key */

    ngx_etcd_txn_start(&test_txn_state.txn);
    call = test_txn_call(0);
    tap_expect(call != NULL);
    test_txn_answer(call, 0, 0, 5);
    tap_check(test_etcd.done == 2 && !test_txn_state.put);
    tap_check(test_txn_state.found == 17);

    ngx_etcd_txn_start(&test_txn_state.txn);
    call = test_txn_call(0);
    tap_expect(call != NULL);
    test_txn_answer(call, 0, 0, 0);
    tap_check(test_etcd.done == 3 && test_txn_state.found == -1);

    /* always */

    test_txn_state.txn.created = NGX_ETCD_TXN_ALWAYS;
    ngx_etcd_txn_start(&test_txn_state.txn);
    call = test_txn_call(0);
    tap_expect(call != NULL);

    request = test_txn_request(pool, call);
    tap_check(request->n_compare == 0 && request->n_failure == 0);

    /* an answer without a revision is none */

    etcd__txn_response__init(&empty);
    test_etcd_answer(call, &empty.base);
    tap_check(test_etcd.done == 4);
    tap_check(test_etcd.status == NGX_ETCD_GRPC_INTERNAL);
}


/* The operations of one round of the loop go as one. */

static void
test_txn_together(ngx_pool_t *pool)
{
    ngx_uint_t               i;
    Etcd__TxnRequest        *request;
    ngx_etcd_grpc_stream_t  *call;

    tap_expect(test_txn_init(pool) == NGX_OK);

    test_txn_state.ops[1].lease = 0;
    test_txn_state.ops[1].created = 11;
    test_txn_state.ops[2].lease = 0;
    test_txn_state.ops[2].latest = 12;
    test_txn_state.ops[3].lease = 0;

    for (i = 0; i < 4; i++) {
        ngx_etcd_txn_batch_add(&test_txn_state.batch, &test_txn_state.ops[i],
                               0);
        tap_check(ngx_etcd_txn_op_waiting(&test_txn_state.ops[i]));
    }

    call = test_txn_call(0);
    tap_expect(call != NULL && test_txn_call(1) == NULL);

    request = test_txn_request(pool, call);
    tap_check(request->n_success == 4 && request->n_compare == 0);

    /* etcd sees a put in there, which is never done */

    tap_check(request->n_failure == 1);
    tap_check(request->failure[0]->request_case
              == ETCD__REQUEST_OP__REQUEST_REQUEST_PUT);

    tap_check(request->success[0]->request_txn->compare[0]->create_revision
              == 0);
    tap_check(request->success[0]->request_txn->n_success == 2);
    tap_check(request->success[1]->request_txn->compare[0]->create_revision
              == 11);
    tap_check(request->success[2]->request_txn->compare[0]->create_revision
              == 13);
    tap_check(request->success[2]->request_txn->compare[0]->result
              == ETCD__COMPARE__COMPARE_RESULT__LESS);
    tap_check(request->success[3]->request_txn->n_compare == 0);

    tap_check(ngx_etcd_txn_batch_withdraw(&test_txn_state.ops[0])
              == NGX_DECLINED);

    test_txn_answer(call, 4, 1, 0);
    tap_expect(test_etcd.done == 4 && test_etcd.status == NGX_ETCD_GRPC_OK);
    tap_check(test_txn_state.ops[0].found == 50);
    tap_check(test_txn_state.ops[0].count == 3);
    tap_check(test_txn_state.ops[0].revision == 50);
}


/* A put finds its own key, by an earlier attempt, or that of another lease. */

static void
test_txn_found(ngx_pool_t *pool)
{
    ngx_etcd_grpc_stream_t  *call;

    tap_expect(test_txn_init(pool) == NGX_OK);

    ngx_etcd_txn_batch_add(&test_txn_state.batch, &test_txn_state.ops[0], 0);
    call = test_txn_call(0);
    tap_expect(call != NULL);
    test_txn_answer(call, 0, 0, 99);
    tap_expect(test_etcd.done == 1);
    tap_check(test_txn_state.ops[0].found == 17);
    tap_check(test_txn_state.ops[0].count == 0);

    ngx_etcd_txn_batch_add(&test_txn_state.batch, &test_txn_state.ops[0], 0);
    call = test_txn_call(0);
    tap_expect(call != NULL);
    test_txn_answer(call, 0, 0, 98);
    tap_check(test_etcd.done == 2 && test_txn_state.ops[0].found == 0);
}


/* 64 at a time, three calls at a time; the others wait for answers. */

static void
test_txn_limits(ngx_pool_t *pool)
{
    ngx_uint_t               i;
    ngx_etcd_grpc_stream_t  *call;

    tap_expect(test_txn_init(pool) == NGX_OK);

    for (i = 0; i < TEST_TXN_OPS; i++) {
        ngx_etcd_txn_batch_add(&test_txn_state.batch, &test_txn_state.ops[i],
                               0);
    }

    tap_check(ngx_etcd_txn_batch_withdraw(&test_txn_state.ops[TEST_TXN_OPS - 1])
              == NGX_OK);

    tap_expect(test_txn_call(2) != NULL);
    tap_check(test_txn_call(3) == NULL);

    for (i = 0; i < 3; i++) {
        call = test_txn_call(0);
        tap_expect(test_txn_request(pool, call)->n_success
                   == NGX_ETCD_TXN_BATCH_OPS);
        test_txn_answer(call, NGX_ETCD_TXN_BATCH_OPS, 1, 0);
    }

    call = test_txn_call(0);
    tap_expect(call != NULL);
    tap_check(test_txn_request(pool, call)->n_success == 7);
    test_txn_answer(call, 7, 1, 0);

    tap_check(test_etcd.done == TEST_TXN_OPS - 1);

    for (i = 0; i < TEST_TXN_OPS; i++) {
        tap_check(test_txn_state.done[i] == (i < TEST_TXN_OPS - 1));
    }
}


/* An operation that is refused fails all: each one goes alone then. */

static void
test_txn_split(ngx_pool_t *pool)
{
    ngx_uint_t               i;
    ngx_etcd_grpc_stream_t  *call;

    tap_expect(test_txn_init(pool) == NGX_OK);

    for (i = 0; i < 3; i++) {
        ngx_etcd_txn_batch_add(&test_txn_state.batch, &test_txn_state.ops[i],
                               0);
    }

    call = test_txn_call(0);
    tap_expect(call != NULL);
    test_etcd_fail(call, NGX_ETCD_GRPC_NOT_FOUND, "lease not found");
    tap_check(test_etcd.done == 0);

    tap_check(ngx_etcd_txn_batch_withdraw(&test_txn_state.ops[0])
              == NGX_DECLINED);

    for (i = 0; i < 3; i++) {
        call = test_txn_call(0);
        tap_expect(call != NULL);
        tap_check(test_txn_request(pool, call)->n_compare == 1);

        if (i == 1) {
            test_etcd_fail(call, NGX_ETCD_GRPC_NOT_FOUND, "lease not found");
        } else {
            test_txn_answer(call, 0, 1, 0);
        }

        tap_expect(test_etcd.done == i + 1);
        tap_expect(test_txn_state.done[i] == 1);
    }

    /* without room all puts fail, and deletes go again */

    test_txn_state.ops[1].lease = 0;

    for (i = 0; i < 3; i++) {
        ngx_etcd_txn_batch_add(&test_txn_state.batch, &test_txn_state.ops[i],
                               0);
    }

    call = test_txn_call(0);
    tap_expect(call != NULL);
    test_etcd_fail(call, NGX_ETCD_GRPC_RESOURCE_EXHAUSTED,
                   "etcdserver: mvcc: database space exceeded");
    tap_check(test_etcd.done == 5);
    tap_check(test_txn_state.done[0] == 2 && test_txn_state.done[1] == 1);

    call = test_txn_call(0);
    tap_expect(call != NULL);
    test_txn_answer(call, 0, 1, 0);
    tap_check(test_etcd.done == 6 && test_txn_state.done[1] == 2);
}


/* Answers that do not fit the request. */

static void
test_txn_broken(ngx_pool_t *pool)
{
    ngx_uint_t               i, n;
    ngx_etcd_grpc_stream_t  *call;

    tap_expect(test_txn_init(pool) == NGX_OK);

    for (n = 0; n < 2; n++) {
        test_etcd.done = 0;

        for (i = 0; i < 2; i++) {
            ngx_etcd_txn_batch_add(&test_txn_state.batch,
                                   &test_txn_state.ops[i], 0);
        }

        call = test_txn_call(0);
        tap_expect(call != NULL);
        test_txn_answer(call, n, 1, 0);

        tap_expect(test_etcd.done == 2);
        tap_check(test_etcd.status == NGX_ETCD_GRPC_INTERNAL);
        tap_check(test_txn_state.ops[0].unknown
                  && test_txn_state.ops[1].unknown);
    }
}


/* An operation without hurry goes with the next one, or soon. */

static void
test_txn_lazy(ngx_pool_t *pool)
{
    ngx_etcd_grpc_stream_t  *call;

    tap_expect(test_txn_init(pool) == NGX_OK);

    ngx_etcd_txn_batch_add(&test_txn_state.batch, &test_txn_state.ops[0], 1);
    tap_check(test_txn_call(0) == NULL);

    test_loop_pass(NGX_ETCD_TXN_BATCH_LAZY);
    call = test_txn_call(0);
    tap_expect(call != NULL);
    test_txn_answer(call, 0, 1, 0);

    ngx_etcd_txn_batch_add(&test_txn_state.batch, &test_txn_state.ops[0], 1);
    ngx_etcd_txn_batch_add(&test_txn_state.batch, &test_txn_state.ops[1], 0);
    call = test_txn_call(0);
    tap_expect(call != NULL);
    tap_check(test_txn_request(pool, call)->n_success == 2);
}


/* A put waits for deletes of its range that were sent before it. */

static void
test_txn_order(ngx_pool_t *pool)
{
    ngx_etcd_grpc_stream_t  *call;

    tap_expect(test_txn_init(pool) == NGX_OK);

    test_txn_state.ops[0].lease = 0;
    ngx_etcd_txn_batch_add(&test_txn_state.batch, &test_txn_state.ops[0], 0);
    tap_expect(test_txn_call(0) != NULL);

    ngx_etcd_txn_batch_add(&test_txn_state.batch, &test_txn_state.ops[1], 0);
    ngx_str_set(&test_txn_state.ops[2].from, "/other/");
    ngx_etcd_txn_batch_add(&test_txn_state.batch, &test_txn_state.ops[2], 0);

    call = test_txn_call(1);
    tap_expect(call != NULL && test_txn_call(2) == NULL);
    tap_check(test_txn_request(pool, call)->n_compare == 1);
    tap_check(ngx_etcd_txn_op_waiting(&test_txn_state.ops[1]));

    test_txn_answer(test_txn_call(0), 0, 1, 0);
    tap_expect(test_txn_call(1) != NULL);
    tap_check(!ngx_etcd_txn_op_waiting(&test_txn_state.ops[1]));
}


/* Every operation ends, also when memory was short for a moment. */

static void
test_txn_memory(ngx_pool_t *pool)
{
    ngx_uint_t               i;
    ngx_etcd_grpc_stream_t  *call;

    tap_expect(test_txn_init(pool) == NGX_OK);

    ngx_etcd_txn_batch_add(&test_txn_state.batch, &test_txn_state.ops[0], 0);

    for (i = 0; i < 20 && test_etcd.done == 0; i++) {
        test_loop_pass(300);
        call = test_txn_call(0);

        if (call != NULL) {
            test_txn_answer(call, 0, 1, 0);
        }
    }

    tap_check(test_etcd.done == 1);
}


ngx_etcd_tap_test_t  test_txn[] = {
    { "txn: one key", test_txn_one },
    { "txn batch: together", test_txn_together },
    { "txn batch: a key that is there", test_txn_found },
    { "txn batch: limits", test_txn_limits },
    { "txn batch: one of them is refused", test_txn_split },
    { "txn batch: broken answers", test_txn_broken },
    { "txn batch: no hurry", test_txn_lazy },
    { "txn batch: order", test_txn_order },
    { "txn batch: memory", test_txn_memory },
    { NULL, NULL }
};
