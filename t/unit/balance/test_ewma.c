
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "test_world.h"


/* seconds, on the clock of the test */

#define TEST_EWMA_SLOW     400
#define TEST_EWMA_SLOWEST  500


/* The peer with this number answers after so many seconds. */

static ngx_int_t
test_ewma_answer(ngx_uint_t n, ngx_uint_t seconds, ngx_uint_t state)
{
    ngx_uint_t       i;
    ngx_etcd_pick_t  pick;

    for (i = 0; i < 1000; i++) {
        if (test_table_pick(&pick, NULL) == (ngx_int_t) n) {
            pick.begun.tv_sec -= seconds;
            test_table_end(&pick, state);
            return NGX_OK;
        }

        /* not used: nothing is measured */

        pick.begun.tv_sec = 0;
        test_table_end(&pick, 0);
    }

    return NGX_ERROR;
}


static ngx_int_t
test_ewma_init(ngx_pool_t *pool)
{
    if (test_table_init(pool, "ewma") != NGX_OK) {
        return NGX_ERROR;
    }

    test_table_add(0, 3, "max_fails=0");

    return test_table_follow();
}


/* A slow answer counts at once; half as much after a half-life. */

static void
test_ewma_slow(ngx_pool_t *pool)
{
    ngx_uint_t        counts[8];
    ngx_etcd_peer_t  *peer;

    test_alloc_pause();
    tap_check(test_ewma_init(pool) == NGX_OK);

    tap_check(test_ewma_answer(1, 0, 0) == NGX_OK);
    tap_check(test_ewma_answer(2, 0, 0) == NGX_OK);
    tap_check(test_ewma_answer(0, TEST_EWMA_SLOW, 0) == NGX_OK);

    peer = test_world.table.slots[0];
    tap_check(peer->latency >= TEST_EWMA_SLOW * (uint64_t) 1000000000 / 1024);

    test_table_count(100, counts);
    tap_check(counts[0] == 0 && counts[1] != 0 && counts[2] != 0);

    /* without answers the latency is forgotten: the peer is tried again */

    ngx_current_msec += 2048 * 32;
    test_table_count(100, counts);
    tap_check(counts[0] != 0);

    test_alloc_resume();
}


/* A quick answer does not replace a slow one. */

static void
test_ewma_average(ngx_pool_t *pool)
{
    uint64_t          slow;
    ngx_etcd_peer_t  *peer;

    test_alloc_pause();
    tap_check(test_ewma_init(pool) == NGX_OK);

    peer = test_world.table.slots[0];

    tap_check(test_ewma_answer(0, TEST_EWMA_SLOWEST, 0) == NGX_OK);
    slow = peer->latency;

    /* picked though it is slow: the others are slower */

    tap_check(test_ewma_answer(1, TEST_EWMA_SLOWEST + 100, 0) == NGX_OK);
    tap_check(test_ewma_answer(2, TEST_EWMA_SLOWEST + 100, 0) == NGX_OK);

    ngx_current_msec += 2048;
    tap_check(test_ewma_answer(0, 0, 0) == NGX_OK);

    tap_check(peer->latency > slow / 4 && peer->latency < slow * 3 / 4);

    test_alloc_resume();
}


/* A quick failure is no quick answer. */

static void
test_ewma_failure(ngx_pool_t *pool)
{
    uint64_t          known;
    ngx_etcd_peer_t  *peer;

    test_alloc_pause();
    tap_check(test_ewma_init(pool) == NGX_OK);

    peer = test_world.table.slots[0];

    tap_check(test_ewma_answer(0, 100, 0) == NGX_OK);
    tap_check(test_ewma_answer(1, TEST_EWMA_SLOW, 0) == NGX_OK);
    tap_check(test_ewma_answer(2, TEST_EWMA_SLOW, 0) == NGX_OK);

    known = peer->latency;

    tap_check(test_ewma_answer(0, 0, NGX_PEER_FAILED) == NGX_OK);
    tap_check(peer->latency >= 2 * known);

    test_alloc_resume();
}


/* The header is the answer: what follows is not measured. */

static void
test_ewma_header(ngx_pool_t *pool)
{
    uint32_t          latency;
    ngx_int_t         k;
    ngx_etcd_peer_t  *peer;
    ngx_etcd_pick_t   pick;

    tap_expect(test_ewma_init(pool) == NGX_OK);

    k = test_table_pick(&pick, NULL);
    tap_expect(k != TEST_TABLE_NONE);

    peer = test_world.table.slots[k];

    pick.begun.tv_sec -= TEST_EWMA_SLOW;
    ngx_etcd_pick_header(&pick);
    latency = peer->latency;

    test_table_end(&pick, 0);

    tap_check(latency != 0 && peer->latency == latency);
}


ngx_etcd_tap_test_t  test_ewma[] = {
    { "ewma: a slow peer", test_ewma_slow },
    { "ewma: the average", test_ewma_average },
    { "ewma: a failure", test_ewma_failure },
    { "ewma: the header", test_ewma_header },
    { NULL, NULL }
};
