
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The calls of etcd's v3 API that the client makes, done by the model.
 */


#include "model.h"


static void model_call_range(model_member_t *member,
    Etcd__RangeRequest *request, model_answer_t *answer);
static ngx_uint_t model_range_wants(Etcd__RangeRequest *request,
    model_rec_t *rec);
static int model_range_compare(const void *one, const void *other);

static void model_call_grant(model_member_t *member,
    Etcd__LeaseGrantRequest *request, model_answer_t *answer);
static void model_call_revoke(model_member_t *member,
    Etcd__LeaseRevokeRequest *request, model_answer_t *answer);
static void model_call_time_to_live(model_member_t *member,
    Etcd__LeaseTimeToLiveRequest *request, model_answer_t *answer);


static int  model_range_order;    /* of qsort(): a target of a RangeRequest */


void
model_answer(model_answer_t *answer, ProtobufCMessage *message)
{
    answer->status = NGX_ETCD_GRPC_OK;
    answer->text = "";
    answer->len = protobuf_c_message_get_packed_size(message);
    answer->data = sim_alloc(answer->len + 1);
    (void) protobuf_c_message_pack(message, answer->data);
}


void
model_refuse(model_answer_t *answer, ngx_etcd_grpc_status_e status, char *text)
{
    answer->status = status;
    answer->text = text;
    answer->data = NULL;
    answer->len = 0;
}


ngx_str_t
model_str(ProtobufCBinaryData *data)
{
    ngx_str_t  str;

    str.data = data->data;
    str.len = data->len;

    return str;
}


ngx_uint_t
model_is_denied(ngx_str_t *key)
{
    return model.denied.len != 0
           && key->len >= model.denied.len
           && ngx_memcmp(key->data, model.denied.data, model.denied.len) == 0;
}


#define model_unpack(type, data, len)                                         \
    ((void *) protobuf_c_message_unpack(&type##__descriptor, NULL, len, data))


void
model_call(model_member_t *member, char *method, u_char *data, size_t len,
    model_answer_t *answer)
{
    void  *request;

    if (ngx_strcmp(method, "/etcdserverpb.KV/Range") == 0) {
        request = model_unpack(etcd__range_request, data, len);
        model_call_range(member, request, answer);

    } else if (ngx_strcmp(method, "/etcdserverpb.KV/Txn") == 0) {
        request = model_unpack(etcd__txn_request, data, len);
        model_call_txn(member, request, answer);

    } else if (ngx_strcmp(method, "/etcdserverpb.Lease/LeaseGrant") == 0) {
        request = model_unpack(etcd__lease_grant_request, data, len);
        model_call_grant(member, request, answer);

    } else if (ngx_strcmp(method, "/etcdserverpb.Lease/LeaseRevoke") == 0) {
        request = model_unpack(etcd__lease_revoke_request, data, len);
        model_call_revoke(member, request, answer);

    } else if (ngx_strcmp(method, "/etcdserverpb.Lease/LeaseTimeToLive")
               == 0)
    {
        request = model_unpack(etcd__lease_time_to_live_request, data, len);
        model_call_time_to_live(member, request, answer);

    } else {
        model_refuse(answer, NGX_ETCD_GRPC_UNIMPLEMENTED, "unknown method");
        return;
    }

    protobuf_c_message_free_unpacked(request, NULL);
}


ngx_uint_t
model_call_list(model_member_t *member, u_char **data, size_t *len,
    int64_t *revision, model_answer_t *answer)
{
    ngx_uint_t                  more;
    Etcd__KeyValue             *last;
    Etcd__RangeRequest         *request;
    ProtobufCBinaryData        *packed, chunk;
    Etcd__NestedRangeResponse  *range;
    Etcd__RangeStreamResponse   stream;

    if (model.list_chunk == 0) {
        model_refuse(answer, NGX_ETCD_GRPC_UNIMPLEMENTED, "unknown method");
        return 0;
    }

    request = model_unpack(etcd__range_request, *data, *len);
    request->limit = model.list_chunk;

    model_call_range(member, request, answer);

    if (answer->status != NGX_ETCD_GRPC_OK) {
        protobuf_c_message_free_unpacked(&request->base, NULL);
        return 0;
    }

    range = model_unpack(etcd__nested_range_response, answer->data,
                         answer->len);
    more = range->more;

    if (*revision == 0) {
        *revision = range->header->revision;
    }

    range->header->revision = *revision;

    if (more) {
        packed = &range->kvs[range->n_kvs - 1];
        last = model_unpack(etcd__key_value, packed->data, packed->len);

        free(request->key.data);
        request->key.len = last->key.len + 1;
        request->key.data = calloc(1, request->key.len);
        ngx_memcpy(request->key.data, last->key.data, last->key.len);

        *len = protobuf_c_message_get_packed_size(&request->base);
        *data = sim_alloc(*len);
        (void) protobuf_c_message_pack(&request->base, *data);

        protobuf_c_message_free_unpacked(&last->base, NULL);
        protobuf_c_message_free_unpacked(&range->header->base, NULL);
        range->header = NULL;
        range->more = 0;
    }

    chunk.len = protobuf_c_message_get_packed_size(&range->base);
    chunk.data = sim_alloc(chunk.len);
    (void) protobuf_c_message_pack(&range->base, chunk.data);

    etcd__range_stream_response__init(&stream);
    stream.range_response = &chunk;
    stream.n_range_response = 1;
    model_answer(answer, &stream.base);
    protobuf_c_message_free_unpacked(&range->base, NULL);
    protobuf_c_message_free_unpacked(&request->base, NULL);

    return more;
}


ngx_uint_t
model_is_local(char *method, u_char *data, size_t len)
{
    ngx_uint_t           local;
    Etcd__RangeRequest  *request;

    if (ngx_strcmp(method, "/etcdserverpb.KV/Range") != 0
        && ngx_strcmp(method, "/etcdserverpb.KV/RangeStream") != 0)
    {
        return 0;
    }

    request = model_unpack(etcd__range_request, data, len);
    local = request->serializable;
    protobuf_c_message_free_unpacked(&request->base, NULL);

    return local;
}


static void
model_call_range(model_member_t *member, Etcd__RangeRequest *request,
    model_answer_t *answer)
{
    int64_t               current, revision, compacted;
    ngx_str_t             key;
    Etcd__RangeResponse  *response;
    Etcd__ResponseHeader  header;

    key = model_str(&request->key);

    if (model_is_denied(&key)) {
        model_refuse(answer, NGX_ETCD_GRPC_PERMISSION_DENIED,
                     "etcdserver: permission denied");
        return;
    }

    current = request->serializable ? member->applied : model.store->revision;
    revision = request->revision ? request->revision : current;
    compacted = ngx_min(model.store->compacted, current);

    if (revision > current) {
        model_refuse(answer, NGX_ETCD_GRPC_OUT_OF_RANGE, "etcdserver: mvcc: "
                     "required revision is a future revision");
        return;
    }

    if (revision < compacted) {
        model_refuse(answer, NGX_ETCD_GRPC_OUT_OF_RANGE, "etcdserver: mvcc: "
                     "required revision has been compacted");
        return;
    }

    response = model_range(request, revision);

    if (request->serializable) {
        model_header(member, &header, current);

    } else {
        model_header_linear(member, &header);
    }

    response->header = &header;

    model_answer(answer, &response->base);
}


Etcd__RangeResponse *
model_range(Etcd__RangeRequest *request, int64_t revision)
{
    size_t                i, n, limit;
    ngx_str_t             from, to;
    model_rec_t          *rec, **recs;
    model_store_t        *store;
    Etcd__KeyValue       *kv;
    Etcd__RangeResponse  *response;

    store = model.store;
    from = model_str(&request->key);
    to = model_str(&request->range_end);

    recs = sim_alloc((store->nkeys + 1) * sizeof(model_rec_t *));

    response = sim_alloc(sizeof(Etcd__RangeResponse));
    etcd__range_response__init(response);

    n = 0;

    for (i = model_lower(store, &from);
         i < store->nkeys && model_in(&store->keys[i]->name, &from, &to);
         i++)
    {
        rec = model_at(store->keys[i], revision);

        if (rec == NULL) {
            continue;
        }

        response->count++;

        if (model_range_wants(request, rec)) {
            recs[n++] = rec;
        }
    }

    if (request->count_only) {
        return response;
    }

    if (request->sort_order != ETCD__RANGE_REQUEST__SORT_ORDER__NONE) {
        model_range_order = request->sort_target;

        if (request->sort_order == ETCD__RANGE_REQUEST__SORT_ORDER__DESCEND) {
            model_range_order = -model_range_order;
        }

        ngx_qsort(recs, n, sizeof(model_rec_t *), model_range_compare);
    }

    limit = request->limit ? (size_t) request->limit : n;

    if (n > limit) {
        response->more = 1;
        n = limit;
    }

    response->n_kvs = n;
    response->kvs = sim_alloc((n + 1) * sizeof(Etcd__KeyValue *));

    for (i = 0; i < n; i++) {
        rec = recs[i];

        kv = sim_alloc(sizeof(Etcd__KeyValue));
        etcd__key_value__init(kv);

        kv->key.data = rec->key.data;
        kv->key.len = rec->key.len;
        kv->create_revision = rec->create;
        kv->mod_revision = rec->mod;
        kv->version = rec->version;
        kv->lease = rec->lease;

        if (!request->keys_only) {
            kv->value.data = rec->value.data;
            kv->value.len = rec->value.len;
        }

        response->kvs[i] = kv;
    }

    return response;
}


static ngx_uint_t
model_range_wants(Etcd__RangeRequest *request, model_rec_t *rec)
{
    return (request->min_mod_revision == 0
            || rec->mod >= request->min_mod_revision)
           && (request->max_mod_revision == 0
               || rec->mod <= request->max_mod_revision)
           && (request->min_create_revision == 0
               || rec->create >= request->min_create_revision)
           && (request->max_create_revision == 0
               || rec->create <= request->max_create_revision);
}


static int
model_range_compare(const void *one, const void *other)
{
    int64_t       diff;
    ngx_uint_t    descend;
    model_rec_t  *a, *b;

    a = *(model_rec_t **) one;
    b = *(model_rec_t **) other;

    descend = (model_range_order < 0);

    switch (descend ? -model_range_order : model_range_order) {

    case ETCD__RANGE_REQUEST__SORT_TARGET__CREATE:
        diff = a->create - b->create;
        break;

    case ETCD__RANGE_REQUEST__SORT_TARGET__MOD:
        diff = a->mod - b->mod;
        break;

    default:
        diff = ngx_memn2cmp(a->key.data, b->key.data, a->key.len, b->key.len);
        break;
    }

    diff = descend ? -diff : diff;

    return (diff > 0) - (diff < 0);
}


static void
model_call_grant(model_member_t *member, Etcd__LeaseGrantRequest *request,
    model_answer_t *answer)
{
    model_lease_t             *lease;
    Etcd__ResponseHeader       header;
    Etcd__LeaseGrantResponse   response;

    if (model_lease(request->id) != NULL) {
        model_refuse(answer, NGX_ETCD_GRPC_FAILED_PRECONDITION,
                     "etcdserver: lease already exists");
        return;
    }

    lease = model_lease_grant(request->id, request->ttl);

    etcd__lease_grant_response__init(&response);
    model_header_linear(member, &header);
    response.header = &header;
    response.id = request->id;
    response.ttl = model_lease_ttl(lease, member);

    model_answer(answer, &response.base);
}


static void
model_call_revoke(model_member_t *member, Etcd__LeaseRevokeRequest *request,
    model_answer_t *answer)
{
    model_lease_t              *lease;
    Etcd__ResponseHeader        header;
    Etcd__LeaseRevokeResponse   response;

    lease = model_lease(request->id);

    if (lease == NULL) {
        model_refuse(answer, NGX_ETCD_GRPC_NOT_FOUND,
                     "etcdserver: requested lease not found");
        return;
    }

    model_lease_end(lease, MODEL_BY_CLIENT);

    etcd__lease_revoke_response__init(&response);
    model_header_linear(member, &header);
    response.header = &header;

    model_answer(answer, &response.base);
}


static void
model_call_time_to_live(model_member_t *member,
    Etcd__LeaseTimeToLiveRequest *request, model_answer_t *answer)
{
    size_t                          i;
    model_rec_t                    *rec;
    model_lease_t                  *lease;
    model_store_t                  *store;
    Etcd__ResponseHeader            header;
    Etcd__LeaseTimeToLiveResponse   response;

    store = model.store;
    lease = model_lease(request->id);

    etcd__lease_time_to_live_response__init(&response);
    model_header_linear(member, &header);
    response.header = &header;
    response.id = request->id;
    response.ttl = -1;

    if (lease != NULL && lease->expiry > sim.now) {
        response.ttl = (lease->expiry - sim.now) / SIM_SECOND;
    }

    if (lease != NULL && request->keys) {
        response.keys = sim_alloc((store->nkeys + 1)
                                  * sizeof(ProtobufCBinaryData));

        for (i = 0; i < store->nkeys; i++) {
            rec = store->keys[i]->last;

            if (!rec->deleted && rec->lease == lease->id) {
                response.keys[response.n_keys].data = rec->key.data;
                response.keys[response.n_keys++].len = rec->key.len;
            }
        }
    }

    model_answer(answer, &response.base);
}


/*
 * A leader that was deposed and does not know it says the TTL, and renews
 * nothing (etcd issue 15247).
 */

ngx_uint_t
model_keep_alive(model_member_t *member, u_char *data, size_t len,
    model_answer_t *answer)
{
    model_lease_t                 *lease;
    Etcd__ResponseHeader           header;
    Etcd__LeaseKeepAliveRequest   *request;
    Etcd__LeaseKeepAliveResponse   response;

    request = model_unpack(etcd__lease_keep_alive_request, data, len);

    etcd__lease_keep_alive_response__init(&response);
    model_header(member, &header, member->applied);
    response.header = &header;
    response.id = request->id;

    lease = model_lease(request->id);
    protobuf_c_message_free_unpacked(&request->base, NULL);

    if (member->misled > sim.now) {
        response.ttl = lease ? model_lease_ttl(lease, member) : 60;
        sim_trace("etcd: lease %xL is not renewed by a leader that was "
                  "deposed", response.id);

    } else if (lease != NULL && lease->expiry > sim.now) {
        response.ttl = model_lease_ttl(lease, model.leader);
        lease->expiry = sim.now + response.ttl * SIM_SECOND;
        sim_trace("etcd: lease %xL renewed", response.id);
    }

    model_answer(answer, &response.base);

    return 1;
}
