
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Asks one HTTP server one thing, again and again, until the answer is 200 and
 * says what it is to say.
 */


#ifndef _NGX_ETCD_PROBE_H_INCLUDED_
#define _NGX_ETCD_PROBE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_connection.h>


/*
 * ms: between two attempts, at first, later, and after so long of them; for
 * one attempt
 */

#define NGX_ETCD_PROBE_QUICK    5
#define NGX_ETCD_PROBE_SOON     500
#define NGX_ETCD_PROBE_OFTEN    20
#define NGX_ETCD_PROBE_BOUND    10000
#define NGX_ETCD_PROBE_SELDOM   1000
#define NGX_ETCD_PROBE_TIMEOUT  500

#define NGX_ETCD_PROBE_REQUEST  512      /* bytes */
#define NGX_ETCD_PROBE_ANSWER   8192     /* what is longer is cut off */


typedef enum {
    NGX_ETCD_PROBE_IDLE = 0,
    NGX_ETCD_PROBE_ASKING,               /* the timer ends the attempt */
    NGX_ETCD_PROBE_WAITING,              /* the timer begins the next one */
    NGX_ETCD_PROBE_CONFIRMED             /* the posted event says so */
} ngx_etcd_probe_state_e;


typedef struct {
    /* set by the caller, the rest zeroed */

    ngx_log_t                  *log;
    ngx_uint_t                (*accept)(ngx_str_t *body);
    void                      (*confirmed)(void *data);  /* once a start */
    void                       *data;

    /* private */

    ngx_etcd_probe_state_e      state;
    ngx_addr_t                  addr;
    ngx_sockaddr_t              sockaddr;
    ngx_event_t                 timer;
    ngx_event_t                 result;
    ngx_pool_t                 *pool;    /* of an attempt */
    ngx_etcd_connection_t      *conn;
    ngx_log_t                   conn_log;
    ngx_msec_t                  started; /* the first attempt */
    ngx_uint_t                  late;    /* was logged */
    size_t                      sent;
    size_t                      request_len;
    size_t                      answer_len;
    u_char                      request[NGX_ETCD_PROBE_REQUEST];
    u_char                      answer[NGX_ETCD_PROBE_ANSWER];
} ngx_etcd_probe_t;


/*
 * Asks the address for a path; whatever it was asking before is over.
 * NGX_ERROR: the host's name is too long.
 */
ngx_int_t ngx_etcd_probe_start(ngx_etcd_probe_t *probe,
    struct sockaddr *sockaddr, socklen_t socklen, ngx_str_t *host, char *path);

/* may be called at any time, also within confirmed() */
void ngx_etcd_probe_cancel(ngx_etcd_probe_t *probe);


#endif /* _NGX_ETCD_PROBE_H_INCLUDED_ */
