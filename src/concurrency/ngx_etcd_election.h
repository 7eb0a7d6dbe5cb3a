
/*
 * Copyright (C) nginx-etcd contributors
 *
 * An election as Go's concurrency package, etcdctl and v3election hold it: a
 * candidate's key is PREFIX/LEASE, and who was created first leads.  This
 * client campaigns, sees all candidates, and campaigns again after a loss.
 *
 * It leads while all of these hold: its key is the first in a state that was
 * observed, was there when it was read after that (linearizably), and has not
 * been seen deleted; its lease's deadline is to come; and so is that of the
 * last renewal while the prefix was watched.  Every renewal counts only after
 * the key was read again.
 */


#ifndef _NGX_ETCD_ELECTION_H_INCLUDED_
#define _NGX_ETCD_ELECTION_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_candidate.h>
#include <ngx_etcd_mirror.h>
#include <ngx_etcd_session.h>
#include <ngx_etcd_txn.h>


/* before a key that is there but was not seen yet is read again */

#define NGX_ETCD_ELECTION_PAUSE  100      /* ms */


typedef struct ngx_etcd_election_s  ngx_etcd_election_t;


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
     * The hold may be another one, or, if seen is set, what is seen of the
     * others: only then the leader may be looked at.  Must not end the
     * election; NGX_DECLINED: it is somebody else's now, and nothing more is
     * done here until it is closed.
     */
    ngx_int_t                  (*changed)(ngx_etcd_election_t *election,
                                          ngx_uint_t seen);
    void                        *data;

    ngx_etcd_lease_state_t       hold;
    ngx_etcd_mirror_entry_t     *leader;       /* NULL: there is none */
    int64_t                      revision;     /* as of that one */

    /* private */

    ngx_etcd_session_t           session;
    ngx_etcd_mirror_t            mirror;       /* of all candidates */
    ngx_etcd_txn_t               txn;          /* puts the own key */
    ngx_etcd_range_t             read;         /* of the own key */
    ngx_event_t                  timer;        /* for another attempt */
    ngx_str_t                    key;          /* own, with the namespace */
    ngx_str_t                    own;          /* without */
    ngx_uint_t                   failures;
    uint64_t                     proved;       /* deadline of the last renewal
                                                  while it was watched */
    int64_t                      faulty;       /* create revision of what was
                                                  reported last */
    unsigned                     writing:1;
    unsigned                     reading:1;
    unsigned                     deciding:1;   /* that read decides */
    unsigned                     confirmed:1;  /* the own key was read */
};


/*
 * Campaigns from now on, going on with hold where its lease is not 0.
 * The watch stream is to be destroyed before the election is closed.
 */
ngx_int_t ngx_etcd_election_start(ngx_etcd_election_t *election);

/* resigns; as of ngx_etcd_session_end() */
void ngx_etcd_election_end(ngx_etcd_election_t *election,
    void (*ended)(void *data), void *data);

/* lease and key live on for who goes on with them */
void ngx_etcd_election_close(ngx_etcd_election_t *election);


#endif /* _NGX_ETCD_ELECTION_H_INCLUDED_ */
