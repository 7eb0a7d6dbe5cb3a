
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "test_world.h"


static ngx_etcd_peer_group_t  *group = &test_world.table.primary;


static ngx_etcd_peer_t *
test_health_init(ngx_pool_t *pool, char *parameter)
{
    if (test_table_init(pool, "round_robin") != NGX_OK) {
        return NULL;
    }

    test_table_add(0, 2, parameter);

    return (test_table_follow() == NGX_OK) ? test_world.table.slots[0] : NULL;
}


#define test_health_is(peer, region)                                          \
    (ngx_etcd_peer_group_region(group, peer) == NGX_ETCD_REGION_ ## region)


/* down and drain; a session goes on while its peer is drained */

static void
test_health_barred(ngx_pool_t *pool)
{
    ngx_etcd_peer_t  *peer;

    peer = test_health_init(pool, NULL);
    tap_expect(peer != NULL);

    tap_check(test_health_is(peer, WHOLE));
    tap_check(ngx_etcd_health_usable(group, peer, 1));
    tap_check(ngx_etcd_health_serves(peer, 1));

    test_table_add(0, 1, "drain");
    tap_check(test_table_follow() == NGX_OK);
    peer = test_world.table.slots[0];

    tap_check(test_health_is(peer, BARRED));
    tap_check(!ngx_etcd_health_check(group, peer, 1));
    tap_check(ngx_etcd_health_serves(peer, 1));

    test_table_add(0, 1, "down");
    tap_check(test_table_follow() == NGX_OK);
    peer = test_world.table.slots[0];

    tap_check(test_health_is(peer, BARRED));
    tap_check(!ngx_etcd_health_serves(peer, 1));
}


static void
test_health_full(ngx_pool_t *pool)
{
    ngx_etcd_peer_t  *peer;

    peer = test_health_init(pool, "max_conns=1");
    tap_expect(peer != NULL);

    tap_check(ngx_etcd_health_check(group, peer, 1));
    (void) ngx_etcd_counter_add(&peer->slot->conns, peer->uid, 1);

    tap_check(!ngx_etcd_health_check(group, peer, 1));
    tap_check(test_health_is(peer, PARKED) && peer->weight == 0);
    tap_check(!ngx_etcd_health_serves(peer, 1));

    (void) ngx_etcd_counter_add(&peer->slot->conns, peer->uid, -1);

    ngx_etcd_health_sweep(group, 1);
    tap_check(test_health_is(peer, WHOLE));
    tap_check(peer->weight == NGX_ETCD_PEER_UNIT);
}


/*
 * A verdict parks a peer, also for its sessions; with too few members left, a
 * failed check does not.  The verdict on a former member of the slot is void.
 */

static void
test_health_verdict(ngx_pool_t *pool)
{
    ngx_uint_t        both;
    ngx_etcd_peer_t  *peer;

    peer = test_health_init(pool, NULL);
    tap_expect(peer != NULL);

    both = NGX_ETCD_HEALTH_FAILURES|NGX_ETCD_HEALTH_CHECKS;

    tap_check(ngx_etcd_health_usable(group, peer, both));

    ngx_etcd_counter_set(&peer->slot->verdict, peer->uid,
                         NGX_ETCD_VERDICT_FAILED);

    tap_check(!ngx_etcd_health_usable(group, peer, both));
    tap_check(test_health_is(peer, PARKED) && peer->weight == 0);
    tap_check(!ngx_etcd_health_serves(peer, both));

    tap_check(ngx_etcd_table_counts(&test_world.table)
              & NGX_ETCD_HEALTH_CHECKS);
    test_world.table.set->checks.panic = 1;
    tap_check(!(ngx_etcd_table_counts(&test_world.table)
                & NGX_ETCD_HEALTH_CHECKS));

    tap_check(ngx_etcd_health_usable(group, peer, NGX_ETCD_HEALTH_FAILURES));
    tap_check(test_health_is(peer, WHOLE));
    tap_check(!ngx_etcd_health_usable(group, peer, both));

    ngx_etcd_counter_set(&peer->slot->verdict, peer->uid,
                         NGX_ETCD_VERDICT_UNPROVEN);
    tap_check(!ngx_etcd_health_usable(group, peer, NGX_ETCD_HEALTH_FAILURES));

    ngx_etcd_counter_set(&peer->slot->verdict, peer->uid,
                         NGX_ETCD_VERDICT_EJECTED);
    tap_check(!ngx_etcd_health_usable(group, peer, NGX_ETCD_HEALTH_FAILURES));

    ngx_etcd_counter_set(&peer->slot->verdict, peer->uid, 0);
    ngx_etcd_health_sweep(group, both);
    tap_check(test_health_is(peer, WHOLE));

    peer->slot->verdict = (uint64_t) (peer->uid + 1) << 32
                          | NGX_ETCD_VERDICT_FAILED;
    tap_check(ngx_etcd_health_usable(group, peer, both));
}


/* max_fails failures park a peer for fail_timeout, and take its weight */

static void
test_health_failed(ngx_pool_t *pool)
{
    ngx_uint_t        i;
    ngx_etcd_peer_t  *peer;

    peer = test_health_init(pool, "weight=4");
    tap_expect(peer != NULL);

    peer->attr.max_fails = 2;

    /* a sole peer is never unavailable, and has failures until it works */

    tap_check(ngx_etcd_health_failed(group, peer, 0) == 0);
    tap_check(peer->deficit.weight == 0);
    tap_check(ngx_etcd_peer_fails(peer) == 1);
    ngx_etcd_health_worked(peer, 0);
    tap_check(ngx_etcd_peer_fails(peer) == 0);

    tap_check(ngx_etcd_health_failed(group, peer, 1) == 1);
    tap_check(ngx_etcd_health_check(group, peer, 1));
    tap_check(test_health_is(peer, LIGHT) && peer->deficit.weight == 2);
    tap_check(peer->weight == 2 * NGX_ETCD_PEER_UNIT);

    tap_check(ngx_etcd_health_failed(group, peer, 1) == 2);
    tap_check(!ngx_etcd_health_check(group, peer, 1));
    tap_check(test_health_is(peer, PARKED));
    tap_check(ngx_etcd_health_check(group, peer, 0));

    test_world.time.sec += 10;
    tap_check(!ngx_etcd_health_check(group, peer, 1));
    test_world.time.sec += 1;
    tap_check(ngx_etcd_health_check(group, peer, 1));

    /* the failures are forgotten when a try after the last one works */

    ngx_etcd_health_worked(peer, 1);
    tap_check(ngx_etcd_peer_fails(peer) == 2);

    peer->slot->checked = ngx_time();
    ngx_etcd_health_worked(peer, 1);
    tap_check(ngx_etcd_peer_fails(peer) == 0);

    /* one unit of the lost weight comes back with each pick */

    for (i = 0; i < 8 && !test_health_is(peer, WHOLE); i++) {
        group->picks++;
        (void) ngx_etcd_health_check(group, peer, 1);
    }

    tap_check(test_health_is(peer, WHOLE) && peer->deficit.weight == 0);
}


/* The failures of a member that was removed are nobody's. */

static void
test_health_removed(ngx_pool_t *pool)
{
    ngx_etcd_peer_t  *peer;

    peer = test_health_init(pool, "max_fails=1");
    tap_expect(peer != NULL);

    ngx_etcd_peer_ref(peer);
    test_table_remove(0, 1);
    test_table_add(0, 1, NULL);

    tap_check(ngx_etcd_health_failed(group, peer, 1) == 0);
    tap_check(ngx_etcd_peer_fails(peer) == 0);

    ngx_etcd_peer_unref(peer);
}


static void
test_health_slow_start(ngx_pool_t *pool)
{
    ngx_etcd_peer_t  *peer;

    peer = test_health_init(pool, "slow_start=64");
    tap_expect(peer != NULL);

    peer->slot->started = 0;
    tap_check(ngx_etcd_health_level(peer) == NGX_ETCD_PEER_UNIT);

    peer->slot->started = ngx_etcd_slot_now();
    tap_check(ngx_etcd_health_level(peer) == 1);
    tap_expect(ngx_etcd_health_check(group, peer, 1));
    tap_check(test_health_is(peer, LIGHT) && peer->weight == 1);

    /* the clock of the worker that has set it is ahead */

    peer->slot->started += 100;
    tap_check(ngx_etcd_health_level(peer) == 1);
    peer->slot->started -= 100;

    ngx_current_msec += 32000;
    tap_check(ngx_etcd_health_level(peer) == 32);

    ngx_current_msec += 32000;
    tap_check(ngx_etcd_health_level(peer) == NGX_ETCD_PEER_UNIT);

    ngx_etcd_health_sweep(group, 1);
    tap_expect(test_health_is(peer, WHOLE));
}


/* More peers than a few are looked at ten times a second only. */

static void
test_health_sweep(ngx_pool_t *pool)
{
    ngx_uint_t        i;
    ngx_etcd_peer_t  *peer;

    test_alloc_pause();

    tap_check(test_health_init(pool, NULL) != NULL);
    test_table_add(2, NGX_ETCD_HEALTH_FEW + 1, "max_conns=1");
    tap_check(test_table_follow() == NGX_OK);

    for (i = 2; i < NGX_ETCD_HEALTH_FEW + 3; i++) {
        peer = test_world.table.slots[i];
        (void) ngx_etcd_counter_add(&peer->slot->conns, peer->uid, 1);
        tap_check(!ngx_etcd_health_check(group, peer, 1));
    }

    ngx_etcd_health_sweep(group, 1);
    tap_check(ngx_etcd_peer_group_unwell(group) == NGX_ETCD_HEALTH_FEW + 1);

    for (i = 2; i < NGX_ETCD_HEALTH_FEW + 3; i++) {
        peer = test_world.table.slots[i];
        (void) ngx_etcd_counter_add(&peer->slot->conns, peer->uid, -1);
    }

    ngx_current_msec += NGX_ETCD_HEALTH_SWEEP - 1;
    ngx_etcd_health_sweep(group, 1);
    tap_check(ngx_etcd_peer_group_unwell(group) == NGX_ETCD_HEALTH_FEW + 1);

    ngx_current_msec++;
    ngx_etcd_health_sweep(group, 1);
    tap_check(ngx_etcd_peer_group_unwell(group) == 0);

    test_alloc_resume();
}


ngx_etcd_tap_test_t  test_health[] = {
    { "health: down and drained", test_health_barred },
    { "health: max_conns", test_health_full },
    { "health: verdicts", test_health_verdict },
    { "health: failures", test_health_failed },
    { "health: a removed member", test_health_removed },
    { "health: slow start", test_health_slow_start },
    { "health: many", test_health_sweep },
    { NULL, NULL }
};
