
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Private to the files of the stream module.
 */


#ifndef _NGX_STREAM_ETCD_MODULE_H_INCLUDED_
#define _NGX_STREAM_ETCD_MODULE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_etcd_compat.h>
#include <ngx_etcd_require_leader.h>
#include <ngx_etcd_request_lock.h>
#include <ngx_etcd_peer_data.h>
#include <ngx_etcd_upstream.h>
#include <ngx_etcd_variable.h>
#include <ngx_etcd_wait.h>


typedef struct {
    ngx_uint_t                   locks;    /* 1: a server has etcd_lock */
    ngx_uint_t                   gates;    /* 1: a server has
                                              etcd_require_leader */
    ngx_array_t                  wrapped;  /* see ngx_stream_etcd_gate.c */
} ngx_stream_etcd_main_conf_t;


typedef struct {
    ngx_etcd_upstream_t              upstream;
    ngx_stream_complex_value_t      *key;  /* NULL: the method has no key */
    ngx_etcd_wait_t                 *wait; /* NULL: off */
    ngx_etcd_require_leader_t        gate;
    ngx_array_t                     *locks; /* ngx_etcd_lock_conf_t; NULL:
                                              none */
    ngx_uint_t                       lock_lost; /* ngx_etcd_lock_lost_e */
    ngx_stream_upstream_init_peer_pt init_peer;   /* the balancer's, saved by
                                                     ngx_stream_etcd_gate.c */
    ngx_stream_content_handler_pt    content; /* of the server, called when the
                                                session is admitted */
} ngx_stream_etcd_srv_conf_t;


extern ngx_module_t  ngx_stream_etcd_module;


/* ngx_stream_etcd_upstream.c */

/* handler of etcd_members and etcd_leader */
char *ngx_stream_etcd_members(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_stream_etcd_balance(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* Ends a session that is being proxied, in any state, at once. */
void ngx_stream_etcd_cut(ngx_stream_session_t *s);

/* NULL: the session does not use an upstream of this module */

#define ngx_stream_etcd_get_peer_data(s)                                      \
    ((ngx_etcd_peer_data_t *)                                                 \
     ngx_stream_get_module_ctx(s, ngx_stream_etcd_module))


/* ngx_stream_etcd_variable.c */

ngx_int_t ngx_stream_etcd_add_variables(ngx_conf_t *cf);

/*
 * Called after the configuration was read: checks that elections named by
 * variables exist.
 */
ngx_int_t ngx_stream_etcd_check_variables(ngx_conf_t *cf);


/* ngx_stream_etcd_gate.c */

/* NGX_DECLINED: the session is admitted. */
ngx_int_t ngx_stream_etcd_gate_handler(ngx_stream_session_t *s);

/*
 * Called after the configuration was read, if a server has
 * etcd_require_leader.
 */
ngx_int_t ngx_stream_etcd_gate_init(ngx_conf_t *cf);


/* ngx_stream_etcd_wait.c */

char *ngx_stream_etcd_wait(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* NGX_DECLINED: no need to wait; NGX_DONE: the session is paused. */
ngx_int_t ngx_stream_etcd_wait_handler(ngx_stream_session_t *s);

/* Returns 1 if connections to this server wait for that upstream. */
ngx_uint_t ngx_stream_etcd_waits(ngx_stream_session_t *s,
    ngx_etcd_service_conf_t *service);


/* ngx_stream_etcd_lock.c */

char *ngx_stream_etcd_lock(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
ngx_int_t ngx_stream_etcd_add_lock_variables(ngx_conf_t *cf);

/* Called after the configuration was read. */
void ngx_stream_etcd_add_lock_filter(void);

/* NGX_DECLINED: no locks, or all are held; NGX_DONE: the session is paused. */
ngx_int_t ngx_stream_etcd_lock_handler(ngx_stream_session_t *s);

/* Log phase handler: the session has ended. */
ngx_int_t ngx_stream_etcd_lock_log(ngx_stream_session_t *s);


/* ngx_stream_etcd_pause.c */

/*
 * Pauses a session before the content handler of its server is called:
 * NGX_DONE or NGX_ERROR.  If the client closes the connection, gone() is
 * called and the session ends.
 */
ngx_int_t ngx_stream_etcd_pause(ngx_stream_session_t *s,
    void (*gone)(void *data), void *data);
ngx_uint_t ngx_stream_etcd_paused(ngx_stream_session_t *s);

/*
 * Resumes a paused session: all conditions of the content handler are checked
 * again.
 */
void ngx_stream_etcd_resume(ngx_stream_session_t *s);

/* Ends a paused session with that status, after a call of gone(). */
void ngx_stream_etcd_abandon(ngx_stream_session_t *s, ngx_uint_t rc);


#endif /* _NGX_STREAM_ETCD_MODULE_H_INCLUDED_ */
