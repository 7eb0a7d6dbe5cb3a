
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "test_world.h"


/* Of any two peers the one with fewer connections: never the busiest. */

static void
test_random_busiest(ngx_pool_t *pool)
{
    ngx_uint_t        counts[8];
    ngx_etcd_peer_t  *peer;

    test_alloc_pause();

    tap_check(test_table_init(pool, "random") == NGX_OK);
    test_table_add(0, 4, NULL);
    tap_check(test_table_follow() == NGX_OK);

    peer = test_world.table.slots[0];
    (void) ngx_etcd_counter_add(&peer->slot->conns, peer->uid, 10);

    test_table_count(400, counts);

    tap_check(counts[0] == 0);
    tap_check(counts[1] != 0 && counts[2] != 0 && counts[3] != 0);

    test_alloc_resume();
}


/* Connections count for the weight: 10 of 20 are less than 1 of 1. */

static void
test_random_weights(ngx_pool_t *pool)
{
    ngx_int_t         k;
    ngx_uint_t        i, n;
    ngx_etcd_peer_t  *peer;
    ngx_etcd_pick_t   pick;

    tap_expect(test_table_init(pool, "random") == NGX_OK);
    test_table_add(0, 1, "weight=20");
    test_table_add(1, 1, "weight=1");
    tap_check(test_table_follow() == NGX_OK);

    for (i = 0; i < 2; i++) {
        peer = test_world.table.slots[i];
        n = (i == 0) ? 10 : 1;

        (void) ngx_etcd_counter_add(&peer->slot->conns, peer->uid, n);
    }

    for (i = 0; i < 100; i++) {
        k = test_table_pick(&pick, NULL);
        tap_expect(k != TEST_TABLE_NONE);
        test_table_end(&pick, 0);
        tap_check(k == 0);
    }
}


ngx_etcd_tap_test_t  test_random[] = {
    { "random: never the busiest", test_random_busiest },
    { "random: connections for the weight", test_random_weights },
    { NULL, NULL }
};
