
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/provider.h>
#include <openssl/rand.h>
#include <ngx_etcd_hash_table.h>
#include <ngx_etcd_str.h>


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


uint64_t
ngx_etcd_siphash(ngx_str_t *str)
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


#define ngx_etcd_hash_table_at(table, n)    ((n) & ((table)->nplaces - 1))


void
ngx_etcd_hash_table_init(ngx_etcd_hash_table_t *table, ngx_log_t *log)
{
    ngx_memzero(table, sizeof(ngx_etcd_hash_table_t));

    table->log = log;
}


void
ngx_etcd_hash_table_done(ngx_etcd_hash_table_t *table)
{
    ngx_free(table->objects);

    ngx_etcd_hash_table_init(table, table->log);
}


/* 0 is the hash of a free place. */

static ngx_inline uint32_t
ngx_etcd_hash_table_hash(ngx_str_t *str)
{
    uint32_t  hash;

    hash = (uint32_t) ngx_etcd_siphash(str);

    return hash ? hash : 1;
}


void *
ngx_etcd_hash_table_find(ngx_etcd_hash_table_t *table, ngx_str_t *str)
{
    uint32_t     hash;
    ngx_str_t   *object;
    ngx_uint_t   i;

    if (table->nplaces == 0) {
        return NULL;
    }

    hash = ngx_etcd_hash_table_hash(str);

    for (i = ngx_etcd_hash_table_at(table, hash);
         table->hashes[i] != 0;
         i = ngx_etcd_hash_table_at(table, i + 1))
    {
        if (table->hashes[i] != hash) {
            continue;
        }

        object = table->objects[i];

        if (ngx_etcd_str_equal(object, str)) {
            return object;
        }
    }

    return NULL;
}


static void
ngx_etcd_hash_table_put(ngx_etcd_hash_table_t *table, ngx_str_t *str,
    uint32_t hash)
{
    ngx_uint_t  i;

    i = ngx_etcd_hash_table_at(table, hash);

    while (table->hashes[i] != 0) {
        i = ngx_etcd_hash_table_at(table, i + 1);
    }

    table->objects[i] = str;
    table->hashes[i] = hash;
}


static ngx_int_t
ngx_etcd_hash_table_grow(ngx_etcd_hash_table_t *table)
{
    ngx_uint_t              i, n;
    ngx_etcd_hash_table_t   old;

    if (ngx_etcd_siphash_init(table->log) != NGX_OK) {
        return NGX_ERROR;
    }

    old = *table;
    n = ngx_max(old.nplaces * 2, 4);

    table->objects = ngx_calloc(n * (sizeof(ngx_str_t *) + sizeof(uint32_t)),
                                table->log);
    if (table->objects == NULL) {
        *table = old;
        return NGX_ERROR;
    }

    table->hashes = (uint32_t *) &table->objects[n];
    table->nplaces = n;

    for (i = 0; i < old.nplaces; i++) {
        if (old.hashes[i] != 0) {
            ngx_etcd_hash_table_put(table, old.objects[i], old.hashes[i]);
        }
    }

    ngx_free(old.objects);

    return NGX_OK;
}


ngx_int_t
ngx_etcd_hash_table_insert(ngx_etcd_hash_table_t *table, ngx_str_t *str)
{
    if (table->n >= table->nplaces / 4 * 3
        && ngx_etcd_hash_table_grow(table) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_etcd_hash_table_put(table, str, ngx_etcd_hash_table_hash(str));
    table->n++;

    return NGX_OK;
}


void *
ngx_etcd_hash_table_add(ngx_etcd_hash_table_t *table, ngx_str_t *str,
    size_t size)
{
    ngx_str_t  *object;

    object = ngx_calloc(size + str->len, table->log);
    if (object == NULL) {
        return NULL;
    }

    object->len = str->len;
    object->data = (u_char *) object + size;
    ngx_memcpy(object->data, str->data, str->len);

    if (ngx_etcd_hash_table_insert(table, object) != NGX_OK) {
        ngx_free(object);
        return NULL;
    }

    return object;
}


ngx_int_t
ngx_etcd_hash_table_reserve(ngx_etcd_hash_table_t *table, ngx_uint_t n)
{
    while (table->n + n > table->nplaces / 4 * 3) {
        if (ngx_etcd_hash_table_grow(table) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


void
ngx_etcd_hash_table_remove(ngx_etcd_hash_table_t *table, ngx_str_t *str)
{
    ngx_uint_t  i, j, home;

    i = ngx_etcd_hash_table_at(table, ngx_etcd_hash_table_hash(str));

    while (table->objects[i] != str) {
        i = ngx_etcd_hash_table_at(table, i + 1);
    }

    /*
     * backward shift deletion: moves an object into the gap if its hash allows,
     * then fills the gap that this leaves
     */

    for (j = ngx_etcd_hash_table_at(table, i + 1);
         table->hashes[j] != 0;
         j = ngx_etcd_hash_table_at(table, j + 1))
    {
        home = table->hashes[j];

        if (ngx_etcd_hash_table_at(table, j - home)
            >= ngx_etcd_hash_table_at(table, j - i))
        {
            table->objects[i] = table->objects[j];
            table->hashes[i] = table->hashes[j];
            i = j;
        }
    }

    table->objects[i] = NULL;
    table->hashes[i] = 0;
    table->n--;
}
