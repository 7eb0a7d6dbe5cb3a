
/*
 * Copyright (C) nginx-etcd contributors
 *
 * What the files of the stream module share.
 */


#ifndef _NGX_STREAM_ETCD_MODULE_H_INCLUDED_
#define _NGX_STREAM_ETCD_MODULE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_etcd_compat.h>
#include <ngx_etcd_gate.h>
#include <ngx_etcd_lock_slot.h>
#include <ngx_etcd_route.h>
#include <ngx_etcd_upstream.h>
#include <ngx_etcd_variable.h>
#include <ngx_etcd_wait.h>


typedef struct {
    ngx_uint_t                   locks;    /* 1: some server has any */
    ngx_uint_t                   gates;    /* 1: or etcd_require_leader */
    ngx_array_t                  wrapped;  /* of _gate.c */
} ngx_stream_etcd_main_conf_t;


typedef struct {
    ngx_etcd_upstream_t          upstream;
    ngx_stream_complex_value_t  *key;      /* NULL: the method has none */
    ngx_etcd_wait_t             *wait;     /* NULL: off */
    ngx_etcd_gate_t              gate;
    ngx_array_t                 *locks;    /* of ngx_etcd_lock_conf_t; NULL:
                                              none */
    ngx_uint_t                   lock_lost;  /* ngx_etcd_lock_lost_e */
    ngx_stream_upstream_init_peer_pt  init_peer;  /* the balancer's, of
                                                     _gate.c */
    ngx_stream_content_handler_pt  content;  /* of the server, which is begun
                                              when nothing is in its way */
} ngx_stream_etcd_srv_conf_t;


extern ngx_module_t  ngx_stream_etcd_module;


/* _upstream.c */

/* etcd_members, and etcd_leader */
char *ngx_stream_etcd_members(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_stream_etcd_balance(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* one that is on its way to an upstream, in whatever state, ends at once */
void ngx_stream_etcd_cut(ngx_stream_session_t *s);

/* NULL: the session goes, or went, through none of our upstreams */

#define ngx_stream_etcd_get_route(s)                                          \
    ((ngx_etcd_route_t *) ngx_stream_get_module_ctx(s, ngx_stream_etcd_module))


/* _variable.c */

ngx_int_t ngx_stream_etcd_add_variables(ngx_conf_t *cf);

/* the configuration was read: elections that variables name must be there */
ngx_int_t ngx_stream_etcd_check_variables(ngx_conf_t *cf);


/* _gate.c */

/* NGX_DECLINED when the session is let in */
ngx_int_t ngx_stream_etcd_gate_handler(ngx_stream_session_t *s);

/* the configuration was read, and some server has etcd_require_leader */
ngx_int_t ngx_stream_etcd_gate_init(ngx_conf_t *cf);


/* _wait.c */

char *ngx_stream_etcd_wait(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* NGX_DECLINED when there is nothing to wait for; NGX_DONE: it is paused */
ngx_int_t ngx_stream_etcd_wait_handler(ngx_stream_session_t *s);

/* 1 if that upstream is the one that connections to this server wait for */
ngx_uint_t ngx_stream_etcd_waits(ngx_stream_session_t *s,
    ngx_etcd_service_conf_t *service);


/* _lock.c */

char *ngx_stream_etcd_lock(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
ngx_int_t ngx_stream_etcd_add_lock_variables(ngx_conf_t *cf);

/* the configuration was read */
void ngx_stream_etcd_add_lock_filter(void);

/* NGX_DECLINED when there is no lock, or all are held; NGX_DONE: paused */
ngx_int_t ngx_stream_etcd_lock_handler(ngx_stream_session_t *s);

/* of the log phase: the session is over */
ngx_int_t ngx_stream_etcd_lock_log(ngx_stream_session_t *s);


/* _pause.c */

/*
 * Before the server's content handler is called: NGX_DONE, or NGX_ERROR.  If
 * the client goes away, gone() is called and the session ends.
 */
ngx_int_t ngx_stream_etcd_pause(ngx_stream_session_t *s,
    void (*gone)(void *data), void *data);
ngx_uint_t ngx_stream_etcd_paused(ngx_stream_session_t *s);

/* what is in the way of the content handler is looked at again */
void ngx_stream_etcd_resume(ngx_stream_session_t *s);

/* of a paused one: gone() is called, and the session ends with that status */
void ngx_stream_etcd_abandon(ngx_stream_session_t *s, ngx_uint_t rc);


#endif /* _NGX_STREAM_ETCD_MODULE_H_INCLUDED_ */
