
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_quorum_read.h>
#include <ngx_etcd_auth.h>


static ngx_int_t ngx_etcd_quorum_read_send(ngx_etcd_quorum_read_t *read);
static ngx_int_t ngx_etcd_quorum_read_message(ngx_etcd_grpc_call_t *call,
    ProtobufCMessage *message, ngx_pool_t *pool);
static void ngx_etcd_quorum_read_done(ngx_etcd_grpc_call_t *call,
    ngx_etcd_grpc_status_e status, ngx_str_t *text);


ngx_int_t
ngx_etcd_quorum_read_start(ngx_etcd_quorum_read_t *read)
{
    ngx_keyval_t           md[NGX_ETCD_AUTH_METADATA];
    ngx_etcd_auth_t       *auth;
    ngx_etcd_http2_t      *h2;
    ngx_etcd_grpc_call_t  *call;

    auth = read->cluster->auth;
    h2 = ngx_etcd_channel_get(&read->cluster->streams);

    if (h2 == NULL || !ngx_etcd_auth_ready(auth)) {
        return NGX_DECLINED;
    }

    call = &read->call;
    ngx_memzero(call, sizeof(ngx_etcd_grpc_call_t));

    call->method = "/etcdserverpb.KV/Range";
    call->response = &etcd__range_response__descriptor;
    call->metadata = md;
    call->nmetadata = ngx_etcd_auth_metadata(auth, md, &read->token);
    call->message = ngx_etcd_quorum_read_message;
    call->done = ngx_etcd_quorum_read_done;
    call->data = read;

    read->answered = 0;
    read->refused = 0;
    read->mark = ngx_etcd_history_mark(read->cluster);

    if (ngx_etcd_grpc_start(h2, call) != NGX_OK) {
        return NGX_DECLINED;
    }

    read->reading = 1;

    if (ngx_etcd_quorum_read_send(read) != NGX_OK) {
        ngx_etcd_quorum_read_cancel(read);
        return NGX_DECLINED;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_quorum_read_send(ngx_etcd_quorum_read_t *read)
{
    Etcd__RangeRequest  request;

    etcd__range_request__init(&request);

    request.key.data = read->key.data;
    request.key.len = read->key.len;
    request.keys_only = 1;

    if (ngx_etcd_grpc_send(&read->call, &request.base) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_etcd_grpc_end(&read->call);

    return NGX_OK;
}


void
ngx_etcd_quorum_read_cancel(ngx_etcd_quorum_read_t *read)
{
    if (read->reading) {
        read->reading = 0;
        ngx_etcd_grpc_cancel(&read->call);
    }
}


static ngx_int_t
ngx_etcd_quorum_read_message(ngx_etcd_grpc_call_t *call,
    ProtobufCMessage *message, ngx_pool_t *pool)
{
    Etcd__RangeResponse     *response;
    Etcd__ResponseHeader    *header;
    ngx_etcd_quorum_read_t  *read;

    read = call->data;
    response = (Etcd__RangeResponse *) message;
    header = response->header;

    read->answered = 1;
    read->cluster_id = (header != NULL) ? header->cluster_id : 0;
    read->raft_term = (header != NULL) ? header->raft_term : 0;
    read->created = (response->n_kvs != 0) ? response->kvs[0]->create_revision
                                           : 0;

    ngx_etcd_history_check(read->cluster, header, &read->mark);

    return NGX_OK;
}


static void
ngx_etcd_quorum_read_done(ngx_etcd_grpc_call_t *call,
    ngx_etcd_grpc_status_e status, ngx_str_t *text)
{
    ngx_str_t                missing;
    ngx_etcd_auth_t         *auth;
    ngx_etcd_quorum_read_t  *read;

    read = call->data;
    read->reading = 0;

    auth = read->cluster->auth;

    if (status == NGX_ETCD_GRPC_OK && !read->answered) {
        status = NGX_ETCD_GRPC_INTERNAL;
        ngx_str_set(&missing, "OK without a response");
        text = &missing;

    } else if (status == NGX_ETCD_GRPC_OK) {
        ngx_etcd_auth_accepted(auth);

    } else {
        read->refused = ngx_etcd_auth_refused(auth, read->token, status, text);
    }

    read->done(read, status, text);
}
