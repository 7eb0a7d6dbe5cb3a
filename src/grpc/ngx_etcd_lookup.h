
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Resolves a host name by nginx's resolver, without blocking.  The resolver
 * caches answers for their TTL.
 */


#ifndef _NGX_ETCD_LOOKUP_H_INCLUDED_
#define _NGX_ETCD_LOOKUP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_event.h>


#define NGX_ETCD_LOOKUP_ADDRS   8      /* addresses beyond are ignored */
#define NGX_ETCD_LOOKUP_REASON  320    /* a host name has up to 255 bytes */


typedef struct {
    /*
     * set by the caller, other fields zero; the caller keeps the name's
     * memory
     */

    ngx_resolver_t       *resolver;
    ngx_msec_t            timeout;
    ngx_str_t             name;
    in_port_t             port;

    /*
     * Called once, never before ngx_etcd_lookup_start() returns.  If naddrs
     * is 0, the reason says why.
     */
    void                (*done)(void *data);

    /*
     * Optional.  Receives all addresses instead of "addrs"; called before
     * done().  The addresses are valid until found() returns.
     */
    void                (*found)(void *data, ngx_resolver_addr_t *addrs,
                                 ngx_uint_t n);
    void                 *data;

    /* the result: valid until the next start */

    ngx_uint_t            naddrs;
    ngx_addr_t            addrs[NGX_ETCD_LOOKUP_ADDRS];
    ngx_str_t             reason;
    time_t                valid;       /* expiry, if naddrs > 0 */

    /* private */

    ngx_resolver_ctx_t   *ctx;
    ngx_event_t           ready;       /* posted */
    ngx_sockaddr_t        sockaddrs[NGX_ETCD_LOOKUP_ADDRS];
    u_char                names[NGX_ETCD_LOOKUP_ADDRS][NGX_SOCKADDR_STRLEN];
    u_char                buf[NGX_ETCD_LOOKUP_REASON];
} ngx_etcd_lookup_t;


void ngx_etcd_lookup_start(ngx_etcd_lookup_t *lookup, ngx_log_t *log);

/* Prevents done(); may be called at any time. */
void ngx_etcd_lookup_cancel(ngx_etcd_lookup_t *lookup);


#endif /* _NGX_ETCD_LOOKUP_H_INCLUDED_ */
