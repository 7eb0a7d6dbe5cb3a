
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The directive etcd_wait, as http and stream share it: what waits for an
 * upstream, for how long and how many may.
 */


#ifndef _NGX_ETCD_WAIT_H_INCLUDED_
#define _NGX_ETCD_WAIT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_module.h>
#include <ngx_etcd_hold.h>


#define NGX_ETCD_WAIT_QUEUE  1024     /* who may wait, unless it is said */


typedef struct {
    ngx_str_t                  upstream;
    ngx_uint_t                 stream;        /* an upstream of stream's */
    ngx_msec_t                 timeout;
    ngx_uint_t                 limit;         /* per worker and upstream */
    ngx_etcd_service_conf_t   *service;       /* once all was read */
    u_char                    *file;
    ngx_uint_t                 line;
} ngx_etcd_wait_t;


/*
 * The directive's handler, less the place of its value: NGX_CONF_UNSET_PTR
 * until then, NULL when it is off.
 */
char *ngx_etcd_wait_conf(ngx_conf_t *cf, ngx_etcd_wait_t **wait,
    ngx_uint_t stream);

/* after the configuration was read: finds the upstreams that are waited for */
ngx_int_t ngx_etcd_wait_check(ngx_etcd_main_conf_t *emcf, ngx_log_t *log);

/* 1 if the upstream has nothing to go to */
ngx_uint_t ngx_etcd_wait_needed(ngx_etcd_wait_t *wait);

/*
 * To be held, so many ms of waiting before: NGX_AGAIN, the handler will be
 * called; NGX_DECLINED, the time is over; NGX_BUSY, too many wait, and a line
 * in the log says so.
 */
ngx_int_t ngx_etcd_wait_begin(ngx_etcd_wait_t *wait, ngx_etcd_hold_t *hold,
    ngx_msec_t waited, ngx_log_t *log);


#endif /* _NGX_ETCD_WAIT_H_INCLUDED_ */
