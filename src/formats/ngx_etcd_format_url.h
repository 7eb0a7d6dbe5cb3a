
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Formats whose addresses are in URLs: those of Dubbo and of rpcx have their
 * attributes in arguments, and a member of Patroni has several URLs.
 */


#ifndef _NGX_ETCD_FORMAT_URL_H_INCLUDED_
#define _NGX_ETCD_FORMAT_URL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_decode.h>


/*
 * Attributes are arguments: NAME=VALUE, joined by "&".
 */

/* /dubbo/SERVICE/providers/URL; other parents hold consumers and the like. */
ngx_int_t ngx_etcd_format_dubbo(ngx_etcd_decode_t *d);

/* BASE/SERVICE/NETWORK@ADDRESS; BASE and BASE/SERVICE are keys too. */
ngx_int_t ngx_etcd_format_rpcx(ngx_etcd_decode_t *d);


/*
 * The URLs in the value of a member of Patroni, and the addresses in them.
 */

#define NGX_ETCD_PATRONI_SCHEMES  2


typedef struct {
    char                  *field;
    ngx_str_t              schemes[NGX_ETCD_PATRONI_SCHEMES];
    ngx_uint_t             ports[NGX_ETCD_PATRONI_SCHEMES];
                                          /* unless the URL has one */
    char                  *otherwise;     /* of another scheme */
} ngx_etcd_patroni_url_t;


/* the second scheme of an API is https */
#define NGX_ETCD_PATRONI_HTTPS    1


extern const ngx_etcd_patroni_url_t  ngx_etcd_patroni_api_url;

/* formats that take the address from the URL */
extern const ngx_etcd_format_t  ngx_etcd_patroni_format;
extern const ngx_etcd_format_t  ngx_etcd_patroni_proxy_format;


/*
 * Reads the URL from d->value, an object; the text is allocated from d->pool.
 * NGX_ERROR: the reason is set.
 */
ngx_int_t ngx_etcd_patroni_url_read(ngx_etcd_decode_t *d,
    const ngx_etcd_patroni_url_t *url, ngx_str_t *text);

/* Adds a member with the address of a URL.  NGX_ERROR: the reason is set. */
ngx_int_t ngx_etcd_patroni_url_add(ngx_etcd_decode_t *d,
    const ngx_etcd_patroni_url_t *url, ngx_str_t *text);

/*
 * Returns the scheme of a URL, by its number, and the host without brackets
 * and port.  NGX_DECLINED: another scheme, or no host.
 */
ngx_int_t ngx_etcd_patroni_url_scheme(const ngx_etcd_patroni_url_t *url,
    ngx_str_t *text, ngx_uint_t *scheme, ngx_str_t *host);


#endif /* _NGX_ETCD_FORMAT_URL_H_INCLUDED_ */
