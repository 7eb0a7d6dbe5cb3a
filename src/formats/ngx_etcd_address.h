
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The addresses of members.  Host names are not resolved here.
 */


#ifndef _NGX_ETCD_ADDRESS_H_INCLUDED_
#define _NGX_ETCD_ADDRESS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_decode.h>
#include <ngx_etcd_url.h>


/*
 * The functions that set an address check that a member may have it; a host
 * name is accepted if host names are resolved.  "field" names the source of
 * the text.  NGX_ERROR: the reason is set.
 */

/*
 * Parses "1.2.3.4:80", "[::1]:80" or "unix:/path".  The port of a text without
 * one is "port"; 0: a text needs a port.
 */
ngx_int_t ngx_etcd_address_set(ngx_etcd_decode_t *d,
    ngx_etcd_member_t *member, char *field, ngx_str_t *text, ngx_uint_t port);

/* Likewise, and "::1" without a port needs no brackets. */
ngx_int_t ngx_etcd_address_set_bare(ngx_etcd_decode_t *d,
    ngx_etcd_member_t *member, char *field, ngx_str_t *text, ngx_uint_t port);

ngx_int_t ngx_etcd_address_set_unix(ngx_etcd_decode_t *d,
    ngx_etcd_member_t *member, char *field, ngx_str_t *path);

/*
 * Sets the address from a URL; the default port is that of the scheme.
 * NGX_DECLINED: the scheme is not the one wanted.
 */
ngx_int_t ngx_etcd_address_set_url(ngx_etcd_decode_t *d,
    ngx_etcd_member_t *member, char *field, ngx_etcd_url_t *url);

/* Sets the address from the last segment of the key. */
ngx_int_t ngx_etcd_address_set_key(ngx_etcd_decode_t *d,
    ngx_etcd_member_t *member);

/*
 * Sets the address from the values that the layout has for host and port: an IP
 * address with optional brackets, and a number, maybe as a string.  Without a
 * port it is "otherwise", or that of the configuration.
 */
ngx_int_t ngx_etcd_address_set_host(ngx_etcd_decode_t *d,
    ngx_etcd_member_t *member, json_t *host, json_t *port,
    ngx_uint_t otherwise);

/*
 * Sets the address from a text that has the form of member->name: that a member
 * may have it is not checked.  NGX_DECLINED: it has another one.
 */
ngx_int_t ngx_etcd_address_shown(ngx_etcd_member_t *member, ngx_str_t *text);

/* Returns 1 if the last segment of the key is an address. */
ngx_uint_t ngx_etcd_address_in_key(ngx_str_t *key);

/* Sets a placeholder address that is unique for host and port. */
void ngx_etcd_address_unresolved(ngx_etcd_member_t *member);

/* Sets the resolved address, with the port of the member. */
void ngx_etcd_address_resolved(ngx_etcd_member_t *member,
    ngx_sockaddr_t *sockaddr, socklen_t socklen);

/*
 * Returns NULL, or why a member may not have the address, by its
 * ngx_etcd_member_conf_t; a handler of a resolver.
 */

char *ngx_etcd_address_usable(void *conf, struct sockaddr *sa);


#endif /* _NGX_ETCD_ADDRESS_H_INCLUDED_ */
