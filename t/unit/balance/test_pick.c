
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "test_loop.h"
#include "test_world.h"


#define TEST_PICK_PEERS  4
#define TEST_PICK_TURNS  12

#define test_pick_id(n)     (&test_world.table.slots[n]->sid->id)
#define test_pick_conns(n)  ngx_etcd_peer_conns(test_world.table.slots[n])


static char       *test_pick_methods[] = {
    "round_robin", "least_conn", "random", "ewma", "hash", "hash consistent"
};

static ngx_str_t   test_pick_unknown = ngx_string("unknown");


/* Peers with session ids, with this method. */

static ngx_int_t
test_pick_init(ngx_pool_t *pool, char *method)
{
    if (test_table_init(pool, method) != NGX_OK) {
        return NGX_ERROR;
    }

    test_world.conf.sids = 1;
    test_table_add(0, TEST_PICK_PEERS, NULL);

    return test_table_follow();
}


static ngx_int_t
test_pick_set(ngx_uint_t n, char *parameter)
{
    test_table_add(n, 1, parameter);

    return test_table_follow();
}


static void
test_pick_begin(ngx_etcd_pick_t *pick)
{
    (void) ngx_etcd_pick_init(pick, &test_world.table, &test_world.name,
                              test_world.pool);
    ngx_str_set(&pick->key, "key");
}


/* The number of the peer that the session gets. */

static ngx_int_t
test_pick_get(ngx_etcd_pick_t *pick, ngx_str_t *hint)
{
    ngx_peer_connection_t  pc;

    ngx_memzero(&pc, sizeof(ngx_peer_connection_t));
    pc.log = test_world.pool->log;
    pc.tries = 1;

    if (ngx_etcd_pick_get_bound(&pc, pick, hint) != NGX_OK
        || pc.sockaddr != ngx_etcd_peer_sockaddr(pick->peer))
    {
        return TEST_TABLE_NONE;
    }

    return pick->peer->index;
}


static ngx_int_t
test_pick_early(ngx_etcd_pick_t *pick)
{
    ngx_peer_connection_t  pc;

    ngx_memzero(&pc, sizeof(ngx_peer_connection_t));
    pc.log = test_world.pool->log;
    pc.tries = 1;

    test_pick_begin(pick);

    if (ngx_etcd_pick_early(&pc, pick) != NGX_OK) {
        return TEST_TABLE_NONE;
    }

    return pick->peer->index;
}


/* How many of a number of requests of the session this peer gets. */

static ngx_uint_t
test_pick_gets(ngx_int_t peer, ngx_str_t *hint)
{
    ngx_uint_t       i, n;
    ngx_etcd_pick_t  pick;

    n = 0;

    for (i = 0; i < TEST_PICK_TURNS; i++) {
        test_pick_begin(&pick);

        if (test_pick_get(&pick, hint) == peer) {
            n++;
        }

        test_table_end(&pick, 0);
        ngx_current_msec++;
    }

    return n;
}


static void
test_pick_method(ngx_pool_t *pool, char *method)
{
    ngx_int_t        first;
    ngx_uint_t       i;
    ngx_etcd_pick_t  pick;

    tap_expect(test_pick_init(pool, method) == NGX_OK);
    test_alloc_pause();

    for (i = 0; i < TEST_PICK_PEERS; i++) {
        tap_check(test_pick_gets(i, test_pick_id(i)) == TEST_PICK_TURNS);
    }

    tap_check(test_pick_gets(TEST_TABLE_NONE, &test_pick_unknown) == 0);

    /* a member that drains keeps its sessions only, a leader none */

    tap_check(test_pick_set(1, "drain") == NGX_OK);
    tap_check(test_pick_gets(1, test_pick_id(1)) == TEST_PICK_TURNS);
    tap_check(test_pick_gets(1, &test_pick_unknown) == 0);
    tap_check(test_pick_gets(1, NULL) == 0);

    test_world.conf.leader = 1;
    tap_check(test_pick_gets(1, test_pick_id(1)) == 0);
    test_world.conf.leader = 0;

    /* down, full and failed members keep none */

    tap_check(test_pick_set(1, "down") == NGX_OK);
    tap_check(test_pick_gets(1, test_pick_id(1)) == 0);
    tap_check(test_pick_set(1, "max_conns=1") == NGX_OK);

    test_pick_begin(&pick);
    tap_check(test_pick_get(&pick, test_pick_id(1)) == 1);
    tap_check(test_pick_gets(1, test_pick_id(1)) == 0);
    test_table_end(&pick, 0);
    tap_check(test_pick_gets(1, test_pick_id(1)) == TEST_PICK_TURNS);

    test_pick_begin(&pick);
    tap_check(test_pick_get(&pick, test_pick_id(1)) == 1);
    test_table_end(&pick, NGX_PEER_FAILED);
    tap_check(test_pick_gets(1, test_pick_id(1)) == 0);

    /* an early peer that is not of the session is given back */

    first = test_pick_early(&pick);
    tap_check(first != TEST_TABLE_NONE && test_pick_conns(first) == 1);

    i = (first == 2) ? 3 : 2;
    tap_check(test_pick_get(&pick, test_pick_id(i)) == (ngx_int_t) i);
    tap_check(test_pick_conns(first) == 0 && test_pick_conns(i) == 1);
    tap_check(pick.ntried == 1);
    test_table_end(&pick, 0);

    test_alloc_resume();
}


static void
test_pick_bound(ngx_pool_t *pool)
{
    ngx_uint_t   i;
    ngx_pool_t  *own;

    for (i = 0; i < sizeof(test_pick_methods) / sizeof(char *); i++) {
        test_alloc_pause();
        own = ngx_create_pool(1024, pool->log);
        test_alloc_resume();

        test_pick_method(own, test_pick_methods[i]);

        ngx_destroy_pool(own);
    }
}


/* The early peer stays if no other one is of the session. */

static void
test_pick_kept(ngx_pool_t *pool)
{
    ngx_int_t        n;
    ngx_uint_t       i, requests;
    ngx_str_t       *hints[5];
    ngx_etcd_pick_t  pick;

    tap_expect(test_pick_init(pool, "round_robin") == NGX_OK);
    test_alloc_pause();

    tap_check(test_pick_set(1, "drain") == NGX_OK);
    tap_check(test_pick_set(3, "down") == NGX_OK);
    test_world.conf.leader = 1;

    hints[0] = NULL;
    hints[1] = &test_pick_unknown;
    hints[2] = test_pick_id(1);
    hints[3] = test_pick_id(3);

    for (i = 0; i < 5; i++) {
        n = test_pick_early(&pick);
        tap_check(n == 0 || n == 2);

        hints[4] = test_pick_id(n);
        requests = test_world.table.slots[n]->slot->requests;

        tap_check(test_pick_get(&pick, hints[i]) == n);
        tap_check(test_pick_conns(n) == 1 && pick.ntried == 1);
        tap_check(test_world.table.slots[n]->slot->requests == requests);
        test_table_end(&pick, 0);
        tap_check(test_pick_conns(n) == 0);
    }

    test_alloc_resume();
}


/* A request never gets the same peer twice, even that of its session. */

static void
test_pick_twice(ngx_pool_t *pool)
{
    ngx_uint_t              i, seen;
    ngx_etcd_pick_t         pick;
    ngx_peer_connection_t   pc;

    tap_expect(test_pick_init(pool, "round_robin") == NGX_OK);
    test_alloc_pause();

    ngx_memzero(&pc, sizeof(ngx_peer_connection_t));
    pc.log = pool->log;

    for (i = 0; i < TEST_PICK_PEERS; i++) {
        tap_check(test_pick_set(i, "max_fails=0") == NGX_OK);
    }

    test_pick_begin(&pick);
    seen = 0;

    tap_check(test_pick_get(&pick, test_pick_id(2)) == 2);

    for (i = 0; i < TEST_PICK_PEERS - 1; i++) {
        seen |= 1 << pick.peer->index;
        ngx_etcd_pick_free(&pc, &pick, NGX_PEER_FAILED);
        tap_check(test_pick_get(&pick, test_pick_id(2)) != TEST_TABLE_NONE);
        tap_check((seen & 1 << pick.peer->index) == 0);
    }

    ngx_etcd_pick_free(&pc, &pick, NGX_PEER_FAILED);
    tap_check(test_pick_get(&pick, test_pick_id(2)) == TEST_TABLE_NONE);
    ngx_etcd_pick_done(&pick);

    test_alloc_resume();
}


/* A backup keeps no session while a member of the first group may be picked. */

static void
test_pick_backup(ngx_pool_t *pool)
{
    ngx_uint_t       i;
    ngx_etcd_pick_t  pick;

    tap_expect(test_pick_init(pool, "round_robin") == NGX_OK);
    test_alloc_pause();

    tap_check(test_pick_set(2, "backup") == NGX_OK);
    tap_check(test_pick_set(3, "backup") == NGX_OK);
    tap_check(test_pick_gets(3, test_pick_id(3)) == 0);

    for (i = 0; i < 2; i++) {
        tap_check(test_pick_set(i, "down") == NGX_OK);
    }

    tap_check(test_pick_gets(3, test_pick_id(3)) == TEST_PICK_TURNS);

    tap_check(test_pick_early(&pick) != TEST_TABLE_NONE);
    i = (pick.peer->index == 2) ? 3 : 2;
    tap_check(test_pick_get(&pick, test_pick_id(i)) == (ngx_int_t) i);
    test_table_end(&pick, 0);

    test_alloc_resume();
}


ngx_etcd_tap_test_t  test_pick[] = {
    { "pick: sessions, by each method", test_pick_bound },
    { "pick: a peer that was picked before the session", test_pick_kept },
    { "pick: a session that is tried elsewhere", test_pick_twice },
    { "pick: sessions of backups", test_pick_backup },
    { NULL, NULL }
};
