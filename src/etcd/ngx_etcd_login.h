
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A login by a password (Authenticate of etcd's v3 API, Auth).
 *
 * A password costs etcd some 60 ms of a CPU (bcrypt), or more, and etcd goes on
 * computing when the client has given up.  After a restart of etcd thousands of
 * clients need a token: if each of them repeated a login that is not answered
 * soon, etcd would compute for ever what nobody waits for any more.
 *
 * So a client that has waited asks the endpoint for its status, which costs
 * nothing.  An answer means that etcd is busy, maybe with this login: the
 * client goes on waiting.  An endpoint that does not answer, or has no leader,
 * is left for another one.
 *
 * A client that has seen that etcd is busy, since a login has failed or the
 * connection was slow to begin, asks before it logs in as well.  If the answer
 * takes long, other logins are under way: the client pauses, and asks again.
 * An endpoint may always be slow, or so far away: after some slow answers the
 * client logs in all the same.
 */


#ifndef _NGX_ETCD_LOGIN_H_INCLUDED_
#define _NGX_ETCD_LOGIN_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_channel.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_grpc.h>
#include <ngx_etcd_cluster.h>


/*
 * The file of a password is read for each request of a token, that of a token
 * when it has changed or etcd refuses the token, so that a correction needs no
 * reload.  It is small and local, and all this is rare.
 */

/* "password_file" or "token_file" */

typedef struct {
    ngx_str_t                    password;     /* or token */
    char                        *fault;        /* the last one, logged */
    time_t                       looked;       /* at a token */
    time_t                       mtime;        /* of the file then */
    ngx_file_uniq_t              uniq;
    off_t                        size;
    unsigned                     readable:1;   /* the file was read */
    unsigned                     unreadable:1; /* was logged */
} ngx_etcd_auth_file_t;


/*
 * Reads the file into file->password.  What was read before stays if the file
 * has a fault, which is logged once.
 */
void ngx_etcd_auth_file_read(ngx_etcd_auth_file_t *file,
    ngx_etcd_cluster_conf_t *conf, ngx_log_t *log);

/*
 * Returns 1 if the file is another one than at the last look.  A look costs a
 * system call, at most once a second.
 */
ngx_uint_t ngx_etcd_auth_file_changed(ngx_etcd_auth_file_t *file,
    ngx_etcd_cluster_conf_t *conf);


/*
 * ms without an answer after which an endpoint is asked whether it works,
 * doubled with every failure; and ms for an answer of one that works
 */

#define NGX_ETCD_LOGIN_ATTEMPT      1000
#define NGX_ETCD_LOGIN_ATTEMPT_MAX  8000
#define NGX_ETCD_LOGIN_TIMEOUT      120000

/* ms; a status that takes longer is slow */

#define NGX_ETCD_LOGIN_PROMPT       800

/* ms; a random pause up to _PAUSE, doubled with every reason for it */

#define NGX_ETCD_LOGIN_PAUSE        500
#define NGX_ETCD_LOGIN_PAUSE_MAX    30000

/* slow answers in a row, after which the client does not pause any more */

#define NGX_ETCD_LOGIN_SLOW         6


typedef struct ngx_etcd_login_s  ngx_etcd_login_t;

struct ngx_etcd_login_s {
    /* set by the owner, the rest zeroed */

    ngx_etcd_channel_t          *channel;      /* before each login */
    ngx_str_t                   *user;
    ngx_str_t                   *password;
    ngx_log_t                   *log;

    /*
     * Never called before ngx_etcd_login_begin() returns.  If the status is OK,
     * the owner takes the token, which is on the heap.
     */
    void                       (*done)(ngx_etcd_login_t *login,
                                       ngx_etcd_grpc_status_e status,
                                       ngx_str_t *text);

    /* etcd is busy: the login ends, and is to begin again after a pause */
    void                       (*busy)(ngx_etcd_login_t *login,
                                       ngx_msec_t pause);
    void                        *data;

    /* read-only for the owner, but for the token */

    ngx_str_t                    token;
    ngx_msec_t                   sent;         /* time of the last login or
                                                  question */

    /* private */

    ngx_msec_t                   attempt;      /* ms */
    ngx_uint_t                   slow;         /* answers in a row */
    ngx_etcd_grpc_call_t         call;
    ngx_etcd_grpc_call_t         question;
    ngx_event_t                  timer;
    unsigned                     suspect:1;    /* etcd was seen to be busy */
    unsigned                     calling:1;    /* the login is under way */
    unsigned                     leaderless:1; /* by the last answer */
};


void ngx_etcd_login_init(ngx_etcd_login_t *login);

/*
 * Logs in on this connection of the channel, after so many failures in a row.
 * NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_login_begin(ngx_etcd_login_t *login, ngx_etcd_http2_t *h2,
    ngx_uint_t failures);

/* Ends a login; no handler is called any more. */
void ngx_etcd_login_cancel(ngx_etcd_login_t *login);

/* Before the next login etcd is asked whether it is busy, or need not be. */
#define ngx_etcd_login_suspect(login, yes)  (login)->suspect = (yes)

/* Returns the ms of a random pause after so many reasons in a row. */
ngx_msec_t ngx_etcd_login_pause(ngx_uint_t reasons);


#endif /* _NGX_ETCD_LOGIN_H_INCLUDED_ */
