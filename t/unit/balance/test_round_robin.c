
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "test_world.h"


/* Each window of as many picks as there are peers has all of them. */

static void
test_round_robin_equal(ngx_pool_t *pool)
{
    ngx_int_t        k[12];
    ngx_uint_t       i, seen;
    ngx_etcd_pick_t  pick;

    tap_expect(test_table_init(pool, "round_robin") == NGX_OK);
    test_table_add(0, 4, NULL);
    tap_check(test_table_follow() == NGX_OK);

    seen = 0;

    for (i = 0; i < 12; i++) {
        k[i] = test_table_pick(&pick, NULL);
        tap_expect(k[i] != TEST_TABLE_NONE);
        test_table_end(&pick, 0);

        seen |= 1 << k[i];
        tap_check(i < 4 || k[i] == k[i - 4]);
    }

    tap_check(seen == 0xf);
}


/* The turns of a heavy peer are spread. */

static void
test_round_robin_weights(ngx_pool_t *pool)
{
    ngx_int_t        k;
    ngx_uint_t       i, others, counts[3];
    ngx_etcd_pick_t  pick;

    tap_expect(test_table_init(pool, "round_robin") == NGX_OK);
    test_table_add(0, 1, "weight=4");
    test_table_add(1, 2, "weight=1");
    tap_check(test_table_follow() == NGX_OK);

    ngx_memzero(counts, sizeof(counts));
    others = 0;

    for (i = 0; i < 600; i++) {
        k = test_table_pick(&pick, NULL);
        tap_expect(k != TEST_TABLE_NONE);
        test_table_end(&pick, 0);

        counts[k]++;
        others = (k == 0) ? 0 : others + 1;
        tap_check(others <= 2);
    }

    tap_check(counts[0] >= 399 && counts[0] <= 401);
    tap_check(counts[1] >= 99 && counts[1] <= 101);
}


/* The turns of a peer that is not used are those of the others. */

static void
test_round_robin_without(ngx_pool_t *pool)
{
    ngx_uint_t  counts[8];

    test_alloc_pause();

    tap_check(test_table_init(pool, "round_robin") == NGX_OK);
    test_table_add(0, 3, NULL);
    test_table_add(3, 1, "backup");
    tap_check(test_table_follow() == NGX_OK);

    test_table_count(300, counts);
    tap_check(counts[0] == 100 && counts[1] == 100 && counts[2] == 100);

    test_table_add(1, 1, "drain");
    tap_check(test_table_follow() == NGX_OK);
    test_table_count(300, counts);
    tap_check(counts[0] == 150 && counts[1] == 0 && counts[2] == 150);

    test_table_remove(0, 1);
    test_table_add(2, 1, "down");
    tap_check(test_table_follow() == NGX_OK);
    test_table_count(300, counts);
    tap_check(counts[3] == 300);

    test_alloc_resume();
}


ngx_etcd_tap_test_t  test_round_robin[] = {
    { "round_robin: equal weights", test_round_robin_equal },
    { "round_robin: weights", test_round_robin_weights },
    { "round_robin: peers that are not used", test_round_robin_without },
    { NULL, NULL }
};
