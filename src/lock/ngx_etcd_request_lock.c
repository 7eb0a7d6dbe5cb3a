
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_lock_slot.h>
#include <ngx_etcd_variable.h>


static void ngx_etcd_lock_slot_cleanup(void *data);
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


ngx_etcd_lock_slot_t *
ngx_etcd_lock_slot_add(ngx_pool_t *pool, void *owner,
    ngx_etcd_lock_conf_t *conf)
{
    ngx_pool_cleanup_t    *cln;
    ngx_etcd_lock_slot_t  *slot;

    cln = ngx_pool_cleanup_add(pool, sizeof(ngx_etcd_lock_slot_t));
    if (cln == NULL) {
        return NULL;
    }

    slot = cln->data;
    ngx_memzero(slot, sizeof(ngx_etcd_lock_slot_t));

    cln->handler = ngx_etcd_lock_slot_cleanup;

    slot->owner = owner;
    slot->cleanup = cln;
    slot->grant.conf = conf;
    slot->grant.data = slot;

    return slot;
}


static void
ngx_etcd_lock_slot_cleanup(void *data)
{
    ngx_etcd_lock_slot_t *slot = data;

    ngx_etcd_lock_end(&slot->grant);
}


ngx_etcd_lock_slot_t *
ngx_etcd_lock_slot_next(ngx_pool_t *pool, ngx_etcd_lock_slot_t *slot)
{
    ngx_pool_cleanup_t  *cln;

    cln = (slot != NULL) ? slot->cleanup->next : pool->cleanup;

    for ( /* void */ ; cln != NULL; cln = cln->next) {
        if (cln->handler == ngx_etcd_lock_slot_cleanup) {
            return cln->data;
        }
    }

    return NULL;
}


ngx_etcd_lock_slot_t *
ngx_etcd_lock_slot_find(ngx_pool_t *pool, void *owner,
    ngx_etcd_lock_conf_t *conf)
{
    ngx_etcd_lock_slot_t  *slot;

    for (slot = ngx_etcd_lock_slot_next(pool, NULL);
         slot != NULL;
         slot = ngx_etcd_lock_slot_next(pool, slot))
    {
        if (slot->owner == owner && slot->grant.conf == conf) {
            break;
        }
    }

    return slot;
}


ngx_etcd_grant_t *
ngx_etcd_lock_slot_grant(ngx_etcd_lock_slot_t *slot)
{
    return (slot->lender != NULL) ? &slot->lender->grant : &slot->grant;
}


ngx_uint_t
ngx_etcd_lock_slot_same(ngx_etcd_lock_slot_t *slot, ngx_etcd_lock_conf_t *conf,
    ngx_str_t *key)
{
    return slot->grant.conf->name == conf->name
           && slot->key.len == key->len
           && (key->len == 0
               || ngx_memcmp(slot->key.data, key->data, key->len) == 0);
}


void
ngx_etcd_lock_slot_release(ngx_pool_t *pool, void *owner)
{
    ngx_etcd_lock_slot_t  *slot;

    for (slot = ngx_etcd_lock_slot_next(pool, NULL);
         slot != NULL;
         slot = ngx_etcd_lock_slot_next(pool, slot))
    {
        if (slot->owner == owner) {
            ngx_etcd_lock_end(&slot->grant);
        }
    }
}


ngx_int_t
ngx_etcd_lock_slot_result(ngx_etcd_lock_slot_t *slot)
{
    if (slot->lender != NULL) {
        slot = slot->lender;
    }

    switch (slot->grant.state) {

    case NGX_ETCD_GRANT_WAITING:
        return NGX_AGAIN;

    case NGX_ETCD_GRANT_HELD:
        return ngx_etcd_lock_held(&slot->grant) ? NGX_OK : NGX_DECLINED;

    case NGX_ETCD_GRANT_TIMEOUT:
        return NGX_BUSY;

    case NGX_ETCD_GRANT_LOST:
        return (slot->lost == NGX_ETCD_LOCK_CONTINUE) ? NGX_OK : NGX_DECLINED;

    default:
        return NGX_DECLINED;
    }
}


void
ngx_etcd_lock_slot_report(ngx_etcd_lock_slot_t *slot, ngx_log_t *log)
{
    ngx_log_error(NGX_LOG_WARN, log, 0, "etcd: lock \"%V%s%V\" is lost%s",
                  &slot->grant.conf->name->name, slot->key.len ? "/" : "",
                  &slot->key, (slot->lost == NGX_ETCD_LOCK_CLOSE)
                              ? ", aborting" : "");
}


/* Several tokens are listed in the order of locking. */

static ngx_int_t
ngx_etcd_lock_variable_token(ngx_str_t *name, ngx_pool_t *pool, void *owner,
    ngx_variable_value_t *v)
{
    u_char                *p, *begin, *end;
    u_char                 number[NGX_INT64_LEN + sizeof(", ")];
    size_t                 size;
    ngx_etcd_grant_t      *grant;
    ngx_etcd_lock_slot_t  *slot;

    size = 0;
    slot = NULL;

    while ((slot = ngx_etcd_lock_slot_next(pool, slot)) != NULL) {
        grant = ngx_etcd_lock_slot_grant(slot);

        if (slot->owner == owner && grant->token != 0) {
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

    /* slots are iterated newest first: fill the buffer from its end */

    end = p + size;
    begin = end;

    while ((slot = ngx_etcd_lock_slot_next(pool, slot)) != NULL) {
        grant = ngx_etcd_lock_slot_grant(slot);

        if (slot->owner != owner || grant->token == 0) {
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


/* Returns the worst status of several locks. */

static ngx_int_t
ngx_etcd_lock_variable_status(ngx_str_t *name, ngx_pool_t *pool, void *owner,
    ngx_variable_value_t *v)
{
    ngx_uint_t             i, n;
    ngx_etcd_lock_slot_t  *slot;

    static ngx_str_t  names[] = {
        ngx_null_string,
        ngx_string("acquired"),
        ngx_string("timeout"),
        ngx_string("unavailable"),
        ngx_string("lost")
    };

    n = 0;
    slot = NULL;

    while ((slot = ngx_etcd_lock_slot_next(pool, slot)) != NULL) {

        if (slot->owner != owner) {
            continue;
        }

        switch (ngx_etcd_lock_slot_grant(slot)->state) {

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
    u_char                *p, *last;
    ngx_uint_t             found;
    ngx_msec_t             waited;
    ngx_etcd_lock_slot_t  *slot;

    found = 0;
    waited = 0;
    slot = NULL;

    while ((slot = ngx_etcd_lock_slot_next(pool, slot)) != NULL) {
        if (slot->owner == owner) {
            found = 1;
            waited += ngx_etcd_lock_slot_grant(slot)->waited;
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
