
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The URL of an endpoint, as it is configured or advertised by a member.
 */


#ifndef _NGX_ETCD_URL_H_INCLUDED_
#define _NGX_ETCD_URL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_ETCD_URL_MAX  256      /* bytes: a host name has up to 253 */


typedef struct {
    ngx_str_t                    url;
    ngx_str_t                    authority;     /* host:port */
    ngx_str_t                    host;          /* ends with a zero; without
                                                   the brackets of IPv6 */
    ngx_addr_t                   addr;          /* no sockaddr: the host is
                                                   a name to be resolved */
    in_port_t                    port;
    ngx_uint_t                   secure;        /* https */
    ngx_uint_t                   local;         /* as far as the URL says:
                                                   ngx_etcd_url_local(), or
                                                   "localhost" */
} ngx_etcd_endpoint_t;


/*
 * Reads the endpoint's url, which must stay: "http[s]://host:port" or
 * "host:port".  Returns NULL, or what is wrong with it.
 */
char *ngx_etcd_url_parse(ngx_pool_t *pool, ngx_etcd_endpoint_t *endpoint);

/* 1 if it means another machine on each: 127.0.0.1, 0.0.0.0, and the like */
ngx_uint_t ngx_etcd_url_local(struct sockaddr *sa);

/* 1 if both lead to the same place in the same way */
ngx_uint_t ngx_etcd_url_equal(ngx_etcd_endpoint_t *one,
    ngx_etcd_endpoint_t *other);


#endif /* _NGX_ETCD_URL_H_INCLUDED_ */
