
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_ssl_file.h>


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


static ngx_int_t
ngx_etcd_ssl_file_certificate(ngx_etcd_ssl_option_t *files, SSL_CTX *ctx,
    ngx_etcd_ssl_error_t *error)
{
    ngx_etcd_ssl_option_t  *file;

    file = &files[NGX_ETCD_SSL_CERTIFICATE];

    if (file->value.len != 0
        && SSL_CTX_use_certificate_chain_file(ctx, (char *) file->value.data)
           != 1)
    {
        return ngx_etcd_ssl_file_fail(error, file, "certificate");
    }

    return NGX_OK;
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


ngx_int_t
ngx_etcd_ssl_file_load(ngx_etcd_ssl_option_t *files, SSL_CTX *ctx,
    ngx_etcd_ssl_error_t *error)
{
    ngx_int_t                rc;
    ngx_etcd_ssl_password_t  password;

    ERR_clear_error();

    ngx_memzero(&password, sizeof(ngx_etcd_ssl_password_t));

    /* without a callback OpenSSL prompts on the terminal */

    SSL_CTX_set_default_passwd_cb(ctx, ngx_etcd_ssl_file_password);
    SSL_CTX_set_default_passwd_cb_userdata(ctx, &password);

    rc = ngx_etcd_ssl_file_certificate(files, ctx, error);

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
