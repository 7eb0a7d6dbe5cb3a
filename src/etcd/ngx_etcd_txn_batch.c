
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_txn_batch.h>


/* an op as a request of its own */

typedef struct {
    Etcd__TxnRequest             txn;
    Etcd__Compare                compare;
    Etcd__RequestOp              write_op;
    Etcd__RequestOp              count_op;
    Etcd__RequestOp              read_op;
    Etcd__PutRequest             put;
    Etcd__DeleteRangeRequest     remove;
    Etcd__RangeRequest           count;
    Etcd__RangeRequest           read;
    Etcd__Compare               *compares[1];
    Etcd__RequestOp             *success[2];
    Etcd__RequestOp             *failure[1];
    Etcd__RequestOp              op;           /* the txn above, nested */
} ngx_etcd_txn_batch_part_t;


/* the answer to an op; the range is the result of its count or read, or NULL */

typedef struct {
    ngx_uint_t                   succeeded;
    Etcd__RangeResponse         *range;
} ngx_etcd_txn_batch_outcome_t;


/* index of the range: after a successful write, or alone */

#define NGX_ETCD_TXN_BATCH_RANGE(response)  ((response)->succeeded ? 1 : 0)


/* etcd may process an attempt late, even if a later one was answered */

#define ngx_etcd_txn_batch_unknown(call)                                       \
    ((call)->unary.repeated || (call)->unary.unknown)


typedef struct {
    ngx_etcd_unary_t             unary;
    ngx_etcd_txn_batch_t        *batch;
    ngx_queue_t                  queue;
    ngx_queue_t                  ops;
    ngx_uint_t                   nops;
    ngx_pool_t                  *pool;
    Etcd__TxnRequest             request;      /* of several ops */
    Etcd__RequestOp             *failure[1];   /* of the request */
} ngx_etcd_txn_batch_call_t;


/*
 * A put must be done after the deletes that were added before it.  If these
 * were sent with an earlier Txn, the put waits for the answer.
 */

static ngx_uint_t
ngx_etcd_txn_batch_blocked(ngx_etcd_txn_batch_t *batch, ngx_etcd_txn_op_t *op)
{
    ngx_str_t                  *key;
    ngx_queue_t                *q, *s;
    ngx_etcd_txn_op_t          *other;
    ngx_etcd_txn_batch_call_t  *call;

    if (op->lease == 0) {
        return 0;
    }

    for (q = ngx_queue_head(&batch->calls);
         q != ngx_queue_sentinel(&batch->calls);
         q = ngx_queue_next(q))
    {
        call = ngx_queue_data(q, ngx_etcd_txn_batch_call_t, queue);

        for (s = ngx_queue_head(&call->ops);
             s != ngx_queue_sentinel(&call->ops);
             s = ngx_queue_next(s))
        {
            other = ngx_queue_data(s, ngx_etcd_txn_op_t, queue);
            key = &other->key;

            if (other->lease == 0
                && key->len > op->from.len
                && ngx_memcmp(key->data, op->from.data, op->from.len) == 0)
            {
                return 1;
            }
        }
    }

    return 0;
}


/* Takes as many ops as a Txn may have; an op with "alone" set goes alone. */

static ngx_uint_t
ngx_etcd_txn_batch_take(ngx_etcd_txn_batch_t *batch, ngx_queue_t *ops)
{
    ngx_uint_t          n;
    ngx_queue_t        *q, *next;
    ngx_etcd_txn_op_t  *op;

    n = 0;

    for (q = ngx_queue_head(&batch->ops);
         q != ngx_queue_sentinel(&batch->ops) && n < NGX_ETCD_TXN_BATCH_OPS;
         q = next)
    {
        next = ngx_queue_next(q);
        op = ngx_queue_data(q, ngx_etcd_txn_op_t, queue);

        if (op->alone && n != 0) {
            break;
        }

        if (ngx_etcd_txn_batch_blocked(batch, op)) {
            continue;
        }

        ngx_queue_remove(q);
        ngx_queue_insert_tail(ops, q);

        op->waiting = 0;
        n++;

        if (op->alone) {
            break;
        }
    }

    return n;
}


static void
ngx_etcd_txn_batch_compare(ngx_etcd_txn_batch_part_t *part,
    ngx_etcd_txn_op_t *op)
{
    Etcd__Compare  *compare;

    compare = &part->compare;
    etcd__compare__init(compare);

    compare->result = ETCD__COMPARE__COMPARE_RESULT__EQUAL;
    compare->target = ETCD__COMPARE__COMPARE_TARGET__CREATE;
    compare->key = ngx_etcd_bytes(&op->key);
    compare->target_union_case = ETCD__COMPARE__TARGET_UNION_CREATE_REVISION;
    compare->create_revision = op->lease ? 0 : op->created;

    if (op->lease == 0 && op->created == 0) {
        compare->result = ETCD__COMPARE__COMPARE_RESULT__LESS;
        compare->create_revision = op->latest + 1;
    }

    part->compares[0] = compare;
    part->txn.compare = part->compares;
    part->txn.n_compare = 1;
}


static void
ngx_etcd_txn_batch_put(ngx_etcd_txn_batch_part_t *part, ngx_etcd_txn_op_t *op)
{
    etcd__put_request__init(&part->put);

    part->put.key = ngx_etcd_bytes(&op->key);
    part->put.lease = op->lease;

    part->write_op.request_case = ETCD__REQUEST_OP__REQUEST_REQUEST_PUT;
    part->write_op.request_put = &part->put;

    etcd__range_request__init(&part->count);

    part->count.key = ngx_etcd_bytes(&op->from);
    part->count.range_end = ngx_etcd_bytes(&op->to);
    part->count.count_only = 1;

    etcd__request_op__init(&part->count_op);

    part->count_op.request_case = ETCD__REQUEST_OP__REQUEST_REQUEST_RANGE;
    part->count_op.request_range = &part->count;

    part->success[1] = &part->count_op;
    part->txn.n_success = 2;

    etcd__range_request__init(&part->read);

    part->read.key = ngx_etcd_bytes(&op->key);

    etcd__request_op__init(&part->read_op);

    part->read_op.request_case = ETCD__REQUEST_OP__REQUEST_REQUEST_RANGE;
    part->read_op.request_range = &part->read;

    part->failure[0] = &part->read_op;
    part->txn.failure = part->failure;
    part->txn.n_failure = 1;
}


static void
ngx_etcd_txn_batch_part(ngx_etcd_txn_batch_part_t *part,
    ngx_etcd_txn_op_t *op)
{
    etcd__txn_request__init(&part->txn);
    etcd__request_op__init(&part->write_op);

    part->success[0] = &part->write_op;
    part->txn.success = part->success;
    part->txn.n_success = 1;

    if (op->lease != 0) {
        ngx_etcd_txn_batch_compare(part, op);
        ngx_etcd_txn_batch_put(part, op);
        return;
    }

    if (op->created != 0 || op->latest != 0) {
        ngx_etcd_txn_batch_compare(part, op);
    }

    etcd__delete_range_request__init(&part->remove);

    part->remove.key = ngx_etcd_bytes(&op->key);

    part->write_op.request_case =
                                ETCD__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
    part->write_op.request_delete_range = &part->remove;
}


static Etcd__TxnRequest *
ngx_etcd_txn_batch_request(ngx_etcd_txn_batch_call_t *call)
{
    ngx_uint_t                  i;
    ngx_queue_t                *q;
    Etcd__RequestOp           **ops;
    ngx_etcd_txn_batch_part_t  *parts;

    parts = ngx_pcalloc(call->pool,
                        sizeof(ngx_etcd_txn_batch_part_t) * call->nops);
    ops = ngx_palloc(call->pool, sizeof(Etcd__RequestOp *) * call->nops);

    if (parts == NULL || ops == NULL) {
        return NULL;
    }

    i = 0;

    for (q = ngx_queue_head(&call->ops);
         q != ngx_queue_sentinel(&call->ops);
         q = ngx_queue_next(q))
    {
        ngx_etcd_txn_batch_part(&parts[i],
                                ngx_queue_data(q, ngx_etcd_txn_op_t, queue));

        etcd__request_op__init(&parts[i].op);

        parts[i].op.request_case = ETCD__REQUEST_OP__REQUEST_REQUEST_TXN;
        parts[i].op.request_txn = &parts[i].txn;

        if (parts[i].txn.n_failure != 0) {
            call->failure[0] = &parts[i].write_op;
        }

        ops[i] = &parts[i].op;
        i++;
    }

    if (call->nops == 1) {
        return &parts[0].txn;
    }

    etcd__txn_request__init(&call->request);

    call->request.success = ops;
    call->request.n_success = call->nops;

    /*
     * etcd with a full database rejects puts, but does not find them in nested
     * transactions.  A put in the failure branch, which is never executed,
     * makes etcd reject the request.
     */

    if (call->failure[0] != NULL) {
        call->request.failure = call->failure;
        call->request.n_failure = 1;
    }

    return &call->request;
}


static void
ngx_etcd_txn_batch_alone(Etcd__TxnResponse *response,
    ngx_etcd_txn_batch_outcome_t *outcome)
{
    size_t             i;
    Etcd__ResponseOp  *op;

    outcome->succeeded = response->succeeded;
    outcome->range = NULL;

    i = NGX_ETCD_TXN_BATCH_RANGE(response);

    if (i < response->n_responses) {
        op = response->responses[i];

        outcome->range =
            (op->response_case == ETCD__RESPONSE_OP__RESPONSE_RESPONSE_RANGE)
            ? op->response_range : NULL;
    }
}


static void
ngx_etcd_txn_batch_nested(Etcd__NestedTxnResponse *response,
    ngx_etcd_txn_batch_outcome_t *outcome)
{
    size_t                   i;
    Etcd__NestedResponseOp  *op;

    outcome->succeeded = response->succeeded;
    outcome->range = NULL;

    i = NGX_ETCD_TXN_BATCH_RANGE(response);

    if (i < response->n_responses) {
        op = response->responses[i];

        outcome->range = (op->response_case
                          == ETCD__NESTED_RESPONSE_OP__RESPONSE_RESPONSE_RANGE)
                         ? op->response_range : NULL;
    }
}


/* NGX_ERROR: the response has no answer to the i-th of n ops */

static ngx_int_t
ngx_etcd_txn_batch_outcome(Etcd__TxnResponse *response, ngx_uint_t i,
    ngx_uint_t n, ngx_etcd_txn_batch_outcome_t *outcome)
{
    Etcd__ResponseOp  *op;

    if (n == 1) {
        ngx_etcd_txn_batch_alone(response, outcome);
        return NGX_OK;
    }

    if (!response->succeeded || i >= response->n_responses) {
        return NGX_ERROR;
    }

    op = response->responses[i];

    if (op->response_case != ETCD__RESPONSE_OP__RESPONSE_RESPONSE_TXN) {
        return NGX_ERROR;
    }

    ngx_etcd_txn_batch_nested(op->response_txn, outcome);

    return NGX_OK;
}


static void
ngx_etcd_txn_batch_result(ngx_etcd_txn_op_t *op,
    ngx_etcd_txn_batch_outcome_t *outcome, int64_t revision)
{
    Etcd__RangeResponse  *range;

    op->revision = revision;
    op->found = 0;
    op->count = 0;

    if (op->lease == 0) {
        return;
    }

    range = outcome->range;

    if (outcome->succeeded) {
        op->found = revision;
        op->count = range->count;
        return;
    }

    if (range->n_kvs != 0 && range->kvs[0]->lease == op->lease) {
        op->found = range->kvs[0]->create_revision;
    }
}


static void
ngx_etcd_txn_batch_end(ngx_etcd_txn_batch_call_t *call,
    ngx_etcd_grpc_status_e status, ngx_str_t *text, Etcd__TxnResponse *response)
{
    int64_t                        revision;
    ngx_uint_t                     i, n;
    ngx_queue_t                   *q;
    ngx_etcd_txn_op_t             *op;
    ngx_etcd_txn_batch_t          *batch;
    ngx_etcd_txn_batch_outcome_t   outcome;

    batch = call->batch;

    ngx_queue_remove(&call->queue);
    batch->ncalls--;

    n = call->nops;
    revision = (status == NGX_ETCD_GRPC_OK && response != NULL)
               ? response->header->revision : 0;

    for (i = 0; !ngx_queue_empty(&call->ops); i++) {
        q = ngx_queue_head(&call->ops);
        ngx_queue_remove(q);

        op = ngx_queue_data(q, ngx_etcd_txn_op_t, queue);

        op->unknown |= ngx_etcd_txn_batch_unknown(call);

        if (revision != 0
            && ngx_etcd_txn_batch_outcome(response, i, n, &outcome) == NGX_OK)
        {
            ngx_etcd_txn_batch_result(op, &outcome, revision);
        }

        op->done(op, status, text);
    }

    ngx_destroy_pool(call->pool);

    if (!ngx_queue_empty(&batch->ops)) {
        ngx_post_event(&batch->post, &ngx_posted_events);
    }
}


/* Returns 1 if the response has all parts that are read later. */

static ngx_uint_t
ngx_etcd_txn_batch_valid(ngx_etcd_txn_batch_call_t *call,
    Etcd__TxnResponse *response)
{
    ngx_uint_t                     i;
    ngx_queue_t                   *q;
    ngx_etcd_txn_op_t             *op;
    ngx_etcd_txn_batch_outcome_t   outcome;

    if (response->header == NULL || response->header->revision <= 0) {
        return 0;
    }

    i = 0;

    for (q = ngx_queue_head(&call->ops);
         q != ngx_queue_sentinel(&call->ops);
         q = ngx_queue_next(q))
    {
        op = ngx_queue_data(q, ngx_etcd_txn_op_t, queue);

        if (ngx_etcd_txn_batch_outcome(response, i++, call->nops, &outcome)
            != NGX_OK)
        {
            return 0;
        }

        if (op->lease != 0 && outcome.range == NULL) {
            return 0;
        }
    }

    return 1;
}


/*
 * etcd has rejected the Txn because of one op: sends each op alone to find out
 * which.  If the database is full, each put has failed.
 */

static void
ngx_etcd_txn_batch_split(ngx_etcd_txn_batch_call_t *call,
    ngx_etcd_grpc_status_e status, ngx_str_t *text)
{
    ngx_queue_t           *q, *prev;
    ngx_etcd_txn_op_t     *op;
    ngx_etcd_txn_batch_t  *batch;

    batch = call->batch;

    for (q = ngx_queue_last(&call->ops);
         q != ngx_queue_sentinel(&call->ops);
         q = prev)
    {
        prev = ngx_queue_prev(q);
        op = ngx_queue_data(q, ngx_etcd_txn_op_t, queue);

        if (status == NGX_ETCD_GRPC_FAILED_PRECONDITION && op->lease != 0) {
            continue;
        }

        ngx_queue_remove(q);
        ngx_queue_insert_head(&batch->ops, q);

        op->waiting = 1;
        op->alone = 1;
        op->unknown |= ngx_etcd_txn_batch_unknown(call);
    }

    ngx_etcd_txn_batch_end(call, status, text, NULL);
}


static void
ngx_etcd_txn_batch_answer(ngx_etcd_unary_t *unary,
    ngx_etcd_grpc_status_e status, ngx_str_t *text, ProtobufCMessage *response,
    ngx_pool_t *pool)
{
    ngx_str_t                   unusable;
    Etcd__TxnResponse          *answer;
    ngx_etcd_txn_batch_call_t  *call;

    call = unary->data;
    answer = (Etcd__TxnResponse *) response;

    if (status == NGX_ETCD_GRPC_OK && !ngx_etcd_txn_batch_valid(call, answer)) {
        status = NGX_ETCD_GRPC_INTERNAL;
        ngx_str_set(&unusable, "the response could not be used");
        text = &unusable;
        unary->unknown = 1;
    }

    if (status == NGX_ETCD_GRPC_OK) {
        ngx_etcd_history_check(unary->cluster, answer->header, &unary->mark);
    }

    if (status != NGX_ETCD_GRPC_OK
        && !ngx_etcd_backoff_retriable(status)
        && call->nops > 1)
    {
        ngx_etcd_txn_batch_split(call, status, text);

    } else {
        ngx_etcd_txn_batch_end(call, status, text, answer);
    }

    if (pool != NULL) {
        ngx_destroy_pool(pool);
    }
}


static ngx_int_t
ngx_etcd_txn_batch_send(ngx_etcd_txn_batch_t *batch)
{
    ngx_pool_t                 *pool;
    Etcd__TxnRequest           *request;
    ngx_etcd_unary_t           *unary;
    ngx_etcd_txn_batch_call_t  *call;

    pool = ngx_create_pool(4096, batch->cluster->log);
    call = (pool != NULL)
           ? ngx_pcalloc(pool, sizeof(ngx_etcd_txn_batch_call_t)) : NULL;
    if (call == NULL) {
        goto failed;
    }

    call->batch = batch;
    call->pool = pool;

    ngx_queue_init(&call->ops);
    call->nops = ngx_etcd_txn_batch_take(batch, &call->ops);
    if (call->nops == 0) {
        goto failed;
    }

    request = ngx_etcd_txn_batch_request(call);

    ngx_queue_insert_tail(&batch->calls, &call->queue);
    batch->ncalls++;

    if (request == NULL) {
        ngx_str_t  text = ngx_string("no memory");

        ngx_etcd_txn_batch_end(call, NGX_ETCD_GRPC_UNAVAILABLE, &text, NULL);
        return NGX_ERROR;
    }

    unary = &call->unary;

    unary->cluster = batch->cluster;
    unary->method = "/etcdserverpb.KV/Txn";
    unary->name = "txn";
    unary->request = &request->base;
    unary->response = &etcd__txn_response__descriptor;
    unary->idempotent = 1;
    unary->roomy = 1;
    unary->done = ngx_etcd_txn_batch_answer;
    unary->data = call;

    ngx_etcd_unary_start(unary);

    return NGX_OK;

failed:

    if (pool != NULL) {
        ngx_destroy_pool(pool);
    }

    /* the ops are sent after ngx_etcd_txn_batch_add(), an answer, or a pause */

    if (batch->ncalls == 0) {
        ngx_add_timer(&batch->timer, NGX_ETCD_BACKOFF_BASE);
    }

    return NGX_ERROR;
}


static void
ngx_etcd_txn_batch_flush(ngx_event_t *ev)
{
    ngx_etcd_txn_batch_t  *batch;

    batch = ev->data;

    while (!ngx_queue_empty(&batch->ops)
           && batch->ncalls < NGX_ETCD_TXN_BATCH_CALLS)
    {
        if (ngx_etcd_txn_batch_send(batch) != NGX_OK) {
            break;
        }
    }
}


void
ngx_etcd_txn_batch_init(ngx_etcd_txn_batch_t *batch,
    ngx_etcd_cluster_t *cluster)
{
    ngx_memzero(batch, sizeof(ngx_etcd_txn_batch_t));

    batch->cluster = cluster;

    ngx_queue_init(&batch->ops);
    ngx_queue_init(&batch->calls);

    ngx_etcd_event_init(&batch->post, ngx_etcd_txn_batch_flush, batch,
                        cluster->log);

    ngx_etcd_event_init_timer(&batch->timer, ngx_etcd_txn_batch_flush, batch,
                              cluster->log);
}


void
ngx_etcd_txn_batch_done(ngx_etcd_txn_batch_t *batch)
{
    ngx_queue_t                *q;
    ngx_etcd_txn_batch_call_t  *call;

    ngx_etcd_event_stop(&batch->post);
    ngx_etcd_event_stop(&batch->timer);

    while (!ngx_queue_empty(&batch->calls)) {
        q = ngx_queue_head(&batch->calls);
        ngx_queue_remove(q);

        call = ngx_queue_data(q, ngx_etcd_txn_batch_call_t, queue);

        ngx_etcd_unary_cancel(&call->unary);
        ngx_destroy_pool(call->pool);
    }

    ngx_queue_init(&batch->ops);
    batch->ncalls = 0;
}


void
ngx_etcd_txn_batch_add(ngx_etcd_txn_batch_t *batch, ngx_etcd_txn_op_t *op,
    ngx_uint_t lazy)
{
    op->alone = 0;
    op->waiting = 1;
    op->unknown = 0;

    ngx_queue_insert_tail(&batch->ops, &op->queue);

    if (!lazy) {
        ngx_post_event(&batch->post, &ngx_posted_events);

    } else if (!batch->timer.timer_set) {
        ngx_add_timer(&batch->timer, NGX_ETCD_TXN_BATCH_LAZY);
    }
}


ngx_int_t
ngx_etcd_txn_batch_withdraw(ngx_etcd_txn_op_t *op)
{
    /* etcd may have processed an op that is sent again, alone */

    if (!op->waiting || op->alone) {
        return NGX_DECLINED;
    }

    op->waiting = 0;
    ngx_queue_remove(&op->queue);

    return NGX_OK;
}
