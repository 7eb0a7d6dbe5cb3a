
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Answers of a peer to a gRPC call, above HTTP/2: header blocks, and bodies in
 * pieces.  An input is a byte with the number of the call's response, one
 * of flags, then steps: a byte that chooses what comes, and what it needs.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_str.h>
#include <ngx_etcd_grpc.h>
#include <ngx_etcd_grpc_call.h>
#include <ngx_etcd_grpc_response.h>
#include <ngx_etcd_proto.pb-c.h>
#include "fuzz.h"


#define FUZZ_MAX_MESSAGE  4096


static void fuzz_step(const uint8_t **data, size_t *size);
static void fuzz_headers(const uint8_t **data, size_t *size, ngx_uint_t last);
static ngx_int_t fuzz_message(ngx_etcd_grpc_call_t *call,
    ProtobufCMessage *message, ngx_pool_t *pool);
static void fuzz_done(ngx_etcd_grpc_call_t *call,
    ngx_etcd_grpc_status_e status, ngx_str_t *text);


static ngx_etcd_http2_conf_t     fuzz_http2;
static ngx_etcd_http2_stream_t  *fuzz_stream;
static ngx_uint_t                fuzz_ended;
static ngx_int_t                 fuzz_answer;

/* all that a call of ours may get, see t/client/proto.t */

static const ProtobufCMessageDescriptor  *fuzz_responses[] = {
    &etcd__watch_response__descriptor,
    &etcd__range_response__descriptor,
    &etcd__authenticate_response__descriptor,
    &etcd__delete_range_response__descriptor,
    &etcd__lease_grant_response__descriptor,
    &etcd__lease_keep_alive_response__descriptor,
    &etcd__lease_revoke_response__descriptor,
    &etcd__lease_time_to_live_response__descriptor,
    &etcd__member_list_response__descriptor,
    &etcd__put_response__descriptor,
    &etcd__status_response__descriptor,
    &etcd__health_check_response__descriptor,
    &etcd__txn_response__descriptor,
    &etcd__event__descriptor,
    &etcd__range_stream_response__descriptor,
    &etcd__key_value__descriptor,
    &etcd__nested_range_response__descriptor
};


#define FUZZ_RESPONSES                                               \
    (sizeof(fuzz_responses) / sizeof(fuzz_responses[0]))


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ngx_str_t              reason;
    ngx_uint_t             failed;
    ngx_etcd_grpc_call_t   call;

    if (size < 2) {
        return 0;
    }

    ngx_memzero(&call, sizeof(ngx_etcd_grpc_call_t));
    ngx_str_set(&fuzz_http2.authority, "127.0.0.1");

    fuzz_http2.max_message_size = FUZZ_MAX_MESSAGE;
    fuzz_ended = 0;
    fuzz_answer = (data[1] & 2) ? NGX_ERROR : NGX_OK;
    failed = (data[1] & 4);

    call.method = "/etcdserverpb.Watch/Watch";
    call.response = fuzz_responses[*data % FUZZ_RESPONSES];
    call.message = fuzz_message;
    call.done = fuzz_done;

    data += 2;
    size -= 2;

    fuzz_check(ngx_etcd_grpc_start((ngx_etcd_http2_t *) 1, &call) == NGX_OK);
    fuzz_stream->sent = 1;

    while (size != 0) {
        fuzz_step(&data, &size);
    }

    if (failed) {
        ngx_str_set(&reason, "the connection was closed");
        fuzz_stream->handlers->failed(fuzz_stream, &reason);

    } else {
        fuzz_stream->handlers->closed(fuzz_stream, 0);
    }

    fuzz_check(fuzz_ended == 1);

    fuzz_stream->handlers->free(fuzz_stream);

    return 0;
}


static void
fuzz_step(const uint8_t **data, size_t *size)
{
    size_t     most;
    uint8_t    what;
    ngx_str_t  text;

    what = **data;
    (*data)++;
    (*size)--;

    switch (what) {

    case 'h':
        fuzz_headers(data, size, 0);
        return;

    case 't':
        fuzz_headers(data, size, 1);
        return;

    case 'l':
        fuzz_stream->handlers->last(fuzz_stream);
        return;

    default:

        /* DATA of that many bytes */

        most = what;
        text = fuzz_bytes(data, size, most);
        fuzz_stream->handlers->data(fuzz_stream, text.data, text.len);
        ngx_free(text.data);
        return;
    }
}


/* lines of names and values, up to one that is empty */

static void
fuzz_headers(const uint8_t **data, size_t *size, ngx_uint_t last)
{
    ngx_str_t  name, value;

    fuzz_stream->handlers->begin(fuzz_stream);

    for ( ;; ) {
        name = fuzz_line(data, size);

        if (name.len == 0) {
            ngx_free(name.data);
            break;
        }

        value = fuzz_line(data, size);

        fuzz_stream->handlers->header(fuzz_stream, &name, &value);

        ngx_free(name.data);
        ngx_free(value.data);
    }

    fuzz_stream->handlers->end(fuzz_stream, last);
}


static ngx_int_t
fuzz_message(ngx_etcd_grpc_call_t *call, ProtobufCMessage *message,
    ngx_pool_t *pool)
{
    fuzz_check(!fuzz_ended);
    fuzz_check(message->descriptor == call->response);
    fuzz_check(protobuf_c_message_check(message));

    return fuzz_answer;
}


static void
fuzz_done(ngx_etcd_grpc_call_t *call, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    fuzz_check(status <= NGX_ETCD_GRPC_UNAUTHENTICATED);
    fuzz_check(text->len <= NGX_ETCD_GRPC_TEXT);
    fuzz_check(!ngx_etcd_escape_has_control(text->data, text->len));

    fuzz_ended++;
}


/* HTTP/2, as far as a call needs it */

ngx_int_t
ngx_etcd_http2_stream_open(ngx_etcd_http2_t *h2,
    ngx_etcd_http2_stream_t *stream, nghttp2_nv *headers, size_t n)
{
    stream->h2 = h2;
    stream->id = 1;
    fuzz_stream = stream;

    return NGX_OK;
}


void
ngx_etcd_http2_stream_resume(ngx_etcd_http2_stream_t *stream)
{
}


void
ngx_etcd_http2_stream_hold(ngx_etcd_http2_stream_t *stream, ngx_uint_t hold)
{
}


void
ngx_etcd_http2_stream_reset(ngx_etcd_http2_stream_t *stream, uint32_t code)
{
}


ngx_etcd_http2_conf_t *
ngx_etcd_http2_conf(ngx_etcd_http2_t *h2)
{
    return &fuzz_http2;
}


ngx_log_t *
ngx_etcd_http2_log(ngx_etcd_http2_t *h2)
{
    return ngx_cycle->log;
}
