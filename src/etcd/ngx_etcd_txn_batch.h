
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Small transactions that are sent together.  All that one cycle of the event
 * loop adds goes to etcd as one Txn of nested ones, each with its own compare,
 * which costs etcd one raft entry instead of many.  Ops that are added while
 * enough calls are unanswered wait for an answer, and are then sent together.
 */


#ifndef _NGX_ETCD_TXN_BATCH_H_INCLUDED_
#define _NGX_ETCD_TXN_BATCH_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_unary.h>
#include <ngx_etcd_proto.pb-c.h>


/* ops of one Txn: etcd takes 128 operations, nested ones included */

#define NGX_ETCD_TXN_BATCH_OPS  64

#define NGX_ETCD_TXN_BATCH_CALLS 3      /* unanswered at a time */

/* a lazy op waits for others to be sent with for at most so long */

#define NGX_ETCD_TXN_BATCH_LAZY 2      /* ms */


typedef struct ngx_etcd_txn_batch_s  ngx_etcd_txn_batch_t;
typedef struct ngx_etcd_txn_op_s  ngx_etcd_txn_op_t;


/*
 * Puts or deletes one key.  A put is done only if there is no such key; it
 * returns the number of keys in a range afterwards.  If there is such a key of
 * the same lease, it returns the key's create revision.  Both may be done
 * twice.
 */

struct ngx_etcd_txn_op_s {
    /* set by the caller, the rest zeroed; bytes must stay until done() */

    ngx_str_t                    key;          /* with the namespace */
    ngx_str_t                    from;         /* of a put: the range */
    ngx_str_t                    to;
    int64_t                      lease;        /* 0: a delete */
    int64_t                      created;      /* of a delete: the create
                                                  revision that the key must
                                                  have; 0: any */
    int64_t                      latest;       /* of a delete: the highest
                                                  create revision that the key
                                                  may have; 0: any */

    /* called once; the op may be added again, or freed, in here */
    void                       (*done)(ngx_etcd_txn_op_t *op,
                                       ngx_etcd_grpc_status_e status,
                                       ngx_str_t *text);
    void                        *data;

    /* valid in done() */

    int64_t                      revision;     /* of the answer */
    int64_t                      found;        /* of a put: create revision of
                                                  the key; 0: another lease has
                                                  the key */
    int64_t                      count;        /* of keys in the range; 0: the
                                                  key was there */
    ngx_uint_t                   unknown;      /* etcd may still process an
                                                  attempt */

    /* private */

    ngx_queue_t                  queue;
    unsigned                     waiting:1;    /* not sent yet */
    unsigned                     alone:1;      /* rejected together with others,
                                                  and sent by itself: etcd may
                                                  have processed it before */
};


struct ngx_etcd_txn_batch_s {
    ngx_etcd_cluster_t          *cluster;
    ngx_queue_t                  ops;          /* to be sent, in order */
    ngx_queue_t                  calls;        /* unanswered */
    ngx_uint_t                   ncalls;
    ngx_event_t                  post;
    ngx_event_t                  timer;        /* for lazy ops */
};


/* The memory of the batch is the caller's. */
void ngx_etcd_txn_batch_init(ngx_etcd_txn_batch_t *batch,
    ngx_etcd_cluster_t *cluster);

/*
 * No handler is called any more.  Requests that were sent may still be
 * processed.
 */
void ngx_etcd_txn_batch_done(ngx_etcd_txn_batch_t *batch);

/*
 * done() is never called before this returns.  A lazy op waits up to _LAZY ms
 * for others to be sent with.  Ops are done in any order, with one exception:
 * deletes of keys in the range of a put that were added before the put are done
 * before it.
 */
void ngx_etcd_txn_batch_add(ngx_etcd_txn_batch_t *batch,
    ngx_etcd_txn_op_t *op, ngx_uint_t lazy);

/* NGX_OK: the op was not sent and is removed; NGX_DECLINED: it was sent */
ngx_int_t ngx_etcd_txn_batch_withdraw(ngx_etcd_txn_op_t *op);

/* 1 if the op is not sent yet */
#define ngx_etcd_txn_op_waiting(op)  ((op)->waiting)


#endif /* _NGX_ETCD_TXN_BATCH_H_INCLUDED_ */
