
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_request_lock.h>
#include <ngx_etcd_str.h>
#include <ngx_etcd_variable.h>


static ngx_int_t ngx_etcd_lock_variable_token(ngx_str_t *name, ngx_pool_t *pool,
    void *owner, ngx_variable_value_t *v);
static ngx_int_t ngx_etcd_lock_variable_status(ngx_str_t *name,
    ngx_pool_t *pool, void *owner, ngx_variable_value_t *v);
static ngx_int_t ngx_etcd_lock_variable_wait(ngx_str_t *name, ngx_pool_t *pool,
    void *owner, ngx_variable_value_t *v);


ngx_etcd_lock_variable_t  ngx_etcd_lock_variables[] = {

    { ngx_string("etcd_lock_token"), ngx_etcd_lock_variable_token },
    { ngx_string("etcd_lock_status"), ngx_etcd_lock_variable_status },
    { ngx_string("etcd_lock_wait"), ngx_etcd_lock_variable_wait },
    { ngx_null_string, NULL }
};


static void
ngx_etcd_request_lock_cleanup(void *data)
{
    ngx_etcd_request_lock_t *rl = data;

    ngx_etcd_lock_end(&rl->grant);
}


ngx_etcd_request_lock_t *
ngx_etcd_request_lock_add(ngx_pool_t *pool, void *owner,
    ngx_etcd_lock_conf_t *conf)
{
    ngx_pool_cleanup_t       *cln;
    ngx_etcd_request_lock_t  *rl;

    cln = ngx_pool_cleanup_add(pool, sizeof(ngx_etcd_request_lock_t));
    if (cln == NULL) {
        return NULL;
    }

    rl = cln->data;
    ngx_memzero(rl, sizeof(ngx_etcd_request_lock_t));

    cln->handler = ngx_etcd_request_lock_cleanup;

    rl->owner = owner;
    rl->cleanup = cln;
    rl->grant.conf = conf;
    rl->grant.data = rl;

    return rl;
}


ngx_etcd_request_lock_t *
ngx_etcd_request_lock_next(ngx_pool_t *pool, ngx_etcd_request_lock_t *rl)
{
    ngx_pool_cleanup_t  *cln;

    cln = (rl != NULL) ? rl->cleanup->next : pool->cleanup;

    for ( /* void */ ; cln != NULL; cln = cln->next) {
        if (cln->handler == ngx_etcd_request_lock_cleanup) {
            return cln->data;
        }
    }

    return NULL;
}


ngx_etcd_request_lock_t *
ngx_etcd_request_lock_find(ngx_pool_t *pool, void *owner,
    ngx_etcd_lock_conf_t *conf)
{
    ngx_etcd_request_lock_t  *rl;

    for (rl = ngx_etcd_request_lock_next(pool, NULL);
         rl != NULL;
         rl = ngx_etcd_request_lock_next(pool, rl))
    {
        if (rl->owner == owner && rl->grant.conf == conf) {
            break;
        }
    }

    return rl;
}


ngx_uint_t
ngx_etcd_request_lock_same(ngx_etcd_request_lock_t *rl,
    ngx_etcd_lock_conf_t *conf, ngx_str_t *key)
{
    return rl->grant.conf->name == conf->name
           && ngx_etcd_str_equal(&rl->key, key);
}


void
ngx_etcd_request_lock_release(ngx_pool_t *pool, void *owner)
{
    ngx_etcd_request_lock_t  *rl;

    for (rl = ngx_etcd_request_lock_next(pool, NULL);
         rl != NULL;
         rl = ngx_etcd_request_lock_next(pool, rl))
    {
        if (rl->owner == owner) {
            ngx_etcd_lock_end(&rl->grant);
        }
    }
}


/* NGX_DONE: the key is empty, and no lock is taken. */

static ngx_int_t
ngx_etcd_request_lock_value(ngx_etcd_request_lock_owner_t *owner,
    ngx_etcd_lock_conf_t *lock, ngx_str_t *value)
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

    return NGX_DECLINED;
}


static ngx_int_t
ngx_etcd_request_lock_check(ngx_etcd_request_lock_owner_t *owner,
    ngx_array_t *locks)
{
    ngx_int_t              rc;
    ngx_str_t              value;
    ngx_uint_t             i;
    ngx_etcd_lock_conf_t  *lock;

    lock = locks->elts;

    for (i = 0; i < locks->nelts; i++) {

        if (ngx_etcd_request_lock_find(owner->pool, owner->owner, &lock[i])
            != NULL)
        {
            continue;
        }

        rc = ngx_etcd_request_lock_value(owner, &lock[i], &value);

        if (rc != NGX_OK && rc != NGX_DONE) {
            return rc;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_request_lock_one(ngx_etcd_request_lock_owner_t *owner,
    ngx_etcd_lock_conf_t *lock)
{
    ngx_int_t                 rc;
    ngx_str_t                 key, value;
    ngx_etcd_request_lock_t  *rl;

    /* search by directive first: a redirect may have changed the key */

    rl = ngx_etcd_request_lock_find(owner->pool, owner->owner, lock);

    if (rl == NULL) {
        ngx_str_null(&key);

        rc = ngx_etcd_request_lock_value(owner, lock, &value);

        if (rc == NGX_OK && lock->value != NULL) {
            rc = ngx_etcd_lock_segment(owner->pool, &value, &key);
        }

        if (rc != NGX_OK) {
            return (rc == NGX_DONE) ? NGX_OK : rc;
        }

        rl = owner->take(owner->owner, lock, &key);
        if (rl == NULL) {
            return NGX_ERROR;
        }
    }

    return owner->result(owner->owner, rl);
}


ngx_int_t
ngx_etcd_request_lock_take(ngx_etcd_request_lock_owner_t *owner,
    ngx_array_t *locks)
{
    ngx_int_t              rc;
    ngx_uint_t             i;
    ngx_etcd_lock_conf_t  *lock;

    rc = (locks->nelts > 1) ? ngx_etcd_request_lock_check(owner, locks)
                            : NGX_OK;

    lock = locks->elts;

    for (i = 0; i < locks->nelts && rc == NGX_OK; i++) {
        rc = ngx_etcd_request_lock_one(owner, &lock[i]);
    }

    return rc;
}


ngx_int_t
ngx_etcd_request_lock_result(ngx_etcd_request_lock_t *rl)
{
    switch (rl->grant.state) {

    case NGX_ETCD_GRANT_WAITING:
        return NGX_AGAIN;

    case NGX_ETCD_GRANT_HELD:
        return ngx_etcd_lock_held(&rl->grant) ? NGX_OK : NGX_DECLINED;

    case NGX_ETCD_GRANT_TIMEOUT:
        return NGX_BUSY;

    case NGX_ETCD_GRANT_LOST:
        return (rl->lost == NGX_ETCD_LOCK_CONTINUE) ? NGX_OK : NGX_DECLINED;

    default:
        return NGX_DECLINED;
    }
}


void
ngx_etcd_request_lock_report(ngx_etcd_request_lock_t *rl, ngx_log_t *log)
{
    ngx_log_error(NGX_LOG_WARN, log, 0, "etcd: lock \"%V%s%V\" is lost%s",
                  &rl->grant.conf->name->name, rl->key.len ? "/" : "",
                  &rl->key, (rl->lost == NGX_ETCD_LOCK_CLOSE)
                              ? ", aborting" : "");
}


/* Several tokens are listed in the order of locking. */

static ngx_int_t
ngx_etcd_lock_variable_token(ngx_str_t *name, ngx_pool_t *pool, void *owner,
    ngx_variable_value_t *v)
{
    u_char                   *p, *begin, *end;
    u_char                    number[NGX_INT64_LEN + sizeof(", ")];
    size_t                    size;
    ngx_etcd_request_lock_t  *rl;

    size = 0;
    rl = NULL;

    while ((rl = ngx_etcd_request_lock_next(pool, rl)) != NULL) {
        if (rl->owner == owner && rl->grant.token != 0) {
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

    /* request locks are iterated newest first: fill the buffer from its end */

    end = p + size;
    begin = end;

    while ((rl = ngx_etcd_request_lock_next(pool, rl)) != NULL) {
        if (rl->owner != owner || rl->grant.token == 0) {
            continue;
        }

        p = ngx_sprintf(number, "%uL%s", rl->grant.token,
                        (begin != end) ? ", " : "");

        begin -= p - number;
        ngx_memcpy(begin, number, p - number);
    }

    ngx_etcd_variable_value(name, v, begin, end - begin);

    return NGX_OK;
}


/* Returns the worst status of several locks. */

static ngx_int_t
ngx_etcd_lock_variable_status(ngx_str_t *name, ngx_pool_t *pool, void *owner,
    ngx_variable_value_t *v)
{
    ngx_uint_t                i, n;
    ngx_etcd_request_lock_t  *rl;

    static ngx_str_t  names[] = {
        ngx_null_string,
        ngx_string("acquired"),
        ngx_string("timeout"),
        ngx_string("unavailable"),
        ngx_string("lost")
    };

    n = 0;
    rl = NULL;

    while ((rl = ngx_etcd_request_lock_next(pool, rl)) != NULL) {

        if (rl->owner != owner) {
            continue;
        }

        switch (rl->grant.state) {

        case NGX_ETCD_GRANT_HELD:
        case NGX_ETCD_GRANT_ENDED:
            i = 1;
            break;

        case NGX_ETCD_GRANT_TIMEOUT:
            i = 2;
            break;

        case NGX_ETCD_GRANT_UNAVAILABLE:
            i = 3;
            break;

        case NGX_ETCD_GRANT_LOST:
            i = 4;
            break;

        default:
            i = 0;
            break;
        }

        n = ngx_max(n, i);
    }

    ngx_etcd_variable_value(name, v, names[n].data, names[n].len);

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_lock_variable_wait(ngx_str_t *name, ngx_pool_t *pool, void *owner,
    ngx_variable_value_t *v)
{
    u_char                   *p, *last;
    ngx_uint_t                found;
    ngx_msec_t                waited;
    ngx_etcd_request_lock_t  *rl;

    found = 0;
    waited = 0;
    rl = NULL;

    while ((rl = ngx_etcd_request_lock_next(pool, rl)) != NULL) {
        if (rl->owner == owner) {
            found = 1;
            waited += rl->grant.waited;
        }
    }

    if (!found) {
        v->not_found = 1;
        return NGX_OK;
    }

    p = ngx_pnalloc(pool, NGX_INT64_LEN + sizeof(".000"));
    if (p == NULL) {
        return NGX_ERROR;
    }

    last = ngx_sprintf(p, "%M.%03M", waited / 1000, waited % 1000);

    ngx_etcd_variable_value(name, v, p, last - p);

    return NGX_OK;
}
