
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The configuration of the http module.  Private to its files.
 */


#ifndef _NGX_HTTP_ETCD_H_INCLUDED_
#define _NGX_HTTP_ETCD_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_etcd_compat.h>
#include <ngx_etcd_require_leader.h>
#include <ngx_etcd_grant.h>
#include <ngx_etcd_peer_data.h>
#include <ngx_etcd_set_use.h>
#include <ngx_etcd_status.h>
#include <ngx_etcd_upstream.h>
#include <ngx_etcd_variable.h>
#include <ngx_etcd_wait.h>


typedef struct {
    unsigned                   checks:1;   /* a location has a directive that
                                              is checked in a phase */
    unsigned                   locks:1;    /* a location has etcd_lock */
    unsigned                   require_leader:1;  /* a location has
                                                     etcd_require_leader */
    ngx_array_t                wrapped;    /* see _require_leader.c */

#if (NGX_HTTP_SSL)
    ngx_ssl_session_t       *(*session_cached)(ngx_ssl_conn_t *ssl,
                                               const u_char *id, int len,
                                               int *copy);
                                           /* nginx's, see _session.c */
#endif
} ngx_http_etcd_main_conf_t;


typedef struct {
    ngx_etcd_upstream_t        upstream;
    ngx_http_complex_value_t  *key;        /* NULL: the method has no key */
    ngx_http_upstream_init_peer_pt  init_peer;  /* the balancer's, saved by
                                                   _require_leader.c */
    ngx_http_upstream_rr_peer_t  *none;    /* of zeroes */
} ngx_http_etcd_srv_conf_t;


typedef struct {
    ngx_str_t                  format;     /* empty: negotiated */
    ngx_uint_t                 members;    /* metrics of members; UNSET: no
                                              directive here */
} ngx_http_etcd_status_conf_t;


typedef struct {
    ngx_etcd_wait_t              *wait;    /* NULL: off */
    ngx_uint_t                    unknown_status;
    ngx_etcd_require_leader_t     require_leader;
    ngx_http_etcd_status_conf_t   status;
    ngx_array_t                  *locks;   /* ngx_etcd_lock_conf_t; NULL:
                                              none */
    ngx_uint_t                    lock_status;
    ngx_uint_t                    lock_unavailable;
    ngx_uint_t                    lock_lost;   /* ngx_etcd_lock_lost_e */
    ngx_uint_t                    lock_hold;   /* ngx_etcd_lock_hold_e */
    ngx_msec_t                    lock_max_hold;   /* UNSET: the default */
    ngx_http_complex_value_t     *lock_serve;      /* the first line; UNSET:
                                                      not here */
    ngx_msec_t                    lock_serve_ping;
    ngx_array_t                  *sets;    /* ngx_etcd_set_use_t;
                                              NULL: none */
} ngx_http_etcd_loc_conf_t;


extern ngx_module_t  ngx_http_etcd_module;


#endif /* _NGX_HTTP_ETCD_H_INCLUDED_ */
