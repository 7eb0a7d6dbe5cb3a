
/*
 * Copyright (C) nginx-etcd contributors
 *
 * One check of one member.
 */


#ifndef _NGX_ETCD_CHECK_PROBE_H_INCLUDED_
#define _NGX_ETCD_CHECK_PROBE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_check_result.h>
#include <ngx_etcd_grpc.h>
#include <ngx_etcd_member.h>
#include <ngx_etcd_member_set.h>
#include <ngx_etcd_probe.h>
#include <ngx_etcd_proto.pb-c.h>


/*
 * One call of grpc.health.v1.Health/Check, on a connection of its own.
 */

typedef struct {
    /* set by the caller, the rest zeroed */

    ngx_etcd_check_conf_t     *conf;
    ngx_addr_t                 addr;
    ngx_log_t                 *log;

    /*
     * Called once, from the event loop.  The text says more about a failure,
     * may have any bytes, and is valid in there only.
     */
    void                     (*done)(void *data,
                                     ngx_etcd_check_result_e result,
                                     ngx_uint_t status, ngx_str_t *text);
    void                      *data;

    /* private */

    ngx_etcd_http2_t          *h2;
    ngx_etcd_grpc_call_t       call;
    Etcd__HealthCheckRequest   request;
    ngx_event_t                timer;
    ngx_event_t                ended;        /* posted: done() is due */
    ngx_uint_t                 connected;    /* over TLS if it is to be */
    ngx_uint_t                 answered;
    ngx_int_t                  serving;      /* the status of the answer */
    ngx_etcd_check_result_e    result;
    ngx_uint_t                 status;
    size_t                     len;          /* of the text */
    u_char                     bytes[128];
} ngx_etcd_check_grpc_t;


typedef struct ngx_etcd_check_probe_s  ngx_etcd_check_probe_t;


struct ngx_etcd_check_probe_s {
    /* set by the caller, the rest zeroed */

    ngx_etcd_check_conf_t     *conf;
    ngx_sockaddr_t             sockaddr;
    socklen_t                  socklen;
    ngx_str_t                  name;         /* of the member */
    u_char                     name_text[NGX_ETCD_MEMBER_NAME_LEN];
    ngx_log_t                 *log;

    /*
     * Called once, from the event loop, unless the check is stopped.  The text
     * says more about a failure; it is valid in there only.  The check is
     * freed when the handler returns.
     */
    void                     (*done)(ngx_etcd_check_probe_t *probe,
                                     ngx_str_t *text);
    void                      *data;
    uint32_t                   uid;          /* of the member */
    uint32_t                   slot;
    ngx_queue_t                queue;        /* of the caller */

    /* valid in done() */

    ngx_etcd_check_result_e    result;
    ngx_uint_t                 status;
    uint32_t                   took;         /* us */

    /* private */

    uint64_t                   begun;        /* time_budget_now() */

    union {
        ngx_etcd_probe_t       http;         /* or TCP */
        ngx_etcd_check_grpc_t  grpc;
    } u;
};


/*
 * Copies what the check needs to know of the member; slot and uid are set.
 * NGX_DECLINED: it is gone.  Other results of ngx_etcd_zone_lock_owned().
 */
ngx_int_t ngx_etcd_check_probe_member(ngx_etcd_check_probe_t *probe,
    ngx_etcd_service_conf_t *conf);

/*
 * Returns 1 if the member of a slot is checked.  One that drains is, since its
 * sessions go on; one that is down gets no request in any case.
 */
ngx_uint_t ngx_etcd_check_probe_wanted(ngx_etcd_slot_t *slot,
    ngx_uint_t *drains);

/* NULL: no memory. */
ngx_etcd_check_probe_t *ngx_etcd_check_probe_create(
    ngx_etcd_check_conf_t *conf, ngx_log_t *log);

void ngx_etcd_check_probe_start(ngx_etcd_check_probe_t *probe);

/* Frees the check: done() is not called. */
void ngx_etcd_check_probe_stop(ngx_etcd_check_probe_t *probe);


#endif /* _NGX_ETCD_CHECK_PROBE_H_INCLUDED_ */
