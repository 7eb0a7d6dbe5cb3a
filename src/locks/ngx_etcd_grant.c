
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_grant.h>
#include <ngx_etcd_str.h>
#include <ngx_etcd_variable.h>

#include <openssl/evp.h>


#define NGX_ETCD_LOCK_SEGMENT_DIGEST  32


static void
ngx_etcd_grant_cleanup(void *data)
{
    ngx_etcd_grant_t *grant = data;

    ngx_etcd_lock_end(grant);
}


ngx_etcd_grant_t *
ngx_etcd_grant_add(ngx_pool_t *pool, void *owner, ngx_etcd_lock_conf_t *conf,
    ngx_str_t *key, ngx_uint_t shared)
{
    ngx_etcd_grant_t    *grant;
    ngx_pool_cleanup_t  *cln;

    cln = ngx_pool_cleanup_add(pool, sizeof(ngx_etcd_grant_t));
    if (cln == NULL) {
        return NULL;
    }

    grant = cln->data;
    ngx_memzero(grant, sizeof(ngx_etcd_grant_t));

    cln->handler = ngx_etcd_grant_cleanup;

    grant->owner = owner;
    grant->cleanup = cln;
    grant->conf = conf;
    grant->key = *key;
    grant->shared = shared;

    return grant;
}


ngx_etcd_grant_t *
ngx_etcd_grant_next(ngx_pool_t *pool, void *owner, ngx_etcd_grant_t *grant)
{
    ngx_pool_cleanup_t  *cln;

    cln = (grant != NULL) ? grant->cleanup->next : pool->cleanup;

    for ( /* void */ ; cln != NULL; cln = cln->next) {

        if (cln->handler == ngx_etcd_grant_cleanup) {
            grant = cln->data;

            if (grant->owner == owner) {
                return grant;
            }
        }
    }

    return NULL;
}


ngx_etcd_grant_t *
ngx_etcd_grant_find(ngx_pool_t *pool, void *owner, ngx_etcd_lock_conf_t *conf)
{
    ngx_etcd_grant_t  *grant;

    ngx_etcd_grant_each(grant, pool, owner) {
        if (grant->conf == conf && grant->state != NGX_ETCD_GRANT_NONE) {
            break;
        }
    }

    return grant;
}


void
ngx_etcd_grant_release(ngx_pool_t *pool, void *owner)
{
    ngx_etcd_grant_t  *grant;

    ngx_etcd_grant_each(grant, pool, owner) {
        ngx_etcd_lock_end(grant);
    }
}


void
ngx_etcd_grant_forget(ngx_pool_t *pool, void *owner)
{
    ngx_etcd_grant_t  *grant;

    ngx_etcd_grant_each(grant, pool, owner) {
        if (grant->state == NGX_ETCD_GRANT_ENDED) {
            grant->state = NGX_ETCD_GRANT_NONE;
            grant->token = 0;
        }
    }
}


/* The result of a grant; a refusal is that of the owner, too. */

static ngx_int_t
ngx_etcd_grant_outcome(ngx_etcd_grant_owner_t *owner, ngx_etcd_grant_t *grant)
{
    ngx_int_t  rc;

    owner->grant = grant;

    rc = ngx_etcd_grant_result(grant);

    if (rc != NGX_OK && rc != NGX_AGAIN) {
        ngx_etcd_refusal_set(owner->pool,
                             grant->refusal ? grant->refusal
                                            : NGX_ETCD_REFUSAL_LOCK_LOST);
    }

    return rc;
}


/* NGX_DONE: the key is empty, and no lock is taken. */

static ngx_int_t
ngx_etcd_grant_value(ngx_etcd_grant_owner_t *owner, ngx_etcd_lock_conf_t *lock,
    ngx_str_t *value)
{
    ngx_str_null(value);

    if (lock->value == NULL) {
        return NGX_OK;
    }

    if (owner->value(owner->owner, lock->value, value) != NGX_OK) {
        return NGX_ERROR;
    }

    if (value->len != 0) {
        return NGX_OK;
    }

    if (lock->pass) {
        return NGX_DONE;
    }

    ngx_log_error(NGX_LOG_ERR, owner->log, 0,
                  "etcd: key \"%V\" of lock \"%V\" is empty",
                  &lock->key, &lock->name->name);

    return NGX_ABORT;
}


static ngx_int_t
ngx_etcd_grant_check(ngx_etcd_grant_owner_t *owner, ngx_array_t *locks)
{
    ngx_int_t              rc;
    ngx_str_t              value;
    ngx_uint_t             i;
    ngx_etcd_grant_t      *grant;
    ngx_etcd_lock_conf_t  *lock;

    lock = locks->elts;

    for (i = 0; i < locks->nelts; i++) {

        grant = ngx_etcd_grant_find(owner->pool, owner->owner, &lock[i]);

        rc = (grant != NULL) ? ngx_etcd_grant_outcome(owner, grant)
                             : ngx_etcd_grant_value(owner, &lock[i], &value);

        if (rc != NGX_OK && rc != NGX_DONE && rc != NGX_AGAIN) {
            return rc;
        }
    }

    return NGX_OK;
}


/* Escapes as much of the key as fits; an escape is never split. */

static u_char *
ngx_etcd_grant_segment_escape(ngx_str_t *key, u_char *dst, size_t size,
    ngx_uint_t *whole)
{
    size_t   i;
    u_char  *last, c;

    static u_char  hex[] = "0123456789ABCDEF";

    *whole = 0;
    last = dst + size;

    for (i = 0; i < key->len; i++) {
        c = key->data[i];

        if ((c >= 'A' && c <= 'Z')
            || (c >= 'a' && c <= 'z')
            || (c >= '0' && c <= '9')
            || c == '-' || c == '_' || c == '~'
            || (c == '.' && key->len > 2))
        {
            if (last - dst < 1) {
                return dst;
            }

            *dst++ = c;
            continue;
        }

        if (last - dst < 3) {
            return dst;
        }

        *dst++ = '%';
        *dst++ = hex[c >> 4];
        *dst++ = hex[c & 0xf];
    }

    *whole = 1;

    return dst;
}


/*
 * Returns the value of KEY as a segment.  NGX_ERROR: no memory, or OpenSSL has
 * no SHA-256.
 */

static ngx_int_t
ngx_etcd_grant_key(ngx_etcd_grant_owner_t *owner, ngx_etcd_lock_conf_t *lock,
    ngx_str_t *key)
{
    u_char      *p;
    u_char       digest[EVP_MAX_MD_SIZE];
    ngx_int_t    rc;
    ngx_str_t    value;
    ngx_uint_t   whole;

    ngx_str_null(key);

    rc = ngx_etcd_grant_value(owner, lock, &value);

    if (rc != NGX_OK || value.len == 0) {
        return rc;
    }

    key->data = ngx_pnalloc(owner->pool, NGX_ETCD_LOCK_SEGMENT_MAX);
    if (key->data == NULL) {
        return NGX_ERROR;
    }

    p = ngx_etcd_grant_segment_escape(&value, key->data,
                                      NGX_ETCD_LOCK_SEGMENT_PLAIN, &whole);

    if (!whole) {
        if (EVP_Digest(value.data, value.len, digest, NULL, EVP_sha256(), NULL)
            != 1)
        {
            ngx_ssl_error(NGX_LOG_ERR, owner->pool->log, 0,
                          "EVP_Digest() failed");
            return NGX_ERROR;
        }

        p = ngx_etcd_grant_segment_escape(&value, key->data,
                                          NGX_ETCD_LOCK_SEGMENT_BEGIN, &whole);
        *p++ = '~';
        p = ngx_hex_dump(p, digest, NGX_ETCD_LOCK_SEGMENT_DIGEST);
    }

    key->len = p - key->data;

    return NGX_OK;
}


/*
 * The grant of a directive keeps its key, which a redirect may have changed.
 * But a redirect may also want alone what the owner shares.
 */

static ngx_int_t
ngx_etcd_grant_one(ngx_etcd_grant_owner_t *owner, ngx_etcd_lock_conf_t *lock)
{
    ngx_int_t          rc;
    ngx_str_t          key, value;
    ngx_uint_t         shared;
    ngx_etcd_grant_t  *grant;

    grant = ngx_etcd_grant_find(owner->pool, owner->owner, lock);

    if (grant != NULL && grant->changes == owner->changes) {
        return ngx_etcd_grant_outcome(owner, grant);
    }

    if (grant != NULL) {
        key = grant->key;

    } else {
        rc = ngx_etcd_grant_key(owner, lock, &key);

        if (rc != NGX_OK) {
            return (rc == NGX_DONE) ? NGX_OK : rc;
        }
    }

    shared = 0;

    if (lock->shared != NULL) {
        if (owner->value(owner->owner, lock->shared, &value) != NGX_OK) {
            return NGX_ERROR;
        }

        shared = (value.len != 0 && !ngx_etcd_str_is(&value, "0"));
    }

    grant = owner->take(owner->owner, lock, &key, shared);
    if (grant == NULL) {
        return NGX_ERROR;
    }

    if (grant->owner == owner->owner) {
        grant->changes = owner->changes;
    }

    return ngx_etcd_grant_outcome(owner, grant);
}


ngx_int_t
ngx_etcd_grant_take(ngx_etcd_grant_owner_t *owner, ngx_array_t *locks)
{
    ngx_int_t              rc;
    ngx_uint_t             i;
    ngx_etcd_lock_conf_t  *lock;

    rc = (locks->nelts > 1) ? ngx_etcd_grant_check(owner, locks)
                            : NGX_OK;

    lock = locks->elts;

    for (i = 0; i < locks->nelts && rc == NGX_OK; i++) {
        rc = ngx_etcd_grant_one(owner, &lock[i]);
    }

    return rc;
}


ngx_int_t
ngx_etcd_grant_result(ngx_etcd_grant_t *grant)
{
    switch (grant->state) {

    case NGX_ETCD_GRANT_WAITING:
        return NGX_AGAIN;

    case NGX_ETCD_GRANT_HELD:
        return ngx_etcd_lock_held(grant) ? NGX_OK : NGX_DECLINED;

    case NGX_ETCD_GRANT_TIMEOUT:
        return NGX_BUSY;

    case NGX_ETCD_GRANT_LOST:
        return (grant->on_lost == NGX_ETCD_LOCK_CONTINUE) ? NGX_OK
                                                          : NGX_DECLINED;

    default:
        return NGX_DECLINED;
    }
}


ngx_uint_t
ngx_etcd_grant_report(ngx_etcd_grant_t *grant, ngx_pool_t *pool,
    ngx_log_t *log)
{
    ngx_uint_t  ends;

    ends = (grant->on_lost == NGX_ETCD_LOCK_CLOSE);

    ngx_log_error(NGX_LOG_WARN, log, 0, "etcd: lock \"%V%s%V\" is lost%s",
                  &grant->conf->name->name, grant->key.len ? "/" : "",
                  &grant->key, ends ? ", aborting" : "");

    if (ends) {
        ngx_etcd_refusal_set(pool, NGX_ETCD_REFUSAL_LOCK_LOST);
    }

    return ends;
}


ngx_etcd_grant_t *
ngx_etcd_grant_lost(ngx_pool_t *pool, void *owner, ngx_log_t *log)
{
    ngx_etcd_grant_t  *grant;

    ngx_etcd_grant_each(grant, pool, owner) {
        if (ngx_etcd_lock_found_lost(grant)
            && ngx_etcd_grant_report(grant, pool, log))
        {
            break;
        }
    }

    return grant;
}


ngx_msec_t
ngx_etcd_grant_left(ngx_pool_t *pool, void *owner)
{
    ngx_msec_t         left;
    ngx_etcd_grant_t  *grant;

    left = NGX_MAX_INT_T_VALUE;

    ngx_etcd_grant_each(grant, pool, owner) {

        if (grant->state == NGX_ETCD_GRANT_LOST) {
            return 0;
        }

        /* others belong to an answer in place of which the owner has this */

        if (grant->state == NGX_ETCD_GRANT_HELD) {
            left = ngx_min(left, ngx_etcd_lock_client_left(
                                     grant->lock->locks->client));
        }
    }

    return (left == NGX_MAX_INT_T_VALUE) ? 0 : left;
}


/* Several tokens are listed in the order of locking. */

static ngx_int_t
ngx_etcd_lock_variable_token(ngx_str_t *name, ngx_pool_t *pool, void *owner,
    ngx_variable_value_t *v)
{
    u_char            *p, *begin, *end;
    u_char             number[NGX_INT64_LEN + sizeof(", ")];
    size_t             size;
    ngx_etcd_grant_t  *grant;

    size = 0;

    ngx_etcd_grant_each(grant, pool, owner) {
        if (grant->token != 0) {
            size += sizeof(number);
        }
    }

    if (size == 0) {
        v->not_found = 1;
        return NGX_OK;
    }

    p = ngx_pnalloc(pool, size);
    if (p == NULL) {
        return NGX_ERROR;
    }

    /* the newest comes first: fill the buffer from its end */

    end = p + size;
    begin = end;

    ngx_etcd_grant_each(grant, pool, owner) {
        if (grant->token == 0) {
            continue;
        }

        p = ngx_sprintf(number, "%uL%s", grant->token,
                        (begin != end) ? ", " : "");

        begin -= p - number;
        ngx_memcpy(begin, number, p - number);
    }

    ngx_etcd_variable_value(name, v, begin, end - begin);

    return NGX_OK;
}


/*
 * Returns the worst status of several locks.  A refusal ends with the error
 * page that has locks of its own, which are newer.
 */

static ngx_int_t
ngx_etcd_lock_variable_result(ngx_str_t *name, ngx_pool_t *pool, void *owner,
    ngx_variable_value_t *v)
{
    ngx_uint_t         n, state;
    ngx_etcd_grant_t  *grant;

    /* by state */

    static ngx_str_t  names[] = {
        ngx_null_string,
        ngx_null_string,
        ngx_string("acquired"),
        ngx_string("timeout"),
        ngx_string("unavailable"),
        ngx_string("lost")
    };

    n = 0;

    ngx_etcd_grant_each(grant, pool, owner) {
        state = (grant->state == NGX_ETCD_GRANT_ENDED) ? NGX_ETCD_GRANT_HELD
                                                       : grant->state;

        if (n == NGX_ETCD_GRANT_NONE
            || (state != NGX_ETCD_GRANT_TIMEOUT
                && state != NGX_ETCD_GRANT_UNAVAILABLE))
        {
            n = ngx_max(n, state);
        }
    }

    ngx_etcd_variable_value(name, v, names[n].data, names[n].len);

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_lock_variable_wait(ngx_str_t *name, ngx_pool_t *pool, void *owner,
    ngx_variable_value_t *v)
{
    u_char            *p, *last;
    ngx_msec_t         waited;
    ngx_etcd_grant_t  *grant;

    if (ngx_etcd_grant_next(pool, owner, NULL) == NULL) {
        v->not_found = 1;
        return NGX_OK;
    }

    waited = 0;

    ngx_etcd_grant_each(grant, pool, owner) {
        waited += grant->waited;
    }

    p = ngx_pnalloc(pool, NGX_INT64_LEN + sizeof(".000"));
    if (p == NULL) {
        return NGX_ERROR;
    }

    last = ngx_sprintf(p, "%M.%03M", waited / 1000, waited % 1000);

    ngx_etcd_variable_value(name, v, p, last - p);

    return NGX_OK;
}


ngx_etcd_lock_variable_t  ngx_etcd_lock_variables[] = {

    { ngx_string("etcd_lock_token"), ngx_etcd_lock_variable_token },
    { ngx_string("etcd_lock_result"), ngx_etcd_lock_variable_result },

    /* the former name of the result, which a directive has, too */
    { ngx_string("etcd_lock_status"), ngx_etcd_lock_variable_result },

    { ngx_string("etcd_lock_wait"), ngx_etcd_lock_variable_wait },
    { ngx_null_string, NULL }
};
