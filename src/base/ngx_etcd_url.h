
/*
 * Copyright (C) nginx-etcd contributors
 *
 * URLs (RFC 3986): one reader of their parts for values, queries and the
 * endpoints of etcd.  It is lenient, since writers are: the callers check the
 * parts.
 */


#ifndef _NGX_ETCD_URL_H_INCLUDED_
#define _NGX_ETCD_URL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* parts of the text; where one is missing, its length is 0 */

typedef struct {
    ngx_str_t                       scheme;
    ngx_str_t                       user;          /* with the "@" */
    ngx_str_t                       authority;     /* host and port, without
                                                      user */
    ngx_str_t                       query;         /* without the "?" */
} ngx_etcd_url_t;


/*
 * Returns NULL, or what is wrong with the URL: the scheme or the host is
 * missing.  The parts are set anyway.
 */
char *ngx_etcd_url_parse(ngx_etcd_url_t *url, ngx_str_t *text);

/* Returns the default port of a scheme; 0: none. */
ngx_uint_t ngx_etcd_url_port(ngx_str_t *scheme);

/*
 * Removes the first argument from a query.  The value is not decoded; without
 * "=" the value is empty.  NGX_DONE: there are no more.
 */
ngx_int_t ngx_etcd_url_argument(ngx_str_t *query, ngx_str_t *name,
    ngx_str_t *value);

/*
 * Decodes percent escapes (and, in a query, plus signs) from src to dst,
 * which may be the same.  NGX_ERROR: a percent sign without two hexadecimal
 * digits.
 */
ngx_int_t ngx_etcd_url_decode(ngx_str_t *dst, ngx_str_t *src,
    ngx_uint_t query);

/* Splits off the last two segments of a path; the parent may be empty. */
void ngx_etcd_url_segments(ngx_str_t *path, ngx_str_t *parent,
    ngx_str_t *segment);


#define NGX_ETCD_URL_MAX  256      /* bytes: a host name has up to 253 */


typedef struct {
    ngx_str_t                    url;
    ngx_str_t                    authority;     /* host:port */
    ngx_str_t                    host;          /* zero-terminated; IPv6 without
                                                   brackets */
    ngx_addr_t                   addr;          /* sockaddr NULL: the host is a
                                                   name */
    ngx_addr_t                  *addrs;         /* of a name, as the system has
                                                   resolved it; NULL: addr */
    ngx_uint_t                   naddrs;
    in_port_t                    port;
    ngx_uint_t                   secure;        /* https */
    ngx_uint_t                   local;         /* ngx_etcd_url_local(), or
                                                   "localhost" */
} ngx_etcd_endpoint_t;


/*
 * Parses endpoint->url, which must stay: "http[s]://host:port", "host:port", or
 * "unix:/path".  Returns NULL, or a text that says what is wrong.
 */
char *ngx_etcd_endpoint_parse(ngx_pool_t *pool, ngx_etcd_endpoint_t *endpoint);

#define ngx_etcd_endpoint_unix(endpoint)                                      \
    ((endpoint)->addr.sockaddr != NULL                                        \
     && (endpoint)->addr.sockaddr->sa_family == AF_UNIX)

/*
 * Names become parts of DNS queries, header fields and TLS handshakes: returns
 * 1 if the host has no other characters than they may have.
 */
ngx_uint_t ngx_etcd_url_name(ngx_str_t *host);

/*
 * Resolves the name of an endpoint as the system does, by /etc/hosts and name
 * servers, which blocks: for the configuration.  Returns NULL, or why there is
 * no address.
 */
char *ngx_etcd_endpoint_resolve(ngx_pool_t *pool,
    ngx_etcd_endpoint_t *endpoint);

/*
 * Returns 1 for a loopback or unspecified address (127.0.0.1, ::, and the
 * like), which means another host on each machine.
 */
ngx_uint_t ngx_etcd_url_local(struct sockaddr *sa);

/* Returns 1 if scheme, host and port are the same. */
ngx_uint_t ngx_etcd_endpoint_equal(ngx_etcd_endpoint_t *one,
    ngx_etcd_endpoint_t *other);


#endif /* _NGX_ETCD_URL_H_INCLUDED_ */
