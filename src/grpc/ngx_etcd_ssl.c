
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_ssl.h>
#include <ngx_etcd_str.h>


#define NGX_ETCD_SSL_POOL_SIZE  1024


typedef struct {
    ngx_queue_t             queue;
    ngx_sockaddr_t          sockaddr;
    socklen_t               socklen;
    ngx_str_t               name;
    ngx_ssl_session_t      *session;
} ngx_etcd_ssl_session_t;


/*
 * Returns 1 if a file has changed.  A file that a worker may not stat() was
 * read by the master and counts as unchanged.
 */

static ngx_uint_t
ngx_etcd_ssl_look(ngx_etcd_ssl_t *ssl)
{
    ngx_uint_t              i, changed;
    ngx_file_info_t         info;
    ngx_etcd_ssl_stat_t     found;
    ngx_etcd_ssl_option_t  *file;

    changed = 0;

    for (i = 0; i < NGX_ETCD_SSL_FILES; i++) {
        file = &ssl->files[i];

        if (file->value.len == 0) {
            continue;
        }

        ngx_memzero(&found, sizeof(ngx_etcd_ssl_stat_t));

        if (ngx_file_info(file->value.data, &info) != NGX_FILE_ERROR) {
            found.device = info.st_dev;
            found.inode = info.st_ino;
            found.size = info.st_size;

            /* ctime covers contents, permissions and replacement */

            found.changed = info.st_ctim;

        } else if (ngx_errno == NGX_EACCES) {
            continue;
        }

        if (ngx_memcmp(&found, &ssl->stats[i], sizeof(ngx_etcd_ssl_stat_t))
            != 0)
        {
            ngx_memcpy(&ssl->stats[i], &found, sizeof(ngx_etcd_ssl_stat_t));
            changed = 1;
        }
    }

    return changed;
}


static ngx_int_t
ngx_etcd_ssl_settings(ngx_etcd_ssl_t *ssl, SSL_CTX *ctx,
    ngx_etcd_ssl_error_t *error)
{
    static const u_char  alpn[] = "\x02h2";

    /* received tokens must not stay in OpenSSL's buffers */

    (void) SSL_CTX_set_options(ctx, SSL_OP_CLEANSE_PLAINTEXT);

    if (!ssl->http1
        && SSL_CTX_set_alpn_protos(ctx, alpn, sizeof(alpn) - 1) != 0)
    {
        return ngx_etcd_ssl_error(error, &ssl->ciphers, "no memory");
    }

    if (ssl->ciphers.value.len != 0
        && SSL_CTX_set_cipher_list(ctx, (char *) ssl->ciphers.value.data) == 0)
    {
        return ngx_etcd_ssl_error(error, &ssl->ciphers,
                                  "invalid ciphers \"%V\"",
                                  &ssl->ciphers.value);
    }

    if (ssl->verify) {
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_verify_depth(ctx, (int) ssl->verify_depth);
    }

    return NGX_OK;
}


/* Applied last: commands may override the other directives. */

static ngx_int_t
ngx_etcd_ssl_commands(ngx_etcd_ssl_t *ssl, SSL_CTX *ctx,
    ngx_etcd_ssl_error_t *error)
{
    ngx_int_t               rc;
    ngx_uint_t              i;
    SSL_CONF_CTX           *cctx;
    ngx_etcd_ssl_option_t  *command;

    if (ssl->commands.nelts == 0) {
        return NGX_OK;
    }

    command = ssl->commands.elts;

    cctx = SSL_CONF_CTX_new();
    if (cctx == NULL) {
        return ngx_etcd_ssl_error(error, command, "no memory");
    }

    SSL_CONF_CTX_set_flags(cctx, SSL_CONF_FLAG_FILE|SSL_CONF_FLAG_CLIENT
                                 |SSL_CONF_FLAG_CERTIFICATE
                                 |SSL_CONF_FLAG_SHOW_ERRORS);
    SSL_CONF_CTX_set_ssl_ctx(cctx, ctx);

    rc = NGX_OK;

    for (i = 0; i < ssl->commands.nelts && rc == NGX_OK; i++) {
        if (SSL_CONF_cmd(cctx, (char *) command[i].key.data,
                         (char *) command[i].value.data)
            <= 0)
        {
            rc = ngx_etcd_ssl_error(error, &command[i],
                                    "invalid command \"%V %V\"",
                                    &command[i].key, &command[i].value);
        }
    }

    if (rc == NGX_OK && SSL_CONF_CTX_finish(cctx) != 1) {
        rc = ngx_etcd_ssl_error(error, command, "invalid commands");
    }

    SSL_CONF_CTX_free(cctx);

    return rc;
}


static ngx_etcd_ssl_context_t *
ngx_etcd_ssl_context_create(ngx_etcd_ssl_t *ssl, ngx_log_t *log,
    ngx_etcd_ssl_error_t *error)
{
    ngx_pool_t              *pool;
    ngx_etcd_ssl_context_t  *context;

    /* a step that fails for another reason replaces the error */

    (void) ngx_etcd_ssl_error(error, &ssl->ciphers, "no memory");

    pool = ngx_create_pool(NGX_ETCD_SSL_POOL_SIZE, log);
    if (pool == NULL) {
        return NULL;
    }

    context = ngx_pcalloc(pool, sizeof(ngx_etcd_ssl_context_t));
    if (context == NULL) {
        ngx_destroy_pool(pool);
        return NULL;
    }

    context->pool = pool;
    context->refs = 1;
    context->ssl.log = log;

    ngx_queue_init(&context->sessions);

    if (ngx_ssl_create(&context->ssl, ssl->protocols, NULL) != NGX_OK) {
        SSL_CTX_free(context->ssl.ctx);
        ngx_destroy_pool(pool);
        return NULL;
    }

    if (ngx_etcd_ssl_settings(ssl, context->ssl.ctx, error) != NGX_OK
        || ngx_etcd_ssl_file_load(ssl->files, context->ssl.ctx, error) != NGX_OK
        || ngx_etcd_ssl_commands(ssl, context->ssl.ctx, error) != NGX_OK
        || ngx_ssl_client_session_cache(NULL, &context->ssl, 1) != NGX_OK)
    {
        ngx_etcd_ssl_release(context);
        return NULL;
    }

    return context;
}


ngx_int_t
ngx_etcd_ssl_load(ngx_etcd_ssl_t *ssl, ngx_log_t *log,
    ngx_etcd_ssl_error_t *error)
{
    ngx_etcd_ssl_context_t  *context;

    /*
     * look before reading: a change during the read is seen by the next look
     */

    (void) ngx_etcd_ssl_look(ssl);

    context = ngx_etcd_ssl_context_create(ssl, log, error);

    ERR_clear_error();

    if (context == NULL) {
        return NGX_ERROR;
    }

    ngx_etcd_ssl_cleanup(ssl);

    ssl->context = context;

    return NGX_OK;
}


void
ngx_etcd_ssl_refresh(ngx_etcd_ssl_t *ssl, char *kind, ngx_str_t *name,
    ngx_log_t *log)
{
    ngx_uint_t            level;
    ngx_etcd_ssl_error_t  error;

    if (!ngx_etcd_ssl_look(ssl)) {
        return;
    }

    if (ngx_etcd_ssl_load(ssl, log, &error) == NGX_OK) {
        ssl->failed = 0;

        ngx_log_error(NGX_LOG_NOTICE, log, 0,
                      "etcd %s \"%V\": the certificate files changed "
                      "and were read again", kind, name);
        return;
    }

    level = ssl->failed ? NGX_LOG_INFO : NGX_LOG_ERR;
    ssl->failed = 1;

    ngx_log_error(level, log, 0,
                  "etcd %s \"%V\": \"%s\" in %s:%ui: %V, "
                  "going on with the files as they were",
                  kind, name, error.option->directive, error.option->file,
                  error.option->line, &error.text);
}


void
ngx_etcd_ssl_cleanup(void *data)
{
    ngx_etcd_ssl_t *ssl = data;

    if (ssl->context != NULL) {
        ngx_etcd_ssl_release(ssl->context);
        ssl->context = NULL;
    }
}


ngx_etcd_ssl_context_t *
ngx_etcd_ssl_acquire(ngx_etcd_ssl_t *ssl)
{
    ssl->context->refs++;

    return ssl->context;
}


static void
ngx_etcd_ssl_session_free(ngx_etcd_ssl_session_t *session)
{
    ngx_ssl_free_session(session->session);

    ngx_free(session);
}


void
ngx_etcd_ssl_release(ngx_etcd_ssl_context_t *context)
{
    ngx_queue_t             *q;
    ngx_etcd_ssl_session_t  *session;

    if (--context->refs != 0) {
        return;
    }

    while (!ngx_queue_empty(&context->sessions)) {
        q = ngx_queue_head(&context->sessions);
        ngx_queue_remove(q);

        session = ngx_queue_data(q, ngx_etcd_ssl_session_t, queue);
        ngx_etcd_ssl_session_free(session);
    }

    ngx_ssl_cleanup_ctx(&context->ssl);

    ngx_destroy_pool(context->pool);
}


static ngx_etcd_ssl_session_t *
ngx_etcd_ssl_session_find(ngx_etcd_ssl_context_t *context, ngx_addr_t *addr,
    ngx_str_t *name)
{
    ngx_queue_t             *q;
    ngx_etcd_ssl_session_t  *session;

    for (q = ngx_queue_head(&context->sessions);
         q != ngx_queue_sentinel(&context->sessions);
         q = ngx_queue_next(q))
    {
        session = ngx_queue_data(q, ngx_etcd_ssl_session_t, queue);

        if (ngx_etcd_str_equal(&session->name, name)
            && ngx_cmp_sockaddr(&session->sockaddr.sockaddr, session->socklen,
                                addr->sockaddr, addr->socklen, 1)
               == NGX_OK)
        {
            return session;
        }
    }

    return NULL;
}


ngx_ssl_session_t *
ngx_etcd_ssl_session_get(ngx_etcd_ssl_context_t *context, ngx_addr_t *addr,
    ngx_str_t *name)
{
    X509                    *peer;
    ngx_etcd_ssl_session_t  *session;

    session = ngx_etcd_ssl_session_find(context, addr, name);

    if (session == NULL || session->session == NULL) {
        return NULL;
    }

    /*
     * A resumed session is not verified again: do not resume a session with
     * an expired certificate.
     */

    peer = SSL_SESSION_get0_peer(session->session);

    if (peer == NULL
        || X509_cmp_current_time(X509_get0_notAfter(peer)) <= 0)
    {
        return NULL;
    }

    return session->session;
}


static ngx_etcd_ssl_session_t *
ngx_etcd_ssl_session_create(ngx_etcd_ssl_context_t *context, ngx_addr_t *addr,
    ngx_str_t *name)
{
    ngx_queue_t             *q;
    ngx_etcd_ssl_session_t  *session;

    if (addr->socklen > (socklen_t) sizeof(ngx_sockaddr_t)) {
        return NULL;
    }

    if (context->nsessions == NGX_ETCD_SSL_SESSIONS) {
        q = ngx_queue_last(&context->sessions);
        ngx_queue_remove(q);
        context->nsessions--;

        session = ngx_queue_data(q, ngx_etcd_ssl_session_t, queue);
        ngx_etcd_ssl_session_free(session);
    }

    session = ngx_calloc(sizeof(ngx_etcd_ssl_session_t) + name->len,
                         ngx_cycle->log);
    if (session == NULL) {
        return NULL;
    }

    ngx_memcpy(&session->sockaddr, addr->sockaddr, addr->socklen);
    session->socklen = addr->socklen;

    session->name.len = name->len;
    session->name.data = (u_char *) session + sizeof(ngx_etcd_ssl_session_t);
    ngx_memcpy(session->name.data, name->data, name->len);

    ngx_queue_insert_head(&context->sessions, &session->queue);
    context->nsessions++;

    return session;
}


void
ngx_etcd_ssl_session_put(ngx_etcd_ssl_context_t *context, ngx_addr_t *addr,
    ngx_str_t *name, ngx_ssl_session_t *session)
{
    ngx_etcd_ssl_session_t  *kept;

    kept = ngx_etcd_ssl_session_find(context, addr, name);

    if (kept == NULL) {
        kept = ngx_etcd_ssl_session_create(context, addr, name);
    }

    if (kept == NULL) {
        ngx_ssl_free_session(session);
        return;
    }

    ngx_ssl_free_session(kept->session);

    kept->session = session;

    ngx_queue_remove(&kept->queue);
    ngx_queue_insert_head(&context->sessions, &kept->queue);
}
