
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The result of a check, and its meaning for the member.
 */


#ifndef _NGX_ETCD_CHECK_RESULT_H_INCLUDED_
#define _NGX_ETCD_CHECK_RESULT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_check_conf.h>
#include <ngx_etcd_member_set.h>
#include <ngx_etcd_service.h>


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


#endif /* _NGX_ETCD_CHECK_RESULT_H_INCLUDED_ */
