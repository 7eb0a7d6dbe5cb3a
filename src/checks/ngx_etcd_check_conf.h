
/*
 * Copyright (C) nginx-etcd contributors
 *
 * An "etcd_check": how members of an upstream are checked.
 */


#ifndef _NGX_ETCD_CHECK_CONF_H_INCLUDED_
#define _NGX_ETCD_CHECK_CONF_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_ssl.h>


typedef enum {
    NGX_ETCD_CHECK_TCP = 0,
    NGX_ETCD_CHECK_HTTP,
    NGX_ETCD_CHECK_GRPC
} ngx_etcd_check_type_e;


/* Made by the configuration, lives as long as the cycle. */

typedef struct {
    ngx_etcd_check_type_e      type;
    ngx_msec_t                 interval;
    ngx_msec_t                 fast;          /* between states; 0: no other */
    ngx_msec_t                 timeout;
    ngx_uint_t                 rises;
    ngx_uint_t                 fails;
    ngx_uint_t                 mandatory;
    ngx_uint_t                 panic;         /* per cent */
    ngx_uint_t                 jitter;        /* per cent of the interval */
    in_port_t                  port;          /* 0: the member's */

    ngx_str_t                  request;       /* of HTTP */
    ngx_uint_t                 lowest;        /* status that succeeds */
    ngx_uint_t                 highest;
    ngx_str_t                  match;         /* text of the body; len 0: any */
#if (NGX_PCRE)
    ngx_regex_t               *regex;         /* in place of the text */
#endif

    ngx_str_t                  authority;     /* of gRPC */
    ngx_str_t                  service;

    ngx_etcd_ssl_t            *ssl;           /* NULL: none */
    ngx_str_t                  ssl_name;

    ngx_uint_t                 running;       /* probes of this process now */
} ngx_etcd_check_conf_t;


#endif /* _NGX_ETCD_CHECK_CONF_H_INCLUDED_ */
