
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The world below a mirror: this module is linked so that the mirror's calls
 * end here, and not in the client.
 */


#include "unit_mirror.h"


static void ngx_etcd_unit_changed(void *data);


ngx_etcd_unit_world_t  ngx_etcd_unit_world;


void
ngx_etcd_unit_world_reset(ngx_log_t *log)
{
    ngx_etcd_unit_world_t  *world;

    world = &ngx_etcd_unit_world;
    ngx_memzero(world, sizeof(ngx_etcd_unit_world_t));
    test_alloc_fail(0);

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


void
ngx_etcd_proof_ask(ngx_etcd_proof_t *proof)
{
    /* nothing is proved but by the test */
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
