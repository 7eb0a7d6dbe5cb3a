
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The addresses of a host name, asked of nginx's resolver: nothing here ever
 * waits, and answers are kept by the resolver for as long as they are valid.
 */


#ifndef _NGX_ETCD_LOOKUP_H_INCLUDED_
#define _NGX_ETCD_LOOKUP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>


#define NGX_ETCD_LOOKUP_ADDRS   8      /* what goes beyond is left out */
#define NGX_ETCD_LOOKUP_REASON  320    /* a name has up to 255 bytes */


typedef struct {
    /* set by the caller, the rest zeroed; the name must stay */

    ngx_resolver_t       *resolver;
    ngx_msec_t            timeout;
    ngx_str_t             name;
    in_port_t             port;

    /*
     * Called once, never before ngx_etcd_lookup_start() returns.  Without
     * addresses the reason says why there are none.
     */
    void                (*done)(void *data);

    /*
     * NULL, or takes all that there is in place of the result: called before
     * done(), with what is valid until it returns.
     */
    void                (*found)(void *data, ngx_resolver_addr_t *addrs,
                                 ngx_uint_t n);
    void                 *data;

    /* the result: stays until the next start */

    ngx_uint_t            naddrs;
    ngx_addr_t            addrs[NGX_ETCD_LOOKUP_ADDRS];
    ngx_str_t             reason;
    time_t                valid;       /* with addresses: up to then */

    /* private */

    ngx_resolver_ctx_t   *ctx;
    ngx_event_t           ready;       /* posted */
    ngx_sockaddr_t        sockaddrs[NGX_ETCD_LOOKUP_ADDRS];
    u_char                names[NGX_ETCD_LOOKUP_ADDRS][NGX_SOCKADDR_STRLEN];
    u_char                buf[NGX_ETCD_LOOKUP_REASON];
} ngx_etcd_lookup_t;


void ngx_etcd_lookup_start(ngx_etcd_lookup_t *lookup, ngx_log_t *log);

/* done() is not called any more; may be called at any time */
void ngx_etcd_lookup_cancel(ngx_etcd_lookup_t *lookup);


#endif /* _NGX_ETCD_LOOKUP_H_INCLUDED_ */
