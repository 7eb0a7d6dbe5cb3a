
/*
 * Copyright (C) nginx-etcd contributors
 *
 * LeaseKeepAlive of etcd's v3 API: all leases that a client keeps in a
 * cluster, on one stream.
 *
 * A lease is valid up to its deadline: the time at which the last renewal that
 * counts was sent, and its TTL, less a margin.  etcd counts from a later time,
 * so nobody else gets what the lease holds before.
 *
 * An answer alone does not make a renewal count: up to 3.4.30 and 3.5.12 a
 * raft leader whose disk stands still answers although it was deposed, and the
 * next leader has expired the lease (etcd issue 15247).  So a key is read,
 * linearizably, after the answer.  The renewal counts if
 *
 *     the same cluster answers the read, with the raft term of the renewal's
 *         answer: then the raft leader that renewed the lease led a quorum
 *         after that;
 *     and the key is there with its create revision, where the lease stands
 *         for a key: then it is the same history (ngx_etcd_history.h), and
 *         nobody has deleted the key behind a watch that hangs.
 *
 * Why equal terms prove it: a header's raft term is that of the last entry
 * which the endpoint has applied, and a member does not forward a renewal to
 * the leader of an older term than that.  The endpoint fills in the header of
 * the renewal before it renews.  So the renewal was made in this term or a
 * later one.  The read was confirmed in this term or an earlier one: a leader
 * confirms reads only after it has committed an entry of its own term.  Hence
 * all three are the same term, and a term has one leader.  A later term in the
 * read leaves open when the former leader was deposed: the renewal does not
 * count, and the lease is renewed again.  Where a proxy does not say the term,
 * the read itself has to do.
 *
 * An endpoint that does not answer both in time is left for another one.
 */


#ifndef _NGX_ETCD_LEASE_H_INCLUDED_
#define _NGX_ETCD_LEASE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_auth.h>
#include <ngx_etcd_quorum_read.h>


#define NGX_ETCD_LEASE_MIN_TTL     2        /* seconds; etcd's own minimum */
#define NGX_ETCD_LEASE_MAX_TTL     86400    /* seconds */

#define NGX_ETCD_LEASE_MAX_MARGIN  1000     /* ms; else a tenth of the TTL */

#define NGX_ETCD_LEASE_IN_FLIGHT   4        /* unanswered requests of a lease */

/* an endpoint has that long to answer at least, however short the TTL is */

#define NGX_ETCD_LEASE_PATIENCE    200      /* ms */


typedef struct ngx_etcd_lease_stream_s  ngx_etcd_lease_stream_t;
typedef struct ngx_etcd_lease_s   ngx_etcd_lease_t;


/* handlers may forget their own lease and keep others, no more than that */

struct ngx_etcd_lease_s {
    /* set by the caller, the rest zeroed */

    int64_t                      id;
    ngx_msec_t                   ttl;          /* as granted */
    uint64_t                     deadline;     /* ngx_etcd_clock() */

    /*
     * Names the key that is read to confirm a renewal, and its create
     * revision, or 0 where the key need not be there.  NULL: renewals count
     * without a read.
     */
    void                       (*witness)(ngx_etcd_lease_t *lease,
                                          ngx_str_t *key, int64_t *created);

    /*
     * The witness of that create revision is not there: its owner gives up
     * what it stands for.  Another witness is read next.
     */
    void                       (*missing)(ngx_etcd_lease_t *lease,
                                          int64_t created);

    /* a read that is not permitted to the user confirms as well */
    ngx_uint_t                   shared;

    /* ttl and deadline are new */
    void                       (*renewed)(ngx_etcd_lease_t *lease);

    /* called once: it is not kept any more, etcd may still have it */
    void                       (*lost)(ngx_etcd_lease_t *lease, char *reason);
    void                        *data;

    /* private */

    ngx_queue_t                  queue;
    uint64_t                     renewal;      /* when the next is due */
    uint64_t                     sent[NGX_ETCD_LEASE_IN_FLIGHT];
    ngx_uint_t                   nsent;        /* the oldest first */
    ngx_etcd_lease_stream_t     *leases;
    ngx_etcd_quorum_read_t       read;
    uint64_t                     answered;     /* when the renewal that is to
                                                  be confirmed was sent; 0:
                                                  there is none */
    ngx_msec_t                   answered_ttl;
    uint64_t                     cluster_id;   /* of that answer */
    uint64_t                     raft_term;    /* likewise; 0: not known */
    int64_t                      created;      /* of the witness */
    ngx_uint_t                   doubts;       /* in a row */
    unsigned                     kept:1;
};


struct ngx_etcd_lease_stream_s {
    ngx_etcd_cluster_t          *cluster;
    ngx_etcd_grpc_call_t         call;
    ngx_etcd_waiter_t            waiter;
    ngx_event_t                  reopen;       /* the stream */
    ngx_event_t                  timer;        /* what is due next */
    ngx_queue_t                  leases;
    ngx_uint_t                   failures;
    ngx_uint_t                   token;        /* its generation */
    unsigned                     open:1;
    unsigned                     answered:1;   /* this stream, at all */
};


/* opens a stream while there is a lease to be kept; NULL: no memory */
ngx_etcd_lease_stream_t *ngx_etcd_lease_stream_create(
    ngx_etcd_cluster_t *cluster);

/* ends the stream; leases are not touched any more, and live on in etcd */
void ngx_etcd_lease_stream_destroy(ngx_etcd_lease_stream_t *leases);

/* keeps a lease, whose first renewal is due at once if now is set */
void ngx_etcd_lease_keep(ngx_etcd_lease_stream_t *leases,
    ngx_etcd_lease_t *lease,
    ngx_uint_t now);

/* it is not kept any more, and no handler called; it lives on in etcd */
void ngx_etcd_lease_forget(ngx_etcd_lease_t *lease);

/* the deadline of a lease that was asked for at that time */
uint64_t ngx_etcd_lease_deadline(uint64_t sent, ngx_msec_t ttl);


#endif /* _NGX_ETCD_LEASE_H_INCLUDED_ */
