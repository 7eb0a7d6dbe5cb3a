
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_cause.h>


ngx_uint_t
ngx_etcd_cause_level(ngx_etcd_causes_t *causes, ngx_uint_t number,
    ngx_str_t *text)
{
    u_char      c;
    size_t      i;
    uint32_t    hash;
    ngx_uint_t  n;

    hash = number;

    for (i = 0; i < text->len; i++) {
        c = text->data[i];

        if (c < '0' || c > '9') {
            hash = ngx_hash(hash, c);
        }
    }

    hash = ngx_max(hash, 1);

    for (n = 0; n < NGX_ETCD_CAUSES; n++) {

        if (causes->known[n] == hash) {
            return NGX_LOG_INFO;
        }

        if (causes->known[n] == 0) {
            causes->known[n] = hash;
            return NGX_LOG_ERR;
        }
    }

    return NGX_LOG_INFO;
}


ngx_uint_t
ngx_etcd_cause_forget(ngx_etcd_causes_t *causes)
{
    ngx_uint_t  any;

    any = ngx_etcd_cause_any(causes);

    ngx_memzero(causes, sizeof(ngx_etcd_causes_t));

    return any;
}


ngx_str_t  ngx_etcd_refusal_words[] = {
    ngx_null_string,
    ngx_string("unknown"),
    ngx_string("loading"),
    ngx_string("unreachable"),
    ngx_string("unauthorized"),
    ngx_string("denied"),
    ngx_string("zone_full"),
    ngx_string("unreadable"),
    ngx_string("no_members"),
    ngx_string("all_unresolved"),
    ngx_string("all_down"),
    ngx_string("all_drained"),
    ngx_string("all_unhealthy"),
    ngx_string("all_ejected"),
    ngx_string("all_failing"),
    ngx_string("all_busy"),
    ngx_string("failed"),
    ngx_string("member_left"),
    ngx_string("queue_full"),
    ngx_string("wait_timeout"),
    ngx_string("no_leader"),
    ngx_string("stale"),
    ngx_string("leader_changed"),
    ngx_null_string,
    ngx_string("not_leader"),
    ngx_string("lock_held"),
    ngx_string("lock_queue_full"),
    ngx_string("lock_unavailable"),
    ngx_string("lock_lost"),
    ngx_null_string
};


ngx_str_t *
ngx_etcd_refusal_word(ngx_etcd_refusal_e refusal)
{
    return &ngx_etcd_refusal_words[refusal];
}


static void
ngx_etcd_refusal_cleanup(void *data)
{
    /* the handler itself is the mark by which a refusal is found */
}


static ngx_etcd_refusal_e *
ngx_etcd_refusal_find(ngx_pool_t *pool)
{
    ngx_pool_cleanup_t  *cln;

    for (cln = pool->cleanup; cln != NULL; cln = cln->next) {
        if (cln->handler == ngx_etcd_refusal_cleanup) {
            return cln->data;
        }
    }

    return NULL;
}


void
ngx_etcd_refusal_set(ngx_pool_t *pool, ngx_etcd_refusal_e refusal)
{
    ngx_pool_cleanup_t  *cln;
    ngx_etcd_refusal_e  *last;

    last = ngx_etcd_refusal_find(pool);

    if (last == NULL) {
        cln = ngx_pool_cleanup_add(pool, sizeof(ngx_etcd_refusal_e));
        if (cln == NULL) {
            return;
        }

        cln->handler = ngx_etcd_refusal_cleanup;
        last = cln->data;
    }

    *last = refusal;
}


ngx_etcd_refusal_e
ngx_etcd_refusal_get(ngx_pool_t *pool)
{
    ngx_etcd_refusal_e  *last;

    last = ngx_etcd_refusal_find(pool);

    return (last != NULL) ? *last : NGX_ETCD_REFUSAL_NONE;
}


ngx_uint_t
ngx_etcd_refusal_due(ngx_etcd_refusal_log_t *limit)
{
    ngx_uint_t  n;

    limit->n++;

    if (limit->second == ngx_time()) {
        return 0;
    }

    n = limit->n;

    limit->second = ngx_time();
    limit->n = 0;

    return n;
}
