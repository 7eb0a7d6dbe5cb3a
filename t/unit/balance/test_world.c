
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <sys/mman.h>
#include "test_loop.h"
#include "test_world.h"


#define TEST_TABLE_ZONE   (4 * 1024 * 1024)


test_world_t  test_world;


static void
test_table_destroy(void *data)
{
    test_alloc_pause();

    if (test_world.made) {
        ngx_etcd_table_done(&test_world.table);
    }

    ngx_etcd_connection_count_leave(&test_world.zone);
    ngx_cached_time = test_world.former;

    (void) munmap(data, TEST_TABLE_ZONE);

    test_alloc_resume();
}


ngx_int_t
test_table_init(ngx_pool_t *pool, char *text)
{
    void                  *addr;
    char                  *second;
    ngx_int_t              rc;
    ngx_str_t              method, parameter;
    ngx_shm_zone_t         shm_zone;
    ngx_slab_pool_t       *sp;
    ngx_pool_cleanup_t    *cln;
    ngx_etcd_object_id_t   id;

    test_loop_init(pool->log);
    test_alloc_pause();

    ngx_memzero(&test_world, sizeof(test_world));

    addr = mmap(NULL, TEST_TABLE_ZONE, PROT_READ|PROT_WRITE,
                MAP_ANON|MAP_SHARED, -1, 0);
    cln = ngx_pool_cleanup_add(pool, 0);

    if (addr == MAP_FAILED || cln == NULL) {
        abort();
    }

    sp = addr;
    sp->end = (u_char *) addr + TEST_TABLE_ZONE;
    sp->min_shift = 3;
    sp->addr = addr;

    ngx_memzero(&shm_zone, sizeof(ngx_shm_zone_t));
    shm_zone.shm.addr = addr;
    shm_zone.shm.size = TEST_TABLE_ZONE;
    shm_zone.shm.log = pool->log;

    if (ngx_shmtx_create(&sp->mutex, &sp->lock, NULL) != NGX_OK) {
        abort();
    }

    ngx_slab_init(sp);

    test_world.former = ngx_cached_time;
    test_world.time = *ngx_cached_time;
    ngx_cached_time = &test_world.time;

    test_world.pool = pool;
    ngx_str_set(&test_world.name, "test");

    ngx_memzero(&id, sizeof(ngx_etcd_object_id_t));
    id.name = test_world.name;
    id.prefix = test_world.name;

    ngx_process_slot = 0;

    if (ngx_etcd_zone_init(&test_world.zone, &shm_zone, NULL) != NGX_OK) {
        abort();
    }

    test_world.set = ngx_etcd_object_declare(&test_world.zone,
                                             &ngx_etcd_member_set_type, &id);

    if (test_world.set == NULL) {
        abort();
    }

    ngx_etcd_connection_count_enter(&test_world.zone);

    cln->handler = test_table_destroy;
    cln->data = addr;

    second = strchr(text, ' ');
    method.data = (u_char *) text;
    method.len = second ? (size_t) (second - text) : ngx_strlen(text);
    parameter.data = (u_char *) (second ? second + 1 : "");
    parameter.len = ngx_strlen(parameter.data);

    test_alloc_resume();

    test_world.conf.method = ngx_etcd_balance_method(&method, &parameter);

    ngx_etcd_table_init(&test_world.table, &test_world.conf, &test_world.zone,
                        test_world.set, test_world.set->object.id, pool->log);

    rc = ngx_etcd_table_start(&test_world.table, 0, 0);
    test_world.made = 1;

    return rc;
}


void
test_table_add(ngx_uint_t from, ngx_uint_t n, char *parameter)
{
    ngx_str_t  value;

    test_alloc_pause();

    if (parameter != NULL) {
        value = *tap_string(test_world.pool, parameter);
        value = *tap_bytes(test_world.pool, parameter, value.len + 1);
        value.len--;
    }

    if (ngx_etcd_unit_add(&test_world.zone, test_world.set, from, n, &value,
                          parameter != NULL)
        != NGX_OK)
    {
        abort();
    }

    test_alloc_resume();
}


void
test_table_remove(ngx_uint_t from, ngx_uint_t n)
{
    test_alloc_pause();

    if (ngx_etcd_unit_remove(&test_world.zone, test_world.set, from, n)
        != NGX_OK)
    {
        abort();
    }

    test_alloc_resume();
}


ngx_int_t
test_table_follow(void)
{
    ngx_int_t   rc;
    ngx_uint_t  i;

    rc = NGX_BUSY;

    for (i = 0; i < 100 && rc != NGX_OK; i++) {
        rc = ngx_etcd_table_sync(&test_world.table);

        if (rc == NGX_BUSY && !test_alloc_failed()) {
            return NGX_ERROR;
        }
    }

    return rc;
}


static void
test_table_close(void *data)
{
    test_world.closed++;
}


ngx_int_t
test_table_pick(ngx_etcd_pick_t *pick, ngx_str_t *key)
{
    ngx_peer_connection_t  pc;

    ngx_memzero(&pc, sizeof(ngx_peer_connection_t));
    pc.log = test_world.pool->log;
    pc.tries = 1;

    (void) ngx_etcd_pick_init(pick, &test_world.table, &test_world.name,
                              test_world.pool);

    if (key != NULL) {
        pick->key = *key;
    }

    if (ngx_etcd_pick_subscribe(pick, test_table_close, NULL) != NGX_OK
        || ngx_etcd_pick_get(&pc, pick) != NGX_OK)
    {
        ngx_etcd_pick_done(pick);
        return TEST_TABLE_NONE;
    }

    return pick->peer->index;
}


void
test_table_end(ngx_etcd_pick_t *pick, ngx_uint_t state)
{
    ngx_peer_connection_t  pc;

    ngx_memzero(&pc, sizeof(ngx_peer_connection_t));
    pc.log = test_world.pool->log;
    pc.tries = 1;

    ngx_etcd_pick_free(&pc, pick, state);
    ngx_etcd_pick_done(pick);
}


void
test_table_count(ngx_uint_t n, ngx_uint_t *counts)
{
    ngx_int_t        k;
    ngx_uint_t       i;
    ngx_etcd_pick_t  pick;

    ngx_memzero(counts, 8 * sizeof(ngx_uint_t));

    for (i = 0; i < n; i++) {
        k = test_table_pick(&pick, NULL);

        if (k != TEST_TABLE_NONE) {
            counts[k]++;
            test_table_end(&pick, 0);
        }

        ngx_current_msec++;
    }
}
