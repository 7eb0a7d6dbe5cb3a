
/*
 * Copyright (C) nginx-etcd contributors
 *
 * What the files of the http module share.
 */


#ifndef _NGX_HTTP_ETCD_MODULE_H_INCLUDED_
#define _NGX_HTTP_ETCD_MODULE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_etcd_compat.h>
#include <ngx_etcd_gate.h>
#include <ngx_etcd_lock_slot.h>
#include <ngx_etcd_pin.h>
#include <ngx_etcd_route.h>
#include <ngx_etcd_setting.h>
#include <ngx_etcd_status.h>
#include <ngx_etcd_upstream.h>
#include <ngx_etcd_variable.h>
#include <ngx_etcd_wait.h>


/* of the statuses that a worker sends: see _output.c */

typedef struct {
    ngx_queue_t                queue;      /* those who want to go on */
    ngx_event_t                event;      /* posted: the next step; its timer:
                                              a pause */
    uint64_t                   posted;     /* when it was */
} ngx_http_etcd_pace_t;


typedef struct {
    ngx_http_etcd_pace_t       pace;
    unsigned                   checks:1;   /* some location has what is asked
                                              for in a phase */
    unsigned                   locks:1;    /* some location has locks */
    unsigned                   gates:1;    /* or etcd_require_leader */
    ngx_array_t                wrapped;    /* of _gate.c */
} ngx_http_etcd_main_conf_t;


typedef struct {
    ngx_etcd_upstream_t        upstream;
    ngx_http_complex_value_t  *key;        /* NULL: the method has none */
    ngx_http_upstream_init_peer_pt  init_peer;  /* the balancer's, of _gate.c */
} ngx_http_etcd_srv_conf_t;


typedef struct {
    ngx_str_t                  format;     /* empty: the client chooses */
    ngx_uint_t                 members;    /* metrics of each; UNSET: there is
                                              no directive here */
} ngx_http_etcd_status_conf_t;


typedef struct {
    ngx_etcd_wait_t              *wait;    /* NULL: off */
    ngx_etcd_gate_t               gate;
    ngx_http_etcd_status_conf_t   status;
    ngx_array_t                  *locks;   /* of ngx_etcd_lock_conf_t; NULL:
                                              none */
    ngx_uint_t                    lock_status;
    ngx_uint_t                    lock_unavailable;
    ngx_uint_t                    lock_lost;   /* ngx_etcd_lock_lost_e */
    ngx_uint_t                    lock_hold;   /* ngx_etcd_lock_hold_e */
    ngx_msec_t                    lock_max_hold;   /* UNSET: the default */
    ngx_array_t                  *sets;    /* of _set.c; NULL: none */
} ngx_http_etcd_loc_conf_t;


extern ngx_module_t  ngx_http_etcd_module;


/* _module.c */

/* the read event comes when the client goes away: NGX_OK or NGX_ERROR */
ngx_int_t ngx_http_etcd_watch_client(ngx_http_request_t *r);


/* _upstream.c */

/* etcd_members, and etcd_leader */
char *ngx_http_etcd_members(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_etcd_balance(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/*
 * A request that is on its way to an upstream: the connection there is closed,
 * the client gets the status if nothing was sent, and otherwise an end.
 */
void ngx_http_etcd_cut(ngx_http_request_t *r, ngx_int_t status);

/* NULL: the request goes, or went, through none of our upstreams */
ngx_etcd_route_t *ngx_http_etcd_get_route(ngx_http_request_t *r);


/* _gate.c */

/* of a phase: NGX_DECLINED when the request is let in */
ngx_int_t ngx_http_etcd_gate_handler(ngx_http_request_t *r);

/* the configuration was read, and some location has etcd_require_leader */
ngx_int_t ngx_http_etcd_gate_init(ngx_conf_t *cf);

/*
 * What has let the request in, or one that it is a subrequest of; NULL: that
 * election has not.
 */
ngx_etcd_admission_t *ngx_http_etcd_admission(ngx_http_request_t *r,
    ngx_etcd_campaign_t *campaign);


/* _pin.c */

/*
 * The leader that the request at hand is built for, from now on pinned; NULL:
 * nobody leads, or that upstream of ours has no single leader.  NGX_DECLINED:
 * no request is built, or none for an upstream of ours; NGX_ERROR: no memory.
 */
ngx_int_t ngx_http_etcd_pin(ngx_http_request_t *r, ngx_etcd_peer_t **peer);


/* _variable.c */

ngx_int_t ngx_http_etcd_add_variables(ngx_conf_t *cf);

/* the configuration was read: elections that variables name must be there */
ngx_int_t ngx_http_etcd_check_variables(ngx_conf_t *cf);


/* _wait.c */

char *ngx_http_etcd_wait(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* of a phase: NGX_DECLINED when there is nothing to wait for */
ngx_int_t ngx_http_etcd_wait_handler(ngx_http_request_t *r);

/* 1 if that upstream is the one that requests to this location wait for */
ngx_uint_t ngx_http_etcd_waits(ngx_http_request_t *r,
    ngx_etcd_service_conf_t *service);

/*
 * Of a balancer that is asked for the first peer of that upstream, and has
 * none: NGX_AGAIN, the request is held, and the balancer returns NGX_ERROR,
 * which is not the end of it: the request is built and the balancer asked anew
 * later, or at once if there is a member by now and again is set.
 * NGX_DECLINED: there is nothing to wait for.
 */
ngx_int_t ngx_http_etcd_wait_peer(ngx_http_request_t *r, ngx_uint_t again);

/* 1: the request was held for a peer, and is not any more */
ngx_uint_t ngx_http_etcd_wait_abandon(ngx_http_request_t *r);

/* of a phase that returns NGX_AGAIN; what goes on with the phase later */
void ngx_http_etcd_suspend(ngx_http_request_t *r);
ngx_uint_t ngx_http_etcd_suspended(ngx_http_request_t *r);
void ngx_http_etcd_resume(ngx_http_request_t *r);


/* _lock.c */

char *ngx_http_etcd_lock(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
ngx_int_t ngx_http_etcd_add_lock_variables(ngx_conf_t *cf);
void ngx_http_etcd_add_lock_filters(void);

/* of a phase: NGX_DECLINED when there is no lock, or all are held */
ngx_int_t ngx_http_etcd_lock_handler(ngx_http_request_t *r);


/* _lock_hold.c */

/*
 * Of a request, or subrequest, that is about to ask for its first lock: the
 * locks are then ended by ngx_http_etcd_lock_hold_end().
 */
ngx_int_t ngx_http_etcd_lock_hold_init(ngx_http_request_t *r);

/* the end of a slot: the lock is released, or kept while an upstream works */
void ngx_http_etcd_lock_hold_end(ngx_http_request_t *r,
    ngx_etcd_lock_slot_t *slot);

/* the phases are passed, the request goes to its content handler: NGX_OK */
ngx_int_t ngx_http_etcd_lock_hold_guard(ngx_http_request_t *r);

/* to be called after each ngx_http_upstream_init() */
void ngx_http_etcd_lock_hold_attach(ngx_http_request_t *r);

/* nginx is about to end the request itself: its upstream is to see that */
void ngx_http_etcd_lock_hold_cut(ngx_http_request_t *r);


/* _set.c */

char *ngx_http_etcd_set(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
ngx_int_t ngx_http_etcd_set_merge(ngx_conf_t *cf,
    ngx_http_etcd_loc_conf_t *prev, ngx_http_etcd_loc_conf_t *conf);

/* the configuration was read: the variables are nobody else's */
ngx_int_t ngx_http_etcd_set_check(ngx_conf_t *cf);


/* _status.c */

char *ngx_http_etcd_status(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
void ngx_http_etcd_status_merge(ngx_http_etcd_status_conf_t *conf,
    ngx_http_etcd_status_conf_t *prev);


/* _page.c */

/* answers with the page; to be returned by a content handler */
ngx_int_t ngx_http_etcd_page(ngx_http_request_t *r);


/* _accept.c */

/*
 * How much the client likes a media type, 0 (not at all) to 1000.  A range
 * that names a version is of that version only.
 */
ngx_uint_t ngx_http_etcd_accept(ngx_http_request_t *r, const ngx_str_t *type,
    const ngx_str_t *version);


/* _output.c */

void ngx_http_etcd_output_init(ngx_http_etcd_pace_t *pace);

/*
 * Answers with a status; the header is set, but for the length.  To be
 * returned by a content handler.
 */
ngx_int_t ngx_http_etcd_output(ngx_http_request_t *r,
    ngx_etcd_status_t *status);


#endif /* _NGX_HTTP_ETCD_MODULE_H_INCLUDED_ */
