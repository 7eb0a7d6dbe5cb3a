
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Small transactions that are sent together: all that one round of the event
 * loop asks for goes to etcd as one Txn of nested ones, each with a compare of
 * its own, which costs etcd one entry of its log instead of many.  Those that
 * come while enough is under way wait for an answer, and go together then.
 */


#ifndef _NGX_ETCD_TXN_BATCH_H_INCLUDED_
#define _NGX_ETCD_TXN_BATCH_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_unary.h>
#include <ngx_etcd_proto.pb-c.h>


/* of one Txn: etcd takes 128 operations, nested ones counted with it */

#define NGX_ETCD_TXN_BATCH_STEPS  64

#define NGX_ETCD_TXN_BATCH_CALLS 3      /* unanswered at one time */

/* what is in no hurry goes after that at the latest */

#define NGX_ETCD_TXN_BATCH_LAZY 2      /* ms */


typedef struct ngx_etcd_txn_batch_s  ngx_etcd_txn_batch_t;
typedef struct ngx_etcd_txn_op_s  ngx_etcd_txn_op_t;


/*
 * One key that is put, or deleted.  A put is done only if there is no such
 * key, and tells how many keys there are in a range after it; where there is
 * one it tells when that was created.  Both may be done twice.
 */

struct ngx_etcd_txn_op_s {
    /* set by the caller, the rest zeroed; bytes must stay */

    ngx_str_t                    key;          /* with the namespace */
    ngx_str_t                    from;         /* a put: the range */
    ngx_str_t                    to;
    int64_t                      lease;        /* 0: it is deleted */
    int64_t                      created;      /* a delete: only if that is its
                                                  create revision; 0: in any
                                                  case */
    int64_t                      latest;       /* a delete: only if it was
                                                  created at that revision or
                                                  before; 0: in any case */

    /* called once; the step may be used again, or freed, in here */
    void                       (*done)(ngx_etcd_txn_op_t *step,
                                       ngx_etcd_grpc_status_e status,
                                       ngx_str_t *text);
    void                        *data;

    /* valid in done() */

    int64_t                      revision;     /* of the answer */
    int64_t                      found;        /* a put: the create revision
                                                  of the key; 0: there is one
                                                  of another lease */
    int64_t                      count;        /* of keys in the range; 0: it
                                                  was there already */
    ngx_uint_t                   unknown;      /* some attempt may still be
                                                  processed */

    /* private */

    ngx_queue_t                  queue;
    unsigned                     waiting:1;    /* to be sent */
    unsigned                     alone:1;
};


struct ngx_etcd_txn_batch_s {
    ngx_etcd_cluster_t          *cluster;
    ngx_queue_t                  steps;        /* to be sent, in order */
    ngx_queue_t                  calls;        /* unanswered */
    ngx_uint_t                   ncalls;
    ngx_event_t                  post;
    ngx_event_t                  timer;        /* of lazy ones */
};


void ngx_etcd_txn_batch_init(ngx_etcd_txn_batch_t *batch,
    ngx_etcd_cluster_t *cluster);

/* no handler is called any more; what was sent may still be processed */
void ngx_etcd_txn_batch_done(ngx_etcd_txn_batch_t *batch);

/*
 * done() is never called before this returns.  Steps are done in any order,
 * but for a put: deletes below its range that were added before are done
 * before it.
 */
void ngx_etcd_txn_batch_add(ngx_etcd_txn_batch_t *batch,
    ngx_etcd_txn_op_t *step);

/* likewise, but it goes with the next that is added, or after _LAZY */
void ngx_etcd_txn_batch_add_lazy(ngx_etcd_txn_batch_t *batch,
    ngx_etcd_txn_op_t *step);

/* NGX_OK: it was not sent, and is not; NGX_DECLINED: it is on its way */
ngx_int_t ngx_etcd_txn_batch_withdraw(ngx_etcd_txn_op_t *step);

/* 1 if it waits to be sent */
#define ngx_etcd_txn_op_waiting(step)  ((step)->waiting)


#endif /* _NGX_ETCD_TXN_BATCH_H_INCLUDED_ */
