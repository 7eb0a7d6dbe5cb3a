
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The configuration of the stream module.  Private to its files.
 */


#ifndef _NGX_STREAM_ETCD_H_INCLUDED_
#define _NGX_STREAM_ETCD_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_etcd_compat.h>
#include <ngx_etcd_require_leader.h>
#include <ngx_etcd_grant.h>
#include <ngx_etcd_peer_data.h>
#include <ngx_etcd_set_use.h>
#include <ngx_etcd_upstream.h>
#include <ngx_etcd_variable.h>
#include <ngx_etcd_wait.h>


typedef struct {
    ngx_uint_t                   locks;    /* 1: a server has etcd_lock */
    ngx_uint_t                   require_leader;  /* 1: a server has
                                                     etcd_require_leader */
    ngx_array_t                  wrapped;  /* see _require_leader.c */
} ngx_stream_etcd_main_conf_t;


typedef struct {
    ngx_etcd_upstream_t          upstream;
    ngx_stream_complex_value_t  *key;      /* NULL: the method has no key */
    ngx_etcd_wait_t             *wait;     /* NULL: off */
    ngx_etcd_require_leader_t    require_leader;
    ngx_array_t                 *locks;    /* ngx_etcd_lock_conf_t; NULL:
                                              none */
    ngx_array_t                 *sets;     /* ngx_etcd_set_use_t;
                                              NULL: none */
    ngx_uint_t                   lock_lost;  /* ngx_etcd_lock_lost_e */
    ngx_stream_upstream_init_peer_pt  init_peer;  /* the balancer's, saved by
                                                     _require_leader.c */
    ngx_stream_content_handler_pt  content;  /* of the server, called when the
                                                session is admitted */
    ngx_stream_upstream_rr_peer_t  *none;  /* of zeroes */
} ngx_stream_etcd_srv_conf_t;


extern ngx_module_t  ngx_stream_etcd_module;


#endif /* _NGX_STREAM_ETCD_H_INCLUDED_ */
