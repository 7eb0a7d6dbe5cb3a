
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Linearizable reads by the endpoint that carries the watches, at intervals.
 *
 * An endpoint that cannot apply, because its disk stands still, keeps its
 * connections and watches, answers PINGs and requests for progress, and sends
 * no event: members would stay as they were until the next audit.  It does not
 * answer a linearizable read, so the client leaves it.
 *
 * The key is one that is watched.  PERMISSION_DENIED is an answer, too: etcd
 * refuses the user after the endpoint has applied what a quorum confirmed.
 *
 * The interval is NGX_ETCD_WATCH_QUORUM_PINGS times that of PINGs, less a
 * random part of up to a quarter: PINGs, which find a broken connection, come
 * first, and a token that is not used otherwise expires as before.  An answer
 * is a proof as that to a PING is (ngx_etcd_fresh.h).
 *
 * An endpoint has request_timeout to answer, and twice as long after each one
 * that did not, up to NGX_ETCD_WATCH_QUORUM_DOUBLINGS times: where no endpoint
 * can answer, none is better than another.
 */


#ifndef _NGX_ETCD_WATCH_QUORUM_H_INCLUDED_
#define _NGX_ETCD_WATCH_QUORUM_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_kv.h>


#define NGX_ETCD_WATCH_QUORUM_PINGS      3
#define NGX_ETCD_WATCH_QUORUM_DOUBLINGS  4


typedef struct {
    ngx_etcd_cluster_t          *cluster;
    void                       (*silent)(void *data, ngx_str_t *reason);
    void                        *data;

    ngx_etcd_quorum_read_t       read;
    ngx_event_t                  timer;        /* of the next read, or of the
                                                  answer */
    uint64_t                     sent;         /* ngx_etcd_clock() of the
                                                  read */
    ngx_uint_t                   silences;     /* in a row */
} ngx_etcd_watch_quorum_t;


/*
 * "quorum" is zeroed.  silent() is called when the endpoint does not answer:
 * the owner leaves it, and calls stop().
 */
void ngx_etcd_watch_quorum_init(ngx_etcd_watch_quorum_t *quorum,
    ngx_etcd_cluster_t *cluster, void (*silent)(void *data, ngx_str_t *reason),
    void *data);

/*
 * Tells a watched key, with the namespace.  The first one is copied, and read.
 * Without memory, it is the next one.
 */
void ngx_etcd_watch_quorum_know(ngx_etcd_watch_quorum_t *quorum,
    ngx_str_t *key);

/* The stream of watches is open on another connection. */
void ngx_etcd_watch_quorum_start(ngx_etcd_watch_quorum_t *quorum);

/* The stream has ended, or is destroyed.  May be called at any time. */
void ngx_etcd_watch_quorum_stop(ngx_etcd_watch_quorum_t *quorum);


#endif /* _NGX_ETCD_WATCH_QUORUM_H_INCLUDED_ */
