
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_lookup.h>
#include <ngx_etcd_message.h>
#include "test_etcd.h"


struct ngx_etcd_http2_s {
    ngx_queue_t              queue;
    ngx_etcd_http2_conf_t    conf;
    ngx_event_t              event;        /* posted: ready */
    ngx_uint_t               ready;
    ngx_uint_t               goaway;
    ngx_uint_t               pings;
    ngx_uint_t               closed;
    ngx_event_t              timer;        /* of a silent endpoint */
    ngx_uint_t               late;
    ngx_etcd_grpc_stream_t  *told;         /* the call that asks for the
                                              cluster */
};


test_etcd_t  test_etcd;


static void test_etcd_late(ngx_event_t *ev);
static void test_etcd_destroy(void *data);
static void test_etcd_identified(ngx_event_t *ev);
static void test_etcd_end(ngx_etcd_grpc_stream_t *stream,
    ngx_etcd_grpc_status_e status, char *text);
static void test_etcd_end_all(ngx_etcd_http2_t *h2, char *text);
static void test_etcd_release(ngx_etcd_http2_t *h2);


/* connections */

void
test_etcd_connected(ngx_etcd_http2_t *h2)
{
    ngx_etcd_event_stop(&h2->timer);

    h2->ready = 1;
    h2->conf.ready(h2->conf.data);
}


static void
test_etcd_ready(ngx_event_t *ev)
{
    ngx_str_t          reason = ngx_string("connection refused");
    ngx_uint_t         bit;
    ngx_etcd_http2_t  *h2 = ev->data;

    bit = 1 << (test_etcd_where(h2) - 1);

    if (test_etcd.silent & bit) {
        ngx_add_timer(&h2->timer, h2->conf.connect_timeout + h2->conf.patience);
        return;
    }

    if (test_etcd.down || (test_etcd.refused & bit)) {
        h2->conf.closed(h2->conf.data, &reason);
        test_etcd_release(h2);
        return;
    }

    test_etcd_connected(h2);
}


static void
test_etcd_late(ngx_event_t *ev)
{
    ngx_etcd_http2_t  *h2 = ev->data;

    h2->late = 1;
    test_etcd_break(h2, "timed out waiting for HTTP/2 SETTINGS");
}


ngx_etcd_http2_t *
ngx_etcd_http2_connect(ngx_etcd_http2_conf_t *conf, ngx_log_t *log)
{
    ngx_etcd_http2_t  *h2;

    test_etcd.connects++;

    h2 = ngx_calloc(sizeof(ngx_etcd_http2_t), log);
    if (h2 == NULL) {
        return NULL;
    }

    h2->conf = *conf;
    h2->event.handler = test_etcd_ready;
    h2->event.data = h2;
    h2->event.log = log;

    ngx_etcd_event_init_timer(&h2->timer, test_etcd_late, h2, log);

    ngx_queue_insert_tail(&test_etcd.connections, &h2->queue);
    ngx_post_event(&h2->event, &ngx_posted_events);

    return h2;
}


void
ngx_etcd_http2_close(ngx_etcd_http2_t *h2)
{
    h2->closed = 1;

    test_etcd_end_all(h2, "connection was closed");
    test_etcd_release(h2);
}


void
ngx_etcd_http2_stay(ngx_etcd_http2_t *h2)
{
    /* there is no event loop */
}


void
ngx_etcd_http2_wait(ngx_etcd_http2_t *h2, ngx_msec_t time)
{
    ngx_current_msec += time;
}


uint32_t
ngx_etcd_http2_max_calls(ngx_etcd_http2_t *h2)
{
    return 0x7fffffff;
}


ngx_uint_t
ngx_etcd_http2_usable(ngx_etcd_http2_t *h2)
{
    return h2->ready && !h2->goaway;
}


ngx_uint_t
ngx_etcd_http2_ended(ngx_etcd_http2_t *h2)
{
    return !h2->ready;
}


ngx_uint_t
ngx_etcd_http2_late(ngx_etcd_http2_t *h2)
{
    return h2->late;
}


ngx_uint_t
ngx_etcd_http2_too_many_pings(ngx_etcd_http2_t *h2)
{
    return h2->pings;
}


static void
test_etcd_release(ngx_etcd_http2_t *h2)
{
    if (h2->event.posted) {
        ngx_delete_posted_event(&h2->event);
    }

    ngx_etcd_event_stop(&h2->timer);

    ngx_queue_remove(&h2->queue);
    ngx_free(h2);
}


void
test_etcd_break(ngx_etcd_http2_t *h2, char *reason)
{
    ngx_str_t  text;

    text.data = (u_char *) reason;
    text.len = ngx_strlen(reason);

    h2->ready = 0;

    test_etcd_end_all(h2, reason);

    h2->conf.closed(h2->conf.data, &text);
    test_etcd_release(h2);
}


void
test_etcd_goaway(ngx_etcd_http2_t *h2, ngx_uint_t pings)
{
    h2->goaway = 1;
    h2->pings = pings;
    h2->conf.draining(h2->conf.data);
}


ngx_etcd_http2_t *
test_etcd_connection(ngx_uint_t n)
{
    ngx_queue_t  *q;

    for (q = ngx_queue_head(&test_etcd.connections);
         q != ngx_queue_sentinel(&test_etcd.connections);
         q = ngx_queue_next(q))
    {
        if (n-- == 0) {
            return ngx_queue_data(q, ngx_etcd_http2_t, queue);
        }
    }

    return NULL;
}


ngx_uint_t
test_etcd_where(ngx_etcd_http2_t *h2)
{
    return ntohl(((struct sockaddr_in *)
                  h2->conf.addr->sockaddr)->sin_addr.s_addr) & 0xff;
}


ngx_int_t
test_etcd_header(ngx_etcd_http2_t *h2, uint64_t id)
{
    return h2->conf.header(h2->conf.data, id);
}


/* names and TLS are tested elsewhere */

void
ngx_etcd_lookup_start(ngx_etcd_lookup_t *lookup, ngx_log_t *log)
{
    abort();
}


void
ngx_etcd_lookup_cancel(ngx_etcd_lookup_t *lookup)
{
    /* nothing is looked up */
}


void
ngx_etcd_ssl_refresh(ngx_etcd_ssl_t *ssl, char *kind, ngx_str_t *name,
    ngx_log_t *log)
{
    abort();
}


/* calls */

static void
test_etcd_deadline(ngx_event_t *ev)
{
    test_etcd_end(ev->data, NGX_ETCD_GRPC_DEADLINE_EXCEEDED, "no answer");
}


ngx_int_t
ngx_etcd_grpc_start(ngx_etcd_http2_t *h2, ngx_etcd_grpc_call_t *call)
{
    ngx_etcd_grpc_stream_t  *stream;

    stream = ngx_calloc(sizeof(ngx_etcd_grpc_stream_t), test_etcd.cluster->log);
    if (stream == NULL) {
        return NGX_ERROR;
    }

    if (call->nmetadata != 0) {
        stream->token.data = malloc(call->metadata[0].value.len);

        if (stream->token.data == NULL) {
            abort();
        }

        stream->token.len = call->metadata[0].value.len;
        ngx_memcpy(stream->token.data, call->metadata[0].value.data,
                   stream->token.len);
    }

    stream->h2 = h2;
    stream->call = call;
    stream->deadline.handler = test_etcd_deadline;
    stream->deadline.data = stream;
    stream->deadline.log = test_etcd.cluster->log;

    if (call->timeout != 0) {
        ngx_add_timer(&stream->deadline, call->timeout);
    }

    call->stream = stream;

    ngx_queue_insert_tail(&test_etcd.calls, &stream->queue);
    test_etcd.started++;

    return NGX_OK;
}


ngx_int_t
ngx_etcd_grpc_send(ngx_etcd_grpc_call_t *call, ProtobufCMessage *message)
{
    size_t                   len;
    u_char                  *data;
    ngx_etcd_grpc_stream_t  *stream;

    stream = call->stream;
    len = protobuf_c_message_get_packed_size(message);
    data = ngx_alloc(ngx_max(len, 1), test_etcd.cluster->log);

    if (data == NULL) {
        return NGX_ERROR;
    }

    if (stream->request.data != NULL) {
        ngx_free(stream->request.data);
    }

    stream->request.data = data;
    stream->request.len = protobuf_c_message_pack(message, data);

    /* a new connection is asked for its cluster, which it tells at once */

    if (stream->h2->told == NULL) {
        stream->h2->told = stream;

        ngx_queue_remove(&stream->queue);
        ngx_queue_init(&stream->queue);
        test_etcd.started--;

        stream->h2->event.handler = test_etcd_identified;
        ngx_post_event(&stream->h2->event, &ngx_posted_events);
    }

    return NGX_OK;
}


static void
test_etcd_identified(ngx_event_t *ev)
{
    ngx_etcd_http2_t      *h2 = ev->data;
    Etcd__WatchResponse    response;
    Etcd__ResponseHeader   header;

    etcd__watch_response__init(&response);
    etcd__response_header__init(&header);

    header.cluster_id = test_etcd.ids[test_etcd_where(h2) - 1];
    response.header = &header;

    test_etcd_message(h2->told, &response.base);
}


void
ngx_etcd_grpc_end(ngx_etcd_grpc_call_t *call)
{
    call->stream->ended = 1;
}


void
ngx_etcd_grpc_hold(ngx_etcd_grpc_call_t *call, ngx_uint_t hold)
{
    call->stream->held = hold;
}


static void
test_etcd_drop(ngx_etcd_grpc_stream_t *stream)
{
    stream->call->stream = NULL;

    if (stream->deadline.timer_set) {
        ngx_del_timer(&stream->deadline);
    }

    ngx_queue_remove(&stream->queue);

    ngx_free(stream->request.data);
    ngx_free(stream->token.data);
    ngx_free(stream);
}


void
ngx_etcd_grpc_cancel(ngx_etcd_grpc_call_t *call)
{
    if (call->stream != NULL) {
        test_etcd_drop(call->stream);
    }
}


char *
ngx_etcd_grpc_status_name(ngx_etcd_grpc_status_e status)
{
    return "status";
}


static void
test_etcd_end(ngx_etcd_grpc_stream_t *stream, ngx_etcd_grpc_status_e status,
    char *text)
{
    ngx_str_t              reason;
    ngx_etcd_grpc_call_t  *call;

    reason.data = (u_char *) text;
    reason.len = ngx_strlen(text);

    call = stream->call;

    test_etcd_drop(stream);

    call->done(call, status, &reason);
}


static void
test_etcd_end_all(ngx_etcd_http2_t *h2, char *text)
{
    ngx_queue_t             *q;
    ngx_etcd_grpc_stream_t  *stream;

again:

    for (q = ngx_queue_head(&test_etcd.calls);
         q != ngx_queue_sentinel(&test_etcd.calls);
         q = ngx_queue_next(q))
    {
        stream = ngx_queue_data(q, ngx_etcd_grpc_stream_t, queue);

        if (stream->h2 == h2) {
            test_etcd_end(stream, NGX_ETCD_GRPC_UNAVAILABLE, text);
            goto again;
        }
    }
}


ngx_etcd_grpc_stream_t *
test_etcd_call(char *method, ngx_uint_t n)
{
    ngx_queue_t             *q;
    ngx_etcd_grpc_stream_t  *stream;

    for (q = ngx_queue_head(&test_etcd.calls);
         q != ngx_queue_sentinel(&test_etcd.calls);
         q = ngx_queue_next(q))
    {
        stream = ngx_queue_data(q, ngx_etcd_grpc_stream_t, queue);

        if (ngx_strcmp(stream->call->method, method) == 0 && n-- == 0) {
            return stream;
        }
    }

    return NULL;
}


ProtobufCMessage *
test_etcd_request(ngx_pool_t *pool, ngx_etcd_grpc_stream_t *stream,
    const ProtobufCMessageDescriptor *descriptor)
{
    ngx_uint_t         exceeded;
    ProtobufCMessage  *message;

    test_alloc_pause();

    message = ngx_etcd_message_unpack(descriptor, pool, stream->request.data,
                                      stream->request.len, &exceeded);

    test_alloc_resume();

    if (message == NULL) {
        abort();
    }

    return message;
}


void
test_etcd_message(ngx_etcd_grpc_stream_t *stream, ProtobufCMessage *response)
{
    u_char            *data;
    size_t             len;
    ngx_int_t          rc;
    ngx_uint_t         exceeded;
    ngx_pool_t        *pool;
    ProtobufCMessage  *message;

    test_alloc_pause();

    len = protobuf_c_message_get_packed_size(response);
    data = malloc(len + 1);
    pool = ngx_create_pool(1024, test_etcd.cluster->log);

    if (data == NULL || pool == NULL) {
        abort();
    }

    len = protobuf_c_message_pack(response, data);

    message = ngx_etcd_message_unpack(stream->call->response, pool, data, len,
                                      &exceeded);
    free(data);

    test_alloc_resume();

    if (message == NULL) {
        abort();
    }

    if (test_etcd_header(stream->h2, ngx_etcd_message_cluster_id(message))
        != NGX_OK)
    {
        ngx_destroy_pool(pool);
        test_etcd_end(stream, NGX_ETCD_GRPC_UNAVAILABLE,
                      "another cluster answers");
        return;
    }

    rc = stream->call->message(stream->call, message, pool);

    if (rc != NGX_DONE) {
        ngx_destroy_pool(pool);
    }

    if (rc == NGX_ERROR) {
        test_etcd_end(stream, NGX_ETCD_GRPC_INTERNAL,
                      "message was not accepted");
    }
}


void
test_etcd_alive(ngx_etcd_grpc_stream_t *stream, ngx_uint_t answer)
{
    stream->h2->conf.alive(stream->h2->conf.data, answer);
}


void
test_etcd_answer(ngx_etcd_grpc_stream_t *stream, ProtobufCMessage *response)
{
    ngx_etcd_grpc_call_t  *call;

    call = stream->call;

    test_etcd_message(stream, response);

    if (call->stream == stream) {
        test_etcd_alive(stream, 1);
        test_etcd_end(stream, NGX_ETCD_GRPC_OK, "");
    }
}


void
test_etcd_keys(ngx_etcd_grpc_stream_t *call, u_char letter, ngx_uint_t n,
    ngx_uint_t more, int64_t revision)
{
    ngx_uint_t             i;
    Etcd__RangeResponse    range;
    Etcd__ResponseHeader   header;

    static Etcd__KeyValue   kv[TEST_ETCD_KEYS], *kvs[TEST_ETCD_KEYS];
    static u_char           keys[TEST_ETCD_KEYS][4];
    static u_char           value[TEST_ETCD_VALUE];

    etcd__range_response__init(&range);
    etcd__response_header__init(&header);

    for (i = 0; i < n; i++) {
        etcd__key_value__init(&kv[i]);
        ngx_sprintf(keys[i], "%c%03ui", letter, i);
        kv[i].key.data = keys[i];
        kv[i].key.len = 4;
        kv[i].create_revision = 17;
        kv[i].value.data = value;
        kv[i].value.len = test_etcd.value;
        kvs[i] = &kv[i];
    }

    header.cluster_id = 7;
    header.revision = revision;
    header.raft_term = 3;

    range.header = &header;
    range.kvs = kvs;
    range.n_kvs = n;
    range.more = more;

    test_etcd_answer(call, &range.base);
}


void
test_etcd_fail(ngx_etcd_grpc_stream_t *stream, ngx_etcd_grpc_status_e status,
    char *text)
{
    test_etcd_end(stream, status, text);
}


/* the cluster */

static void
test_etcd_changed(void *data)
{
    test_etcd.changes++;
}


void
test_etcd_conf(ngx_pool_t *pool, ngx_uint_t endpoints)
{
    ngx_uint_t                i;
    ngx_etcd_endpoint_t      *endpoint;
    ngx_etcd_cluster_conf_t  *conf;

    static char *urls[TEST_ETCD_ENDPOINTS] = {
        "http://10.0.0.1:2379", "http://10.0.0.2:2379",
        "http://10.0.0.3:2379", "http://10.0.0.4:2379"
    };

    test_loop_init(pool->log);

    ngx_memzero(&test_etcd, sizeof(test_etcd_t));

    ngx_queue_init(&test_etcd.connections);
    ngx_queue_init(&test_etcd.calls);
    test_etcd.text.data = test_etcd.buf;

    test_alloc_pause();

    for (i = 0; i < endpoints; i++) {
        endpoint = &test_etcd.endpoints[i];
        endpoint->url = *tap_string(pool, urls[i]);

        if (ngx_etcd_endpoint_parse(pool, endpoint) != NULL) {
            abort();
        }
    }

    test_alloc_resume();

    conf = &test_etcd.conf;

    ngx_str_set(&conf->name, "test");
    ngx_str_set(&conf->key_namespace, "");

    conf->endpoints.elts = test_etcd.endpoints;
    conf->endpoints.nelts = endpoints;
    conf->connect_timeout = 1000;
    conf->request_timeout = 5000;
    conf->ping_interval = 10000;
    conf->ping_timeout = 2000;
    conf->max_message_size = 1024 * 1024;
}


ngx_int_t
test_etcd_create(ngx_pool_t *pool)
{
    test_etcd.cluster = ngx_etcd_client_create(&test_etcd.conf,
                                               test_etcd_changed, NULL,
                                               pool->log);
    if (test_etcd.cluster == NULL) {
        return NGX_ERROR;
    }

    test_alloc_cleanup(pool, test_etcd_destroy);

    return NGX_OK;
}


static void
test_etcd_destroy(void *data)
{
    ngx_etcd_client_destroy(test_etcd.cluster);

    if (!ngx_queue_empty(&test_etcd.calls)
        || !ngx_queue_empty(&test_etcd.connections))
    {
        ngx_etcd_tap_fail("no call is left", __FILE__, __LINE__);
    }

    if (!test_loop_idle()) {
        ngx_etcd_tap_fail("no timer is left", __FILE__, __LINE__);
    }
}


void
test_etcd_done(ngx_etcd_grpc_status_e status, ngx_str_t *text)
{
    test_etcd.done++;
    test_etcd.status = status;
    test_etcd.text.len = ngx_min(text->len, TEST_ETCD_TEXT);

    if (test_etcd.text.len != 0) {
        ngx_memcpy(test_etcd.text.data, text->data, test_etcd.text.len);
    }
}
