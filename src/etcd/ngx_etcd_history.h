
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The history of an etcd cluster: its id, its revisions, and its raft terms,
 * which only grow.
 *
 * A cluster that is restored from a backup, or replaced by another one, has
 * another history: keys are gone, and revisions are used again.  The header of
 * a linearizable answer shows this: its cluster id is another one, or its
 * revision or raft term is lower than one that was seen before the request was
 * sent.  (A restored cluster begins at term 2.)  Watches and serializable reads
 * do not show it, because a member may lag behind.
 *
 * A restored cluster whose revision and term have already passed all that this
 * client has seen is not noticed here.  The keys of leases, which must exist,
 * are read to find it (ngx_etcd_lease.h).  Audits find it for mirrors, which
 * may have keys of both until then: a list may be answered by the new history
 * while the watch has events of the former one.
 *
 * The id tells which cluster is in use (ngx_etcd_cluster.h); where none is
 * known, the endpoints vote.
 */


#ifndef _NGX_ETCD_HISTORY_H_INCLUDED_
#define _NGX_ETCD_HISTORY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_cluster.h>
#include <ngx_etcd_proto.pb-c.h>


/* the least that the answer to a request has to contain */

typedef struct {
    int64_t                      revision;
    uint64_t                     raft_term;
    ngx_uint_t                   generation;   /* of the history */
} ngx_etcd_history_mark_t;


typedef struct {
    /* set by the caller, the rest zeroed */

    /*
     * Another history has begun.  Called from a posted event, never by
     * ngx_etcd_history_check().
     */
    void                       (*changed)(void *data);
    void                        *data;

    /* private */

    ngx_queue_t                  queue;
} ngx_etcd_history_listener_t;


/* for the cluster */
void ngx_etcd_history_init(ngx_etcd_cluster_t *cluster);

/*
 * The listener is called until ngx_etcd_history_forget(), or the end of the
 * cluster.
 */
void ngx_etcd_history_listen(ngx_etcd_cluster_t *cluster,
    ngx_etcd_history_listener_t *listener);
void ngx_etcd_history_forget(ngx_etcd_history_listener_t *listener);

/* to be taken when a linearizable request is sent */
ngx_etcd_history_mark_t ngx_etcd_history_mark(ngx_etcd_cluster_t *cluster);

/*
 * Compares the header of a linearizable answer with the mark of its request.
 * If another history answered, cluster->history.foreign is set until a posted
 * event has told all listeners: meanwhile answers must not be relied on to
 * exclude others.
 */
void ngx_etcd_history_check(ngx_etcd_cluster_t *cluster,
    Etcd__ResponseHeader *header, ngx_etcd_history_mark_t *mark);

/*
 * The caller knows by other means that another history has begun, whose header
 * this is.
 */
void ngx_etcd_history_change(ngx_etcd_cluster_t *cluster,
    Etcd__ResponseHeader *header);


/*
 * The choice of a cluster when none is known: at the first start, or after the
 * state file was removed.
 *
 * The first endpoint that tells the id of its cluster begins the vote: all
 * others are asked at once, by connections that are closed afterwards.  The
 * cluster of most endpoints wins; if several have as many, that of the endpoint
 * which the configuration names first.  The vote ends when more than half of
 * the endpoints agree, all have answered or failed, or request_timeout has
 * passed.  Connections that have told their id wait for the end.
 */

/* NULL: no memory. */
ngx_etcd_vote_t *ngx_etcd_vote_create(ngx_etcd_cluster_t *cluster);
void ngx_etcd_vote_destroy(ngx_etcd_vote_t *vote);


#endif /* _NGX_ETCD_HISTORY_H_INCLUDED_ */
