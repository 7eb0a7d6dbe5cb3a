
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "test_world.h"


#define TEST_LEAST_CONN_PICKS  24


/* another worker has so many connections more */

static void
test_least_conn_other(ngx_uint_t n, ngx_int_t conns)
{
    ngx_etcd_peer_t  *peer;

    peer = test_world.table.slots[n];

    (void) ngx_etcd_counter_add(&peer->slot->conns, peer->uid, conns);
}


/* The fewest connections for the weight. */

static void
test_least_conn_weights(ngx_pool_t *pool)
{
    ngx_int_t        k;
    ngx_uint_t       i, n, counts[3];
    ngx_etcd_pick_t  picks[TEST_LEAST_CONN_PICKS];

    tap_expect(test_table_init(pool, "least_conn") == NGX_OK);
    test_table_add(0, 2, "weight=1");
    test_table_add(2, 1, "weight=2");
    tap_check(test_table_follow() == NGX_OK);

    ngx_memzero(counts, sizeof(counts));

    for (n = 0; n < TEST_LEAST_CONN_PICKS; n++) {
        k = test_table_pick(&picks[n], NULL);

        if (k == TEST_TABLE_NONE) {
            break;
        }

        counts[k]++;
    }

    for (i = 0; i < n; i++) {
        test_table_end(&picks[i], 0);
    }

    tap_expect(n == TEST_LEAST_CONN_PICKS);
    tap_check(counts[0] == 6 && counts[1] == 6 && counts[2] == 12);
}


/* Connections of other workers count, as they come and go. */

static void
test_least_conn_others(ngx_pool_t *pool)
{
    ngx_int_t        k;
    ngx_uint_t       i;
    ngx_etcd_pick_t  picks[TEST_LEAST_CONN_PICKS];

    test_alloc_pause();

    tap_check(test_table_init(pool, "least_conn") == NGX_OK);
    test_table_add(0, 3, NULL);
    tap_check(test_table_follow() == NGX_OK);

    test_least_conn_other(0, 5);

    for (i = 0; i < 10; i++) {
        k = test_table_pick(&picks[i], NULL);
        tap_check(k == 1 || k == 2);
    }

    test_least_conn_other(0, -5);

    for ( /* void */ ; i < 15; i++) {
        tap_check(test_table_pick(&picks[i], NULL) == 0);
    }

    /* the one whose connection ends is the next */

    for (i = 0; i < 15; i++) {
        k = picks[i].peer->index;
        test_table_end(&picks[i], 0);
        tap_check(test_table_pick(&picks[i], NULL) == k);
    }

    for (i = 0; i < 15; i++) {
        test_table_end(&picks[i], 0);
    }

    test_alloc_resume();
}


/* A peer with max_conns connections is passed over. */

static void
test_least_conn_full(ngx_pool_t *pool)
{
    ngx_uint_t       i;
    ngx_etcd_pick_t  picks[5];

    test_alloc_pause();

    tap_check(test_table_init(pool, "least_conn") == NGX_OK);
    test_table_add(0, 2, "max_conns=2");
    tap_check(test_table_follow() == NGX_OK);

    for (i = 0; i < 4; i++) {
        tap_check(test_table_pick(&picks[i], NULL) != TEST_TABLE_NONE);
    }

    tap_check(test_table_pick(&picks[4], NULL) == TEST_TABLE_NONE);

    for (i = 0; i < 4; i++) {
        test_table_end(&picks[i], 0);
    }

    tap_check(test_table_pick(&picks[0], NULL) != TEST_TABLE_NONE);
    test_table_end(&picks[0], 0);

    test_alloc_resume();
}


ngx_etcd_tap_test_t  test_least_conn[] = {
    { "least_conn: weights", test_least_conn_weights },
    { "least_conn: other workers", test_least_conn_others },
    { "least_conn: max_conns", test_least_conn_full },
    { NULL, NULL }
};
