
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The network: what the client calls of ngx_etcd_http2.h (sim_http2.c) and
 * ngx_etcd_grpc.h (sim_grpc.c).
 *
 * A connection keeps the order of what it carries.  Calls overtake each other
 * at the server, which may be slow to do them, or to answer.  What a connection
 * carried when it broke may have arrived, or not.
 */


#ifndef _SIM_NET_H_INCLUDED_
#define _SIM_NET_H_INCLUDED_


#include "model.h"


typedef enum {
    SIM_CALL_UNARY = 0,
    SIM_CALL_LIST,
    SIM_CALL_WATCH,
    SIM_CALL_KEEP
} sim_call_e;


typedef enum {
    SIM_H2_CONNECTING = 0,
    SIM_H2_READY,
    SIM_H2_CLOSED
} sim_h2_state_e;


/* one connection */

struct ngx_etcd_http2_s {
    ngx_etcd_http2_conf_t    *conf;
    sim_proc_t               *proc;
    model_member_t           *member;
    sim_h2_state_e            state;
    ngx_uint_t                history;      /* the number of the store: another
                                               one breaks the connection */
    ngx_queue_t               queue;        /* all open ones */
    ngx_queue_t               streams;
    uint64_t                  stuck;        /* nothing passes before that */
    uint64_t                  up;           /* of the last message */
    uint64_t                  down;
    ngx_uint_t                broken;       /* the server has left it */
    unsigned                  disowned:1;   /* closed by the client */
    unsigned                  patient:1;    /* "patience" has begun */
    unsigned                  late:1;       /* and is over */

    ngx_queue_t               out;          /* messages to be sent */
    ngx_event_t               work;         /* posted: sends them */
    ngx_event_t               timer;        /* connect, and PINGs */
    uint64_t                  pinged;       /* ngx_etcd_clock(); 0: none */

    sim_event_t               event;        /* connected, or told of the end */
    sim_input_t               input;
    ngx_uint_t                told;
    sim_event_t               ping;
    ngx_uint_t                ponging;      /* the answer is on its way back */
    sim_input_t               pong;
};


struct ngx_etcd_grpc_stream_s {
    ngx_queue_t               queue;
    ngx_etcd_http2_t         *h2;
    ngx_etcd_grpc_call_t     *call;         /* NULL: it has ended here */
    char                     *method;
    sim_call_e                kind;
    ngx_event_t               deadline;
    ngx_uint_t                over;         /* the server has ended it */
    model_stream_t            watch;
    ngx_uint_t                watching;
    sim_event_t               reset;
    uint64_t                  busy;         /* with a renewal, until then */
};


/* one message, either way, or the end of a stream from the server */

typedef struct {
    ngx_queue_t               queue;
    sim_event_t               event;
    sim_input_t               input;
    ngx_etcd_grpc_stream_t   *stream;
    u_char                   *data;
    size_t                    len;
    ngx_uint_t                lucky;        /* the message passes even if the
                                               connection breaks meanwhile */
    ngx_uint_t                late;         /* the message has waited already */
    ngx_uint_t                left;         /* the server */
    int64_t                   revision;     /* of the first chunk of a list */
    ngx_uint_t                history;      /* of the answer */
    ngx_uint_t                last;
    ngx_etcd_grpc_status_e    status;
    char                     *text;
} sim_message_t;


/* sim_http2.c: when what is sent now arrives at the server, at the client */
uint64_t sim_net_up(ngx_etcd_http2_t *h2);
uint64_t sim_net_down(ngx_etcd_http2_t *h2);


/* sim_grpc.c */
void sim_call_finish(ngx_etcd_grpc_stream_t *stream,
    ngx_etcd_grpc_status_e status, char *text);


#endif /* _SIM_NET_H_INCLUDED_ */
