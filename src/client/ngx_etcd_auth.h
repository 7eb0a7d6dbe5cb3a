
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Auth of etcd's v3 API: the token that a cluster's calls carry.  One for all
 * of them, asked for when it is first needed and again when etcd does not
 * accept it any more (it has expired, another member does not know it, users
 * or roles have changed); whoever needs it meanwhile waits for that one
 * answer.
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
 *     if (ngx_etcd_auth_refused(auth, generation, status, text)) {
 *         again from the start
 *     }
 */


#ifndef _NGX_ETCD_AUTH_H_INCLUDED_
#define _NGX_ETCD_AUTH_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_backoff.h>
#include <ngx_etcd_channel.h>
#include <ngx_etcd_cluster.h>
#include <ngx_etcd_grpc.h>
#include <ngx_etcd_waiter.h>


#define NGX_ETCD_AUTH_METADATA     1       /* entries at most */

#define NGX_ETCD_AUTH_ATTEMPT      1000    /* ms, doubled with every failure */
#define NGX_ETCD_AUTH_BACKOFF_MAX  10000   /* ms, while the user is refused */

/* a token that was accepted for so long is not one that never works */

#define NGX_ETCD_AUTH_HELD         3000


typedef enum {
    NGX_ETCD_AUTH_WANTED = 0,       /* to be asked for when it is needed */
    NGX_ETCD_AUTH_ASKING,
    NGX_ETCD_AUTH_WAITING,          /* failed: the timer goes on */
    NGX_ETCD_AUTH_READY             /* with a token, or none is wanted */
} ngx_etcd_auth_state_e;


struct ngx_etcd_auth_s {
    ngx_etcd_cluster_t          *cluster;
    ngx_etcd_auth_state_e        state;
    ngx_uint_t                   generation;   /* counts the answers */
    ngx_uint_t                   failures;     /* in a row */
    ngx_uint_t                   unauthorized; /* etcd refuses the user */
    ngx_str_t                    token;        /* on the heap; empty: none */
    ngx_str_t                    answer;       /* the one that is coming */
    ngx_str_t                    password;
    ngx_msec_t                   since;        /* when it was ready */
    ngx_msec_t                   started;      /* this attempt */
    ngx_etcd_grpc_call_t         call;
    ngx_etcd_waiter_t            waiter;       /* for the channel */
    ngx_event_t                  timer;
    ngx_event_t                  wake;         /* posted */
    ngx_queue_t                  waiters;
    char                        *fault;        /* of the file, was logged */
    unsigned                     calling:1;
    unsigned                     disabled:1;   /* was logged */
    unsigned                     unreadable:1; /* was logged */
};


/* memory is of the cluster's pool; NULL: no memory */
ngx_etcd_auth_t *ngx_etcd_auth_create(ngx_etcd_cluster_t *cluster);

/* while the channels are still there; waiters are dropped */
void ngx_etcd_auth_destroy(ngx_etcd_auth_t *auth);

/* 1: calls may be made now */
ngx_uint_t ngx_etcd_auth_ready(ngx_etcd_auth_t *auth);

/*
 * The handler is called once when calls may be made, never before this
 * returns; ngx_etcd_waiter_forget() takes the waiter back.
 */
void ngx_etcd_auth_wait(ngx_etcd_auth_t *auth, ngx_etcd_waiter_t *waiter);

/*
 * Fills in the metadata, which are valid until the event loop goes on, and
 * returns how many they are.  The generation is what this call is made with.
 */
ngx_uint_t ngx_etcd_auth_metadata(ngx_etcd_auth_t *auth, ngx_keyval_t *md,
    ngx_uint_t *generation);

/*
 * 1: the call failed for want of a valid token, and is to be made again when
 * there is one; 0: for another reason.
 */
ngx_uint_t ngx_etcd_auth_refused(ngx_etcd_auth_t *auth, ngx_uint_t generation,
    ngx_etcd_grpc_status_e status, ngx_str_t *text);

/*
 * 1: what was denied to that call may be allowed to the user: it had no token,
 * or not the present one.  Without a token, etcd takes the name in a client
 * certificate for that of a user.
 */
ngx_uint_t ngx_etcd_auth_outdated(ngx_etcd_auth_t *auth,
    ngx_uint_t generation);

/* a call succeeded */
void ngx_etcd_auth_accepted(ngx_etcd_auth_t *auth);


#endif /* _NGX_ETCD_AUTH_H_INCLUDED_ */
