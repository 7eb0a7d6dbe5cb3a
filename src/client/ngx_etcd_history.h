
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The history of an etcd cluster: its id, its revisions, and its raft terms,
 * which only grow.
 *
 * A cluster that is restored from a backup, or replaced by another one, has
 * another history: keys are gone, and their revisions are used again.  A
 * header of a linearizable answer shows that: it has another cluster id, or a
 * revision or raft term below one that was seen before the request was sent.
 * (A restored cluster begins at term 2.)  Watches and serializable reads show
 * no such thing, since a member may lag behind.
 *
 * A restored cluster that has already come to a revision and a term above all
 * that this client has seen is not noticed here: keys that must be there are
 * read for that (ngx_etcd_lease.h).
 */


#ifndef _NGX_ETCD_HISTORY_H_INCLUDED_
#define _NGX_ETCD_HISTORY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_cluster.h>
#include <ngx_etcd_proto.pb-c.h>


/* the past that the answer to a request has to contain */

typedef struct {
    int64_t                      revision;
    uint64_t                     raft_term;
    ngx_uint_t                   generation;   /* of the history */
} ngx_etcd_history_mark_t;


typedef struct {
    /* set by the caller, the rest zeroed */

    /* another history has begun; never called by ngx_etcd_history_check() */
    void                       (*changed)(void *data);
    void                        *data;

    /* private */

    ngx_queue_t                  queue;
} ngx_etcd_history_listener_t;


/* for the cluster */
void ngx_etcd_history_init(ngx_etcd_cluster_t *cluster);
void ngx_etcd_history_done(ngx_etcd_cluster_t *cluster);

/* until ngx_etcd_history_forget(), or the end of the cluster */
void ngx_etcd_history_listen(ngx_etcd_cluster_t *cluster,
    ngx_etcd_history_listener_t *listener);
void ngx_etcd_history_forget(ngx_etcd_history_listener_t *listener);

/* taken when a linearizable request is sent */
ngx_etcd_history_mark_t ngx_etcd_history_mark(ngx_etcd_cluster_t *cluster);

/*
 * The answer to that request came.  If another history answered,
 * cluster->foreign is set until all listeners have been told, by a posted
 * event: what the answer says must not be relied on to exclude others.
 */
void ngx_etcd_history_check(ngx_etcd_cluster_t *cluster,
    Etcd__ResponseHeader *header, ngx_etcd_history_mark_t *mark);

/* another history is known to be the one with this header */
void ngx_etcd_history_change(ngx_etcd_cluster_t *cluster,
    Etcd__ResponseHeader *header);


#endif /* _NGX_ETCD_HISTORY_H_INCLUDED_ */
