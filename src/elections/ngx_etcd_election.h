
/*
 * Copyright (C) nginx-etcd contributors
 *
 * An election as Go's concurrency package, etcdctl and v3election implement it:
 * the key of a candidate is PREFIX/LEASE, and the candidate with the lowest
 * create revision leads.  This client campaigns, observes all candidates, and
 * campaigns again after a loss.
 *
 * The client leads while all of these conditions hold: its key is the first
 * candidate in an observed state, existed in a later linearizable read, and has
 * not been seen deleted; the deadline of its lease has not passed; and the
 * deadline of the last renewal made while the prefix was watched, or could not
 * be read for lack of rights, has not passed.  A renewal counts only after the
 * key was read again: no later candidate comes before a key that exists.
 */


#ifndef _NGX_ETCD_ELECTION_H_INCLUDED_
#define _NGX_ETCD_ELECTION_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_cause.h>
#include <ngx_etcd_kv.h>
#include <ngx_etcd_mirror.h>
#include <ngx_etcd_mirror_entry.h>
#include <ngx_etcd_session.h>


/* ms until a key that exists, but was not observed yet, is read again */

#define NGX_ETCD_ELECTION_PAUSE  100      /* ms */


typedef struct ngx_etcd_election_s  ngx_etcd_election_t;


/* This client's key, and what is under way for it. */

typedef struct {
    ngx_str_t                    key;
    ngx_str_t                    full;         /* with the namespace */
    ngx_etcd_txn_t               txn;          /* puts the key */
    ngx_etcd_range_t             read;
    unsigned                     writing:1;
    unsigned                     reading:1;
    unsigned                     deciding:1;   /* the read decides on
                                                  leadership */
    unsigned                     confirmed:1;  /* a read has found the key
                                                  first */
    int64_t                      put;          /* revision of the last put; 0:
                                                  not known */
    u_char                      *said;         /* the value that was proclaimed,
                                                  _CANDIDATE_MAX_VALUE bytes;
                                                  NULL: none was */
} ngx_etcd_election_own_t;


struct ngx_etcd_election_s {
    /* set by the caller, the rest zeroed; bytes must stay */

    ngx_etcd_watch_stream_t     *stream;
    ngx_etcd_lease_stream_t     *leases;
    ngx_pool_t                  *pool;
    ngx_str_t                    name;         /* for logs */
    ngx_str_t                    prefix;       /* without the slash */
    ngx_str_t                    value;
    time_t                       ttl;          /* seconds */

    /*
     * "hold" may have changed, or, if "seen" is set, the candidates: only then
     * the leader is valid.  Must not end the election.  NGX_DECLINED: another
     * process has taken the election over, and nothing more is done here until
     * it is closed.
     */
    ngx_int_t                  (*changed)(ngx_etcd_election_t *election,
                                          ngx_uint_t seen);

    /*
     * ms; if not 0, the candidates are verified at such intervals
     * (ngx_etcd_proof.h): at that ngx_etcd_clock() those that were last "seen"
     * were all that etcd had
     */
    ngx_msec_t                   verify_interval;
    void                       (*verified)(ngx_etcd_election_t *election,
                                           uint64_t time);
    void                        *data;

    ngx_etcd_lease_state_t       hold;
    ngx_etcd_mirror_entry_t     *leader;       /* NULL: none or not known */
    int64_t                      revision;     /* at which the leader was
                                                  observed */

    /* private */

    ngx_etcd_session_t           session;
    ngx_etcd_mirror_t            mirror;       /* of all candidates */
    ngx_etcd_election_own_t      own;
    ngx_event_t                  timer;        /* of the next attempt */
    ngx_uint_t                   failures;
    ngx_etcd_causes_t            causes;       /* of those */
    uint64_t                     proved;       /* deadline of the last renewal
                                                  made while the prefix was
                                                  watched */
    int64_t                      faulty;       /* mod_revision of the invalid
                                                  first candidate that was
                                                  logged last */
};


/*
 * Campaigns from now on.  If hold.lease is not 0, continues with that lease.
 * The watch stream must be destroyed before the election is closed.  NGX_ERROR:
 * no memory.
 */
ngx_int_t ngx_etcd_election_start(ngx_etcd_election_t *election);

/*
 * Proclaims another value, which is copied.  NGX_AGAIN: the key is not in etcd,
 * or the former value is still being put.  NGX_ERROR: it is too long, or there
 * is no memory.
 */
ngx_int_t ngx_etcd_election_proclaim(ngx_etcd_election_t *election,
    ngx_str_t *value);

/* Resigns; see ngx_etcd_session_end(). */
void ngx_etcd_election_end(ngx_etcd_election_t *election,
    void (*ended)(void *data), void *data);

/* Keeps lease and key in etcd for a process that continues with them. */
void ngx_etcd_election_close(ngx_etcd_election_t *election);


#endif /* _NGX_ETCD_ELECTION_H_INCLUDED_ */
