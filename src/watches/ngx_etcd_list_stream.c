
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_list_stream.h>
#include <ngx_etcd_auth.h>
#include <ngx_etcd_message.h>


static Etcd__NestedRangeResponse *
ngx_etcd_list_stream_unpack(Etcd__RangeStreamResponse *message,
    ngx_pool_t *pool)
{
    ngx_uint_t            exceeded;
    ProtobufCBinaryData  *packed;

    if (message->n_range_response != 1) {
        return NULL;
    }

    packed = message->range_response;

    return (Etcd__NestedRangeResponse *) ngx_etcd_message_unpack_in_place(
                                    &etcd__nested_range_response__descriptor,
                                    pool, packed->data, packed->len,
                                    &exceeded);
}


static ngx_int_t
ngx_etcd_list_stream_message(ngx_etcd_grpc_call_t *call,
    ProtobufCMessage *message, ngx_pool_t *pool)
{
    ngx_etcd_list_stream_t     *stream;
    Etcd__NestedRangeResponse  *response;

    stream = call->data;
    response = ngx_etcd_list_stream_unpack(
                                (Etcd__RangeStreamResponse *) message, pool);

    /* without a limit, nothing remains after the header */

    if (response == NULL || stream->complete || response->more) {
        return NGX_ERROR;
    }

    if (response->header == NULL) {

        if (response->n_kvs == 0) {
            return NGX_ERROR;
        }

    } else {

        if (response->header->revision < stream->revision) {
            return NGX_ERROR;
        }

        stream->complete = 1;

        if (!stream->serializable) {
            ngx_etcd_history_check(stream->cluster, response->header,
                                   &stream->mark);
        }
    }

    stream->progress = ngx_current_msec;
    stream->cluster->reads->streamed = stream->connection;

    return (stream->chunk(stream, response, pool) == NGX_OK) ? NGX_DONE
                                                             : NGX_ERROR;
}


static void
ngx_etcd_list_stream_stop(ngx_etcd_list_stream_t *stream)
{
    stream->running = 0;

    ngx_etcd_event_stop(&stream->timer);
}


static void
ngx_etcd_list_stream_ended(ngx_etcd_grpc_call_t *call,
    ngx_etcd_grpc_status_e status, ngx_str_t *text)
{
    ngx_str_t                missing;
    ngx_etcd_channel_t      *reads;
    ngx_etcd_list_stream_t  *stream;

    stream = call->data;
    reads = stream->cluster->reads;

    ngx_etcd_list_stream_stop(stream);

    if (status == NGX_ETCD_GRPC_OK && !stream->complete) {
        status = NGX_ETCD_GRPC_INTERNAL;
        ngx_str_set(&missing, "OK without a header");
        text = &missing;
    }

    if (status == NGX_ETCD_GRPC_OUT_OF_RANGE) {
        reads->streamed = stream->connection;

    } else if (status != NGX_ETCD_GRPC_OK
               && reads->streamed == stream->connection)
    {
        reads->streamed = 0;
    }

    stream->done(stream, status, text);
}


/*
 * A large chunk on a slow line may take long: any input is progress, but not
 * without a chunk for all of request_timeout.
 */

static void
ngx_etcd_list_stream_timer(ngx_event_t *ev)
{
    ngx_str_t                text;
    ngx_uint_t               heard, late;
    ngx_etcd_cluster_t      *cluster;
    ngx_etcd_list_stream_t  *stream;

    stream = ev->data;
    cluster = stream->cluster;

    heard = (ngx_msec_int_t) (cluster->reads->heard - stream->looked) > 0;
    late = ngx_current_msec - stream->progress
           >= cluster->conf->request_timeout;

    if (stream->held || (heard && !late)) {
        stream->looked = ngx_current_msec;
        ngx_add_timer(ev, NGX_ETCD_LIST_STREAM_SILENCE);
        return;
    }

    ngx_etcd_grpc_cancel(&stream->call);

    ngx_str_set(&text, "no keys in time");
    ngx_etcd_list_stream_ended(&stream->call, NGX_ETCD_GRPC_DEADLINE_EXCEEDED,
                               &text);
}


/*
 * The call has no deadline: how long it takes depends on the number of keys.
 */

static ngx_int_t
ngx_etcd_list_stream_call(ngx_etcd_list_stream_t *stream, ngx_etcd_http2_t *h2,
    Etcd__RangeRequest *request)
{
    ngx_uint_t             token;
    ngx_keyval_t           md[NGX_ETCD_AUTH_METADATA];
    ngx_etcd_grpc_call_t  *call;

    call = &stream->call;
    ngx_memzero(call, sizeof(ngx_etcd_grpc_call_t));

    call->method = "/etcdserverpb.KV/RangeStream";
    call->response = &etcd__range_stream_response__descriptor;
    call->metadata = md;
    call->nmetadata = ngx_etcd_auth_metadata(stream->cluster->auth, md,
                                             &token);
    call->message = ngx_etcd_list_stream_message;
    call->done = ngx_etcd_list_stream_ended;
    call->data = stream;

    stream->mark = ngx_etcd_history_mark(stream->cluster);

    if (ngx_etcd_grpc_request(h2, call, &request->base) != NGX_OK) {
        return NGX_DECLINED;
    }

    stream->cluster->reads->probed = stream->connection;

    stream->running = 1;
    stream->looked = ngx_current_msec;
    stream->progress = ngx_current_msec;

    ngx_etcd_event_init_timer(&stream->timer, ngx_etcd_list_stream_timer,
                              stream, stream->cluster->log);

    ngx_add_timer(&stream->timer, NGX_ETCD_LIST_STREAM_SILENCE);

    return NGX_OK;
}


ngx_int_t
ngx_etcd_list_stream_start(ngx_etcd_list_stream_t *stream,
    Etcd__RangeRequest *request, ngx_uint_t connection)
{
    ngx_etcd_http2_t    *h2;
    ngx_etcd_channel_t  *reads;

    reads = stream->cluster->reads;

    if (connection == 0
        || connection != reads->connection
        || (connection == reads->probed && connection != reads->streamed)
        || !ngx_etcd_auth_ready(stream->cluster->auth))
    {
        return NGX_DECLINED;
    }

    h2 = ngx_etcd_channel_get(reads);

    if (h2 == NULL) {
        return NGX_DECLINED;
    }

    stream->connection = connection;
    stream->revision = request->revision;
    stream->serializable = request->serializable;
    stream->held = 0;
    stream->complete = 0;

    return ngx_etcd_list_stream_call(stream, h2, request);
}


void
ngx_etcd_list_stream_hold(ngx_etcd_list_stream_t *stream, ngx_uint_t hold)
{
    if (!stream->running || stream->held == hold) {
        return;
    }

    stream->held = hold;
    stream->progress = ngx_current_msec;

    ngx_etcd_grpc_hold(&stream->call, hold);
}


void
ngx_etcd_list_stream_cancel(ngx_etcd_list_stream_t *stream)
{
    ngx_etcd_channel_t  *reads;

    if (!stream->running) {
        return;
    }

    ngx_etcd_list_stream_stop(stream);
    ngx_etcd_grpc_cancel(&stream->call);

    /* if this call was to show whether it works, the next one will */

    reads = stream->cluster->reads;

    if (reads->probed == stream->connection) {
        reads->probed = 0;
    }
}
