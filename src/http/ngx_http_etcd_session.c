
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_etcd_str.h>
#include <ngx_http_etcd.h>
#include <ngx_http_etcd_session.h>


/* bytes of a name and its length; no certificate has a longer name */
#define NGX_HTTP_ETCD_SESSION_NAME  256


#if (NGX_HTTP_SSL)

/*
 * The record of a session: a byte with the length of the name, the name in
 * lower case, and for each value this head and its key.
 */

typedef struct {
    uint64_t                   modified;
    uint32_t                   variable;     /* of emcf->set_variables */
    uint32_t                   len;
} ngx_http_etcd_session_key_t;


static ngx_uint_t ngx_http_etcd_session_variable(ngx_etcd_set_variable_t *sv);
static ngx_uint_t ngx_http_etcd_session_valid(ngx_ssl_conn_t *ssl,
    ngx_ssl_session_t *session);
static ngx_uint_t ngx_http_etcd_session_same_name(ngx_ssl_conn_t *ssl,
    ngx_str_t *name);
static ngx_uint_t ngx_http_etcd_session_key_valid(
    ngx_http_etcd_session_key_t *head, u_char *data);
static SSL_TICKET_RETURN ngx_http_etcd_session_ticket(ngx_ssl_conn_t *ssl,
    ngx_ssl_session_t *session, const unsigned char *name, size_t len,
    SSL_TICKET_STATUS status, void *data);
static ngx_ssl_session_t *ngx_http_etcd_session_cached(ngx_ssl_conn_t *ssl,
    const u_char *id, int len, int *copy);

#endif


ngx_int_t
ngx_http_etcd_session_bind(ngx_http_request_t *r, ngx_array_t *values)
{
#if (NGX_HTTP_SSL)

    size_t                        len, size;
    u_char                       *p, *record;
    ngx_uint_t                    i;
    const char                   *name;
    ngx_ssl_conn_t               *ssl;
    ngx_http_etcd_pem_value_t    *value;
    ngx_http_etcd_session_key_t   head;

    ssl = r->connection->ssl->connection;
    value = values->elts;

    name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    len = (name != NULL) ? ngx_min(ngx_strlen(name),
                                   NGX_HTTP_ETCD_SESSION_NAME - 1)
                         : 0;
    size = 1 + len;

    for (i = 0; i < values->nelts; i++) {
        size += sizeof(ngx_http_etcd_session_key_t) + value[i].key.len;
    }

    record = ngx_pnalloc(r->pool, size);
    if (record == NULL) {
        return NGX_ERROR;
    }

    p = record;
    *p++ = len;

    ngx_strlow(p, (u_char *) name, len);
    p += len;

    for (i = 0; i < values->nelts; i++) {
        head.modified = value[i].modified;
        head.variable = ngx_http_etcd_session_variable(value[i].use->sv);
        head.len = value[i].key.len;

        p = ngx_cpymem(p, &head, sizeof(ngx_http_etcd_session_key_t));

        if (head.len != 0) {
            p = ngx_cpymem(p, value[i].key.data, head.len);
        }
    }

    if (SSL_SESSION_set1_ticket_appdata(SSL_get_session(ssl), record, size)
        != 1)
    {
        return NGX_ERROR;
    }

#endif

    return NGX_OK;
}


#if (NGX_HTTP_SSL)

static ngx_uint_t
ngx_http_etcd_session_variable(ngx_etcd_set_variable_t *sv)
{
    ngx_uint_t                 i;
    ngx_etcd_main_conf_t      *emcf;
    ngx_etcd_set_variable_t  **variables;

    emcf = ngx_etcd_conf_main(ngx_cycle);
    variables = emcf->set_variables.elts;

    for (i = 0; i < emcf->set_variables.nelts; i++) {
        if (variables[i] == sv) {
            break;
        }
    }

    return i;
}


/*
 * Other servers have sessions without a record.  The record may be of another
 * nginx with the same key of tickets, or of a former configuration: its lengths
 * are checked.
 */

static ngx_uint_t
ngx_http_etcd_session_valid(ngx_ssl_conn_t *ssl, ngx_ssl_session_t *session)
{
    void                         *data;
    size_t                        left;
    u_char                       *p;
    ngx_str_t                     name;
    ngx_http_etcd_session_key_t   head;

    if (SSL_SESSION_get0_ticket_appdata(session, &data, &left) != 1) {
        return 0;
    }

    if (left == 0) {
        return 1;
    }

    p = data;
    name.len = *p++;
    left--;

    if (name.len > left) {
        return 0;
    }

    name.data = p;
    p += name.len;
    left -= name.len;

    if (!ngx_http_etcd_session_same_name(ssl, &name)) {
        return 0;
    }

    while (left != 0) {

        if (left < sizeof(ngx_http_etcd_session_key_t)) {
            return 0;
        }

        ngx_memcpy(&head, p, sizeof(ngx_http_etcd_session_key_t));

        p += sizeof(ngx_http_etcd_session_key_t);
        left -= sizeof(ngx_http_etcd_session_key_t);

        if (head.len > left || !ngx_http_etcd_session_key_valid(&head, p)) {
            return 0;
        }

        p += head.len;
        left -= head.len;
    }

    return 1;
}


/* OpenSSL has not read the name of this handshake yet. */

static ngx_uint_t
ngx_http_etcd_session_same_name(ngx_ssl_conn_t *ssl, ngx_str_t *name)
{
    size_t                len;
    ngx_str_t             asked;
    const unsigned char  *p;

    if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &p, &len)
        != 1)
    {
        return name->len == 0;
    }

    /* the length of a list of one name, its type, the length of the name */

    if (len < 5
        || (size_t) (p[0] << 8 | p[1]) != len - 2
        || p[2] != TLSEXT_NAMETYPE_host_name
        || (size_t) (p[3] << 8 | p[4]) != len - 5)
    {
        return 0;
    }

    asked.data = (u_char *) p + 5;
    asked.len = len - 5;

    return ngx_etcd_str_alike(&asked, name);
}


static ngx_uint_t
ngx_http_etcd_session_key_valid(ngx_http_etcd_session_key_t *head, u_char *data)
{
    ngx_int_t                    rc;
    ngx_str_t                    key;
    ngx_etcd_main_conf_t        *emcf;
    ngx_etcd_set_variable_t    **variables;
    ngx_etcd_value_map_read_t    read;

    emcf = ngx_etcd_conf_main(ngx_cycle);
    variables = emcf->set_variables.elts;

    if (head->variable >= emcf->set_variables.nelts
        || variables[head->variable]->type != NGX_ETCD_VALUE_PEM)
    {
        return 0;
    }

    if (head->len == 0) {
        return 1;
    }

    key.data = data;
    key.len = head->len;

    read.part = NGX_ETCD_VALUE_MAP_NOTHING;
    read.buf = NULL;

    rc = ngx_etcd_value_map_get(variables[head->variable]->map, &key, &read);

    switch (rc) {

    case NGX_OK:
        return read.modified == head->modified;

    case NGX_DECLINED:
        return head->modified == 0;

    default: /* NGX_AGAIN */
        return 0;
    }
}


static SSL_TICKET_RETURN
ngx_http_etcd_session_ticket(ngx_ssl_conn_t *ssl, ngx_ssl_session_t *session,
    const unsigned char *name, size_t len, SSL_TICKET_STATUS status, void *data)
{
    switch (status) {

    case SSL_TICKET_SUCCESS:
    case SSL_TICKET_SUCCESS_RENEW:

        if (!ngx_http_etcd_session_valid(ssl, session)) {
            return SSL_TICKET_RETURN_IGNORE_RENEW;
        }

        return (status == SSL_TICKET_SUCCESS) ? SSL_TICKET_RETURN_USE
                                              : SSL_TICKET_RETURN_USE_RENEW;

    default: /* SSL_TICKET_EMPTY, SSL_TICKET_NO_DECRYPT */
        return SSL_TICKET_RETURN_IGNORE_RENEW;
    }
}


/* Finds a session in nginx's cache. */

static ngx_ssl_session_t *
ngx_http_etcd_session_cached(ngx_ssl_conn_t *ssl, const u_char *id, int len,
    int *copy)
{
    ngx_connection_t           *c;
    ngx_ssl_session_t          *session;
    ngx_http_connection_t      *hc;
    ngx_http_etcd_main_conf_t  *emcf;

    c = ngx_ssl_get_connection(ssl);
    hc = c->data;
    emcf = hc->conf_ctx->main_conf[ngx_http_etcd_module.ctx_index];

    session = emcf->session_cached(ssl, (u_char *) id, len, copy);

    if (session == NULL || ngx_http_etcd_session_valid(ssl, session)) {
        return session;
    }

    if (!*copy) {
        SSL_SESSION_free(session);
    }

    return NULL;
}

#endif


void
ngx_http_etcd_session_init(ngx_conf_t *cf)
{
#if (NGX_HTTP_SSL)

    long                         mode;
    SSL_CTX                     *ctx;
    ngx_uint_t                   i, secret;
    ngx_etcd_main_conf_t        *main_conf;
    ngx_http_ssl_srv_conf_t     *sscf;
    ngx_etcd_set_variable_t    **variables;
    ngx_http_core_srv_conf_t   **servers;
    ngx_http_core_main_conf_t   *cmcf;
    ngx_http_etcd_main_conf_t   *emcf;

    main_conf = ngx_etcd_conf_main(cf->cycle);
    variables = main_conf->set_variables.elts;
    secret = 0;

    for (i = 0; i < main_conf->set_variables.nelts; i++) {
        secret |= (variables[i]->type == NGX_ETCD_VALUE_PEM);
    }

    if (!secret) {
        return;
    }

    emcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_etcd_module);
    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);
    servers = cmcf->servers.elts;

    for (i = 0; i < cmcf->servers.nelts; i++) {
        sscf = servers[i]->ctx->srv_conf[ngx_http_ssl_module.ctx_index];
        ctx = sscf->ssl.ctx;

        if (ctx == NULL) {
            continue;
        }

        (void) SSL_CTX_set_session_ticket_cb(ctx, NULL,
                                             ngx_http_etcd_session_ticket,
                                             NULL);

        mode = SSL_CTX_get_session_cache_mode(ctx) | SSL_SESS_CACHE_NO_INTERNAL;
        (void) SSL_CTX_set_session_cache_mode(ctx, mode);

        /* nginx has one function for all servers with a shared cache */

        if (SSL_CTX_sess_get_get_cb(ctx) != NULL) {
            emcf->session_cached = SSL_CTX_sess_get_get_cb(ctx);
            SSL_CTX_sess_set_get_cb(ctx, ngx_http_etcd_session_cached);
        }
    }

#endif
}
