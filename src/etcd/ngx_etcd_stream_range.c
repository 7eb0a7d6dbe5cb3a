
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_stream_range.h>
#include <ngx_etcd_auth.h>


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
