
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A linearizable Range of one key (etcd's v3 API, KV), answered by the endpoint
 * that the streams channel is connected to.
 *
 * etcd answers after a quorum has confirmed to the raft leader that it still
 * leads (ReadIndex; Ongaro's thesis, 6.4), and after the endpoint has applied
 * all entries that were committed before.  An endpoint that cannot reach the
 * quorum, or cannot apply, does not answer.
 */


#ifndef _NGX_ETCD_QUORUM_READ_H_INCLUDED_
#define _NGX_ETCD_QUORUM_READ_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_stream_range.h>


typedef struct ngx_etcd_quorum_read_s  ngx_etcd_quorum_read_t;

struct ngx_etcd_quorum_read_s {
    /* set by the caller, the rest zeroed */

    ngx_etcd_cluster_t          *cluster;
    ngx_str_t                    key;          /* with the namespace */

    /* called once */
    void                       (*done)(ngx_etcd_quorum_read_t *read,
                                       ngx_etcd_grpc_status_e status,
                                       ngx_str_t *text);
    void                        *data;

    /* valid in done(), if the status is OK */

    uint64_t                     cluster_id;   /* 0: a proxy answered */
    uint64_t                     raft_term;    /* likewise */
    int64_t                      created;      /* create revision of the key; 0:
                                                  no such key */

    /* private but for range.refused and range.running */

    ngx_etcd_stream_range_t      range;
};


/*
 * There is no deadline: the caller cancels the read.  done() is not called
 * before this returns.  NGX_DECLINED: no connection or no token now; done() is
 * not called.
 */
ngx_int_t ngx_etcd_quorum_read_start(ngx_etcd_quorum_read_t *read);

/* done() is not called any more; does nothing if no read is running */
void ngx_etcd_quorum_read_cancel(ngx_etcd_quorum_read_t *read);


#endif /* _NGX_ETCD_QUORUM_READ_H_INCLUDED_ */
