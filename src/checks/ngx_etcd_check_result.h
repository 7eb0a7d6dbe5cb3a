
/*
 * Copyright (C) nginx-etcd contributors
 *
 * An "etcd_check": how members of an upstream are checked and when, and what a
 * result means for the member.
 */


#ifndef _NGX_ETCD_CHECK_RESULT_H_INCLUDED_
#define _NGX_ETCD_CHECK_RESULT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_member_set.h>
#include <ngx_etcd_service.h>
#include <ngx_etcd_ssl.h>


typedef enum {
    NGX_ETCD_CHECK_TCP = 0,
    NGX_ETCD_CHECK_HTTP,
    NGX_ETCD_CHECK_GRPC
} ngx_etcd_check_type_e;


/* Made by the configuration, lives as long as the cycle. */

typedef struct {
    ngx_etcd_check_type_e      type;
    ngx_msec_t                 interval;
    ngx_msec_t                 fast;          /* between states; 0: no other */
    ngx_msec_t                 timeout;
    ngx_uint_t                 rises;
    ngx_uint_t                 fails;
    ngx_uint_t                 mandatory;
    ngx_uint_t                 panic;         /* per cent */
    ngx_uint_t                 jitter;        /* per cent of the interval */
    ngx_uint_t                 port;          /* 0: the member's */

    ngx_str_t                  request;       /* of HTTP */
    ngx_uint_t                 lowest;        /* status that succeeds */
    ngx_uint_t                 highest;
    ngx_str_t                  match;         /* text of the body; len 0: any */
#if (NGX_PCRE)
    ngx_regex_t               *regex;         /* in place of the text */
#endif

    ngx_str_t                  authority;     /* of gRPC */
    ngx_str_t                  service;

    ngx_etcd_ssl_t            *ssl;           /* NULL: none */
    ngx_str_t                  ssl_name;

    void                      *share;         /* ngx_etcd_check_share_t; NULL:
                                                 each nginx checks by itself */

    ngx_uint_t                 running;       /* probes of this process now */
} ngx_etcd_check_conf_t;


/*
 * The panic of an upstream: if too few members pass their checks, failed checks
 * keep no requests off.
 */

/*
 * Called by the owner: begins or ends the panic of a set and logs it.  Of n
 * members nfailed fail; there is a panic if less than that percentage of them
 * pass.
 */
void ngx_etcd_check_panic(ngx_etcd_service_conf_t *conf, ngx_uint_t percent,
    ngx_uint_t n, ngx_uint_t nfailed, ngx_log_t *log);


/* in the zone: the numbers do not change */

typedef enum {
    NGX_ETCD_CHECK_NONE = 0,         /* was not checked, or it says nothing */
    NGX_ETCD_CHECK_OK,
    NGX_ETCD_CHECK_CONNECT,          /* the connection was not accepted */
    NGX_ETCD_CHECK_TLS,
    NGX_ETCD_CHECK_TIMEOUT,
    NGX_ETCD_CHECK_CLOSED,           /* before the end of an answer */
    NGX_ETCD_CHECK_INVALID,          /* no answer of the protocol */
    NGX_ETCD_CHECK_STATUS,           /* of HTTP, and it is another one */
    NGX_ETCD_CHECK_BODY,             /* does not match */
    NGX_ETCD_CHECK_GRPC_STATUS,      /* the call has failed */
    NGX_ETCD_CHECK_NOT_SERVING,
    NGX_ETCD_CHECK_RESULTS
} ngx_etcd_check_result_e;


/* bytes of "gRPC status 4294967295" */

#define NGX_ETCD_CHECK_RESULT_TEXT  32


/* the results of a member in this process, one after the other */

typedef struct {
    uint32_t                   row;           /* equal ones */
    ngx_uint_t                 ok;            /* do they succeed? */
} ngx_etcd_check_row_t;


/* Names a result in buf, which has NGX_ETCD_CHECK_RESULT_TEXT bytes. */
void ngx_etcd_check_result_text(ngx_uint_t result, ngx_uint_t status,
    u_char *buf, ngx_str_t *text);

/*
 * Counts a result, and returns the verdict that follows from the present one.
 */
ngx_uint_t ngx_etcd_check_result_count(ngx_etcd_check_conf_t *conf,
    ngx_etcd_check_row_t *row, ngx_uint_t ok, ngx_uint_t verdict);


/*
 * Returns 1 if the member is on the way to another state: its newest result is
 * not what the verdict says, and equal ones have to follow.
 */
ngx_uint_t ngx_etcd_check_result_open(ngx_etcd_check_row_t *row,
    ngx_uint_t verdict);


/*
 * When the next of many members is checked: in a round, which takes about an
 * interval, each has its turn, at equal distances.  Pure arithmetic of ms.
 */

typedef struct {
    ngx_msec_t    begun;         /* of the round */
    ngx_msec_t    length;        /* of the round */
    ngx_uint_t    done;          /* turns of the round */
} ngx_etcd_check_schedule_t;


/*
 * Begins a round: it takes the interval, more or less up to "jitter" per cent
 * of it, as "random" says.  Rounds follow one another, but what is late is not
 * made up for.
 */
void ngx_etcd_check_schedule_round(ngx_etcd_check_schedule_t *schedule,
    ngx_msec_t now, ngx_msec_t interval, ngx_uint_t jitter,
    ngx_uint_t random);

/* Returns the ms until the next turn of n members; 0: it is due. */
ngx_msec_t ngx_etcd_check_schedule_wait(ngx_etcd_check_schedule_t *schedule,
    ngx_msec_t now, ngx_uint_t n);

/* Returns the ms until the round is over. */
ngx_msec_t ngx_etcd_check_schedule_left(ngx_etcd_check_schedule_t *schedule,
    ngx_msec_t now);


#endif /* _NGX_ETCD_CHECK_RESULT_H_INCLUDED_ */
