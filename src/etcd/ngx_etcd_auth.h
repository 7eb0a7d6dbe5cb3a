
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Auth of etcd's v3 API (Authenticate): the token that the calls of a cluster
 * carry.
 *
 * All calls share one token.  It is requested when a call first needs it, and
 * again when etcd rejects it: the token has expired, the endpoint does not know
 * it, or users or roles have changed.  Calls that need a token in the meantime
 * wait for the same answer.
 *
 * A token is made known through Raft.  An endpoint that lags behind the issuer
 * rejects it until then, as etcd does since 3.5: a new token is tried again for
 * NGX_ETCD_AUTH_SPREAD ms.  After that, the next one is requested from the
 * endpoint that rejected it, which knows what it has issued.
 *
 * With "token_file" nothing is requested: the token is what the file has.  The
 * file is read again when it has changed, which is looked for once a second
 * while calls are made, and when etcd rejects the token; if the file has the
 * same token then, the calls wait, and try it again.
 *
 * A call is made like this:
 *
 *     if (!ngx_etcd_auth_ready(auth)) {
 *         ngx_etcd_auth_wait(auth, &waiter);      and again when called
 *         return;
 *     }
 *
 *     call->nmetadata = ngx_etcd_auth_metadata(auth, md, &generation);
 *
 * and when it has failed
 *
 *     if (ngx_etcd_auth_refused(auth, channel, generation, status, text)) {
 *         again from the start
 *     }
 */


#ifndef _NGX_ETCD_AUTH_H_INCLUDED_
#define _NGX_ETCD_AUTH_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_login.h>
#include <ngx_etcd_channel.h>
#include <ngx_etcd_cluster.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_grpc.h>


#define NGX_ETCD_AUTH_METADATA     1       /* entries at most */

#define NGX_ETCD_AUTH_REFUSAL      128     /* bytes of etcd's text */

#define NGX_ETCD_AUTH_BACKOFF_MAX  10000   /* ms, while the user is refused */

/* ms; after this time the rejection of a token is not a repeated failure */

#define NGX_ETCD_AUTH_HELD         3000

/* ms; the delay before a new token is tried again is doubled each time */

#define NGX_ETCD_AUTH_SPREAD       500
#define NGX_ETCD_AUTH_REPEAT       5



typedef enum {
    NGX_ETCD_AUTH_WANTED = 0,       /* no token, none requested */
    NGX_ETCD_AUTH_ASKING,
    NGX_ETCD_AUTH_WAITING,          /* after a failure, until the timer
                                       expires */
    NGX_ETCD_AUTH_SPREADING,        /* with a new token that an endpoint does
                                       not know, until the timer expires */
    NGX_ETCD_AUTH_READY             /* with a token, or none is needed */
} ngx_etcd_auth_state_e;


struct ngx_etcd_auth_s {
    ngx_etcd_cluster_t          *cluster;
    ngx_etcd_channel_t          *channel;      /* to request a token */
    ngx_etcd_auth_state_e        state;
    ngx_uint_t                   generation;   /* grows when calls may be made
                                                  again */
    ngx_uint_t                   failures;     /* in a row */
    ngx_uint_t                   unauthorized; /* etcd refuses the user */
    ngx_str_t                    refusal;      /* the last text of etcd */
    ngx_etcd_auth_file_t         file;
    ngx_str_t                    token;        /* on the heap; empty: none */
    ngx_msec_t                   since;        /* time of READY */
    ngx_msec_t                   issued;       /* time of the token */
    ngx_uint_t                   repeats;      /* of the token, in a row */
    ngx_etcd_login_t             login;
    ngx_etcd_waiter_t            waiter;       /* for the channel */
    ngx_event_t                  timer;
    ngx_event_t                  wake;         /* posted */
    ngx_queue_t                  waiters;
    ngx_etcd_causes_t            causes;       /* of failures in a row */
    unsigned                     disabled:1;   /* was logged */
    u_char                       refusal_text[NGX_ETCD_AUTH_REFUSAL];
};


/* Allocates from the cluster's pool; returns NULL if there is no memory. */
ngx_etcd_auth_t *ngx_etcd_auth_create(ngx_etcd_cluster_t *cluster);

/* Must be called while the channels exist; waiters are not called. */
void ngx_etcd_auth_destroy(ngx_etcd_auth_t *auth);

/* Returns 1 if calls may be made now. */
ngx_uint_t ngx_etcd_auth_ready(ngx_etcd_auth_t *auth);

/*
 * Calls the waiter's handler once, after this returns, when calls may be made.
 * ngx_etcd_waiter_forget() withdraws the waiter.
 */
void ngx_etcd_auth_wait(ngx_etcd_auth_t *auth, ngx_etcd_waiter_t *waiter);

/*
 * Fills in the metadata of a call and returns the number of entries, at most
 * NGX_ETCD_AUTH_METADATA.  They are valid until control returns to the event
 * loop.  The generation identifies the token that the call carries.
 */
ngx_uint_t ngx_etcd_auth_metadata(ngx_etcd_auth_t *auth, ngx_keyval_t *md,
    ngx_uint_t *generation);

/*
 * Returns 1 if a call on the channel failed because its token is missing,
 * outdated or not valid: the caller waits with ngx_etcd_auth_wait() and makes
 * the call again.  Returns 0 if the call failed for another reason.
 */
ngx_uint_t ngx_etcd_auth_refused(ngx_etcd_auth_t *auth,
    ngx_etcd_channel_t *channel, ngx_uint_t generation,
    ngx_etcd_grpc_status_e status, ngx_str_t *text);

/*
 * A call with a token was not answered.  An etcd that was restored from a
 * backup delays a call until it applies the raft index in the call's token,
 * possibly forever: the next call gets another token.  A token of a file has no
 * raft index.
 */
void ngx_etcd_auth_unanswered(ngx_etcd_auth_t *auth, ngx_uint_t generation,
    ngx_str_t *text);

/*
 * Returns 1 if etcd says that the user may not do what was requested.  A proxy
 * may refuse all requests with the same status, and other words.
 */
ngx_uint_t ngx_etcd_auth_forbids(ngx_etcd_grpc_status_e status,
    ngx_str_t *text);

/*
 * Returns 1 if PERMISSION_DENIED for a call of this generation says nothing
 * about the user, because the call carried no token, or not the current one.
 * (Without a token, etcd takes the common name of the client certificate as the
 * user.)
 */
ngx_uint_t ngx_etcd_auth_outdated(ngx_etcd_auth_t *auth,
    ngx_uint_t generation);

/* a call succeeded: requests of the user are accepted again */
void ngx_etcd_auth_accepted(ngx_etcd_auth_t *auth);


#endif /* _NGX_ETCD_AUTH_H_INCLUDED_ */
