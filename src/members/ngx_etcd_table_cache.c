
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_conn_queue.h>
#include <ngx_etcd_table_cache.h>


/* tables that one tick gives up */

#define NGX_ETCD_TABLE_CACHE_IDLE   64


#define ngx_etcd_table_cache_at(q)                                            \
    (ngx_queue_data(q, ngx_etcd_cached_table_t, queue))

#define ngx_etcd_table_cache_of(str, field)                                   \
    ((str) ? (ngx_etcd_cached_table_t *)                                      \
             ((u_char *) (str) - offsetof(ngx_etcd_cached_table_t, field))    \
           : NULL)


/* Takes the table out of the cache; requests in flight still use it. */

static void
ngx_etcd_table_cache_leave(ngx_etcd_table_cache_t *cache,
    ngx_etcd_cached_table_t *cached)
{
    if (cache->cursor == &cached->queue) {
        cache->cursor = ngx_queue_next(cache->cursor);
    }

    ngx_etcd_hash_table_remove(&cache->by_prefix, &cached->prefix);
    ngx_etcd_hash_table_remove(&cache->by_set, &cached->set_key);

    ngx_queue_remove(&cached->queue);
    ngx_queue_insert_tail(&cache->former, &cached->queue);

    /* requests that wait find out that there is no such set any more */

    ngx_etcd_table_give_up(&cached->table);
}


static void
ngx_etcd_table_cache_free(ngx_etcd_table_cache_t *cache,
    ngx_etcd_cached_table_t *cached)
{
    ngx_queue_remove(&cached->queue);
    cache->n--;

    ngx_etcd_conn_queue_done(&cached->table);
    ngx_etcd_table_done(&cached->table);
    ngx_free(cached);
}


void
ngx_etcd_table_cache_done(ngx_etcd_table_cache_t *cache)
{
    ngx_queue_t  *q;

    while (!ngx_queue_empty(&cache->used)) {
        q = ngx_queue_head(&cache->used);
        ngx_etcd_table_cache_leave(cache, ngx_etcd_table_cache_at(q));
    }

    while (!ngx_queue_empty(&cache->former)) {
        q = ngx_queue_head(&cache->former);
        ngx_etcd_table_cache_free(cache, ngx_etcd_table_cache_at(q));
    }

    ngx_etcd_hash_table_done(&cache->by_prefix);
    ngx_etcd_hash_table_done(&cache->by_set);
}


/* The set of a table may be gone, and the prefix have another one. */

ngx_etcd_cached_table_t *
ngx_etcd_table_cache_find(ngx_etcd_table_cache_t *cache, ngx_str_t *prefix)
{
    ngx_str_t                *str;
    ngx_etcd_cached_table_t  *cached;

    str = ngx_etcd_hash_table_find(&cache->by_prefix, prefix);
    cached = ngx_etcd_table_cache_of(str, prefix);

    if (cached == NULL || cached->set->object.id == cached->table.set_id) {
        return cached;
    }

    ngx_etcd_table_cache_leave(cache, cached);

    return NULL;
}


static ngx_etcd_cached_table_t *
ngx_etcd_table_cache_create(ngx_etcd_table_cache_t *cache, ngx_str_t *prefix,
    ngx_etcd_member_set_t *set)
{
    ngx_etcd_cached_table_t  *cached;

    cached = ngx_calloc(sizeof(ngx_etcd_cached_table_t) + prefix->len,
                        cache->log);
    if (cached == NULL) {
        return NULL;
    }

    cached->prefix.data = (u_char *) (cached + 1);
    cached->prefix.len = prefix->len;
    ngx_memcpy(cached->prefix.data, prefix->data, prefix->len);

    cached->set = set;
    cached->set_key.data = (u_char *) &cached->set;
    cached->set_key.len = sizeof(ngx_etcd_member_set_t *);

    return cached;
}


/*
 * A request waits for the first read: a set is small, or has its first members
 * in time.
 */

static void
ngx_etcd_table_cache_read(ngx_etcd_table_cache_t *cache,
    ngx_etcd_cached_table_t *cached, uint32_t set_id)
{
    uint64_t           now;
    ngx_etcd_table_t  *table;

    table = &cached->table;
    now = ngx_etcd_time_budget_now();

    ngx_etcd_table_init(table, cache->rules, cache->zone, cached->set, set_id,
                        cache->log);

    if (ngx_etcd_table_start(table, now + NGX_ETCD_TIME_BUDGET,
                             now + NGX_ETCD_TABLE_WAIT)
        != NGX_OK)
    {
        cache->unfinished = 1;
        ngx_post_event(cache->sync, &ngx_posted_next_events);
    }
}


static ngx_etcd_cached_table_t *
ngx_etcd_table_cache_add(ngx_etcd_table_cache_t *cache, ngx_str_t *prefix,
    ngx_etcd_set_found_t *found)
{
    ngx_str_t                *str, key;
    ngx_etcd_cached_table_t  *cached;

    /* the struct of a former set may be used again for this one */

    key.data = (u_char *) &found->set;
    key.len = sizeof(ngx_etcd_member_set_t *);

    str = ngx_etcd_hash_table_find(&cache->by_set, &key);

    if (str != NULL) {
        ngx_etcd_table_cache_leave(cache,
                                   ngx_etcd_table_cache_of(str, set_key));
    }

    cached = ngx_etcd_table_cache_create(cache, prefix, found->set);

    if (cached == NULL) {
        return NULL;
    }

    if (ngx_etcd_hash_table_insert(&cache->by_prefix, &cached->prefix)
        != NGX_OK)
    {
        ngx_free(cached);
        return NULL;
    }

    if (ngx_etcd_hash_table_insert(&cache->by_set, &cached->set_key)
        != NGX_OK)
    {
        ngx_etcd_hash_table_remove(&cache->by_prefix, &cached->prefix);
        ngx_free(cached);
        return NULL;
    }

    ngx_queue_insert_head(&cache->used, &cached->queue);
    cache->n++;

    ngx_etcd_table_cache_read(cache, cached, found->set_id);

    return cached;
}


/* The agent learns that a set is used which was not used lately. */

static void
ngx_etcd_table_cache_used(ngx_etcd_table_cache_t *cache,
    ngx_etcd_member_set_t *set)
{
    ngx_msec_t  used;

    used = set->used;

    if (used == ngx_current_msec) {
        return;
    }

    set->used = ngx_current_msec;

    if (used == 0
        || (ngx_msec_int_t) (ngx_current_msec - used)
           >= (ngx_msec_int_t) cache->idle)
    {
        ngx_atomic_fetch_add(&cache->map->asked, 1);
    }
}


ngx_etcd_table_t *
ngx_etcd_table_cache_get(ngx_etcd_table_cache_t *cache, ngx_str_t *prefix,
    ngx_int_t *rc)
{
    uint64_t                  deadline;
    ngx_etcd_set_found_t      found;
    ngx_etcd_cached_table_t  *cached;

    cached = ngx_etcd_table_cache_find(cache, prefix);

    if (cached == NULL) {

        /* waits as a first read does, if the owner changes the map */

        deadline = ngx_etcd_time_budget_now() + NGX_ETCD_TABLE_WAIT;

        do {
            *rc = ngx_etcd_set_map_find(cache->zone, cache->map, prefix,
                                        &found);

        } while (*rc == NGX_AGAIN && ngx_etcd_time_budget_now() < deadline);

        if (*rc != NGX_OK) {
            return NULL;
        }

        cached = ngx_etcd_table_cache_add(cache, prefix, &found);

        if (cached == NULL) {
            *rc = NGX_ERROR;
            return NULL;
        }

    } else if (cached->asked != ngx_current_msec) {
        ngx_queue_remove(&cached->queue);
        ngx_queue_insert_head(&cache->used, &cached->queue);
    }

    cached->asked = ngx_current_msec;
    ngx_etcd_table_cache_used(cache, cached->set);

    *rc = NGX_OK;

    return &cached->table;
}


static ngx_int_t
ngx_etcd_table_cache_update(ngx_etcd_table_cache_t *cache,
    ngx_etcd_cached_table_t *cached)
{
    if (cached->set->object.id != cached->table.set_id) {
        ngx_etcd_table_cache_leave(cache, cached);
        return NGX_OK;
    }

    return ngx_etcd_table_sync(&cached->table);
}


static void
ngx_etcd_table_cache_changed(void *data, ngx_etcd_member_set_t *set)
{
    ngx_etcd_table_cache_t *cache = data;

    ngx_str_t                *str, key;
    ngx_etcd_cached_table_t  *cached;

    key.data = (u_char *) &set;
    key.len = sizeof(ngx_etcd_member_set_t *);

    str = ngx_etcd_hash_table_find(&cache->by_set, &key);
    cached = ngx_etcd_table_cache_of(str, set_key);

    if (cached != NULL && ngx_etcd_table_cache_update(cache, cached) != NGX_OK)
    {
        cache->unfinished = 1;
    }
}


/*
 * Updates all tables, some at a time: this worker has missed changes, or a
 * table could not be updated.
 */

static ngx_int_t
ngx_etcd_table_cache_pass(ngx_etcd_table_cache_t *cache)
{
    uint64_t      until;
    ngx_queue_t  *q;

    until = ngx_etcd_time_budget_now() + NGX_ETCD_TIME_BUDGET;

    if (cache->cursor == NULL) {
        cache->cursor = ngx_queue_head(&cache->used);
        cache->unfinished = 0;
    }

    while (cache->cursor != ngx_queue_sentinel(&cache->used)) {
        q = cache->cursor;
        cache->cursor = ngx_queue_next(q);

        if (ngx_etcd_table_cache_update(cache, ngx_etcd_table_cache_at(q))
            != NGX_OK)
        {
            cache->unfinished = 1;
        }

        if (ngx_etcd_time_budget_now() >= until) {
            return NGX_AGAIN;
        }
    }

    cache->cursor = NULL;

    return cache->unfinished ? NGX_BUSY : NGX_OK;
}


ngx_int_t
ngx_etcd_table_cache_sync(ngx_etcd_table_cache_t *cache)
{
    if (ngx_etcd_set_map_follow(cache->map, &cache->generation,
                                ngx_etcd_table_cache_changed, cache)
        != NGX_OK)
    {
        cache->unfinished = 1;
    }

    if (!cache->unfinished && cache->cursor == NULL) {
        return NGX_OK;
    }

    return ngx_etcd_table_cache_pass(cache);
}


static ngx_uint_t
ngx_etcd_table_cache_busy(ngx_etcd_cached_table_t *cached)
{
    return cached->table.users != 0
           || ngx_etcd_table_waits(&cached->table) != 0;
}


void
ngx_etcd_table_cache_tick(ngx_etcd_table_cache_t *cache)
{
    ngx_uint_t                i;
    ngx_queue_t              *q, *next;
    ngx_etcd_cached_table_t  *cached;

    for (q = ngx_queue_head(&cache->former);
         q != ngx_queue_sentinel(&cache->former);
         q = next)
    {
        next = ngx_queue_next(q);

        if (!ngx_etcd_table_cache_busy(ngx_etcd_table_cache_at(q))) {
            ngx_etcd_table_cache_free(cache, ngx_etcd_table_cache_at(q));

        } else if (cache->rules->leader) {

            /* there may have been no memory when the set went */

            (void) ngx_etcd_table_sync(&ngx_etcd_table_cache_at(q)->table);
        }
    }

    for (i = 0, q = ngx_queue_last(&cache->used);
         i < NGX_ETCD_TABLE_CACHE_IDLE && q != ngx_queue_sentinel(&cache->used);
         i++, q = next)
    {
        next = ngx_queue_prev(q);
        cached = ngx_etcd_table_cache_at(q);

        if (ngx_current_msec - cached->asked < cache->idle) {
            break;
        }

        if (!ngx_etcd_table_cache_busy(cached)) {
            ngx_etcd_table_cache_leave(cache, cached);
            ngx_etcd_table_cache_free(cache, cached);
        }
    }

    if (!cache->rules->leader) {
        return;
    }

    for (q = ngx_queue_head(&cache->used);
         q != ngx_queue_sentinel(&cache->used);
         q = ngx_queue_next(q))
    {
        cached = ngx_etcd_table_cache_at(q);

        ngx_etcd_table_tick(&cached->table);

        /* sessions that go on, or wait, use a leader, too */

        if (ngx_etcd_table_cache_busy(cached)
            && cached->set->object.id == cached->table.set_id)
        {
            ngx_etcd_table_cache_used(cache, cached->set);
        }
    }
}
