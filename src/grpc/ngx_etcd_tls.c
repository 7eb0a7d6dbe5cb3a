
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_tls.h>


#define NGX_ETCD_TLS_NO_H2                                                    \
    "no HTTP/2: the peer did not agree to ALPN protocol \"h2\""


/* the ex_data index of ngx_etcd_tls_t in an SSL, one per process */

static int  ngx_etcd_tls_index = -1;


/* Sets the reason unless one is set: the first one is the cause. */

static void
ngx_etcd_tls_reason(ngx_etcd_tls_t *tls, const char *fmt, ...)
{
    u_char   *p;
    va_list   args;

    if (tls->reason.len != 0) {
        return;
    }

    va_start(args, fmt);
    p = ngx_vslprintf(tls->buf, tls->buf + NGX_ETCD_TLS_REASON, fmt, args);
    va_end(args);

    tls->reason.data = tls->buf;
    tls->reason.len = p - tls->buf;
}


static char *
ngx_etcd_tls_hint(ngx_etcd_tls_t *tls, int alert)
{
    if (tls->ssl->hint == NULL) {
        return "";
    }

    switch (alert) {

    case SSL_AD_BAD_CERTIFICATE:
#ifdef SSL_AD_CERTIFICATE_REQUIRED
    case SSL_AD_CERTIFICATE_REQUIRED:
#endif
        return tls->ssl->hint;

    /* Go says this in TLSv1.2; before ServerHello it is about ciphers */

    case SSL_AD_HANDSHAKE_FAILURE:
        return tls->hello ? tls->ssl->hint : "";

    default:
        return "";
    }
}


/* The upper byte is the level; a warning does not end the connection. */

static void
ngx_etcd_tls_alert(ngx_etcd_tls_t *tls, int alert)
{
    char        *why;
    const char  *name;

    if ((alert >> 8) != SSL3_AL_FATAL) {
        return;
    }

    tls->alert = 1;

    if ((alert & 0xff) == SSL_AD_NO_APPLICATION_PROTOCOL) {
        ngx_etcd_tls_reason(tls, NGX_ETCD_TLS_NO_H2);
        return;
    }

    name = SSL_alert_desc_string_long(alert);

#ifdef SSL_AD_CERTIFICATE_REQUIRED

    /* OpenSSL 3.0 has no name for it */

    if ((alert & 0xff) == SSL_AD_CERTIFICATE_REQUIRED) {
        name = "certificate required";
    }

#endif

    why = ngx_etcd_tls_hint(tls, alert & 0xff);

    ngx_etcd_tls_reason(tls, "the peer sent TLS alert \"%s\"%s", name, why);
}


/*
 * An info callback is the only place to learn the cause of a failure: nginx
 * logs the OpenSSL errors and clears them.
 */

static void
ngx_etcd_tls_info(const ngx_ssl_conn_t *ssl_conn, int where, int ret)
{
    u_char          *p;
    u_long           error;
    ngx_etcd_tls_t  *tls;
    u_char           text[NGX_ETCD_TLS_REASON / 2];

    tls = SSL_get_ex_data(ssl_conn, ngx_etcd_tls_index);

    if ((where & SSL_CB_CONNECT_LOOP) == SSL_CB_CONNECT_LOOP
        && SSL_get_state(ssl_conn) == TLS_ST_CR_SRVR_HELLO)
    {
        tls->hello = 1;
        return;
    }

    if ((where & SSL_CB_READ_ALERT) == SSL_CB_READ_ALERT) {
        ngx_etcd_tls_alert(tls, ret);
        return;
    }

    if ((where & SSL_CB_CONNECT_EXIT) == SSL_CB_CONNECT_EXIT && ret <= 0) {
        error = ERR_peek_error();

        if (error != 0) {

            /* an unsupported version is TLS too */

            if (ERR_GET_REASON(error) == SSL_R_UNSUPPORTED_PROTOCOL) {
                tls->hello = 1;
            }

            p = ngx_etcd_ssl_error_reason(text, text + sizeof(text), error);

            ngx_etcd_tls_reason(tls, "TLS handshake failed: %*s",
                                (size_t) (p - text), text);
        }
    }
}


static void
ngx_etcd_tls_save_session(ngx_connection_t *c)
{
    ngx_etcd_tls_t     *tls;
    ngx_ssl_session_t  *session;

    tls = SSL_get_ex_data(c->ssl->connection, ngx_etcd_tls_index);

    session = ngx_ssl_get_session(c);

    if (session != NULL) {
        ngx_etcd_ssl_session_put(tls->context, tls->addr, &tls->name, session);
    }
}


static ngx_int_t
ngx_etcd_tls_prepare(ngx_etcd_tls_t *tls, ngx_connection_t *c)
{
    ngx_ssl_conn_t     *ssl_conn;
    ngx_ssl_session_t  *session;

    ssl_conn = c->ssl->connection;

    if (ngx_etcd_tls_index == -1) {
        ngx_etcd_tls_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL);
    }

    if (ngx_etcd_tls_index == -1
        || SSL_set_ex_data(ssl_conn, ngx_etcd_tls_index, tls) == 0)
    {
        return NGX_ERROR;
    }

    SSL_set_info_callback(ssl_conn, ngx_etcd_tls_info);

    if (!tls->address && tls->name.len != 0
        && SSL_set_tlsext_host_name(ssl_conn, (char *) tls->name.data) == 0)
    {
        return NGX_ERROR;
    }

    c->ssl->save_session = ngx_etcd_tls_save_session;

    session = ngx_etcd_ssl_session_get(tls->context, tls->addr, &tls->name);

    return ngx_ssl_set_session(c, session);
}


ngx_etcd_tls_t *
ngx_etcd_tls_create(ngx_etcd_ssl_t *ssl, ngx_addr_t *addr, ngx_str_t *name,
    ngx_connection_t *c)
{
    ngx_etcd_tls_t  *tls;
#if (NGX_HAVE_INET6)
    u_char           inet6[16];
#endif

    tls = ngx_pcalloc(c->pool, sizeof(ngx_etcd_tls_t));
    if (tls == NULL) {
        return NULL;
    }

    tls->addr = addr;
    tls->name = *name;
    tls->ssl = ssl;
    tls->address = (ngx_inet_addr(name->data, name->len) != INADDR_NONE);

#if (NGX_HAVE_INET6)
    tls->address |= (ngx_inet6_addr(name->data, name->len, inet6) == NGX_OK);
#endif

    /* the owner logs a failure once; nginx would log it at "crit" */

    tls->owner = c->log;
    tls->log = *c->log;
    tls->log.log_level = ngx_min(c->log->log_level, NGX_LOG_ALERT);

    tls->context = ngx_etcd_ssl_acquire(ssl);

    if (ngx_ssl_create_connection(&tls->context->ssl, c, NGX_SSL_CLIENT)
        != NGX_OK)
    {
        ngx_etcd_ssl_release(tls->context);
        return NULL;
    }

    c->log = &tls->log;

    if (ngx_etcd_tls_prepare(tls, c) != NGX_OK) {
        ngx_etcd_tls_close(tls, c);
        return NULL;
    }

    return tls;
}


/* ngx_etcd_tls_info() has set the reason of an OpenSSL error. */

static void
ngx_etcd_tls_failed(ngx_etcd_tls_t *tls, ngx_connection_t *c)
{
    long     rc;
    u_char  *p;

    rc = SSL_get_verify_result(c->ssl->connection);

    if (tls->ssl->verify && rc != X509_V_OK) {
        tls->reason.len = 0;
        ngx_etcd_tls_reason(tls, "TLS certificate verify error: %s",
                            X509_verify_cert_error_string(rc));
        return;
    }

    if (tls->alert) {
        return;
    }

    ngx_etcd_tls_reason(tls, "TLS handshake failed: the peer closed the "
                        "connection");

    if (!tls->hello) {
        p = ngx_slprintf(tls->reason.data + tls->reason.len,
                         tls->buf + NGX_ETCD_TLS_REASON,
                         ", is this an http endpoint?");

        tls->reason.len = p - tls->reason.data;
    }
}


/* Checks a resumed session too: OpenSSL keeps the certificate with it. */

static ngx_int_t
ngx_etcd_tls_check_name(ngx_etcd_tls_t *tls, ngx_connection_t *c)
{
    int    rc;
    X509  *cert;

    if (tls->name.len == 0) {
        return NGX_ERROR;
    }

    if (!tls->address) {
        return ngx_ssl_check_host(c, &tls->name);
    }

    cert = SSL_get_peer_certificate(c->ssl->connection);
    if (cert == NULL) {
        return NGX_ERROR;
    }

    rc = X509_check_ip_asc(cert, (char *) tls->name.data, 0);

    X509_free(cert);
    ERR_clear_error();

    return (rc == 1) ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
ngx_etcd_tls_check(ngx_etcd_tls_t *tls, ngx_connection_t *c)
{
    unsigned int          len;
    const unsigned char  *protocol;

    SSL_get0_alpn_selected(c->ssl->connection, &protocol, &len);

    if (!tls->ssl->http1
        && (len != 2 || ngx_strncmp(protocol, "h2", 2) != 0))
    {
        ngx_etcd_tls_reason(tls, NGX_ETCD_TLS_NO_H2);
        return NGX_ERROR;
    }

    if (tls->ssl->verify && ngx_etcd_tls_check_name(tls, c) != NGX_OK) {
        ngx_etcd_tls_reason(tls, "TLS certificate is not for \"%V\"",
                            &tls->name);
        return NGX_ERROR;
    }

    return NGX_OK;
}


ngx_int_t
ngx_etcd_tls_handshake(ngx_etcd_tls_t *tls, ngx_connection_t *c)
{
    ngx_int_t  rc;

    rc = ngx_ssl_handshake(c);

    if (rc == NGX_AGAIN) {
        return NGX_AGAIN;
    }

    if (rc != NGX_OK) {
        ngx_etcd_tls_failed(tls, c);
        return NGX_ERROR;
    }

    if (ngx_etcd_tls_check(tls, c) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_log_error(NGX_LOG_INFO, tls->owner, 0, "%s with %V: %s%s",
                  SSL_get_version(c->ssl->connection), &tls->addr->name,
                  SSL_get_cipher_name(c->ssl->connection),
                  SSL_session_reused(c->ssl->connection)
                  ? ", session reused" : "");

    return NGX_OK;
}


void
ngx_etcd_tls_close(ngx_etcd_tls_t *tls, ngx_connection_t *c)
{
    if (c->ssl == NULL) {
        return;
    }

    c->ssl->no_wait_shutdown = 1;

    if (ngx_ssl_shutdown(c) == NGX_AGAIN) {

        /* the socket is not writable: give up on close_notify */

        if (c->read->timer_set) {
            ngx_del_timer(c->read);
        }

        c->timedout = 1;

        (void) ngx_ssl_shutdown(c);
    }

    ERR_clear_error();

    ngx_etcd_ssl_release(tls->context);
}
