
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Transactions of the model: all compares, nested ones included, look at what
 * there was before; everything that is written has one revision.
 */


#include "model.h"


#define MODEL_TXN_OPS  128


/* the branch that each Txn takes, nested ones included, in order */

typedef struct {
    ngx_uint_t                taken[MODEL_TXN_OPS + 1];
    ngx_uint_t                n;
} model_path_t;


static ngx_uint_t model_txn_denied(Etcd__TxnRequest *request);
static ngx_uint_t model_ops_denied(Etcd__RequestOp **ops, size_t n);
static ngx_uint_t model_ops_clash(Etcd__RequestOp **ops, size_t n);
static ngx_uint_t model_op_writes(Etcd__RequestOp *op, ngx_str_t *key,
    ngx_uint_t puts);
static void model_txn_path(Etcd__TxnRequest *request, model_path_t *path);
static ngx_uint_t model_txn_holds(Etcd__Compare *compare);
static ngx_uint_t model_txn_lease(Etcd__TxnRequest *request,
    model_path_t *path);
static Etcd__TxnResponse *model_txn(Etcd__TxnRequest *request,
    model_path_t *path);
static Etcd__ResponseOp *model_txn_op(Etcd__RequestOp *op, model_path_t *path);
static Etcd__ResponseOp *model_txn_nested(Etcd__ResponseOp *answer,
    Etcd__TxnResponse *txn);
static int64_t model_txn_delete(Etcd__DeleteRangeRequest *request);


void
model_call_txn(model_member_t *member, Etcd__TxnRequest *request,
    model_answer_t *answer)
{
    model_path_t           path;
    Etcd__TxnResponse     *response;
    Etcd__ResponseHeader   header;

    if (model_ops_clash(request->success, request->n_success)
        || model_ops_clash(request->failure, request->n_failure))
    {
        model_refuse(answer, NGX_ETCD_GRPC_INVALID_ARGUMENT,
                     "etcdserver: duplicate key given in txn request");
        return;
    }

    if (model_txn_denied(request)) {
        model_refuse(answer, NGX_ETCD_GRPC_PERMISSION_DENIED,
                     "etcdserver: permission denied");
        return;
    }

    /* all compares look at what there was before */

    path.n = 0;
    model_txn_path(request, &path);
    path.n = 0;

    if (!model_txn_lease(request, &path)) {
        model_refuse(answer, NGX_ETCD_GRPC_NOT_FOUND,
                     "etcdserver: requested lease not found");
        return;
    }

    path.n = 0;
    model_begin();
    response = model_txn(request, &path);
    model_commit();

    model_header_linear(member, &header);
    response->header = &header;

    model_answer(answer, &response->base);
}


static ngx_uint_t
model_txn_denied(Etcd__TxnRequest *request)
{
    size_t     i;
    ngx_str_t  key;

    for (i = 0; i < request->n_compare; i++) {
        key = model_str(&request->compare[i]->key);

        if (model_is_denied(&key)) {
            return 1;
        }
    }

    return model_ops_denied(request->success, request->n_success)
           || model_ops_denied(request->failure, request->n_failure);
}


static ngx_uint_t
model_ops_denied(Etcd__RequestOp **ops, size_t n)
{
    size_t     i;
    ngx_str_t  key;

    for (i = 0; i < n; i++) {
        ngx_str_null(&key);

        switch (ops[i]->request_case) {

        case ETCD__REQUEST_OP__REQUEST_REQUEST_RANGE:
            key = model_str(&ops[i]->request_range->key);
            break;

        case ETCD__REQUEST_OP__REQUEST_REQUEST_PUT:
            key = model_str(&ops[i]->request_put->key);
            break;

        case ETCD__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE:
            key = model_str(&ops[i]->request_delete_range->key);
            break;

        case ETCD__REQUEST_OP__REQUEST_REQUEST_TXN:
            if (model_txn_denied(ops[i]->request_txn)) {
                return 1;
            }

            break;

        default:
            break;
        }

        if (model_is_denied(&key)) {
            return 1;
        }
    }

    return 0;
}


/* a key that one operation puts and another one puts or deletes */

static ngx_uint_t
model_ops_clash(Etcd__RequestOp **ops, size_t n)
{
    size_t               i, j;
    ngx_str_t            key;
    Etcd__RequestOp    **inner;

    for (i = 0; i < n; i++) {
        inner = &ops[i];

        if (ops[i]->request_case == ETCD__REQUEST_OP__REQUEST_REQUEST_TXN) {
            if (ops[i]->request_txn->n_success == 0) {
                continue;
            }

            inner = &ops[i]->request_txn->success[0];
        }

        if ((*inner)->request_case != ETCD__REQUEST_OP__REQUEST_REQUEST_PUT) {
            continue;
        }

        key = model_str(&(*inner)->request_put->key);

        for (j = 0; j < n; j++) {
            if (j != i
                && (model_op_writes(ops[j], &key, 0)
                    || (j > i && model_op_writes(ops[j], &key, 1))))
            {
                return 1;
            }
        }
    }

    return 0;
}


static ngx_uint_t
model_op_writes(Etcd__RequestOp *op, ngx_str_t *key, ngx_uint_t puts)
{
    size_t             i;
    ngx_str_t          from, to;
    Etcd__TxnRequest  *txn;

    switch (op->request_case) {

    case ETCD__REQUEST_OP__REQUEST_REQUEST_PUT:
        from = model_str(&op->request_put->key);
        ngx_str_null(&to);

        return puts && model_in(key, &from, &to);

    case ETCD__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE:
        from = model_str(&op->request_delete_range->key);
        to = model_str(&op->request_delete_range->range_end);

        return !puts && model_in(key, &from, &to);

    case ETCD__REQUEST_OP__REQUEST_REQUEST_TXN:
        txn = op->request_txn;

        for (i = 0; i < txn->n_success; i++) {
            if (model_op_writes(txn->success[i], key, puts)) {
                return 1;
            }
        }

        for (i = 0; i < txn->n_failure; i++) {
            if (model_op_writes(txn->failure[i], key, puts)) {
                return 1;
            }
        }

        return 0;

    default:
        return 0;
    }
}


static void
model_txn_path(Etcd__TxnRequest *request, model_path_t *path)
{
    size_t             i, n;
    ngx_uint_t         holds;
    Etcd__RequestOp  **ops;

    holds = 1;

    for (i = 0; i < request->n_compare; i++) {
        holds = holds && model_txn_holds(request->compare[i]);
    }

    if (path->n > MODEL_TXN_OPS) {
        abort();
    }

    path->taken[path->n++] = holds;

    ops = holds ? request->success : request->failure;
    n = holds ? request->n_success : request->n_failure;

    for (i = 0; i < n; i++) {
        if (ops[i]->request_case == ETCD__REQUEST_OP__REQUEST_REQUEST_TXN) {
            model_txn_path(ops[i]->request_txn, path);
        }
    }
}


static ngx_uint_t
model_txn_holds(Etcd__Compare *compare)
{
    int64_t       value, wanted;
    ngx_str_t     key;
    model_rec_t  *rec;

    key = model_str(&compare->key);
    rec = model_get(model.store, &key);

    switch (compare->target) {

    case ETCD__COMPARE__COMPARE_TARGET__CREATE:
        value = (rec != NULL) ? rec->create : 0;
        wanted = compare->create_revision;
        break;

    case ETCD__COMPARE__COMPARE_TARGET__MOD:
        value = (rec != NULL) ? rec->mod : 0;
        wanted = compare->mod_revision;
        break;

    case ETCD__COMPARE__COMPARE_TARGET__VERSION:
        value = (rec != NULL) ? rec->version : 0;
        wanted = compare->version;
        break;

    case ETCD__COMPARE__COMPARE_TARGET__LEASE:
        value = (rec != NULL) ? rec->lease : 0;
        wanted = compare->lease;
        break;

    default:
        abort();
    }

    switch (compare->result) {

    case ETCD__COMPARE__COMPARE_RESULT__EQUAL:
        return value == wanted;

    case ETCD__COMPARE__COMPARE_RESULT__GREATER:
        return value > wanted;

    case ETCD__COMPARE__COMPARE_RESULT__LESS:
        return value < wanted;

    default:
        return value != wanted;
    }
}


/* 1: every lease of what will be put is there */

static ngx_uint_t
model_txn_lease(Etcd__TxnRequest *request, model_path_t *path)
{
    size_t             i, n;
    int64_t            lease;
    ngx_uint_t         taken;
    Etcd__RequestOp  **ops;

    taken = path->taken[path->n++];
    ops = taken ? request->success : request->failure;
    n = taken ? request->n_success : request->n_failure;

    for (i = 0; i < n; i++) {
        if (ops[i]->request_case == ETCD__REQUEST_OP__REQUEST_REQUEST_TXN) {
            if (!model_txn_lease(ops[i]->request_txn, path)) {
                return 0;
            }

            continue;
        }

        if (ops[i]->request_case != ETCD__REQUEST_OP__REQUEST_REQUEST_PUT) {
            continue;
        }

        lease = ops[i]->request_put->lease;

        if (lease != 0 && model_lease(lease) == NULL) {
            return 0;
        }
    }

    return 1;
}


static Etcd__TxnResponse *
model_txn(Etcd__TxnRequest *request, model_path_t *path)
{
    size_t               i, n;
    ngx_uint_t           taken;
    Etcd__RequestOp    **ops;
    Etcd__TxnResponse   *response;

    taken = path->taken[path->n++];
    ops = taken ? request->success : request->failure;
    n = taken ? request->n_success : request->n_failure;

    response = sim_alloc(sizeof(Etcd__TxnResponse));
    etcd__txn_response__init(response);

    response->succeeded = taken;
    response->n_responses = n;
    response->responses = sim_alloc((n + 1) * sizeof(Etcd__ResponseOp *));

    for (i = 0; i < n; i++) {
        response->responses[i] = model_txn_op(ops[i], path);
    }

    return response;
}


static Etcd__ResponseOp *
model_txn_op(Etcd__RequestOp *op, model_path_t *path)
{
    ngx_str_t          key, value;
    Etcd__ResponseOp  *answer;

    answer = sim_alloc(sizeof(Etcd__ResponseOp));
    etcd__response_op__init(answer);

    switch (op->request_case) {

    case ETCD__REQUEST_OP__REQUEST_REQUEST_RANGE:
        answer->response_case = ETCD__RESPONSE_OP__RESPONSE_RESPONSE_RANGE;
        answer->response_range = model_range(op->request_range,
                                             model_revision());
        break;

    case ETCD__REQUEST_OP__REQUEST_REQUEST_PUT:
        key = model_str(&op->request_put->key);
        value = model_str(&op->request_put->value);
        model_put(&key, &value, op->request_put->lease);

        answer->response_case = ETCD__RESPONSE_OP__RESPONSE_RESPONSE_PUT;
        answer->response_put = sim_alloc(sizeof(Etcd__PutResponse));
        etcd__put_response__init(answer->response_put);
        break;

    case ETCD__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE:
        answer->response_case =
                           ETCD__RESPONSE_OP__RESPONSE_RESPONSE_DELETE_RANGE;
        answer->response_delete_range =
                                  sim_alloc(sizeof(Etcd__DeleteRangeResponse));
        etcd__delete_range_response__init(answer->response_delete_range);
        answer->response_delete_range->deleted =
                                   model_txn_delete(op->request_delete_range);
        break;

    case ETCD__REQUEST_OP__REQUEST_REQUEST_TXN:
        return model_txn_nested(answer, model_txn(op->request_txn, path));

    default:
        break;
    }

    return answer;
}


/* the client's own messages know one level of them, and Range in it */

static Etcd__ResponseOp *
model_txn_nested(Etcd__ResponseOp *answer, Etcd__TxnResponse *txn)
{
    size_t                     i;
    Etcd__NestedResponseOp    *op;
    Etcd__NestedTxnResponse   *nested;

    nested = sim_alloc(sizeof(Etcd__NestedTxnResponse));
    etcd__nested_txn_response__init(nested);

    nested->succeeded = txn->succeeded;
    nested->n_responses = txn->n_responses;
    nested->responses = sim_alloc((txn->n_responses + 1) * sizeof(void *));

    for (i = 0; i < txn->n_responses; i++) {
        op = sim_alloc(sizeof(Etcd__NestedResponseOp));
        etcd__nested_response_op__init(op);

        if (txn->responses[i]->response_case
            == ETCD__RESPONSE_OP__RESPONSE_RESPONSE_RANGE)
        {
            op->response_case =
                             ETCD__NESTED_RESPONSE_OP__RESPONSE_RESPONSE_RANGE;
            op->response_range = txn->responses[i]->response_range;
        }

        nested->responses[i] = op;
    }

    answer->response_case = ETCD__RESPONSE_OP__RESPONSE_RESPONSE_TXN;
    answer->response_txn = nested;

    return answer;
}


static int64_t
model_txn_delete(Etcd__DeleteRangeRequest *request)
{
    size_t          i;
    int64_t         deleted;
    ngx_str_t       from, to;
    model_store_t  *store;

    store = model.store;
    from = model_str(&request->key);
    to = model_str(&request->range_end);
    deleted = 0;

    for (i = model_lower(store, &from);
         i < store->nkeys && model_in(&store->keys[i]->name, &from, &to);
         i++)
    {
        deleted += model_delete(&store->keys[i]->name, MODEL_BY_CLIENT);
    }

    return deleted;
}
