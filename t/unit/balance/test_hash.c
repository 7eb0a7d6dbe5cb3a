
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_balance.h>
#include "test_world.h"


#define TEST_HASH_KEYS  200


static char  *test_hash_methods[] = { "hash", "hash consistent" };


/* The peers of all keys. */

static ngx_uint_t
test_hash_map(ngx_int_t *peers)
{
    u_char           buf[NGX_INT_T_LEN];
    ngx_str_t        key;
    ngx_uint_t       i;
    ngx_etcd_pick_t  pick;

    for (i = 0; i < TEST_HASH_KEYS; i++) {
        key.data = buf;
        key.len = ngx_sprintf(buf, "%ui", i) - buf;

        peers[i] = test_table_pick(&pick, &key);

        if (peers[i] == TEST_TABLE_NONE) {
            return 0;
        }

        test_table_end(&pick, 0);
    }

    return 1;
}


/* A key has one peer; without a key peers take turns. */

static void
test_hash_keys(ngx_pool_t *pool)
{
    ngx_int_t    one[TEST_HASH_KEYS], two[TEST_HASH_KEYS];
    ngx_uint_t   i, m, counts[8];
    ngx_pool_t  *own;

    test_alloc_pause();

    for (m = 0; m < 2; m++) {
        own = ngx_create_pool(1024, pool->log);

        tap_check(test_table_init(own, test_hash_methods[m]) == NGX_OK);
        test_table_add(0, 3, "weight=1");
        test_table_add(3, 1, "weight=3");
        tap_check(test_table_follow() == NGX_OK);

        tap_check(test_hash_map(one) && test_hash_map(two));
        tap_check(ngx_memcmp(one, two, sizeof(one)) == 0);

        ngx_memzero(counts, sizeof(counts));

        for (i = 0; i < TEST_HASH_KEYS; i++) {
            counts[one[i]]++;
        }

        for (i = 0; i < 3; i++) {
            tap_check(counts[i] > 10 && counts[i] < 70);
        }

        tap_check(counts[3] > 60);

        test_table_count(60, counts);
        tap_check(counts[0] == 10 && counts[3] == 30);

        ngx_destroy_pool(own);
    }

    test_alloc_resume();
}


/* Peers that are not used keep their places: the keys of the others stay. */

static void
test_hash_down(ngx_pool_t *pool)
{
    ngx_int_t    one[TEST_HASH_KEYS], two[TEST_HASH_KEYS];
    ngx_uint_t   i, m;
    ngx_pool_t  *own;

    test_alloc_pause();

    for (m = 0; m < 2; m++) {
        own = ngx_create_pool(1024, pool->log);

        tap_check(test_table_init(own, test_hash_methods[m]) == NGX_OK);
        test_table_add(0, 4, NULL);
        tap_check(test_table_follow() == NGX_OK);
        tap_check(test_hash_map(one));

        test_table_add(2, 1, "down");
        tap_check(test_table_follow() == NGX_OK);
        tap_check(test_hash_map(two));

        for (i = 0; i < TEST_HASH_KEYS; i++) {
            tap_check(two[i] != 2 && (one[i] == 2 || one[i] == two[i]));
        }

        ngx_destroy_pool(own);
    }

    test_alloc_resume();
}


/* With "consistent" a peer that goes takes only its own keys along. */

static void
test_hash_consistent(ngx_pool_t *pool)
{
    ngx_int_t   one[TEST_HASH_KEYS], two[TEST_HASH_KEYS];
    ngx_uint_t  i;

    tap_expect(test_table_init(pool, "hash consistent") == NGX_OK);
    test_table_add(0, 4, NULL);
    tap_check(test_table_follow() == NGX_OK);
    tap_expect(test_hash_map(one));

    test_table_remove(1, 1);
    tap_check(test_table_follow() == NGX_OK);
    tap_expect(test_hash_map(two));

    for (i = 0; i < TEST_HASH_KEYS; i++) {
        tap_check(two[i] != 1 && (one[i] == 1 || one[i] == two[i]));
    }
}


/* In slow start a peer has a part of its keys, which only grows. */

static void
test_hash_slow_start(ngx_pool_t *pool)
{
    ngx_int_t         full[TEST_HASH_KEYS], now[TEST_HASH_KEYS];
    ngx_int_t         last[TEST_HASH_KEYS];
    ngx_uint_t        i, m, n, share, part;
    ngx_pool_t       *own;
    ngx_etcd_peer_t  *peer;

    test_alloc_pause();

    for (m = 0; m < 2; m++) {
        own = ngx_create_pool(1024, pool->log);

        tap_check(test_table_init(own, test_hash_methods[m]) == NGX_OK);
        test_table_add(0, 3, "slow_start=64");
        tap_check(test_table_follow() == NGX_OK);

        for (i = 0; i < 3; i++) {
            test_world.table.slots[i]->slot->started = 0;
        }

        tap_check(test_hash_map(full));

        peer = test_world.table.slots[0];
        peer->slot->started = ngx_etcd_slot_now();

        ngx_memset(last, 0xff, sizeof(last));
        part = 0;

        for (n = 0; n < 3; n++) {
            tap_check(test_hash_map(now));
            share = 0;

            for (i = 0; i < TEST_HASH_KEYS; i++) {
                tap_check(now[i] == 0 || full[i] == 0 || now[i] == full[i]);
                tap_check(last[i] != 0 || now[i] == 0);
                share += (now[i] == 0);
            }

            tap_check(n == 0 || share > part);

            part = share;
            ngx_memcpy(last, now, sizeof(last));
            ngx_current_msec += 32000;
        }

        tap_check(ngx_memcmp(now, full, sizeof(now)) == 0);

        ngx_destroy_pool(own);
    }

    test_alloc_resume();
}


ngx_etcd_tap_test_t  test_hash[] = {
    { "hash: keys", test_hash_keys },
    { "hash: peers that are not used", test_hash_down },
    { "hash: consistent", test_hash_consistent },
    { "hash: slow start", test_hash_slow_start },
    { NULL, NULL }
};
