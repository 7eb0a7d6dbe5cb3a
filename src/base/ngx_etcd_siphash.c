
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_siphash.h>

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/provider.h>
#include <openssl/rand.h>


#define NGX_ETCD_SIPHASH_KEY   16
#define NGX_ETCD_SIPHASH_SIZE  8


typedef struct {
    EVP_MAC_CTX  *mac;
    u_char        key[NGX_ETCD_SIPHASH_KEY];
} ngx_etcd_siphash_t;


/* one per process, never freed */

static ngx_etcd_siphash_t  ngx_etcd_siphash_state;


/*
 * The library context is private: where the default context is restricted to
 * FIPS providers, it has no SipHash.  No secret depends on this hash.
 */

static EVP_MAC_CTX *
ngx_etcd_siphash_create(void)
{
    size_t         size;
    EVP_MAC       *mac;
    OSSL_PARAM     params[4];
    EVP_MAC_CTX   *ctx;
    unsigned int   compress, finalize;
    OSSL_LIB_CTX  *lib;

    size = NGX_ETCD_SIPHASH_SIZE;
    compress = 1;
    finalize = 3;

    params[0] = OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &size);
    params[1] = OSSL_PARAM_construct_uint(OSSL_MAC_PARAM_C_ROUNDS, &compress);
    params[2] = OSSL_PARAM_construct_uint(OSSL_MAC_PARAM_D_ROUNDS, &finalize);
    params[3] = OSSL_PARAM_construct_end();

    ctx = NULL;
    mac = NULL;

    lib = OSSL_LIB_CTX_new();
    if (lib == NULL) {
        return NULL;
    }

    if (OSSL_PROVIDER_load(lib, "default") != NULL) {
        mac = EVP_MAC_fetch(lib, "SIPHASH", NULL);
    }

    if (mac != NULL) {
        ctx = EVP_MAC_CTX_new(mac);
        EVP_MAC_free(mac);
    }

    if (ctx != NULL && EVP_MAC_CTX_set_params(ctx, params) == 1) {
        return ctx;
    }

    EVP_MAC_CTX_free(ctx);
    OSSL_LIB_CTX_free(lib);

    return NULL;
}


ngx_int_t
ngx_etcd_siphash_init(ngx_log_t *log)
{
    ngx_etcd_siphash_t  *state;

    state = &ngx_etcd_siphash_state;

    if (state->mac != NULL) {
        return NGX_OK;
    }

    if (RAND_bytes(state->key, NGX_ETCD_SIPHASH_KEY) == 1) {
        state->mac = ngx_etcd_siphash_create();
    }

    if (state->mac == NULL) {
        ngx_ssl_error(NGX_LOG_ERR, log, 0, "SipHash cannot be initialized");
        return NGX_ERROR;
    }

    return NGX_OK;
}


uint32_t
ngx_etcd_siphash(ngx_str_t *str)
{
    return (uint32_t) ngx_etcd_siphash_long(str);
}


uint64_t
ngx_etcd_siphash_long(ngx_str_t *str)
{
    size_t               len;
    u_char               out[NGX_ETCD_SIPHASH_SIZE];
    uint64_t             hash;
    ngx_uint_t           i;
    ngx_etcd_siphash_t  *state;

    state = &ngx_etcd_siphash_state;

    /*
     * With an existing context, none of these calls allocates memory or can
     * fail.  A hash of zero would be a valid hash as well.
     */

    ngx_memzero(out, NGX_ETCD_SIPHASH_SIZE);

    (void) EVP_MAC_init(state->mac, state->key, NGX_ETCD_SIPHASH_KEY, NULL);
    (void) EVP_MAC_update(state->mac, str->data, str->len);
    (void) EVP_MAC_final(state->mac, out, &len, NGX_ETCD_SIPHASH_SIZE);

    /* SipHash's result is little-endian */

    hash = 0;

    for (i = NGX_ETCD_SIPHASH_SIZE; i > 0; i--) {
        hash = hash << 8 | out[i - 1];
    }

    return hash;
}
