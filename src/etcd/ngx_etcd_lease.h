
/*
 * Copyright (C) nginx-etcd contributors
 *
 * LeaseKeepAlive of etcd's v3 API (Lease): all leases that a client keeps in a
 * cluster, on one stream.
 *
 * A lease is valid up to its deadline: the time when the last renewal that
 * counts was sent, plus the TTL, less a margin.  etcd counts from a later time,
 * so no other client can get the lease's keys before the deadline.
 *
 * The TTL is the requested one, or that of the answer if it is shorter.  A
 * longer one is not certain: each member raises a TTL to one and a half of its
 * own election timeout, and the member that is raft leader when the lease ends
 * may have a shorter timeout than the one that has granted or renewed it.
 *
 * An answer alone does not make a renewal count: up to etcd 3.4.30 and 3.5.12 a
 * raft leader whose disk stands still answers although it was deposed, and the
 * next leader has expired the lease (etcd issue 15247).  So a key, the witness,
 * is read, linearizably, after the answer.  The renewal counts if
 *
 *     the same cluster answers the read, with the raft term of the renewal's
 *         answer: then the raft leader that renewed the lease led a quorum
 *         after the renewal;
 *     and the witness exists with its create revision, if it must exist: then
 *         the history is the same (ngx_etcd_history.h), and no other client
 *         has deleted the key behind a watch that hangs.
 *
 * Equal terms prove this for the following reasons.  A header's raft term is
 * that of the last entry that the endpoint has applied, and a member does not
 * forward a renewal to the leader of an older term.  The endpoint fills in the
 * header before it renews the lease.  So the renewal was made in the header's
 * term or a later one.  The read was confirmed in the header's term or an
 * earlier one: a leader confirms reads only after it has committed an entry of
 * its own term.  Hence all three terms are the same, and a term has one leader.
 * If the read has a later term, the former leader may have been deposed before
 * the renewal: the renewal does not count, and is repeated.  A proxy that does
 * not report terms leaves the read alone as the proof.
 *
 * If etcd refuses the read of a shared lease with PERMISSION_DENIED, the
 * renewal counts without a comparison of terms: etcd has confirmed the read
 * before it refuses, but the refusal has no header.
 *
 * A lease has one renewal at a time: the next one is sent when this one counts,
 * or is given up.  So an answer belongs to the only request, and an etcd whose
 * answers are lost renews a lease no more than once on each stream.
 *
 * An endpoint that does not answer the renewal and the read in time is left for
 * another one.  One that has answered the renewal, when all others were left,
 * has time for the read up to the deadline, and is left then.
 *
 * Newer releases of etcd, as 3.5.30, check the rights on the keys of a lease
 * that is renewed.  A refusal ends the stream, but says nothing about the
 * endpoint and the other leases: they go on, with another stream on the same
 * connection.
 */


#ifndef _NGX_ETCD_LEASE_H_INCLUDED_
#define _NGX_ETCD_LEASE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_auth.h>
#include <ngx_etcd_kv.h>


#define NGX_ETCD_LEASE_MIN_TTL     2        /* seconds; minimum of etcd */
#define NGX_ETCD_LEASE_MAX_TTL     86400    /* seconds */

/*
 * The margin is a tenth of the TTL up to _MARGIN ms, for the time between a
 * look at the clock and what follows, and at least one part in _DRIFT, for the
 * clocks: kernels let NTP slew them by up to 500 ppm, each in its direction.
 */

#define NGX_ETCD_LEASE_MARGIN  1000         /* ms */
#define NGX_ETCD_LEASE_DRIFT   100


/*
 * How long an endpoint may leave the renewal of a lease without an answer, or
 * without confirmation, until the client goes to another endpoint.
 *
 * A sixth of the TTL is enough for an etcd that works, and leaves time to try
 * several other endpoints.  All endpoints may be slow, though, if their disks
 * are: the time doubles with each endpoint in a row that is left, so that one
 * of them is given time to answer.  The time grows no further than up to the
 * moment from which another endpoint can still renew the lease before the
 * deadline.
 *
 * A slow etcd answers promptly while there is nothing to write.  So the first
 * time comes back only after many renewals in a row that were confirmed
 * promptly.
 */

/* ms that an endpoint has to answer at least, for any TTL */

#define NGX_ETCD_LEASE_PATIENCE    200      /* ms */

/* so many prompt renewals in a row end a greater patience */

#define NGX_ETCD_LEASE_PROMPT      16


typedef struct {
    ngx_uint_t                   misses;       /* endpoints left in a row */
    ngx_msec_t                   ttl;          /* of the lease that the last one
                                                  did not renew in time */
    ngx_uint_t                   prompt;       /* renewals since then */
} ngx_etcd_lease_patience_t;


/* Returns when it is over, for a renewal that was sent at that time. */
uint64_t ngx_etcd_lease_patience(ngx_etcd_lease_patience_t *patience,
    uint64_t sent, uint64_t deadline, ngx_msec_t ttl);


typedef struct ngx_etcd_lease_stream_s  ngx_etcd_lease_stream_t;
typedef struct ngx_etcd_lease_s   ngx_etcd_lease_t;


/* handlers may forget their own lease and keep others, but nothing else */

struct ngx_etcd_lease_s {
    /* set by the caller, the rest zeroed */

    int64_t                      id;
    ngx_msec_t                   ttl;          /* ms, as requested, or less if
                                                  etcd has answered less */
    uint64_t                     deadline;     /* ngx_etcd_clock() */

    /*
     * Returns the witness, with the namespace, and its create revision, or 0 if
     * the key need not exist.  NULL: renewals count without a read.
     */
    void                       (*witness)(ngx_etcd_lease_t *lease,
                                          ngx_str_t *key, int64_t *created);

    /*
     * The witness with that create revision does not exist: the owner gives up
     * everything that depends on this key.  Another witness is read next.
     */
    void                       (*missing)(ngx_etcd_lease_t *lease,
                                          int64_t created);

    /* PERMISSION_DENIED for the read confirms a renewal as well */
    ngx_uint_t                   shared;

    /*
     * The user may not put one of the lease's keys: the lease was not renewed,
     * and will be renewed later if its deadline has not passed then.
     */
    void                       (*denied)(ngx_etcd_lease_t *lease,
                                         ngx_etcd_grpc_status_e status,
                                         ngx_str_t *text);

    /* ttl and deadline have changed */
    void                       (*renewed)(ngx_etcd_lease_t *lease);

    /*
     * Called once: the lease is not kept any more, but etcd may still have it.
     */
    void                       (*lost)(ngx_etcd_lease_t *lease, char *reason);
    void                        *data;

    /* private */

    ngx_queue_t                  queue;
    uint64_t                     renewal;      /* time of the next renewal */
    uint64_t                     sent;         /* the renewal that is neither
                                                  confirmed nor given up; 0:
                                                  none */
    ngx_uint_t                   number;       /* of this request on the
                                                  stream, from 0 on */
    ngx_etcd_lease_stream_t     *leases;
    ngx_etcd_stream_range_t      read;         /* of the witness */
    ngx_msec_t                   answered_ttl;
    uint64_t                     cluster_id;   /* of that answer */
    uint64_t                     raft_term;    /* likewise; 0: not known */
    ngx_str_t                    key;          /* the witness */
    int64_t                      created;      /* of the witness */
    ngx_uint_t                   doubts;       /* renewals in a row without
                                                  confirmation */
    unsigned                     kept:1;
    unsigned                     answered:1;   /* etcd has answered, and the
                                                  read is to confirm this */
};


struct ngx_etcd_lease_stream_s {
    ngx_etcd_cluster_t          *cluster;
    ngx_etcd_grpc_call_t         call;
    ngx_etcd_waiter_t            waiter;
    ngx_event_t                  reopen;       /* the stream */
    ngx_event_t                  timer;        /* next request, deadline or
                                                  timeout */
    ngx_queue_t                  leases;
    ngx_uint_t                   failures;
    ngx_etcd_lease_patience_t    patience;
    ngx_uint_t                   token;        /* token's generation */
    ngx_uint_t                   requests;     /* sent on this stream */
    ngx_uint_t                   answers;      /* received on this stream */
    unsigned                     open:1;
    unsigned                     answered:1;   /* a response came on this
                                                  stream */
};


/*
 * Opens a stream while there is a lease to keep.  Returns NULL if there is no
 * memory.
 */
ngx_etcd_lease_stream_t *ngx_etcd_lease_stream_create(
    ngx_etcd_cluster_t *cluster);

/* Ends the stream.  Leases are forgotten, and remain in etcd. */
void ngx_etcd_lease_stream_destroy(ngx_etcd_lease_stream_t *leases);

/*
 * Keeps a granted lease.  Its first renewal is made at once if "now" is set,
 * else after a third of the TTL, counted from the request for the lease.
 */
void ngx_etcd_lease_keep(ngx_etcd_lease_stream_t *leases,
    ngx_etcd_lease_t *lease,
    ngx_uint_t now);

/*
 * The lease is not kept any more, and no handler is called; it remains in etcd.
 */
void ngx_etcd_lease_forget(ngx_etcd_lease_t *lease);

/* Returns the deadline of a lease requested at "sent", with a TTL in ms. */
#define ngx_etcd_lease_deadline(sent, ttl)                                    \
    ((sent) + (ttl)                                                           \
     - ngx_max(ngx_min((ttl) / 10, NGX_ETCD_LEASE_MARGIN),                    \
               (ttl) / NGX_ETCD_LEASE_DRIFT))


#endif /* _NGX_ETCD_LEASE_H_INCLUDED_ */
