
/*
 * Copyright (C) nginx-etcd contributors
 *
 * TLS on one connection: the handshake, what the peer has to prove in it,
 * and the reason in words when it does not.
 */


#ifndef _NGX_ETCD_TLS_H_INCLUDED_
#define _NGX_ETCD_TLS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_ssl.h>


#define NGX_ETCD_TLS_REASON  256


typedef struct {
    ngx_etcd_ssl_context_t    *context;
    ngx_addr_t                *addr;
    ngx_str_t                  name;          /* ends with a zero */
    ngx_log_t                 *owner;         /* the owner's log */
    ngx_log_t                  log;           /* of the ngx_connection_t */

    unsigned                   verify:1;
    unsigned                   http1:1;       /* HTTP/2 is not needed */
    unsigned                   address:1;     /* the name is one */
    unsigned                   hello:1;       /* the peer does speak TLS */
    unsigned                   alert:1;       /* and sent an alert */

    ngx_str_t                  reason;        /* empty: none is known */
    u_char                     buf[NGX_ETCD_TLS_REASON];
} ngx_etcd_tls_t;


/*
 * Makes a connection, with c->log set, one of TLS.  The name is what the
 * peer's certificate is to be for.  All memory is of c->pool.
 */
ngx_etcd_tls_t *ngx_etcd_tls_create(ngx_etcd_ssl_t *ssl, ngx_addr_t *addr,
    ngx_str_t *name, ngx_connection_t *c);

/*
 * To be called again with every event until it does not say NGX_AGAIN; sets
 * the handlers of events, which the caller then sets back to its own.  After
 * NGX_OK the peer is whom it should be; NGX_ERROR sets the reason.
 */
ngx_int_t ngx_etcd_tls_handshake(ngx_etcd_tls_t *tls, ngx_connection_t *c);

/* says goodbye, if that needs no waiting; the socket stays open */
void ngx_etcd_tls_close(ngx_etcd_tls_t *tls, ngx_connection_t *c);


#endif /* _NGX_ETCD_TLS_H_INCLUDED_ */
