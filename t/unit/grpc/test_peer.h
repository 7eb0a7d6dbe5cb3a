
/*
 * Copyright (C) nginx-etcd contributors
 *
 * An HTTP/2 connection of the transport without a socket: its bytes go to an
 * nghttp2 server of the test, or come from the test as they are.
 */


#ifndef _TEST_PEER_H_INCLUDED_
#define _TEST_PEER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_connection.h>
#include <ngx_etcd_grpc.h>
#include <ngx_etcd_proto.pb-c.h>
#include <nghttp2/nghttp2.h>
#include "ngx_etcd_tap.h"
#include "test_loop.h"


#define TEST_PEER_SIZE   2048        /* bytes of a text */
#define TEST_PEER_LARGE  400000      /* bytes of an answer */


typedef struct {
    ngx_etcd_http2_t            *h2;           /* NULL: closed */
    ngx_etcd_connection_conf_t   conf;
    ngx_uint_t                   connected;    /* the connection exists */
    ngx_uint_t                   blocked;      /* nothing is sent */
    ngx_uint_t                   unreached;    /* nobody has accepted it */
    ngx_keyval_t                *metadata;     /* of calls; or NULL */

    /* the arguments of the owner's handlers */

    ngx_uint_t                   ready;
    ngx_uint_t                   alive;
    ngx_uint_t                   answers;      /* parts of answers arrived */
    ngx_uint_t                   pongs;
    ngx_uint_t                   drainings;
    ngx_uint_t                   closed;
    ngx_uint_t                   late;         /* in closed() */
    ngx_str_t                    reason;
    ngx_uint_t                   too_many_pings;

    /* the server */

    nghttp2_session             *session;
    int32_t                      id;           /* of the last request */
    ngx_uint_t                   requests;
    ngx_uint_t                   ended;        /* the request has */
    ngx_uint_t                   pings;
    ngx_uint_t                   acked;        /* PINGs are */
    ngx_int_t                    reset;        /* code; -1: none */
    ngx_uint_t                   chunk;        /* bytes at a time */
    ngx_str_t                    headers;      /* "name: value;" ... */
    ngx_str_t                    body;
    size_t                       answered;     /* bytes of the answer, sent */
    ngx_str_t                    answer;
    ngx_uint_t                   trailers;     /* follow */
    u_char                       texts[3][TEST_PEER_SIZE];
} test_peer_t;


/* a gRPC call */

typedef struct {
    ngx_etcd_grpc_call_t         call;         /* must be first */
    ngx_uint_t                   messages;
    int64_t                      count;        /* of the last message */
    ngx_int_t                    rc;           /* of the message handler */
    ngx_uint_t                   act;          /* in the message handler:
                                                  1: cancels, 2: closes; in
                                                  done(): 3: closes */
    ngx_pool_t                  *kept;
    ngx_uint_t                   done;
    ngx_uint_t                   ended;        /* in done(): so is the
                                                  connection */
    ngx_etcd_grpc_status_e       status;
    ngx_str_t                    text;
    u_char                       buf[TEST_PEER_SIZE];
} test_call_t;


extern test_peer_t  test_peer;


/*
 * Opens a connection; all of it is released with the pool, which then checks
 * that nothing is left.  Returns NGX_ERROR if there was no memory.
 */
ngx_int_t test_peer_open(ngx_pool_t *pool);

/* Opens a connection on which the peer's SETTINGS have arrived. */
ngx_int_t test_peer_ready(ngx_pool_t *pool);

/* Opens a connection for one short call. */
ngx_int_t test_peer_brief(ngx_pool_t *pool);

/* Both sides send what they have until there is nothing. */
void test_peer_run(void);

/* The peer sends these bytes. */
void test_peer_send(char *data, size_t n);

/* The peer sends a frame that is none of a stream's. */
void test_peer_frame(u_char type, u_char flags, int32_t id, char *data,
    size_t n);

/*
 * Answers the last request: header lines "name: value\n", the bytes of a body
 * or NULL, and trailers or NULL.
 */
void test_peer_answer(char *headers, ngx_str_t *body, char *trailers);

/* Starts a call, of which the memory is the pool's, and sends a message. */
test_call_t *test_call_start(ngx_pool_t *pool, ngx_msec_t timeout);

/* Starts such a call, but sends nothing yet. */
test_call_t *test_call_begin(ngx_pool_t *pool, ngx_msec_t timeout);

/* A RangeResponse with this count as a message of gRPC. */
ngx_str_t *test_call_message(ngx_pool_t *pool, int64_t count);

#define TEST_OK  ":status: 200\ncontent-type: application/grpc\n"


#endif /* _TEST_PEER_H_INCLUDED_ */
