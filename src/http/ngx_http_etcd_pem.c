
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_etcd_pem.h>
#include <ngx_etcd_secret.h>
#include <ngx_etcd_str.h>
#include <ngx_http_etcd_pem.h>
#include <ngx_http_etcd_session.h>

#include <malloc.h>


/*
 * Lines that OpenSSL skips precede a private key.  They are longer than a line
 * of the log: nginx logs what it cannot load, and with level "debug" all.
 */

#define NGX_HTTP_ETCD_PEM_LINE   128
#define NGX_HTTP_ETCD_PEM_LINES  (NGX_MAX_ERROR_STR / NGX_HTTP_ETCD_PEM_LINE  \
                                  + 1)
#define NGX_HTTP_ETCD_PEM_HEAD   (NGX_HTTP_ETCD_PEM_LINES                     \
                                  * NGX_HTTP_ETCD_PEM_LINE)

/* tries to read all variables while the map changes */
#define NGX_HTTP_ETCD_PEM_TRIES  8


/* The texts that a request has read. */

typedef struct {
    ngx_connection_t          *connection;
    ngx_pool_t                *pool;
    ngx_array_t                values;        /* ngx_http_etcd_pem_value_t */
} ngx_http_etcd_pem_ctx_t;


/* In the callback nginx makes a request of its own, which has no line. */

static ngx_uint_t
ngx_http_etcd_pem_handshake(ngx_http_request_t *r)
{
#if (NGX_HTTP_SSL)

    return r->request_line.len == 0
           && r->connection->ssl != NULL
           && !r->connection->ssl->handshaked;

#else

    return 0;

#endif
}


#if (NGX_HTTP_SSL)


/* nginx's own message shows an empty text, and neither the name nor a key. */

static void
ngx_http_etcd_pem_missing(ngx_http_etcd_pem_ctx_t *ctx,
    ngx_http_etcd_pem_value_t *value, ngx_str_t *name)
{
    ngx_str_t                *literal;
    ngx_etcd_set_variable_t  *sv;

    static time_t  told;

    /* anybody who connects can cause the line */

    if (told == ngx_time()) {
        return;
    }

    told = ngx_time();

    sv = value->use->sv;
    literal = value->key.len ? &sv->map->literal : &sv->key;

    ngx_log_error(NGX_LOG_ERR, ctx->connection->log, 0,
                  "etcd: no certificate for \"%V\"%s: key \"%V%V\" has no "
                  "value", ngx_etcd_shown(name),
                  name->len ? "" : ", the client has not sent a name",
                  ngx_etcd_shown(literal), ngx_etcd_shown(&value->key));
}


#endif


/*
 * nginx has loaded the certificate and the key, or tried to.  Its own message
 * shows the lines that precede a key, and neither the reason nor the name.
 */

static void
ngx_http_etcd_pem_compare(ngx_http_etcd_pem_ctx_t *ctx)
{
#if (NGX_HTTP_SSL)

    ngx_str_t                   name;
    ngx_uint_t                  i;
    ngx_ssl_conn_t             *ssl;
    ngx_http_etcd_pem_value_t  *values, *missing;

    ssl = ctx->connection->ssl->connection;

    if (SSL_check_private_key(ssl) == 1) {
        return;
    }

    ERR_clear_error();

    name.data = (u_char *) SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    name.len = (name.data != NULL) ? ngx_strlen(name.data) : 0;

    values = ctx->values.elts;
    missing = NULL;

    for (i = 0; i < ctx->values.nelts; i++) {
        if (values[i].value.len != 0) {
            continue;
        }

        missing = &values[i];

        if (missing->asked) {
            ngx_http_etcd_pem_missing(ctx, missing, &name);
            return;
        }
    }

    if (missing == NULL) {
        ngx_log_error(NGX_LOG_ERR, ctx->connection->log, 0,
                      "etcd: the certificate and the key for \"%V\" do not fit",
                      ngx_etcd_shown(&name));
    }

#endif
}


static void
ngx_http_etcd_pem_wipe_block(u_char *p, size_t len, ngx_str_t *value)
{
    u_char  *found, *last;

    last = p + len;

    while ((found = memmem(p, last - p, value->data, value->len)) != NULL) {
        ngx_explicit_memzero(found, value->len);
        p = found + value->len;
    }
}


/*
 * Clears the copies of a private key that nginx has made in the pool of the
 * request: those of the complex value "data:$key".
 */

static void
ngx_http_etcd_pem_wipe(ngx_pool_t *pool, ngx_str_t *value)
{
    u_char            *p;
    ngx_pool_t        *block;
    ngx_pool_large_t  *large;

    for (large = pool->large; large != NULL; large = large->next) {
        if (large->alloc != NULL) {
            ngx_http_etcd_pem_wipe_block(large->alloc,
                                         malloc_usable_size(large->alloc),
                                         value);
        }
    }

    for (block = pool; block != NULL; block = block->d.next) {
        p = (u_char *) block + sizeof(ngx_pool_data_t);

        ngx_http_etcd_pem_wipe_block(p, block->d.last - p, value);
    }
}


static void
ngx_http_etcd_pem_cleanup(void *data)
{
    ngx_http_etcd_pem_ctx_t *ctx = data;

    ngx_str_t                   value;
    ngx_uint_t                  i;
    ngx_http_etcd_pem_value_t  *values;

    ngx_http_etcd_pem_compare(ctx);

    values = ctx->values.elts;

    for (i = 0; i < ctx->values.nelts; i++) {

        if (values[i].buf == NULL) {
            continue;
        }

        if (values[i].value.data == values[i].buf) {
            value.data = values[i].buf + NGX_HTTP_ETCD_PEM_HEAD;
            value.len = values[i].value.len - NGX_HTTP_ETCD_PEM_HEAD;

            ngx_http_etcd_pem_wipe(ctx->pool, &value);
        }

        ngx_etcd_secret_free(values[i].buf);
    }
}


static ngx_http_etcd_pem_ctx_t *
ngx_http_etcd_pem_ctx(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t       *cln;
    ngx_http_etcd_pem_ctx_t  *ctx;

    for (cln = r->pool->cleanup; cln != NULL; cln = cln->next) {
        if (cln->handler == ngx_http_etcd_pem_cleanup) {
            return cln->data;
        }
    }

    cln = ngx_pool_cleanup_add(r->pool, sizeof(ngx_http_etcd_pem_ctx_t));
    if (cln == NULL) {
        return NULL;
    }

    ctx = cln->data;
    ctx->connection = r->connection;
    ctx->pool = r->pool;

    if (ngx_array_init(&ctx->values, r->pool, 4,
                       sizeof(ngx_http_etcd_pem_value_t))
        != NGX_OK)
    {
        return NULL;
    }

    cln->handler = ngx_http_etcd_pem_cleanup;

    return ctx;
}


static ngx_http_etcd_pem_value_t *
ngx_http_etcd_pem_find(ngx_http_etcd_pem_ctx_t *ctx,
    ngx_etcd_set_use_t *use)
{
    ngx_uint_t                  i;
    ngx_http_etcd_pem_value_t  *values;

    values = ctx->values.elts;

    for (i = 0; i < ctx->values.nelts; i++) {
        if (values[i].use == use) {
            return &values[i];
        }
    }

    return NULL;
}


static void
ngx_http_etcd_pem_head(ngx_http_etcd_pem_value_t *value)
{
    u_char      *p;
    ngx_uint_t   i;

    if (!ngx_etcd_pem_has_key(&value->value)) {
        return;
    }

    p = value->buf;

    for (i = 0; i < NGX_HTTP_ETCD_PEM_LINES; i++) {
        ngx_memset(p, '#', NGX_HTTP_ETCD_PEM_LINE - 1);
        p[NGX_HTTP_ETCD_PEM_LINE - 1] = LF;
        p += NGX_HTTP_ETCD_PEM_LINE;
    }

    value->value.data = value->buf;
    value->value.len += NGX_HTTP_ETCD_PEM_HEAD;
}


/* NGX_AGAIN: the map has changed meanwhile. */

static ngx_int_t
ngx_http_etcd_pem_read_once(ngx_http_request_t *r,
    ngx_http_etcd_pem_ctx_t *ctx, ngx_etcd_value_map_conf_t *map)
{
    u_char                      buf[NGX_ETCD_PATTERN_PREFIX];
    uint64_t                    first;
    ngx_int_t                   rc;
    ngx_str_t                   key;
    ngx_uint_t                  i, begun;
    ngx_etcd_set_variable_t    *sv;
    ngx_etcd_value_map_read_t   read;
    ngx_http_etcd_pem_value_t  *value;

    read.part = NGX_ETCD_VALUE_MAP_TEXT;
    first = 0;
    begun = 0;

    for (i = 0; i < ctx->values.nelts; i++) {
        value = (ngx_http_etcd_pem_value_t *) ctx->values.elts + i;
        sv = value->use->sv;

        if (sv->map != map) {
            continue;
        }

        rc = ngx_etcd_set_use_key(value->use, r, buf, &key);

        if (rc == NGX_ERROR) {
            return NGX_ERROR;
        }

        value->key.len = 0;
        value->modified = 0;

        if (rc == NGX_OK) {
            read.buf = value->buf + NGX_HTTP_ETCD_PEM_HEAD;

            rc = ngx_etcd_value_map_get(map, &key, &read);

            if (rc == NGX_AGAIN || (begun && read.version != first)) {
                return NGX_AGAIN;
            }

            first = read.version;
            begun = 1;

            value->key.len = key.len;
            value->key.data = ngx_pstrdup(r->pool, &key);

            if (value->key.data == NULL) {
                return NGX_ERROR;
            }
        }

        if (rc == NGX_OK) {
            value->value = read.value;
            value->modified = read.modified;

        } else {
            value->value.data = value->buf + NGX_HTTP_ETCD_PEM_HEAD;
            value->value.len = sv->otherwise.len;

            if (sv->otherwise.len != 0) {
                ngx_memcpy(value->value.data, sv->otherwise.data,
                           sv->otherwise.len);
            }
        }

        ngx_http_etcd_pem_head(value);
    }

    return NGX_OK;
}


/* Reads all variables of the map that the server has. */

static ngx_int_t
ngx_http_etcd_pem_read(ngx_http_request_t *r, ngx_http_etcd_pem_ctx_t *ctx,
    ngx_array_t *sets, ngx_etcd_value_map_conf_t *map)
{
    size_t                        size;
    ngx_int_t                     rc;
    ngx_uint_t                    i;
    ngx_http_etcd_pem_value_t    *value;
    ngx_etcd_set_use_t  *use;

    use = sets->elts;

    for (i = 0; i < sets->nelts; i++) {
        if (use[i].sv->map != map) {
            continue;
        }

        value = ngx_array_push(&ctx->values);
        if (value == NULL) {
            return NGX_ERROR;
        }

        ngx_memzero(value, sizeof(ngx_http_etcd_pem_value_t));
        value->use = &use[i];

        size = NGX_HTTP_ETCD_PEM_HEAD + ngx_max(map->max_size,
                                                use[i].sv->otherwise.len);

        value->buf = ngx_etcd_secret_alloc(size, r->connection->log);
        if (value->buf == NULL) {
            return NGX_ERROR;
        }
    }

    for (i = 0; i < NGX_HTTP_ETCD_PEM_TRIES; i++) {
        rc = ngx_http_etcd_pem_read_once(r, ctx, map);

        if (rc == NGX_OK) {
            return ngx_http_etcd_session_bind(r, &ctx->values);
        }

        if (rc != NGX_AGAIN) {
            return rc;
        }
    }

    ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                  "etcd: variable \"%V\" cannot be read, it changes too often",
                  ngx_etcd_shown(&map->name));

    return NGX_ERROR;
}


ngx_int_t
ngx_http_etcd_pem_get(ngx_http_request_t *r, ngx_array_t *sets,
    ngx_etcd_set_use_t *use, ngx_http_variable_value_t *v)
{
    ngx_etcd_set_variable_t    *sv;
    ngx_http_etcd_pem_ctx_t    *ctx;
    ngx_http_etcd_pem_value_t  *value;

    v->not_found = 1;

    if (!ngx_http_etcd_pem_handshake(r)) {
        sv = use->sv;

        if (!sv->reported) {
            sv->reported = 1;

            ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                          "etcd: variable \"%V\" of \"etcd_set\" in %s:%ui "
                          "has no value: with \"type=pem\" it has one only in "
                          "\"ssl_certificate\" and \"ssl_certificate_key\"",
                          ngx_etcd_shown(&sv->name), sv->file, sv->line);
        }

        return NGX_OK;
    }

    ctx = ngx_http_etcd_pem_ctx(r);
    if (ctx == NULL) {
        return NGX_ERROR;
    }

    value = ngx_http_etcd_pem_find(ctx, use);

    if (value == NULL) {
        if (ngx_http_etcd_pem_read(r, ctx, sets, use->sv->map) != NGX_OK) {
            return NGX_ERROR;
        }

        value = ngx_http_etcd_pem_find(ctx, use);
    }

    if (value != NULL) {
        value->asked = 1;
    }

    if (value != NULL && value->value.len != 0) {
        ngx_etcd_variable_pem(v, &value->value);
    }

    return NGX_OK;
}
