
/*
 * Copyright (C) nginx-etcd contributors
 *
 * What is below a mirror: this module is linked so that the mirror's own calls
 * end here, and not in the client.
 */


/* the mirror's allocations are ours, see Makefile */

#undef ngx_alloc
#undef ngx_calloc
#undef ngx_create_pool
#undef ngx_palloc
#undef ngx_pcalloc

#include "unit_mirror.h"


void *ngx_etcd_unit_alloc(size_t size, ngx_log_t *log);
void *ngx_etcd_unit_calloc(size_t size, ngx_log_t *log);
ngx_pool_t *ngx_etcd_unit_create_pool(size_t size, ngx_log_t *log);
void *ngx_etcd_unit_palloc(ngx_pool_t *pool, size_t size);
void *ngx_etcd_unit_pcalloc(ngx_pool_t *pool, size_t size);


static ngx_uint_t ngx_etcd_unit_fails(void);
static void ngx_etcd_unit_changed(void *data);


ngx_etcd_unit_world_t  ngx_etcd_unit_world;


void
ngx_etcd_unit_world_reset(ngx_log_t *log)
{
    ngx_etcd_unit_world_t  *world;

    world = &ngx_etcd_unit_world;
    ngx_memzero(world, sizeof(ngx_etcd_unit_world_t));

    world->cluster.conf = &world->conf;
    world->cluster.log = log;
    world->cluster.changed = ngx_etcd_unit_changed;
    world->stream.cluster = &world->cluster;

    ngx_event_timer_init(log);
}


static void
ngx_etcd_unit_changed(void *data)
{
    ngx_etcd_unit_world.repaired = 1;
}


void
ngx_etcd_unit_kv(Etcd__KeyValue *kv, u_char *key, size_t len, int64_t created,
    int64_t modified, u_char *value, size_t value_len)
{
    etcd__key_value__init(kv);

    kv->key.data = key;
    kv->key.len = len;
    kv->create_revision = created;
    kv->mod_revision = modified;
    kv->version = (created != 0) ? modified - created + 1 : 0;
    kv->value.data = value;
    kv->value.len = value_len;
}


static ngx_uint_t
ngx_etcd_unit_fails(void)
{
    ngx_etcd_unit_world.allocs++;

    return ngx_etcd_unit_world.failing != 0
           && --ngx_etcd_unit_world.failing == 0;
}


void *
ngx_etcd_unit_alloc(size_t size, ngx_log_t *log)
{
    return ngx_etcd_unit_fails() ? NULL : ngx_alloc(size, log);
}


void *
ngx_etcd_unit_calloc(size_t size, ngx_log_t *log)
{
    return ngx_etcd_unit_fails() ? NULL : ngx_calloc(size, log);
}


ngx_pool_t *
ngx_etcd_unit_create_pool(size_t size, ngx_log_t *log)
{
    return ngx_etcd_unit_fails() ? NULL : ngx_create_pool(size, log);
}


void *
ngx_etcd_unit_pcalloc(ngx_pool_t *pool, size_t size)
{
    return ngx_etcd_unit_fails() ? NULL : ngx_pcalloc(pool, size);
}


void *
ngx_etcd_unit_palloc(ngx_pool_t *pool, size_t size)
{
    return ngx_etcd_unit_fails() ? NULL : ngx_palloc(pool, size);
}


ngx_int_t
ngx_etcd_watch_add(ngx_etcd_watch_stream_t *stream, ngx_etcd_watch_t *watch)
{
    watch->stream = stream;

    return NGX_OK;
}


ngx_int_t
ngx_etcd_watch_remove(ngx_etcd_watch_t *watch)
{
    return (watch->state == NGX_ETCD_WATCH_CREATING) ? NGX_AGAIN : NGX_OK;
}


void
ngx_etcd_watch_again(ngx_etcd_watch_t *watch, ngx_msec_t delay)
{
    watch->revision = 0;
    watch->state = NGX_ETCD_WATCH_WAITING;

    ngx_etcd_unit_world.agains++;
}


ngx_uint_t
ngx_etcd_watch_active(ngx_etcd_watch_t *watch)
{
    return watch->state == NGX_ETCD_WATCH_ACTIVE;
}


void
ngx_etcd_fresh_ask(ngx_etcd_fresh_t *fresh)
{
    /* nothing is proved but by the test */
}


void
ngx_etcd_range_start(ngx_etcd_range_t *range)
{
    ngx_etcd_unit_world.range = range;
}


void
ngx_etcd_range_cancel(ngx_etcd_range_t *range)
{
    if (ngx_etcd_unit_world.range == range) {
        ngx_etcd_unit_world.range = NULL;
    }
}


void
ngx_etcd_list_start(ngx_etcd_list_t *list)
{
    ngx_etcd_unit_world.list = list;
}


void
ngx_etcd_list_cancel(ngx_etcd_list_t *list)
{
    if (ngx_etcd_unit_world.list == list) {
        ngx_etcd_unit_world.list = NULL;
    }
}
