
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_pem.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>


#define NGX_ETCD_PEM_KEY      "PRIVATE KEY-----"

#define NGX_ETCD_PEM_NOTHING                                                  \
    "it has neither a certificate nor a private key in PEM"


static ngx_int_t ngx_etcd_pem_certificates(ngx_str_t *value, ngx_uint_t *n);
static ngx_int_t ngx_etcd_pem_key(ngx_str_t *value);
static int ngx_etcd_pem_password(char *buf, int size, int rwflag, void *data);


char *
ngx_etcd_pem_check(ngx_str_t *value)
{
    ngx_int_t   rc;
    ngx_uint_t  n, key;

    if (value->len == 0) {
        return NGX_ETCD_PEM_NOTHING;
    }

    key = ngx_etcd_pem_has_key(value);

    if (key && ngx_etcd_pem_key(value) != NGX_OK) {
        ERR_clear_error();
        return "its private key is broken or encrypted";
    }

    rc = ngx_etcd_pem_certificates(value, &n);

    ERR_clear_error();

    if (rc != NGX_OK) {
        return "a certificate in it is broken";
    }

    return (n != 0 || key) ? NULL : NGX_ETCD_PEM_NOTHING;
}


ngx_uint_t
ngx_etcd_pem_has_key(ngx_str_t *value)
{
    /* the data of an empty value may be NULL */

    return value->len >= sizeof(NGX_ETCD_PEM_KEY) - 1
           && ngx_strlcasestrn(value->data, value->data + value->len,
                               (u_char *) NGX_ETCD_PEM_KEY,
                               sizeof(NGX_ETCD_PEM_KEY) - 2)
              != NULL;
}


/* Reads all certificates; other blocks are skipped. */

static ngx_int_t
ngx_etcd_pem_certificates(ngx_str_t *value, ngx_uint_t *n)
{
    BIO            *bio;
    X509           *x509;
    unsigned long   error;

    *n = 0;

    bio = BIO_new_mem_buf(value->data, (int) value->len);
    if (bio == NULL) {
        return NGX_ERROR;
    }

    for ( ;; ) {
        ERR_clear_error();

        x509 = PEM_read_bio_X509(bio, NULL, ngx_etcd_pem_password, NULL);
        if (x509 == NULL) {
            break;
        }

        (*n)++;
        X509_free(x509);
    }

    BIO_free(bio);

    error = ERR_peek_last_error();

    return (ERR_GET_LIB(error) == ERR_LIB_PEM
            && ERR_GET_REASON(error) == PEM_R_NO_START_LINE)
           ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
ngx_etcd_pem_key(ngx_str_t *value)
{
    BIO       *bio;
    EVP_PKEY  *key;

    bio = BIO_new_mem_buf(value->data, (int) value->len);
    if (bio == NULL) {
        return NGX_ERROR;
    }

    key = PEM_read_bio_PrivateKey(bio, NULL, ngx_etcd_pem_password, NULL);

    BIO_free(bio);

    if (key == NULL) {
        return NGX_ERROR;
    }

    EVP_PKEY_free(key);

    return NGX_OK;
}


/* OpenSSL would ask on the terminal. */

static int
ngx_etcd_pem_password(char *buf, int size, int rwflag, void *data)
{
    return 0;
}
