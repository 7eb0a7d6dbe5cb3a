
/*
 * Copyright (C) nginx-etcd contributors
 *
 * TLS on one connection: the handshake, the verification of the peer, and the
 * reason of a failure as text.
 */


#ifndef _NGX_ETCD_TLS_H_INCLUDED_
#define _NGX_ETCD_TLS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_ssl.h>


#define NGX_ETCD_TLS_REASON  256


typedef struct {
    ngx_etcd_ssl_t            *ssl;
    ngx_etcd_ssl_context_t    *context;       /* the connection's */
    ngx_addr_t                *addr;
    ngx_str_t                  name;          /* zero-terminated */
    ngx_log_t                 *owner;         /* the owner's log */
    ngx_log_t                  log;           /* of the ngx_connection_t */

    unsigned                   address:1;     /* name is an IP address */
    unsigned                   hello:1;       /* ServerHello was received */
    unsigned                   alert:1;       /* the peer sent an alert */

    ngx_str_t                  reason;        /* empty: unknown */
    u_char                     buf[NGX_ETCD_TLS_REASON];
} ngx_etcd_tls_t;


/*
 * Makes the connection, with c->log set, a TLS connection.  The peer's
 * certificate must match the name.  All memory is allocated from c->pool.
 */
ngx_etcd_tls_t *ngx_etcd_tls_create(ngx_etcd_ssl_t *ssl, ngx_addr_t *addr,
    ngx_str_t *name, ngx_connection_t *c);

/*
 * To be called with every event while it returns NGX_AGAIN.  Replaces the
 * event handlers: the caller restores its own afterwards.  On NGX_OK the peer
 * has been verified; on NGX_ERROR the reason is set.
 */
ngx_int_t ngx_etcd_tls_handshake(ngx_etcd_tls_t *tls, ngx_connection_t *c);

/* Sends close_notify if the socket is writable; the socket stays open. */
void ngx_etcd_tls_close(ngx_etcd_tls_t *tls, ngx_connection_t *c);


#endif /* _NGX_ETCD_TLS_H_INCLUDED_ */
