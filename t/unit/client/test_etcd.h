
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The client without a network: connections and calls are those of the test,
 * which answers as any endpoint could.  The functions of src/grpc that
 * the client calls are in test_etcd.c.
 */


#ifndef _TEST_ETCD_H_INCLUDED_
#define _TEST_ETCD_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_auth.h>
#include <ngx_etcd_client.h>
#include <ngx_etcd_proto.pb-c.h>
#include <ngx_etcd_url.h>
#include "ngx_etcd_tap.h"
#include "test_loop.h"


#define TEST_ETCD_ENDPOINTS  4
#define TEST_ETCD_TEXT       512
#define TEST_ETCD_KEYS       300      /* of an answer, at most */
#define TEST_ETCD_VALUE      30000    /* bytes of a value, at most */


typedef struct {
    ngx_etcd_cluster_conf_t      conf;
    ngx_etcd_cluster_t          *cluster;
    ngx_etcd_endpoint_t          endpoints[TEST_ETCD_ENDPOINTS];
    ngx_queue_t                  connections;  /* ngx_etcd_http2_t, by age */
    ngx_queue_t                  calls;        /* ngx_etcd_grpc_stream_t */
    ngx_uint_t                   down;         /* no endpoint answers */
    ngx_uint_t                   refused;      /* bits of those that do not */
    ngx_uint_t                   silent;       /* bits of those that take a
                                                  connection and are silent */
    uint64_t                     ids[TEST_ETCD_ENDPOINTS];
                                               /* cluster ids that endpoints
                                                  tell; 0: none */
    ngx_uint_t                   connects;
    ngx_uint_t                   changes;
    ngx_uint_t                   started;      /* calls, ever */
    size_t                       value;        /* bytes of each value that is
                                                  sent */

    /* of the handler of a test */

    ngx_uint_t                   done;
    ngx_etcd_grpc_status_e       status;
    ngx_str_t                    text;
    u_char                       buf[TEST_ETCD_TEXT];
} test_etcd_t;


/* a call that is under way */

struct ngx_etcd_grpc_stream_s {
    ngx_queue_t                  queue;
    ngx_etcd_http2_t            *h2;
    ngx_etcd_grpc_call_t        *call;
    ngx_event_t                  deadline;
    ngx_uint_t                   ended;
    ngx_uint_t                   held;
    ngx_str_t                    request;
    ngx_str_t                    token;
};


extern test_etcd_t  test_etcd;


/*
 * Makes a cluster of so many endpoints "http://10.0.0.1:2379", ...; it is
 * destroyed with the pool, and nothing may be left then.  NGX_ERROR: no
 * memory.  test_etcd_conf() goes before it; the configuration may be changed
 * in between.
 */
void test_etcd_conf(ngx_pool_t *pool, ngx_uint_t endpoints);
ngx_int_t test_etcd_create(ngx_pool_t *pool);

/* The n-th call under way, from 0 on, of that method; NULL: there is none. */
ngx_etcd_grpc_stream_t *test_etcd_call(char *method, ngx_uint_t n);

/* The request of a call, in the pool. */
ProtobufCMessage *test_etcd_request(ngx_pool_t *pool,
    ngx_etcd_grpc_stream_t *stream,
    const ProtobufCMessageDescriptor *descriptor);

/* The connection of a call receives something: "answer" is of the handler. */
void test_etcd_alive(ngx_etcd_grpc_stream_t *stream, ngx_uint_t answer);

/* Answers a call: with a message and OK, or with another status. */
void test_etcd_answer(ngx_etcd_grpc_stream_t *stream,
    ProtobufCMessage *response);
void test_etcd_fail(ngx_etcd_grpc_stream_t *stream,
    ngx_etcd_grpc_status_e status, char *text);

/* Answers a Range with n keys that begin with this letter. */
void test_etcd_keys(ngx_etcd_grpc_stream_t *stream, u_char letter,
    ngx_uint_t n, ngx_uint_t more, int64_t revision);

/* Sends a message only, or ends the call only. */
void test_etcd_message(ngx_etcd_grpc_stream_t *stream,
    ProtobufCMessage *response);

/* A silent endpoint answers. */
void test_etcd_connected(ngx_etcd_http2_t *h2);

/* The connection breaks, and its calls end; GOAWAY arrives. */
void test_etcd_break(ngx_etcd_http2_t *h2, char *reason);
void test_etcd_goaway(ngx_etcd_http2_t *h2, ngx_uint_t pings);

/* The n-th connection, from 0 on; NULL: there is none. */
ngx_etcd_http2_t *test_etcd_connection(ngx_uint_t n);

/* The last byte of the peer's address: 1 for "http://10.0.0.1:2379". */
ngx_uint_t test_etcd_where(ngx_etcd_http2_t *h2);

/* An answer on the connection has this cluster id. */
ngx_int_t test_etcd_header(ngx_etcd_http2_t *h2, uint64_t id);

/* The arguments of a done() handler of a test. */
void test_etcd_done(ngx_etcd_grpc_status_e status, ngx_str_t *text);


#define test_etcd_range_stream()                                              \
    test_etcd_call("/etcdserverpb.KV/RangeStream", 0)

#define test_etcd_range(n)  test_etcd_call("/etcdserverpb.KV/Range", n)


#endif /* _TEST_ETCD_H_INCLUDED_ */
