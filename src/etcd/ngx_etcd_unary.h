
/*
 * Copyright (C) nginx-etcd contributors
 *
 * One unary call of etcd's v3 API: one request, one response, from any
 * endpoint.  Tries the endpoints in turn, each attempt with a short deadline,
 * until the timeout is over.  Waits for a connection and for a token if
 * necessary.
 */


#ifndef _NGX_ETCD_UNARY_H_INCLUDED_
#define _NGX_ETCD_UNARY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_auth.h>
#include <ngx_etcd_history.h>


/* ms, longer where etcd is slow (ngx_etcd_clock.h) */

#define NGX_ETCD_UNARY_ATTEMPT  500     /* doubled with every attempt */


/* bytes of the reason of a failed attempt that are kept */

#define NGX_ETCD_UNARY_TEXT     128


typedef struct ngx_etcd_unary_s  ngx_etcd_unary_t;


/*
 * Called once.  If the time is over, the status and the text are those of the
 * last attempt that failed.  The response is NULL unless the status is OK.  It
 * lives in the pool, which the callee must destroy.  The memory of the call may
 * be reused or freed in here.
 */
typedef void (*ngx_etcd_unary_done_pt)(ngx_etcd_unary_t *unary,
    ngx_etcd_grpc_status_e status, ngx_str_t *text,
    ProtobufCMessage *response, ngx_pool_t *pool);


/* the attempts of a call */

typedef struct {
    ngx_uint_t                          n;        /* so far */
    ngx_msec_t                          deadline; /* of all */
    ngx_msec_t                          started;  /* time of this one */
    ngx_uint_t                          token;    /* token's generation */
    uint64_t                            waited;   /* ms, by the failed ones */
    ngx_etcd_grpc_status_e              failure;  /* of the last one that
                                                     failed; OK: none */
    size_t                              ntext;
    u_char                              text[NGX_ETCD_UNARY_TEXT];
    unsigned                            calling:1; /* this one */
} ngx_etcd_unary_attempts_t;


struct ngx_etcd_unary_s {
    /* set by the caller, the rest zeroed */

    ngx_etcd_cluster_t                 *cluster;
    char                               *method;   /* "/etcdserverpb.KV/Range" */
    char                               *name;     /* for logs: "range" */
    ProtobufCMessage                   *request;  /* must stay until done() */
    const ProtobufCMessageDescriptor   *response;
    ngx_msec_t                          timeout;  /* ms; 0: request_timeout */
    ngx_etcd_unary_done_pt              done;
    void                               *data;

    /*
     * The request may be processed twice with the same result: every failed
     * attempt may be repeated.  Otherwise an attempt is repeated only if etcd
     * provably did not process it.
     */
    unsigned                            idempotent:1;

    /*
     * Etcd writes: the time until the answer shows how slow its disks are.  So
     * does that of a request that needs room.
     */
    unsigned                            writes:1;

    /*
     * The request needs room in etcd's database: if the database is full,
     * done() gets FAILED_PRECONDITION at once, with "full" set.  Otherwise the
     * call waits for room.
     */
    unsigned                            roomy:1;
    unsigned                            full:1;

    /*
     * Valid in done(): the status is not OK, but etcd may have processed one of
     * the attempts.
     */
    unsigned                            unknown:1;

    /* valid in done(): etcd may process the request more than once */
    unsigned                            repeated:1;

    /*
     * Valid in done(): a smaller answer may come.  This one was too long (see
     * ngx_etcd_grpc_call_t), or late while the endpoint was sending.
     */
    unsigned                            smaller:1;

    /*
     * valid in done(): when the first attempt was sent, and the one that was
     * answered, or else the last one
     */
    uint64_t                            first;    /* ngx_etcd_clock() */
    uint64_t                            last;

    /*
     * valid in done(): the reads channel's connection that the last attempt was
     * sent on
     */
    ngx_uint_t                          connection;

    /* valid in done(): for ngx_etcd_history_check() of a linearizable answer */
    ngx_etcd_history_mark_t             mark;

    /* private */

    ngx_etcd_grpc_call_t                call;
    ngx_etcd_waiter_t                   waiter;
    ngx_event_t                         timer;    /* next attempt, or timeout */
    ngx_etcd_unary_attempts_t           attempts;
    ProtobufCMessage                   *message;
    ngx_pool_t                         *pool;
};


/* done() is never called before this returns */
void ngx_etcd_unary_start(ngx_etcd_unary_t *unary);

/*
 * done() is not called any more; does nothing if no call is running.  A request
 * that was sent may still be processed.
 */
void ngx_etcd_unary_cancel(ngx_etcd_unary_t *unary);


#endif /* _NGX_ETCD_UNARY_H_INCLUDED_ */
