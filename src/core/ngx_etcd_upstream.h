
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The directives of "upstream" blocks, as http and stream share them.
 */


#ifndef _NGX_ETCD_UPSTREAM_H_INCLUDED_
#define _NGX_ETCD_UPSTREAM_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_module.h>
#include <ngx_etcd_balance.h>


/* one "upstream" block; zeroed: none of our directives was seen */

typedef struct {
    ngx_etcd_conf_t             *cluster;
    ngx_etcd_service_conf_t     *service;       /* NULL: no etcd_members */
    const ngx_etcd_method_t     *method;        /* NULL: the default */
    ngx_array_t                 *allow;         /* of ngx_cidr_t; NULL: all */
    ngx_uint_t                   allow_unix;
    u_char                      *file;          /* of etcd_members */
    ngx_uint_t                   line;
} ngx_etcd_upstream_t;


/* the directives: results as of their handlers */

char *ngx_etcd_upstream_members(ngx_conf_t *cf, ngx_etcd_upstream_t *upstream,
    ngx_str_t *name, ngx_uint_t stream);
char *ngx_etcd_upstream_balance(ngx_conf_t *cf, ngx_etcd_upstream_t *upstream);
char *ngx_etcd_upstream_allow(ngx_conf_t *cf, ngx_etcd_upstream_t *upstream);

/* a static server's address; NGX_ERROR: no memory */
ngx_int_t ngx_etcd_upstream_server(ngx_conf_t *cf,
    ngx_etcd_upstream_t *upstream, ngx_addr_t *addr,
    ngx_etcd_member_attr_t *attr);

/* the block is complete */
void ngx_etcd_upstream_done(ngx_etcd_upstream_t *upstream);


#endif /* _NGX_ETCD_UPSTREAM_H_INCLUDED_ */
