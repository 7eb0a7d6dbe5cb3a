
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Private to the files of the http module.
 */


#ifndef _NGX_HTTP_ETCD_MODULE_H_INCLUDED_
#define _NGX_HTTP_ETCD_MODULE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_etcd_compat.h>
#include <ngx_etcd_require_leader.h>
#include <ngx_etcd_request_lock.h>
#include <ngx_etcd_pin.h>
#include <ngx_etcd_peer_data.h>
#include <ngx_etcd_set_variable.h>
#include <ngx_etcd_status.h>
#include <ngx_etcd_upstream.h>
#include <ngx_etcd_variable.h>
#include <ngx_etcd_wait.h>


/* The pace of all statuses that a worker sends: see ngx_http_etcd_output.c. */

typedef struct {
    ngx_queue_t                queue;      /* outputs that are ready */
    ngx_event_t                event;      /* posted: the next step; timer: a
                                              pause */
    uint64_t                   posted;     /* time of posting */
} ngx_http_etcd_pace_t;


typedef struct {
    ngx_http_etcd_pace_t       pace;
    unsigned                   checks:1;   /* a location has a directive that
                                              is checked in a phase */
    unsigned                   locks:1;    /* a location has etcd_lock */
    unsigned                   gates:1;    /* a location has
                                              etcd_require_leader */
    ngx_array_t                wrapped;    /* see ngx_http_etcd_gate.c */
} ngx_http_etcd_main_conf_t;


typedef struct {
    ngx_etcd_upstream_t        upstream;
    ngx_http_complex_value_t  *key;        /* NULL: the method has no key */
    ngx_http_upstream_init_peer_pt  init_peer;  /* the balancer's, saved by
                                                   _gate.c */
} ngx_http_etcd_srv_conf_t;


typedef struct {
    ngx_str_t                  format;     /* empty: negotiated */
    ngx_uint_t                 members;    /* metrics of members; UNSET: no
                                              directive here */
} ngx_http_etcd_status_conf_t;


typedef struct {
    ngx_etcd_wait_t              *wait;    /* NULL: off */
    ngx_etcd_require_leader_t     gate;
    ngx_http_etcd_status_conf_t   status;
    ngx_array_t                  *locks;   /* ngx_etcd_lock_conf_t; NULL:
                                              none */
    ngx_uint_t                    lock_status;
    ngx_uint_t                    lock_unavailable;
    ngx_uint_t                    lock_lost;   /* ngx_etcd_lock_lost_e */
    ngx_uint_t                    lock_hold;   /* ngx_etcd_lock_hold_e */
    ngx_msec_t                    lock_max_hold;   /* UNSET: the default */
    ngx_array_t                  *sets;    /* see ngx_http_etcd_set.c; NULL:
                                              none */
} ngx_http_etcd_loc_conf_t;


extern ngx_module_t  ngx_http_etcd_module;


/* ngx_http_etcd_module.c */

/*
 * Makes the read event detect that the client closes the connection: NGX_OK
 * or NGX_ERROR.
 */
ngx_int_t ngx_http_etcd_watch_client(ngx_http_request_t *r);


/* ngx_http_etcd_upstream.c */

/* handler of etcd_members and etcd_leader */
char *ngx_http_etcd_members(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_etcd_balance(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/*
 * Ends a request that uses an upstream: closes the connection to the
 * upstream; the client gets the status or, if a response was started, the end
 * of the connection.
 */
void ngx_http_etcd_cut(ngx_http_request_t *r, ngx_int_t status);

/* Returns NULL if the request does not use an upstream of this module. */
ngx_etcd_peer_data_t *ngx_http_etcd_get_peer_data(ngx_http_request_t *r);


/* ngx_http_etcd_gate.c */

/* Phase handler; NGX_DECLINED: the request is admitted. */
ngx_int_t ngx_http_etcd_gate_handler(ngx_http_request_t *r);

/*
 * Called after the configuration was read, if a location has
 * etcd_require_leader.
 */
ngx_int_t ngx_http_etcd_gate_init(ngx_conf_t *cf);

/*
 * Returns the admission of the request, or of one of its parents, by that
 * election; NULL: there is none.
 */
ngx_etcd_admission_t *ngx_http_etcd_admission(ngx_http_request_t *r,
    ngx_etcd_campaign_t *campaign);


/* ngx_http_etcd_pin.c */

/*
 * Pins the leader that the request is being built for.  *peer is NULL if
 * there is no leader, or if the upstream of this module has no single leader.
 * NGX_DECLINED: no request is being built, or the upstream is not of this
 * module; NGX_ERROR: no memory.
 */
ngx_int_t ngx_http_etcd_pin(ngx_http_request_t *r, ngx_etcd_peer_t **peer);


/* ngx_http_etcd_variable.c */

ngx_int_t ngx_http_etcd_add_variables(ngx_conf_t *cf);

/*
 * Called after the configuration was read: checks that elections named by
 * variables exist.
 */
ngx_int_t ngx_http_etcd_check_variables(ngx_conf_t *cf);


/* ngx_http_etcd_wait.c */

char *ngx_http_etcd_wait(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* Phase handler; NGX_DECLINED: no need to wait. */
ngx_int_t ngx_http_etcd_wait_handler(ngx_http_request_t *r);

/* Returns 1 if requests to this location wait for that upstream. */
ngx_uint_t ngx_http_etcd_waits(ngx_http_request_t *r,
    ngx_etcd_service_conf_t *service);

/*
 * Called by the balancer when it has no first peer.  NGX_AGAIN: the request
 * is held; the balancer returns NGX_ERROR, which does not end the request.
 * The request is built again and the balancer asked again later, or at once
 * if "again" is set and there is a peer.  NGX_DECLINED: there is nothing to
 * wait for.
 */
ngx_int_t ngx_http_etcd_wait_peer(ngx_http_request_t *r, ngx_uint_t again);

/* Ends a wait for a peer; returns 1 if the request was waiting. */
ngx_uint_t ngx_http_etcd_wait_abandon(ngx_http_request_t *r);

/*
 * for phase handlers: suspend() before returning NGX_AGAIN, resume() to run
 * the phase again
 */
void ngx_http_etcd_suspend(ngx_http_request_t *r);
ngx_uint_t ngx_http_etcd_suspended(ngx_http_request_t *r);
void ngx_http_etcd_resume(ngx_http_request_t *r);


/* ngx_http_etcd_lock.c */

char *ngx_http_etcd_lock(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
ngx_int_t ngx_http_etcd_add_lock_variables(ngx_conf_t *cf);
void ngx_http_etcd_add_lock_filters(void);

/* Phase handler; NGX_DECLINED: no locks, or all are held. */
ngx_int_t ngx_http_etcd_lock_handler(ngx_http_request_t *r);


/* ngx_http_etcd_lock_hold.c */

/*
 * Called before a request or subrequest requests its first lock: its locks
 * are then ended by ngx_http_etcd_lock_hold_end().
 */
ngx_int_t ngx_http_etcd_lock_hold_init(ngx_http_request_t *r);

/* Releases the lock, or keeps it while an upstream works. */
void ngx_http_etcd_lock_hold_end(ngx_http_request_t *r,
    ngx_etcd_request_lock_t *rl);

/*
 * Called after the phases, before the content handler.  NGX_OK or NGX_ERROR.
 */
ngx_int_t ngx_http_etcd_lock_hold_guard(ngx_http_request_t *r);

/* Must be called after each ngx_http_upstream_init(). */
void ngx_http_etcd_lock_hold_attach(ngx_http_request_t *r);

/*
 * Called before nginx itself ends the request: the upstream must notice that.
 */
void ngx_http_etcd_lock_hold_cut(ngx_http_request_t *r);


/* ngx_http_etcd_set.c */

char *ngx_http_etcd_set(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
ngx_int_t ngx_http_etcd_set_merge(ngx_conf_t *cf,
    ngx_http_etcd_loc_conf_t *prev, ngx_http_etcd_loc_conf_t *conf);

/*
 * Called after the configuration was read: checks that no other directive has
 * redefined the variables.
 */
ngx_int_t ngx_http_etcd_set_check(ngx_conf_t *cf);


/* ngx_http_etcd_status.c */

char *ngx_http_etcd_status(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
void ngx_http_etcd_status_merge(ngx_http_etcd_status_conf_t *conf,
    ngx_http_etcd_status_conf_t *prev);


/* ngx_http_etcd_page.c */

/* Sends the page; the result is that of a content handler. */
ngx_int_t ngx_http_etcd_page(ngx_http_request_t *r);


/* ngx_http_etcd_accept.c */

/*
 * Returns the client's quality of a media type, 0 (unacceptable) to 1000.  A
 * media range with a version matches that version only.
 */
ngx_uint_t ngx_http_etcd_accept(ngx_http_request_t *r, const ngx_str_t *type,
    const ngx_str_t *version);


/* ngx_http_etcd_output.c */

void ngx_http_etcd_output_init(ngx_http_etcd_pace_t *pace);

/*
 * Sends a status; the header is set except for the length.  The result is
 * that of a content handler.
 */
ngx_int_t ngx_http_etcd_output(ngx_http_request_t *r,
    ngx_etcd_status_t *status);


#endif /* _NGX_HTTP_ETCD_MODULE_H_INCLUDED_ */
