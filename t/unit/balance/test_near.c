
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_near.h>
#include "test_loop.h"
#include "test_world.h"


/* members 0 to 4 are preferred, 5 to 7 are not */

#define TEST_NEAR_PREFERRED  5
#define TEST_NEAR_ALL        8
#define TEST_NEAR_PICKS      1000


static char  *test_near_methods[] = {
    "round_robin", "least_conn", "random", "ewma", "hash", "hash consistent"
};


static ngx_int_t
test_near_init(ngx_pool_t *pool, char *method, ngx_uint_t spill)
{
    if (test_table_init(pool, method) != NGX_OK) {
        return NGX_ERROR;
    }

    test_world.conf.spill = spill;
    test_world.conf.sids = 1;

    test_table_add(0, TEST_NEAR_PREFERRED, "near weight=1");
    test_table_add(TEST_NEAR_PREFERRED, TEST_NEAR_ALL - TEST_NEAR_PREFERRED,
                   NULL);

    return test_table_follow();
}


/* How many of TEST_NEAR_PICKS requests go to preferred members. */

static ngx_uint_t
test_near_count(void)
{
    u_char           text[NGX_INT_T_LEN];
    ngx_int_t        k;
    ngx_str_t        key;
    ngx_uint_t       i, n;
    ngx_etcd_pick_t  pick;

    n = 0;

    for (i = 0; i < TEST_NEAR_PICKS; i++) {
        key.data = text;
        key.len = ngx_sprintf(text, "%ui", i) - text;

        k = test_table_pick(&pick, test_world.table.primary.method->needs
                                   & NGX_ETCD_NEEDS_KEY ? &key : NULL);

        if (k == TEST_TABLE_NONE) {
            return TEST_NEAR_ALL * TEST_NEAR_PICKS;
        }

        n += (k < TEST_NEAR_PREFERRED);
        test_table_end(&pick, 0);
    }

    return n;
}


/* By hash the share is that of the keys, which is not exact. */

static void
test_near_is(ngx_uint_t expected)
{
    ngx_uint_t  n, error;

    error = (test_world.table.primary.method->needs & NGX_ETCD_NEEDS_KEY)
            && expected % TEST_NEAR_PICKS != 0 ? TEST_NEAR_PICKS / 20 : 1;

    n = test_near_count();

    tap_check(n + error >= expected && n <= expected + error);
}


static void
test_near_set(ngx_uint_t from, ngx_uint_t n, char *parameter)
{
    test_table_add(from, n, parameter);
    tap_check(test_table_follow() == NGX_OK);
}


static void
test_near_method(ngx_pool_t *pool, char *method)
{
    tap_expect(test_near_init(pool, method, 80) == NGX_OK);
    test_alloc_pause();

    test_near_is(TEST_NEAR_PICKS);

    /* of five members 4, 3, 1 and none are left */

    test_near_set(0, 1, "near drain");
    test_near_is(TEST_NEAR_PICKS);

    test_near_set(1, 1, "near down");
    test_near_is(TEST_NEAR_PICKS * 3 / 4);

    test_near_set(2, 2, "near drain");
    test_near_is(TEST_NEAR_PICKS / 4);

    test_near_set(4, 1, "near down");
    test_near_is(0);

    /* a weight counts, as does a member that comes back */

    test_near_set(4, 1, "near weight=4");
    test_near_is(TEST_NEAR_PICKS * 5 / 8);

    /* others that are away leave all to the preferred ones */

    test_near_set(TEST_NEAR_PREFERRED, TEST_NEAR_ALL - TEST_NEAR_PREFERRED,
                  "drain");
    test_near_is(TEST_NEAR_PICKS);

    test_alloc_resume();
}


static void
test_near_shares(ngx_pool_t *pool)
{
    ngx_uint_t   i;
    ngx_pool_t  *own;

    for (i = 0; i < sizeof(test_near_methods) / sizeof(char *); i++) {
        test_alloc_pause();
        own = ngx_create_pool(1024, pool->log);
        test_alloc_resume();

        test_near_method(own, test_near_methods[i]);

        ngx_destroy_pool(own);
    }
}


/* The limits of "spill". */

static void
test_near_spill(ngx_pool_t *pool)
{
    tap_expect(test_near_init(pool, "round_robin", 100) == NGX_OK);
    test_alloc_pause();

    test_near_is(TEST_NEAR_PICKS);
    test_near_set(0, 1, "near drain");
    test_near_is(TEST_NEAR_PICKS * 4 / 5);

    test_world.conf.spill = 1;
    test_near_set(1, 3, "near drain");
    test_near_is(TEST_NEAR_PICKS);

    test_alloc_resume();
}


/* Failures, and limits of connections. */

static void
test_near_failing(ngx_pool_t *pool)
{
    ngx_int_t        k;
    ngx_uint_t       i;
    ngx_etcd_pick_t  pick, held[2];

    tap_expect(test_near_init(pool, "round_robin", 100) == NGX_OK);
    test_alloc_pause();

    for (i = 0; i < 2; i++) {
        k = test_table_pick(&pick, NULL);
        tap_check(k >= 0 && k < TEST_NEAR_PREFERRED);
        test_table_end(&pick, NGX_PEER_FAILED);
    }

    test_near_is(TEST_NEAR_PICKS * 3 / 5);

    /* other members in the places of the first two */

    test_near_set(0, TEST_NEAR_PREFERRED, "near down");
    test_table_remove(0, 2);
    tap_check(test_table_follow() == NGX_OK);
    test_near_set(0, 2, "near max_conns=1");

    for (i = 0; i < 2; i++) {
        do {
            k = test_table_pick(&held[i], NULL);

            if (k >= TEST_NEAR_PREFERRED) {
                test_table_end(&held[i], 0);
            }

        } while (k >= TEST_NEAR_PREFERRED);
    }

    test_near_is(0);

    test_table_end(&held[0], 0);
    test_table_end(&held[1], 0);

    test_near_is(TEST_NEAR_PICKS * 2 / 5);

    test_alloc_resume();
}


/*
 * The last preferred members have failed: when they may be tried again, they
 * regain their weight with the requests that go to others, too.
 */

static void
test_near_back(ngx_pool_t *pool, char *method)
{
    u_char           text[NGX_INT_T_LEN];
    ngx_int_t        k;
    ngx_str_t        key;
    ngx_uint_t       i;
    ngx_etcd_pick_t  pick;

    tap_expect(test_near_init(pool, method, 80) == NGX_OK);
    test_alloc_pause();

    test_near_set(0, TEST_NEAR_PREFERRED, "near weight=1200");

    for (i = 0; test_world.table.near.weight != 0; i++) {
        key.data = text;
        key.len = ngx_sprintf(text, "%ui", i) - text;

        k = test_table_pick(&pick, &key);
        test_table_end(&pick, (k < TEST_NEAR_PREFERRED) ? NGX_PEER_FAILED : 0);
    }

    test_near_is(0);

    test_world.time.sec += 11;

    /* one unit of weight for each request */

    (void) test_near_count();
    test_near_is(TEST_NEAR_PICKS);

    test_alloc_resume();
}


static void
test_near_returns(ngx_pool_t *pool)
{
    test_near_back(pool, "round_robin");
}


static void
test_near_returns_keys(ngx_pool_t *pool)
{
    test_near_back(pool, "hash");
}


/* The same key goes to the same member while nothing changes. */

static void
test_near_keys(ngx_pool_t *pool, char *method)
{
    u_char           text[NGX_INT_T_LEN];
    ngx_int_t        k[100], again;
    ngx_str_t        key;
    ngx_uint_t       i;
    ngx_etcd_pick_t  pick;

    tap_expect(test_near_init(pool, method, 100) == NGX_OK);
    test_alloc_pause();

    test_near_set(0, 2, "near drain");

    for (i = 0; i < 300; i++) {
        key.data = text;
        key.len = ngx_sprintf(text, "%ui", i % 100) - text;

        again = test_table_pick(&pick, &key);
        tap_check(again != TEST_TABLE_NONE);
        tap_check(i < 100 || again == k[i % 100]);

        k[i % 100] = again;
        test_table_end(&pick, 0);
    }

    test_alloc_resume();
}


static void
test_near_hash(ngx_pool_t *pool)
{
    test_near_keys(pool, "hash");
}


static void
test_near_consistent(ngx_pool_t *pool)
{
    test_near_keys(pool, "hash consistent");
}


/* A session stays with a member that is not preferred. */

static void
test_near_bound(ngx_pool_t *pool)
{
    ngx_uint_t             i, k;
    ngx_etcd_pick_t        pick;
    ngx_peer_connection_t  pc;

    tap_expect(test_near_init(pool, "round_robin", 100) == NGX_OK);
    test_alloc_pause();

    for (i = 0; i < 20; i++) {
        k = (i % 2) ? 1 : TEST_NEAR_PREFERRED + 1;

        ngx_memzero(&pc, sizeof(ngx_peer_connection_t));
        pc.log = pool->log;
        pc.tries = 1;

        (void) ngx_etcd_pick_init(&pick, &test_world.table, &test_world.name,
                                  pool);

        tap_check(ngx_etcd_pick_get_bound(&pc, &pick,
                                          &test_world.table.slots[k]->sid->id)
                  == NGX_OK);
        tap_check(pick.peer->index == k);

        test_table_end(&pick, 0);
    }

    test_alloc_resume();
}


/* Priorities and backups come first: nearness is among equals. */

static void
test_near_backup(ngx_pool_t *pool)
{
    tap_expect(test_near_init(pool, "round_robin", 100) == NGX_OK);
    test_alloc_pause();

    test_near_set(0, TEST_NEAR_PREFERRED, "near backup");
    test_near_is(0);

    test_near_set(0, TEST_NEAR_PREFERRED, "near priority=1");
    test_near_is(0);
    tap_check(ngx_etcd_peer_group_all(&test_world.table.near) == 0);

    test_near_set(TEST_NEAR_PREFERRED, TEST_NEAR_ALL - TEST_NEAR_PREFERRED,
                  "down");
    test_near_is(TEST_NEAR_PICKS);
    tap_check(ngx_etcd_peer_group_all(&test_world.table.near)
              == TEST_NEAR_PREFERRED);

    test_near_set(TEST_NEAR_PREFERRED, TEST_NEAR_ALL - TEST_NEAR_PREFERRED,
                  "backup");
    test_near_set(0, TEST_NEAR_PREFERRED, "near down");
    test_near_is(0);

    test_alloc_resume();
}


/* The mark of a member alone has no effect. */

static void
test_near_off(ngx_pool_t *pool)
{
    tap_expect(test_near_init(pool, "round_robin", 0) == NGX_OK);
    test_alloc_pause();

    tap_check(ngx_etcd_peer_group_all(&test_world.table.near) == 0);
    test_near_is(TEST_NEAR_PICKS * TEST_NEAR_PREFERRED / TEST_NEAR_ALL);

    test_alloc_resume();
}


ngx_etcd_tap_test_t  test_near[] = {
    { "near: shares, by each method", test_near_shares },
    { "near: the limits of spill", test_near_spill },
    { "near: members that fail or are full", test_near_failing },
    { "near: members that have all failed", test_near_returns },
    { "near: keys of members that have all failed", test_near_returns_keys },
    { "near: keys", test_near_hash },
    { "near: keys on a ring", test_near_consistent },
    { "near: sessions", test_near_bound },
    { "near: backups and priorities", test_near_backup },
    { "near: off", test_near_off },
    { NULL, NULL }
};
