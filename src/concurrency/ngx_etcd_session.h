
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A session: a lease that is granted, kept, and, when it was lost, replaced by
 * another one.  What belongs to it in etcd ends with it.
 */


#ifndef _NGX_ETCD_SESSION_H_INCLUDED_
#define _NGX_ETCD_SESSION_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_lease.h>
#include <ngx_etcd_unary.h>
#include <ngx_etcd_proto.pb-c.h>


/* a lease that was kept for so long does not count as one that fails */

#define NGX_ETCD_SESSION_PROVED  10000    /* ms */


typedef struct ngx_etcd_session_s  ngx_etcd_session_t;


/* what one process holds in etcd, for another one to go on with */

typedef struct {
    int64_t                      lease;        /* 0: none */
    ngx_msec_t                   ttl;
    uint64_t                     deadline;     /* ngx_etcd_clock() */
    int64_t                      created;      /* create revision of its key;
                                                  0: it is not there yet */
    uint64_t                     until;        /* an election is won up to
                                                  then; 0: it is not */
} ngx_etcd_lease_state_t;


typedef enum {
    NGX_ETCD_SESSION_CLOSED = 0,
    NGX_ETCD_SESSION_WAITING,        /* the timer goes on */
    NGX_ETCD_SESSION_REVOKING,       /* what is left of a lost lease */
    NGX_ETCD_SESSION_GRANTING,
    NGX_ETCD_SESSION_HELD,           /* there is a lease, and it is kept */
    NGX_ETCD_SESSION_ENDING          /* revoked for good */
} ngx_etcd_session_state_e;


struct ngx_etcd_session_s {
    /* set by the caller, the rest zeroed */

    ngx_etcd_lease_stream_t     *leases;
    ngx_str_t                    name;         /* for logs */
    time_t                       ttl;          /* seconds to be asked for */

    /*
     * What belongs to the session excludes others.  When etcd has another
     * history, of which nothing is known, the session is given up, and there
     * is none for another TTL: what others have held in the former history is
     * over then.
     */
    ngx_uint_t                   exclusive;

    /* as of a lease; witness may be NULL */
    void                       (*witness)(ngx_etcd_session_t *session,
                                          ngx_str_t *key, int64_t *created);
    void                       (*missing)(ngx_etcd_session_t *session,
                                          int64_t created);

    /* there is a lease: another one than before, or that was adopted */
    void                       (*held)(ngx_etcd_session_t *session);

    /* its deadline has moved */
    void                       (*renewed)(ngx_etcd_session_t *session);

    /* it is lost, and lease.id still what it was; another one will be held */
    void                       (*lost)(ngx_etcd_session_t *session,
                                       char *reason);
    void                        *data;

    /* valid while it is held */

    ngx_etcd_lease_t             lease;

    /* private but for the state */

    ngx_etcd_session_state_e     state;
    ngx_etcd_unary_t             unary;
    Etcd__LeaseGrantRequest      grant;
    Etcd__LeaseRevokeRequest     revoke;
    ngx_event_t                  timer;
    ngx_uint_t                   failures;     /* in a row */
    uint64_t                     since;        /* when it was held */
    int64_t                      former;       /* to be revoked; 0: none */
    ngx_etcd_history_listener_t  history;
    uint64_t                     rest;         /* no lease is asked for before
                                                  that, ngx_etcd_clock() */
    void                       (*ended)(void *data);
    void                        *ended_data;
    unsigned                     reported:1;
};


/* asks for a lease until there is one; handlers are called later */
void ngx_etcd_session_start(ngx_etcd_session_t *session);

/*
 * Goes on with a lease that another process has kept up to now, if it is still
 * valid by its deadline, and replaces it otherwise.  Handlers are called later;
 * held() only for another lease: the state says what it was.
 */
void ngx_etcd_session_adopt(ngx_etcd_session_t *session,
    ngx_etcd_lease_state_t *hold);

/* while it is held: gives up the lease for another one; lost() is called */
void ngx_etcd_session_replace(ngx_etcd_session_t *session, char *reason);

/* the same, for a lease that nothing in use depends on */
void ngx_etcd_session_give_up(ngx_etcd_session_t *session, char *reason);

/* somebody waits for a lease: a longer pause ends soon */
void ngx_etcd_session_hasten(ngx_etcd_session_t *session);

/*
 * Revokes the lease, for good: nothing but ended() is called any more, maybe
 * before this returns, when it is gone or cannot be revoked.
 */
void ngx_etcd_session_end(ngx_etcd_session_t *session,
    void (*ended)(void *data), void *data);

/* no handler is called any more; a lease lives on for who adopts it */
void ngx_etcd_session_close(ngx_etcd_session_t *session);


#endif /* _NGX_ETCD_SESSION_H_INCLUDED_ */
