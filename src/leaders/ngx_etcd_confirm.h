
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Asks the API of a new leader again and again, until the API confirms that
 * the member leads.
 */


#ifndef _NGX_ETCD_CONFIRM_H_INCLUDED_
#define _NGX_ETCD_CONFIRM_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_cause.h>
#include <ngx_etcd_probe.h>


/*
 * Milliseconds between two requests: during the first SOON ms, then until
 * BOUND ms, then afterwards; and milliseconds that one request may take.
 */

#define NGX_ETCD_CONFIRM_QUICK    5
#define NGX_ETCD_CONFIRM_SOON     500
#define NGX_ETCD_CONFIRM_OFTEN    20
#define NGX_ETCD_CONFIRM_BOUND    10000
#define NGX_ETCD_CONFIRM_SELDOM   1000
#define NGX_ETCD_CONFIRM_TIMEOUT  500


typedef struct {
    /* set by the caller, the rest zeroed */

    ngx_log_t                  *log;
    ngx_str_t                  *upstream;  /* and its prefix, for the log */
    ngx_str_t                  *prefix;
    char                       *path;
    ngx_uint_t                (*accept)(ngx_str_t *body);  /* of a 200 */
    void                      (*confirmed)(void *data);    /* once a start */
    ngx_uint_t                (*used)(void *data);  /* 0: nobody waits for the
                                                       leader, the request was
                                                       cancelled */
    void                       *data;

    /* private */

    ngx_etcd_probe_t            probe;
    ngx_etcd_probe_target_t     target;
    ngx_event_t                 timer;     /* the next request */
    ngx_msec_t                  started;
    ngx_etcd_causes_t           causes;    /* why it is late, logged */
    unsigned                    done:1;    /* the leader has confirmed */
} ngx_etcd_confirm_t;


/* Cancels a former request, then asks the target. */
void ngx_etcd_confirm_start(ngx_etcd_confirm_t *confirm,
    ngx_etcd_probe_target_t *target);

/* May be called at any time, also within confirmed(). */
void ngx_etcd_confirm_cancel(ngx_etcd_confirm_t *confirm);


#endif /* _NGX_ETCD_CONFIRM_H_INCLUDED_ */
