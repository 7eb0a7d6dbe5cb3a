
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Resolves a host name, or the SRV records of a service, by nginx's resolver,
 * without blocking.  The resolver caches answers for their TTL.
 */


#ifndef _NGX_ETCD_LOOKUP_H_INCLUDED_
#define _NGX_ETCD_LOOKUP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_event.h>


#define NGX_ETCD_LOOKUP_REASON  320    /* a host name has up to 255 bytes */


typedef struct {
    /*
     * set by the caller, other fields zero; the caller keeps the name's
     * memory
     */

    ngx_resolver_t       *resolver;
    ngx_msec_t            timeout;
    ngx_str_t             name;
    ngx_str_t             service;     /* "_SERVICE._PROTOCOL" before the name;
                                          empty: addresses are wanted */

    /*
     * Receives the addresses, if there are any; may be called before
     * ngx_etcd_lookup_start() returns.  The addresses are valid until found()
     * returns.
     */
    void                (*found)(void *data, ngx_resolver_addr_t *addrs,
                                 ngx_uint_t n);

    /*
     * Receives the targets of a service, as found() does addresses.  Their
     * addresses may be unknown.
     */
    void                (*targets)(void *data, ngx_resolver_srv_name_t *srvs,
                                   ngx_uint_t n);

    /* Called once, never before ngx_etcd_lookup_start() returns. */
    void                (*done)(void *data);
    void                 *data;

    /* the result: valid until the next start */

    ngx_str_t             reason;      /* why there are no addresses or
                                          targets */
    ngx_uint_t            missing;     /* 1: DNS has none */
    time_t                valid;       /* expiry of what was found */

    /* private */

    ngx_resolver_ctx_t   *ctx;
    ngx_event_t           ready;       /* posted */
    u_char                buf[NGX_ETCD_LOOKUP_REASON];
} ngx_etcd_lookup_t;


void ngx_etcd_lookup_start(ngx_etcd_lookup_t *lookup, ngx_log_t *log);

/* Prevents done(); may be called at any time. */
void ngx_etcd_lookup_cancel(ngx_etcd_lookup_t *lookup);


#endif /* _NGX_ETCD_LOOKUP_H_INCLUDED_ */
