
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The URL of an endpoint, configured or advertised by a member.
 */


#ifndef _NGX_ETCD_URL_H_INCLUDED_
#define _NGX_ETCD_URL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_ETCD_URL_MAX  256      /* bytes: a host name has up to 253 */


typedef struct {
    ngx_str_t                    url;
    ngx_str_t                    authority;     /* host:port */
    ngx_str_t                    host;          /* zero-terminated; IPv6 without
                                                   brackets */
    ngx_addr_t                   addr;          /* sockaddr NULL: the host is a
                                                   name */
    in_port_t                    port;
    ngx_uint_t                   secure;        /* https */
    ngx_uint_t                   local;         /* ngx_etcd_url_local(), or
                                                   "localhost" */
} ngx_etcd_endpoint_t;


/*
 * Parses endpoint->url, which must stay: "http[s]://host:port" or "host:port".
 * Returns NULL, or a text that says what is wrong.
 */
char *ngx_etcd_url_parse(ngx_pool_t *pool, ngx_etcd_endpoint_t *endpoint);

/*
 * Returns 1 for a loopback or unspecified address (127.0.0.1, ::, and the
 * like), which means another host on each machine.
 */
ngx_uint_t ngx_etcd_url_local(struct sockaddr *sa);

/* Returns 1 if scheme, host and port are the same. */
ngx_uint_t ngx_etcd_url_equal(ngx_etcd_endpoint_t *one,
    ngx_etcd_endpoint_t *other);


#endif /* _NGX_ETCD_URL_H_INCLUDED_ */
