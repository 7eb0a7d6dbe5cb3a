
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_auth.h>
#include <ngx_etcd_kv.h>


static ngx_int_t
ngx_etcd_stream_range_message(ngx_etcd_grpc_call_t *call,
    ProtobufCMessage *message, ngx_pool_t *pool)
{
    ngx_etcd_stream_range_t  *range;

    range = call->data;

    if (range->pool != NULL) {
        return NGX_ERROR;
    }

    range->response = (Etcd__RangeResponse *) message;
    range->pool = pool;

    return NGX_DONE;
}


static ngx_etcd_grpc_status_e
ngx_etcd_stream_range_status(ngx_etcd_stream_range_t *range,
    ngx_etcd_grpc_status_e status, ngx_str_t *text,
    Etcd__RangeResponse *response)
{
    ngx_etcd_auth_t  *auth;

    auth = range->cluster->auth;

    if (status != NGX_ETCD_GRPC_OK) {
        range->refused = ngx_etcd_auth_refused(auth, range->cluster->streams,
                                               range->token, status, text);
        return status;
    }

    if (response == NULL) {
        ngx_str_set(text, "OK without a response");
        return NGX_ETCD_GRPC_INTERNAL;
    }

    ngx_etcd_auth_accepted(auth);

    if (!range->serializable) {
        ngx_etcd_history_check(range->cluster, response->header,
                               &range->mark);
    }

    return NGX_ETCD_GRPC_OK;
}


static void
ngx_etcd_stream_range_done(ngx_etcd_grpc_call_t *call,
    ngx_etcd_grpc_status_e status, ngx_str_t *text)
{
    ngx_str_t                 reason;
    ngx_pool_t               *pool;
    Etcd__RangeResponse      *response;
    ngx_etcd_stream_range_t  *range;

    range = call->data;

    response = (status == NGX_ETCD_GRPC_OK) ? range->response : NULL;
    pool = range->pool;

    range->running = 0;
    range->response = NULL;
    range->pool = NULL;

    reason = *text;
    status = ngx_etcd_stream_range_status(range, status, &reason, response);

    range->done(range, status, &reason, response);

    if (pool != NULL) {
        ngx_destroy_pool(pool);
    }
}


ngx_int_t
ngx_etcd_stream_range_start(ngx_etcd_stream_range_t *range,
    Etcd__RangeRequest *request)
{
    ngx_keyval_t           md[NGX_ETCD_AUTH_METADATA];
    ngx_etcd_auth_t       *auth;
    ngx_etcd_http2_t      *h2;
    ngx_etcd_grpc_call_t  *call;

    auth = range->cluster->auth;
    h2 = ngx_etcd_channel_get(range->cluster->streams);

    if (h2 == NULL || !ngx_etcd_auth_ready(auth)) {
        return NGX_DECLINED;
    }

    call = &range->call;
    ngx_memzero(call, sizeof(ngx_etcd_grpc_call_t));

    call->method = "/etcdserverpb.KV/Range";
    call->response = &etcd__range_response__descriptor;
    call->timeout = range->timeout;
    call->metadata = md;
    call->nmetadata = ngx_etcd_auth_metadata(auth, md, &range->token);
    call->message = ngx_etcd_stream_range_message;
    call->done = ngx_etcd_stream_range_done;
    call->data = range;

    range->refused = 0;
    range->serializable = request->serializable;
    range->mark = ngx_etcd_history_mark(range->cluster);

    if (ngx_etcd_grpc_request(h2, call, &request->base) != NGX_OK) {
        return NGX_DECLINED;
    }

    range->running = 1;

    return NGX_OK;
}


void
ngx_etcd_stream_range_cancel(ngx_etcd_stream_range_t *range)
{
    range->running = 0;
    ngx_etcd_grpc_cancel(&range->call);

    if (range->pool != NULL) {
        ngx_destroy_pool(range->pool);
        range->pool = NULL;
        range->response = NULL;
    }
}


static void
ngx_etcd_range_done(ngx_etcd_unary_t *unary, ngx_etcd_grpc_status_e status,
    ngx_str_t *text, ProtobufCMessage *response, ngx_pool_t *pool)
{
    ngx_etcd_range_t  *range = unary->data;

    if (status == NGX_ETCD_GRPC_OK && !range->request.serializable) {
        ngx_etcd_history_check(unary->cluster,
                               ((Etcd__RangeResponse *) response)->header,
                               &unary->mark);
    }

    range->done(range, status, text, (Etcd__RangeResponse *) response, pool);
}


void
ngx_etcd_range_start(ngx_etcd_range_t *range)
{
    ngx_etcd_unary_t  *unary;

    unary = &range->unary;

    unary->cluster = range->cluster;
    unary->method = "/etcdserverpb.KV/Range";
    unary->name = "range";
    unary->request = &range->request.base;
    unary->response = &etcd__range_response__descriptor;
    unary->idempotent = 1;
    unary->done = ngx_etcd_range_done;
    unary->data = range;

    ngx_etcd_unary_start(unary);
}


void
ngx_etcd_range_cancel(ngx_etcd_range_t *range)
{
    ngx_etcd_unary_cancel(&range->unary);
}


ngx_int_t
ngx_etcd_kv_key(ngx_str_t *full, ngx_pool_t *pool, ngx_str_t *key_namespace,
    ngx_str_t *key)
{
    u_char  *p;

    full->len = key_namespace->len + key->len;
    full->data = ngx_pnalloc(pool, full->len + 1);

    if (full->data == NULL) {
        return NGX_ERROR;
    }

    p = ngx_cpymem(full->data, key_namespace->data, key_namespace->len);
    p = ngx_cpymem(p, key->data, key->len);
    *p = '\0';

    return NGX_OK;
}


ngx_str_t
ngx_etcd_range_prefix_end(ngx_pool_t *pool, ngx_str_t *prefix)
{
    size_t     n;
    ngx_str_t  end;

    end.len = 0;
    end.data = ngx_pnalloc(pool, ngx_max(prefix->len, 1));

    if (end.data == NULL) {
        return end;
    }

    ngx_memcpy(end.data, prefix->data, prefix->len);

    for (n = prefix->len; n > 0; n--) {

        if (end.data[n - 1] != 0xff) {
            end.data[n - 1]++;
            end.len = n;
            return end;
        }
    }

    /* all bytes are 0xff: "\0" means the end of the key space to etcd */

    end.data[0] = '\0';
    end.len = 1;

    return end;
}


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

        /* else the key as it is */

        etcd__range_request__init(&txn->range);
        etcd__request_op__init(&txn->failure);

        txn->range.key = ngx_etcd_bytes(&txn->key);

        txn->failure.request_case = ETCD__REQUEST_OP__REQUEST_REQUEST_RANGE;
        txn->failure.request_range = &txn->range;

        txn->failures[0] = &txn->failure;
        txn->request.failure = txn->failures;
        txn->request.n_failure = 1;
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
