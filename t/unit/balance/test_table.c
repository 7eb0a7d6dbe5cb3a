
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Tables of a set in a zone of one process: what is picked of them, and who
 * waits for them.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_balance.h>
#include <ngx_etcd_reload.h>
#include "test_loop.h"
#include "test_world.h"


static char  *test_table_methods[] = {
    "round_robin", "least_conn", "random", "hash", "hash consistent", "ewma"
};

#define TEST_TABLE_METHODS  6
#define TEST_TABLE_OTHERS   100    /* sets: more than a piece of the owner's */


/* A table has what its set has, with every method, also after a shortage. */

static void
test_table_set(ngx_pool_t *pool, char *method)
{
    ngx_etcd_table_t  *table;

    table = &test_world.table;

    tap_expect(test_table_init(pool, method) == NGX_OK);
    tap_check(!ngx_etcd_table_ready(table));

    test_table_add(0, 5, "weight=3");
    tap_check(test_table_follow() == NGX_OK);
    tap_check(table->nmembers == 5);
    tap_check(ngx_etcd_peer_group_all(&table->primary) == 5);
    tap_check(ngx_etcd_table_ready(table));

    test_table_add(5, 1, "down");
    test_table_add(6, 1, "drain");
    test_table_add(7, 1, "backup");
    test_table_remove(0, 2);
    tap_check(test_table_follow() == NGX_OK);
    tap_check(table->nmembers == 6 && table->slots[0] == NULL);
    tap_check(ngx_etcd_peer_group_all(&table->primary) == 5);
    tap_check(ngx_etcd_peer_group_all(&table->backup) == 1);

    /* the lowest priority is the primary group, the others are backups */

    test_table_add(8, 2, "priority=5");
    tap_check(test_table_follow() == NGX_OK);
    tap_check(ngx_etcd_peer_group_all(&table->backup) == 3);

    /* other attributes, and everything gone */

    test_table_add(2, 3, "weight=9");
    tap_check(test_table_follow() == NGX_OK);
    tap_check(table->slots[2]->attr.weight == 9);
    tap_check(ngx_etcd_peer_group_all(&table->primary) == 5);

    test_table_add(10, 40, NULL);
    tap_check(test_table_follow() == NGX_OK);
    tap_check(ngx_etcd_peer_group_all(&table->primary) == 45);

    test_table_remove(2, 48);
    tap_check(test_table_follow() == NGX_OK);
    tap_check(table->nmembers == 0 && !ngx_etcd_table_ready(table));
    tap_check(ngx_etcd_table_first(table) == NULL);
}


static void
test_table_follows(ngx_pool_t *pool)
{
    ngx_uint_t   i;
    ngx_pool_t  *own;

    for (i = 0; i < TEST_TABLE_METHODS; i++) {
        test_alloc_pause();
        own = ngx_create_pool(1024, pool->log);
        test_alloc_resume();

        test_table_set(own, test_table_methods[i]);

        ngx_destroy_pool(own);
    }
}


/*
 * A process that starts late: the set is that of another upstream by then.
 */

static void
test_table_reused(ngx_pool_t *pool)
{
    uint32_t                former;
    ngx_etcd_table_t        table;
    ngx_etcd_object_id_t    id;
    ngx_etcd_member_set_t  *set;

    tap_expect(test_table_init(pool, "round_robin") == NGX_OK);
    test_alloc_pause();

    set = test_world.set;
    former = set->object.id;

    ngx_etcd_object_retire(&test_world.zone, &ngx_etcd_member_set_type,
                           &set->object);

    ngx_memzero(&id, sizeof(ngx_etcd_object_id_t));
    ngx_str_set(&id.name, "another");

    ngx_etcd_table_init(&table, &test_world.conf, &test_world.zone, set, former,
                        pool->log);
    tap_check(ngx_etcd_table_start(&table, 0, 0) == NGX_OK);
    ngx_etcd_table_done(&table);

    tap_check(ngx_etcd_object_declare(&test_world.zone,
                                      &ngx_etcd_member_set_type, &id)
              == set);
    test_table_add(0, 3, NULL);

    ngx_etcd_table_init(&table, &test_world.conf, &test_world.zone, set, former,
                        pool->log);
    tap_check(ngx_etcd_table_start(&table, 0, 0) == NGX_OK);
    tap_check(table.nmembers == 0);
    tap_check(!ngx_etcd_table_ready(&table));
    ngx_etcd_table_done(&table);

    test_alloc_resume();
}


/*
 * A set that is too large to be freed at once grows old after the owner has
 * passed it: the next pass finds it.
 */

static void
test_table_retired(ngx_pool_t *pool)
{
    u_char                  name[NGX_INT_T_LEN];
    ngx_uint_t              i;
    ngx_etcd_zone_t        *zone;
    ngx_etcd_object_id_t    id;
    ngx_etcd_member_set_t  *set;

    tap_expect(test_table_init(pool, "round_robin") == NGX_OK);
    test_table_add(0, 200, NULL);

    zone = &test_world.zone;
    set = test_world.set;

    ngx_memzero(&id, sizeof(ngx_etcd_object_id_t));
    id.name.data = name;

    for (i = 0; i < TEST_TABLE_OTHERS; i++) {
        id.name.len = ngx_sprintf(name, "%ui", i) - name;
        tap_expect(ngx_etcd_object_declare(zone, &ngx_etcd_member_set_type, &id)
                   != NULL);
    }

    tap_expect(ngx_etcd_zone_claim(zone, 0) == NGX_OK);
    tap_check(ngx_etcd_retire_sets(zone, 1) == NGX_AGAIN);
    tap_check(set->nslots != 0);

    set->object.epoch = 0;

    tap_check(ngx_etcd_retire_one(zone, set, 1) == NGX_AGAIN);
    tap_check(set->nslots != 0);
    tap_check(ngx_etcd_retire_sets(zone, (uint64_t) -1) == NGX_OK);
    tap_check(set->nslots == 0);
}


/* The slab rounds up to powers of two: a set and its first slots just fit. */

static void
test_table_small(ngx_pool_t *pool)
{
    ngx_etcd_member_set_t  *set;

    tap_check(sizeof(ngx_etcd_member_set_t) <= 512);
    tap_check(sizeof(ngx_etcd_chunk_t) <= 1024);

    tap_expect(test_table_init(pool, "round_robin") == NGX_OK);

    set = test_world.set;

    test_table_add(0, NGX_ETCD_MEMBER_SET_SLOTS, NULL);
    tap_expect(test_table_follow() == NGX_OK);
    tap_check(set->chunks == NULL && set->ring.slots == NULL);

    /* the ring of a larger set is another one, and has nothing of before */

    test_table_add(NGX_ETCD_MEMBER_SET_SLOTS, NGX_ETCD_MEMBER_SET_PIECE, NULL);
    tap_check(set->ring.base != 0);
    tap_check(!ngx_etcd_member_set_remembers(set, set->ring.base - 1));
    tap_check(ngx_etcd_member_set_remembers(set, set->ring.base));

    tap_expect(test_table_follow() == NGX_OK);
    tap_check(test_world.table.nmembers == set->commit.nmembers);
}


/* Each peer once for a request, then none; connections are counted. */

static void
test_table_tries(ngx_pool_t *pool)
{
    ngx_int_t               rc;
    ngx_str_t               key = ngx_string("a key");
    ngx_uint_t              i, k, n, seen;
    ngx_pool_t             *own;
    ngx_etcd_pick_t         pick;
    ngx_peer_connection_t   pc;

    for (i = 0; i < TEST_TABLE_METHODS; i++) {
        test_alloc_pause();
        own = ngx_create_pool(1024, pool->log);

        tap_check(test_table_init(own, test_table_methods[i]) == NGX_OK);
        test_table_add(0, 4, NULL);
        test_table_add(4, 1, "down");
        test_table_add(5, 1, "backup");
        tap_check(test_table_follow() == NGX_OK);

        ngx_memzero(&pc, sizeof(ngx_peer_connection_t));
        pc.log = pool->log;
        pc.tries = 1;

        /* picked early, and never used: it has no connection afterwards */

        (void) ngx_etcd_pick_init(&pick, &test_world.table, &test_world.name,
                                  own);
        pick.key = key;
        tap_check(ngx_etcd_pick_early(&pc, &pick) == NGX_OK);
        tap_check(pc.sockaddr == NULL);
        ngx_etcd_pick_done(&pick);

        n = ngx_etcd_pick_init(&pick, &test_world.table, &test_world.name,
                               own);
        tap_check(n == 5);
        pick.key = key;
        seen = 0;

        for (k = 0; k < n; k++) {
            rc = ngx_etcd_pick_get(&pc, &pick);
            tap_check(rc == NGX_OK);
            tap_check((seen & (1 << pick.peer->index)) == 0);

            /* the backup is the last one */

            tap_check((pick.peer->index == 5) == (k == 4));
            seen |= 1 << pick.peer->index;

            tap_check(ngx_etcd_peer_conns(pick.peer) == 1);
            ngx_etcd_pick_free(&pc, &pick, NGX_PEER_FAILED);
        }

        tap_check(seen == 0x2f);
        tap_check(ngx_etcd_pick_get(&pc, &pick) == NGX_BUSY);
        tap_check(pc.name == &test_world.name);

        ngx_etcd_pick_done(&pick);

        for (k = 0; k < 6; k++) {
            tap_check(ngx_etcd_peer_conns(test_world.table.slots[k]) == 0);
        }

        ngx_destroy_pool(own);
        test_alloc_resume();
    }
}


static void
test_table_weights(ngx_pool_t *pool)
{
    ngx_uint_t   i, counts[8];
    ngx_pool_t  *own;

    static char *methods[] = { "round_robin", "least_conn", "random", "ewma" };

    test_alloc_pause();

    for (i = 0; i < 4; i++) {
        own = ngx_create_pool(1024, pool->log);

        tap_check(test_table_init(own, methods[i]) == NGX_OK);
        test_table_add(0, 2, "weight=1");
        test_table_add(2, 1, "weight=2");
        tap_check(test_table_follow() == NGX_OK);

        test_table_count(4000, counts);

        tap_check(counts[0] > 850 && counts[0] < 1150);
        tap_check(counts[1] > 850 && counts[1] < 1150);
        tap_check(counts[2] > 1800 && counts[2] < 2200);

        ngx_destroy_pool(own);
    }

    test_alloc_resume();
}


/* Connections that stay go by weights; who has lost some gets the next. */

static void
test_table_conns(ngx_pool_t *pool)
{
    ngx_int_t                k;
    ngx_uint_t               i, j, counts[2];
    ngx_pool_t              *own;

    static char             *methods[] = { "least_conn", "random" };
    static ngx_etcd_pick_t   picks[50];

    test_alloc_pause();

    for (i = 0; i < 2; i++) {
        own = ngx_create_pool(1024, pool->log);

        tap_check(test_table_init(own, methods[i]) == NGX_OK);
        test_table_add(0, 1, "weight=1");
        test_table_add(1, 1, "weight=3");
        tap_check(test_table_follow() == NGX_OK);

        ngx_memzero(counts, sizeof(counts));

        for (j = 0; j < 40; j++) {
            k = test_table_pick(&picks[j], NULL);
            tap_check(k == 0 || k == 1);
            counts[k]++;
        }

        tap_check(counts[0] >= 9 && counts[0] <= 11);

        for (j = 0; j < 40; j++) {
            if (picks[j].peer->index == 0) {
                test_table_end(&picks[j], 0);
            }
        }

        for (j = 40; j < 48; j++) {
            tap_check(test_table_pick(&picks[j], NULL) == 0);
        }

        for (j = 0; j < 48; j++) {
            if (picks[j].peer != NULL) {
                test_table_end(&picks[j], 0);
            }
        }

        ngx_destroy_pool(own);
    }

    test_alloc_resume();
}


/* Failures park a peer for a while; then it has a part of its weight. */

static void
test_table_failures(ngx_pool_t *pool)
{
    ngx_int_t        k;
    ngx_uint_t       i, counts[8];
    ngx_etcd_pick_t  pick;

    test_alloc_pause();

    tap_check(test_table_init(pool, "round_robin") == NGX_OK);
    test_table_add(0, 2, "max_fails=2");
    tap_check(test_table_follow() == NGX_OK);

    for (i = 0; i < 4; i++) {
        k = test_table_pick(&pick, NULL);
        test_table_end(&pick, (k == 0) ? NGX_PEER_FAILED : 0);
    }

    test_table_count(100, counts);
    tap_check(counts[0] == 0 && counts[1] == 100);
    tap_check(ngx_etcd_peer_failed(test_world.table.slots[0]));

    test_world.time.sec += 9;
    test_table_count(100, counts);
    tap_check(counts[0] == 0);

    test_world.time.sec += 2;
    ngx_current_msec += 11000;
    test_table_count(100, counts);
    tap_check(counts[0] > 0);

    for (i = 0; i < 50; i++) {
        test_table_count(100, counts);
    }

    tap_check(counts[0] == 50 && counts[1] == 50);

    /* both: the last resort is none */

    for (i = 0; i < 4; i++) {
        if (test_table_pick(&pick, NULL) != TEST_TABLE_NONE) {
            test_table_end(&pick, NGX_PEER_FAILED);
        }
    }

    test_table_count(10, counts);
    tap_check(counts[0] == 0 && counts[1] == 0);

    /* requests do not wait for that */

    tap_check(ngx_etcd_table_ready(&test_world.table));

    test_alloc_resume();
}


static void
test_table_max_conns(ngx_pool_t *pool)
{
    ngx_int_t        one, two;
    ngx_etcd_pick_t  first, second, third;

    test_alloc_pause();

    tap_check(test_table_init(pool, "least_conn") == NGX_OK);
    test_table_add(0, 2, "max_conns=1");
    tap_check(test_table_follow() == NGX_OK);

    one = test_table_pick(&first, NULL);
    two = test_table_pick(&second, NULL);
    tap_check(one != two && one != TEST_TABLE_NONE && two != TEST_TABLE_NONE);
    tap_check(test_table_pick(&third, NULL) == TEST_TABLE_NONE);
    tap_check(ngx_etcd_peer_group_usable(&test_world.table.primary) == 0);

    test_table_end(&first, 0);
    tap_check(test_table_pick(&third, NULL) == one);

    test_table_end(&second, 0);
    test_table_end(&third, 0);

    test_alloc_resume();
}


/* A key stays where it is, but for those of the peer that comes or goes. */

static void
test_table_keys(ngx_pool_t *pool)
{
    u_char            buf[NGX_INT_T_LEN];
    ngx_str_t         key;
    ngx_uint_t        i, moved;
    ngx_etcd_pick_t   pick;

    static ngx_int_t  before[1000];

    test_alloc_pause();

    tap_check(test_table_init(pool, "hash consistent") == NGX_OK);
    test_table_add(0, 7, NULL);
    tap_check(test_table_follow() == NGX_OK);

    moved = 0;

    for (i = 0; i < 2000; i++) {
        key.data = buf;
        key.len = ngx_sprintf(buf, "%ui", i % 1000) - buf;

        if (i < 1000) {
            before[i] = test_table_pick(&pick, &key);
            test_table_end(&pick, 0);
            continue;
        }

        if (i == 1000) {
            test_table_remove(3, 1);
            tap_check(test_table_follow() == NGX_OK);
        }

        if (test_table_pick(&pick, &key) != before[i - 1000]) {
            tap_check(before[i - 1000] == 3);
            moved++;
        }

        test_table_end(&pick, 0);
    }

    tap_check(moved > 80 && moved < 220);

    test_alloc_resume();
}


/* Users of a peer are told when it leaves, unless they have left before. */

static void
test_table_users(ngx_pool_t *pool)
{
    ngx_int_t         one, two;
    ngx_etcd_pick_t   pick, other;

    tap_expect(test_table_init(pool, "round_robin") == NGX_OK);

    test_world.conf.close = 1;
    test_table_add(0, 2, NULL);
    tap_check(test_table_follow() == NGX_OK);

    one = test_table_pick(&pick, NULL);
    two = test_table_pick(&other, NULL);

    if (two != TEST_TABLE_NONE) {
        test_table_end(&other, 0);
    }

    test_table_remove(0, 2);
    tap_check(test_table_follow() == NGX_OK);
    tap_check(test_world.closed == 0);

    test_loop_run();
    tap_check(test_world.closed == (one != TEST_TABLE_NONE));

    /* the picked peer is there until it is not used any more */

    if (one != TEST_TABLE_NONE) {
        tap_text(&pick.peer->name, "10.0.0.0:80");
        tap_check(ngx_etcd_table_current(&test_world.table, pick.peer)
                  == NULL);
        test_table_end(&pick, 0);
    }

    tap_expect(one == 0 && two == 1);
}


static void
test_table_woken(ngx_etcd_wait_queue_entry_t *entry)
{
    test_world.woken[test_world.nwoken++] = entry - test_world.waits;

    if (entry->data != NULL) {
        ngx_etcd_wait_queue_cancel(entry->data);
    }
}


/* Requests that wait go on in their order, some at a time; or in time. */

static void
test_table_waits(ngx_pool_t *pool)
{
    ngx_uint_t                     i;
    ngx_etcd_wait_queue_t         *queue;
    ngx_etcd_wait_queue_entry_t   *waits;

    test_alloc_pause();

    tap_check(test_table_init(pool, "round_robin") == NGX_OK);

    queue = &test_world.table.wait_queue;
    waits = test_world.waits;

    for (i = 0; i < TEST_TABLE_WAITS; i++) {
        waits[i].handler = test_table_woken;

        tap_check(ngx_etcd_wait_queue_begin(&waits[i], queue,
                                            i == 7 ? 100 : 1000, 150,
                                            pool->log)
                  == (i < 150 ? NGX_OK : NGX_BUSY));
    }

    tap_check(queue->n == 150);

    test_loop_pass(100);
    tap_check(test_world.nwoken == 1 && test_world.woken[0] == 7);
    tap_check(waits[7].waited == 100 && queue->n == 149);

    ngx_etcd_wait_queue_cancel(&waits[8]);
    ngx_etcd_wait_queue_cancel(&waits[8]);
    tap_check(queue->n == 148);

    /* without a peer nobody goes on */

    ngx_etcd_wait_queue_wake(queue);
    test_loop_run();
    tap_check(test_world.nwoken == 1);

    /* a handler may end other waits */

    waits[0].data = &waits[1];
    waits[2].data = &waits[149];

    test_table_add(0, 1, NULL);
    tap_check(test_table_follow() == NGX_OK);
    tap_check(test_world.nwoken == 1);

    ngx_event_process_posted((ngx_cycle_t *) ngx_cycle, &ngx_posted_events);
    tap_check(test_world.nwoken == 1 + NGX_ETCD_WAIT_QUEUE_BATCH);

    test_loop_run();
    tap_check(test_world.nwoken == 147 && queue->n == 0);
    tap_check(test_world.woken[1] == 0 && test_world.woken[2] == 2);

    for (i = 3; i < test_world.nwoken; i++) {
        tap_check(test_world.woken[i] > test_world.woken[i - 1]);
    }

    tap_check(test_loop_idle());

    test_alloc_resume();
}


static void
test_table_method_names(ngx_pool_t *pool)
{
    ngx_str_t  none = ngx_null_string;
    ngx_str_t  hash = ngx_string("hash");
    ngx_str_t  consistent = ngx_string("consistent");
    ngx_str_t  other = ngx_string("hashes");

    tap_check(ngx_etcd_balance_method(&hash, &none) == &ngx_etcd_hash_method);
    tap_check(ngx_etcd_balance_method(&hash, &consistent)
              == &ngx_etcd_hash_consistent_method);
    tap_check(ngx_etcd_balance_method(&other, &none) == NULL);
    tap_check(ngx_etcd_balance_method(&hash, &other) == NULL);
    tap_check(ngx_etcd_balance_method(&none, &none) == NULL);
}


ngx_etcd_tap_test_t  test_table[] = {
    { "table: follows its set", test_table_follows },
    { "table: its set is another's", test_table_reused },
    { "sets: one grows old behind the owner", test_table_retired },
    { "sets: a small one, which grows", test_table_small },
    { "pick: each peer once", test_table_tries },
    { "pick: weights", test_table_weights },
    { "pick: connections", test_table_conns },
    { "health: failures", test_table_failures },
    { "health: max_conns", test_table_max_conns },
    { "hash: keys stay", test_table_keys },
    { "peer: users", test_table_users },
    { "wait queue", test_table_waits },
    { "methods: names", test_table_method_names },
    { NULL, NULL }
};
