
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_ssl.h>
#include <ngx_etcd_str.h>


/* Sets the error; returns NGX_ERROR. */

static ngx_int_t
ngx_etcd_ssl_error(ngx_etcd_ssl_error_t *error, ngx_etcd_ssl_option_t *option,
    const char *fmt, ...)
{
    u_char  *p;
    va_list  args;

    va_start(args, fmt);
    p = ngx_vslprintf(error->buf, error->buf + NGX_ETCD_SSL_ERROR_LEN, fmt,
                      args);
    va_end(args);

    error->option = option;
    error->text.data = error->buf;
    error->text.len = p - error->buf;

    return NGX_ERROR;
}


u_char *
ngx_etcd_ssl_error_reason(u_char *buf, u_char *last, u_long error)
{
    const char  *text;

    /* OpenSSL 3 has no strings for system errors */

    if (ERR_GET_LIB(error) == ERR_LIB_SYS) {
        return ngx_strerror(ERR_GET_REASON(error), buf, last - buf);
    }

    text = ERR_reason_error_string(error);

    if (text == NULL) {
        return ngx_slprintf(buf, last, "OpenSSL error %08xl", error);
    }

    return ngx_slprintf(buf, last, "%s", text);
}


#define NGX_ETCD_SSL_FILE_PASSWORD  1024     /* maximum length */


typedef struct {
    ngx_uint_t   asked;                 /* the key is encrypted */
    size_t       len;
    char         text[NGX_ETCD_SSL_FILE_PASSWORD];
} ngx_etcd_ssl_password_t;


static int
ngx_etcd_ssl_file_password(char *buf, int size, int rwflag, void *data)
{
    ngx_etcd_ssl_password_t *password = data;

    if (password == NULL || rwflag || size < 0) {
        return 0;
    }

    password->asked = 1;

    if (password->len > (size_t) size) {
        return 0;
    }

    ngx_memcpy(buf, password->text, password->len);

    return (int) password->len;
}


static ngx_int_t
ngx_etcd_ssl_file_fail(ngx_etcd_ssl_error_t *error, ngx_etcd_ssl_option_t *file,
    char *what)
{
    u_char  *p;
    u_char   reason[NGX_ETCD_SSL_ERROR_LEN / 4];

    p = ngx_etcd_ssl_error_reason(reason, reason + sizeof(reason),
                                  ERR_peek_error());

    return ngx_etcd_ssl_error(error, file, "cannot load %s \"%V\": %*s",
                              what, &file->value, (size_t) (p - reason),
                              reason);
}


/* Tries the passwords line by line; NGX_DECLINED: none matches. */

static ngx_int_t
ngx_etcd_ssl_file_key_passwords(ngx_etcd_ssl_option_t *files, SSL_CTX *ctx,
    ngx_etcd_ssl_password_t *password, ngx_etcd_ssl_error_t *error)
{
    int                     n;
    BIO                    *bio;
    FILE                   *fp;
    char                   *key;
    ngx_int_t               rc;
    ngx_etcd_ssl_option_t  *file;

    file = &files[NGX_ETCD_SSL_PASSWORDS];
    key = (char *) files[NGX_ETCD_SSL_KEY].value.data;

    bio = BIO_new_file((char *) file->value.data, "r");
    if (bio == NULL) {
        return ngx_etcd_ssl_file_fail(error, file, "passwords");
    }

    /* stdio must not buffer the passwords */

    if (BIO_get_fp(bio, &fp) == 1) {
        (void) setvbuf(fp, NULL, _IONBF, 0);
    }

    rc = NGX_DECLINED;

    while (rc == NGX_DECLINED) {
        n = BIO_gets(bio, password->text, NGX_ETCD_SSL_FILE_PASSWORD);

        if (n <= 0) {
            break;
        }

        while (n > 0 && (password->text[n - 1] == LF
                         || password->text[n - 1] == CR))
        {
            n--;
        }

        if (n == 0) {
            continue;
        }

        password->len = n;

        ERR_clear_error();

        if (SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) == 1) {
            rc = NGX_OK;
        }
    }

    BIO_free(bio);

    /* the caller reads the key once more and reports that attempt's error */

    ERR_clear_error();

    return rc;
}


static ngx_int_t
ngx_etcd_ssl_file_key(ngx_etcd_ssl_option_t *files, SSL_CTX *ctx,
    ngx_etcd_ssl_password_t *password, ngx_etcd_ssl_error_t *error)
{
    ngx_int_t               rc;
    ngx_etcd_ssl_option_t  *file;

    if (files[NGX_ETCD_SSL_PASSWORDS].value.len != 0) {
        rc = ngx_etcd_ssl_file_key_passwords(files, ctx, password, error);

        if (rc != NGX_DECLINED) {
            return rc;
        }
    }

    file = &files[NGX_ETCD_SSL_KEY];
    password->len = 0;

    if (SSL_CTX_use_PrivateKey_file(ctx, (char *) file->value.data,
                                    SSL_FILETYPE_PEM)
        == 1)
    {
        return NGX_OK;
    }

    if (!password->asked) {
        return ngx_etcd_ssl_file_fail(error, file, "certificate key");
    }

    if (files[NGX_ETCD_SSL_PASSWORDS].value.len == 0) {
        return ngx_etcd_ssl_error(error, file,
                                  "cannot load certificate key \"%V\": it is "
                                  "encrypted and there is no "
                                  "\"ssl_password_file\"", &file->value);
    }

    return ngx_etcd_ssl_error(error, file,
                              "cannot load certificate key \"%V\": no password "
                              "in \"%V\" decrypts it", &file->value,
                              &files[NGX_ETCD_SSL_PASSWORDS].value);
}


static ngx_int_t
ngx_etcd_ssl_file_trusted(ngx_etcd_ssl_option_t *files, SSL_CTX *ctx,
    ngx_etcd_ssl_error_t *error)
{
    X509_STORE             *store;
    X509_LOOKUP            *lookup;
    ngx_etcd_ssl_option_t  *file;

    file = &files[NGX_ETCD_SSL_TRUSTED];

    if (file->value.len != 0
        && SSL_CTX_load_verify_locations(ctx, (char *) file->value.data, NULL)
           != 1)
    {
        return ngx_etcd_ssl_file_fail(error, file, "trusted certificates");
    }

    file = &files[NGX_ETCD_SSL_CRL];

    if (file->value.len == 0) {
        return NGX_OK;
    }

    ERR_clear_error();

    store = SSL_CTX_get_cert_store(ctx);
    lookup = X509_STORE_add_lookup(store, X509_LOOKUP_file());

    if (lookup == NULL
        || X509_load_crl_file(lookup, (char *) file->value.data,
                              X509_FILETYPE_PEM)
           <= 0)
    {
        return ngx_etcd_ssl_file_fail(error, file, "revocation list");
    }

    X509_STORE_set_flags(store,
                         X509_V_FLAG_CRL_CHECK|X509_V_FLAG_CRL_CHECK_ALL);

    return NGX_OK;
}


/*
 * Loads "files", an array of NGX_ETCD_SSL_FILES, into the SSL_CTX.  On
 * NGX_ERROR the error is set.
 */

static ngx_int_t
ngx_etcd_ssl_file_load(ngx_etcd_ssl_option_t *files, SSL_CTX *ctx,
    ngx_etcd_ssl_error_t *error)
{
    ngx_int_t                rc;
    ngx_etcd_ssl_option_t   *file;
    ngx_etcd_ssl_password_t  password;

    ERR_clear_error();

    ngx_memzero(&password, sizeof(ngx_etcd_ssl_password_t));

    /* without a callback OpenSSL prompts on the terminal */

    SSL_CTX_set_default_passwd_cb(ctx, ngx_etcd_ssl_file_password);
    SSL_CTX_set_default_passwd_cb_userdata(ctx, &password);

    rc = NGX_OK;
    file = &files[NGX_ETCD_SSL_CERTIFICATE];

    if (file->value.len != 0
        && SSL_CTX_use_certificate_chain_file(ctx, (char *) file->value.data)
           != 1)
    {
        rc = ngx_etcd_ssl_file_fail(error, file, "certificate");
    }

    if (rc == NGX_OK && files[NGX_ETCD_SSL_KEY].value.len != 0) {
        rc = ngx_etcd_ssl_file_key(files, ctx, &password, error);
    }

    SSL_CTX_set_default_passwd_cb_userdata(ctx, NULL);

    ngx_explicit_memzero(&password, sizeof(ngx_etcd_ssl_password_t));

    if (rc == NGX_OK) {
        rc = ngx_etcd_ssl_file_trusted(files, ctx, error);
    }

    ERR_clear_error();

    return rc;
}


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
        (void) ngx_etcd_cause_forget(&ssl->causes);

        ngx_log_error(NGX_LOG_NOTICE, log, 0,
                      "etcd %s \"%V\": the certificate files changed "
                      "and were read again", kind, name);
        return;
    }

    level = ngx_etcd_cause_level(&ssl->causes, 0, &error.text);

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
