
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A session: a lease that is granted, kept, and, after a loss, replaced by
 * another one.  The keys that have the lease end with it.  And what is asked
 * about any lease.
 */


#ifndef _NGX_ETCD_SESSION_H_INCLUDED_
#define _NGX_ETCD_SESSION_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_cause.h>
#include <ngx_etcd_lease.h>
#include <ngx_etcd_unary.h>
#include <ngx_etcd_proto.pb-c.h>


/* ms; a lease that was kept for longer resets the backoff */

#define NGX_ETCD_SESSION_PROVED     10000    /* ms */

/*
 * The pause after a lease that was lost for lack of an answer is at most _PAUSE
 * ms.  When this happens again, it is as long as so many writes have lately
 * taken, or _PAUSE ms, and doubles up to _MAX_PAUSE.  A lease that was kept for
 * so many TTLs ends the row, and so does a write that takes less than _PROMPT
 * ms, at once: the lost lease is revoked before the next one is requested.
 * While locks wait, it is revoked again and again in the pause, after up to
 * _PAUSE ms or as long as the last write has taken: an outage would otherwise
 * last longer for them than for etcd, by up to _MAX_PAUSE.
 *
 * The pause after a revocation that got no answer is as long, but at most half
 * of the TTL: an etcd without a quorum does not answer, either, and keeps a
 * former lease for one TTL from when it has a quorum again.
 */

#define NGX_ETCD_SESSION_PAUSE      1000
#define NGX_ETCD_SESSION_WRITES     4
#define NGX_ETCD_SESSION_MAX_PAUSE  16000
#define NGX_ETCD_SESSION_TTLS       3
#define NGX_ETCD_SESSION_PROMPT     250

/* ms, on average, until a full etcd is asked for a lease again */

#define NGX_ETCD_SESSION_FULL    4000     /* ms */


typedef struct ngx_etcd_session_s  ngx_etcd_session_t;


/* state of one process in etcd, for another process to continue with */

typedef struct {
    int64_t                      lease;        /* 0: none */
    ngx_msec_t                   ttl;
    uint64_t                     deadline;     /* ngx_etcd_clock() */
    int64_t                      created;      /* create revision of its key; 0:
                                                  not put yet */
    uint64_t                     until;        /* leads an election up to this
                                                  ngx_etcd_clock(); 0: does not
                                                  lead */
} ngx_etcd_lease_state_t;


typedef enum {
    NGX_ETCD_SESSION_CLOSED = 0,
    NGX_ETCD_SESSION_WAITING,        /* until the timer expires */
    NGX_ETCD_SESSION_REVOKING,       /* a lost lease */
    NGX_ETCD_SESSION_GRANTING,
    NGX_ETCD_SESSION_HELD,           /* the lease is kept */
    NGX_ETCD_SESSION_ENDING          /* revoking the lease for good */
} ngx_etcd_session_state_e;


/* the time until the next request for a lease depends on these */

typedef struct {
    ngx_event_t                  timer;
    ngx_uint_t                   failures;     /* in a row */
    ngx_uint_t                   late;         /* leases in a row that were lost
                                                  for lack of an answer */
    ngx_uint_t                   unanswered;   /* revocations in a row */
    uint64_t                     since;        /* when HELD began */
    uint64_t                     rest;         /* no lease is requested before
                                                  this ngx_etcd_clock() */
    uint64_t                     slow;         /* likewise: etcd is too slow */
    uint64_t                     took;         /* ms, the last write */
} ngx_etcd_session_pause_t;


struct ngx_etcd_session_s {
    /* set by the caller, the rest zeroed */

    ngx_etcd_lease_stream_t     *leases;
    ngx_str_t                    name;         /* for logs */
    time_t                       ttl;          /* seconds, requested */

    /*
     * The keys of the session exclude other clients.  When etcd turns out to
     * have another history, which is unknown, the session gives up its lease
     * and requests no other one for another TTL: the locks of others in the
     * former history have ended by then.
     */
    ngx_uint_t                   exclusive;

    /* see ngx_etcd_lease_t; witness may be NULL */
    void                       (*witness)(ngx_etcd_session_t *session,
                                          ngx_str_t *key, int64_t *created);
    void                       (*missing)(ngx_etcd_session_t *session,
                                          int64_t created);

    /* a lease was granted */
    void                       (*held)(ngx_etcd_session_t *session);

    /*
     * etcd has no room for a lease: "full" is set, and another one is requested
     * some seconds later.  May be NULL.
     */
    void                       (*refused)(ngx_etcd_session_t *session);

    /* The deadline of the lease has moved.  May be NULL. */
    void                       (*renewed)(ngx_etcd_session_t *session);

    /*
     * The lease is lost; lease.id is still that of the lost lease.  Another one
     * will be requested.
     */
    void                       (*lost)(ngx_etcd_session_t *session,
                                       char *reason);
    void                        *data;

    /* valid in HELD */

    ngx_etcd_lease_t             lease;

    /* private but for the state */

    ngx_etcd_session_state_e     state;
    ngx_etcd_unary_t             unary;
    Etcd__LeaseGrantRequest      grant;
    Etcd__LeaseRevokeRequest     revoke;
    ngx_etcd_session_pause_t     pause;
    int64_t                      former;       /* lease to be revoked; 0:
                                                  none */
    ngx_etcd_history_listener_t  history;
    void                       (*ended)(void *data);
    void                        *ended_data;
    ngx_etcd_causes_t            refusals;     /* of leases */
    ngx_etcd_causes_t            denials;      /* of renewals of this lease */
    unsigned                     full:1;       /* so etcd answered last */
};


/* Requests a lease until one is granted; handlers are called later. */
void ngx_etcd_session_start(ngx_etcd_session_t *session);

/*
 * Continues with a lease that another process has kept up to now, if its
 * deadline has not passed, or else replaces it.  Handlers are called later;
 * held() is called only for another lease: see the state after this returns.
 */
void ngx_etcd_session_adopt(ngx_etcd_session_t *session,
    ngx_etcd_lease_state_t *hold);

/* in HELD: replaces the lease by another one; lost() is called */
void ngx_etcd_session_replace(ngx_etcd_session_t *session, char *reason);

/*
 * in HELD: replaces a lease without keys in use, which is not logged as a loss;
 * lost() is called
 */
void ngx_etcd_session_give_up(ngx_etcd_session_t *session, char *reason);

/*
 * A request waits for a lease: shortens a pause to NGX_ETCD_BACKOFF_URGENT,
 * unless etcd is full.
 */
void ngx_etcd_session_hasten(ngx_etcd_session_t *session);

/*
 * Revokes the lease for good.  No handler but ended() is called any more, when
 * the lease is gone or cannot be revoked, possibly before this returns.
 */
void ngx_etcd_session_end(ngx_etcd_session_t *session,
    void (*ended)(void *data), void *data);

/*
 * No handler is called any more.  The lease remains in etcd for a process that
 * adopts it.
 */
void ngx_etcd_session_close(ngx_etcd_session_t *session);


/*
 * LeaseTimeToLive of etcd's v3 API (Lease): the time left of any client's
 * lease, and the keys that are attached to it.
 */

#define NGX_ETCD_LEASE_TTL_MAX 9000000000    /* seconds: etcd's limit */


typedef struct ngx_etcd_lease_ttl_s  ngx_etcd_lease_ttl_t;


/* one request at a time; the next one may be made in done() */

struct ngx_etcd_lease_ttl_s {
    /* set by the caller, the rest zeroed */

    ngx_etcd_cluster_t              *cluster;
    int64_t                          lease;
    ngx_msec_t                       timeout;  /* 0: request_timeout */

    /*
     * Called before done() with the keys that are attached to the lease,
     * including the namespace; valid until this returns.  The revision is that
     * of the answer's header.  NULL: keys are not asked for.
     */
    void                           (*keys)(ngx_etcd_lease_ttl_t *lease_ttl,
                                           ProtobufCBinaryData *keys,
                                           size_t n, int64_t revision);

    /*
     * Called once.  The time is when the lease expires unless it is renewed, by
     * ngx_etcd_clock(), counted from when the request was sent.  0: there is no
     * such lease, or etcd did not answer.
     */
    void                           (*done)(ngx_etcd_lease_ttl_t *lease_ttl,
                                           uint64_t until);
    void                            *data;

    /* private */

    ngx_etcd_unary_t                 unary;
    Etcd__LeaseTimeToLiveRequest     request;
};


/* done() is never called before this returns */
void ngx_etcd_lease_ttl_ask(ngx_etcd_lease_ttl_t *lease_ttl);

/* done() is not called any more; does nothing if no call is running */
void ngx_etcd_lease_ttl_cancel(ngx_etcd_lease_ttl_t *lease_ttl);


#endif /* _NGX_ETCD_SESSION_H_INCLUDED_ */
