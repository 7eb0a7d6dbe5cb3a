
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_conf.h>
#include <ngx_etcd_eject.h>
#include <ngx_etcd_reload.h>
#include "test_world.h"


static ngx_etcd_eject_conf_t  test_eject_conf;
static ngx_etcd_eject_t       test_eject;


/* Sets are in use. */

ngx_uint_t
ngx_etcd_service_used(ngx_etcd_service_t *service)
{
    return 1;
}


/* There is no configuration. */

ngx_etcd_conf_t *
ngx_etcd_conf_get(ngx_conf_t *cf, ngx_str_t *name)
{
    return NULL;
}


static ngx_int_t
test_eject_init(ngx_pool_t *pool, ngx_uint_t members, ngx_uint_t max)
{
    ngx_pool_cleanup_t  *cln;

    ngx_memzero(&test_eject, sizeof(ngx_etcd_eject_t));

    if (test_table_init(pool, "round_robin") != NGX_OK) {
        return NGX_ERROR;
    }

    cln = ngx_pool_cleanup_add(pool, 0);
    if (cln == NULL) {
        return NGX_ERROR;
    }

    cln->handler = ngx_etcd_eject_destroy;
    cln->data = &test_eject;

    test_table_add(0, members, NULL);

    (void) ngx_etcd_zone_claim(&test_world.zone, 0);

    test_eject_conf.errors = 50;
    test_eject_conf.min = 10;
    test_eject_conf.max = max;
    test_eject_conf.time = 30;

    test_eject.conf = &test_eject_conf;
    test_eject.zone = &test_world.zone;
    test_eject.set = test_world.set;
    test_eject.name = &test_world.name;
    test_eject.log = pool->log;

    return ngx_etcd_eject_step(&test_eject, 1000);
}


static void
test_eject_answers(ngx_uint_t n, ngx_uint_t answers, ngx_uint_t errors)
{
    ngx_uint_t        i;
    ngx_etcd_slot_t  *slot;

    slot = ngx_etcd_member_set_slot(test_world.set, n);

    for (i = 0; i < answers; i++) {
        ngx_etcd_eject_count(slot, n, slot->uid, i < errors);
    }
}


/* a bit for each ejected member */

static ngx_uint_t
test_eject_out(void)
{
    ngx_uint_t        n, out;
    ngx_etcd_slot_t  *slot;

    out = 0;

    for (n = 0; n < 8; n++) {
        slot = ngx_etcd_member_set_slot(test_world.set, n);

        if (ngx_etcd_counter_get(&slot->verdict, slot->uid)
            & NGX_ETCD_VERDICT_EJECTED)
        {
            out |= 1 << n;
        }
    }

    return out;
}


#define test_eject_note()                                                     \
    ngx_etcd_member_set_note(ngx_etcd_member_set_slot(test_world.set, 0), 0)

#define test_eject_adopt(adopt)                                               \
    ngx_etcd_member_set_inherit_adopt(&test_world.zone, test_world.set, adopt)

#define test_eject_at(now)  (void) ngx_etcd_eject_step(&test_eject, now)


/* enough answers, enough errors, and more of them than the others */

static void
test_eject_sticks_out(ngx_pool_t *pool)
{
    tap_expect(test_eject_init(pool, 4, 100) == NGX_OK);
    tap_expect(test_eject.allocated != 0);

    test_eject_answers(0, 9, 9);
    test_eject_answers(1, 20, 0);
    test_eject_at(1001);
    tap_check(test_eject_out() == 0);

    /* the window has the answers of both steps */

    test_eject_answers(0, 1, 1);
    test_eject_at(1002);
    tap_check(test_eject_out() == 1);

    test_eject_answers(2, 20, 9);
    test_eject_at(1003);
    tap_check(test_eject_out() == 1);

    test_eject_answers(2, 1, 1);
    test_eject_answers(2, 1, 1);
    test_eject_at(1004);
    tap_check(test_eject_out() == 5);

    tap_check(test_world.set->counts.ejections == 2);
}


/* All fail, one a little more: the cause is elsewhere. */

static void
test_eject_alike(ngx_pool_t *pool)
{
    tap_expect(test_eject_init(pool, 4, 100) == NGX_OK);
    tap_expect(test_eject.allocated != 0);

    test_eject_answers(0, 100, 100);
    test_eject_answers(1, 100, 60);
    test_eject_answers(2, 100, 60);
    test_eject_answers(3, 100, 60);
    test_eject_at(1001);
    tap_check(test_eject_out() == 0);
}


/* The others must be known, too. */

static void
test_eject_few(ngx_pool_t *pool)
{
    tap_expect(test_eject_init(pool, 2, 100) == NGX_OK);
    tap_expect(test_eject.allocated != 0);

    test_eject_answers(0, 100, 100);
    test_eject_answers(1, 9, 0);
    test_eject_at(1001);
    tap_check(test_eject_out() == 0);
}


/* Never more than max=; the worst first. */

static void
test_eject_max(ngx_pool_t *pool)
{
    tap_expect(test_eject_init(pool, 8, 25) == NGX_OK);
    tap_expect(test_eject.allocated != 0);

    test_eject_answers(0, 100, 60);
    test_eject_answers(1, 100, 80);
    test_eject_answers(2, 100, 70);
    test_eject_answers(3, 1000, 0);
    test_eject_at(1001);
    tap_check(test_eject_out() == 6);
}


/* Only members that may be used count for max=. */

static void
test_eject_unusable(ngx_pool_t *pool)
{
    ngx_etcd_slot_t  *slot;

    tap_expect(test_eject_init(pool, 8, 25) == NGX_OK);
    tap_expect(test_eject.allocated != 0);

    slot = ngx_etcd_member_set_slot(test_world.set, 7);
    ngx_etcd_counter_set(&slot->verdict, slot->uid, NGX_ETCD_VERDICT_FAILED);

    test_eject_answers(0, 100, 60);
    test_eject_answers(1, 100, 80);
    test_eject_answers(3, 1000, 0);
    test_eject_at(1001);
    tap_check(test_eject_out() == 2);
    tap_check(test_eject.limited);
}


/* The time doubles, and falls back; a member that returns begins anew. */

static void
test_eject_time(ngx_pool_t *pool)
{
    time_t            now;
    ngx_uint_t        i;
    ngx_etcd_note_t  *note;

    tap_expect(test_eject_init(pool, 4, 25) == NGX_OK);
    tap_expect(test_eject.allocated != 0);

    now = 1000;

    for (i = 0; i < NGX_ETCD_EJECT_DOUBLINGS + 2; i++) {
        test_eject_answers(0, 20, 20);
        test_eject_answers(1, 20, 0);
        test_eject_at(++now);
        tap_check(test_eject_out() == 1);

        now += (time_t) 30 << ngx_min(i, NGX_ETCD_EJECT_DOUBLINGS);

        test_eject_at(now - 1);
        tap_check(test_eject_out() == 1);

        /* the member's former errors do not count again */

        test_eject_at(now);
        tap_check(test_eject_out() == 0);
    }

    note = test_eject_note();
    tap_check(note->level == NGX_ETCD_EJECT_DOUBLINGS);

    test_eject_at(now + 29);
    tap_check(note->level == NGX_ETCD_EJECT_DOUBLINGS);
    test_eject_at(now + 30);
    tap_check(note->level == NGX_ETCD_EJECT_DOUBLINGS - 1);
}


/*
 * A member begins to fail after good answers: it need not give as many bad
 * ones as good ones, but "min" of them, alone among the others.
 */

static void
test_eject_newest(ngx_pool_t *pool)
{
    tap_expect(test_eject_init(pool, 4, 100) == NGX_OK);
    tap_expect(test_eject.allocated != 0);

    test_eject_answers(0, 100, 0);
    test_eject_answers(1, 100, 0);
    test_eject_answers(2, 100, 0);
    test_eject_at(1001);

    /* the first has too few errors, the second too few among its answers */

    test_eject_answers(0, 9, 9);
    test_eject_answers(1, 30, 14);
    test_eject_answers(2, 30, 0);
    test_eject_at(1002);
    tap_check(test_eject_out() == 0);

    /* two steps together */

    test_eject_answers(0, 1, 1);
    test_eject_answers(1, 30, 0);
    test_eject_answers(2, 30, 0);
    test_eject_at(1003);
    tap_check(test_eject_out() == 1);

    /* the others fail, too, now; what they gave before does not count */

    test_eject_answers(1, 100, 90);
    test_eject_answers(2, 100, 60);
    test_eject_at(1004);
    tap_check(test_eject_out() == 1);
}


/* Steps leave the window; another member in the slot has no past. */

static void
test_eject_window(ngx_pool_t *pool)
{
    ngx_uint_t  i;

    tap_expect(test_eject_init(pool, 4, 25) == NGX_OK);
    tap_expect(test_eject.allocated != 0);

    test_eject_answers(0, 9, 9);
    test_eject_answers(1, 20, 0);

    for (i = 0; i < NGX_ETCD_EJECT_STEPS; i++) {
        test_eject_at(1001 + i);
    }

    tap_check(test_eject.members[0].sum.answers == 9);
    test_eject_at(1020);
    tap_check(test_eject.members[0].sum.answers == 0);

    test_eject_answers(0, 9, 9);
    test_eject_answers(1, 20, 0);
    test_eject_at(1021);

    test_table_remove(0, 1);
    test_table_add(0, 1, NULL);

    test_eject_at(1022);
    test_eject_answers(0, 1, 1);
    test_eject_at(1023);
    tap_check(test_eject_out() == 0);
    tap_check(test_eject.members[0].sum.answers == 1);
}


/* When all others fail, too, those that are ejected are used again. */

static void
test_eject_none_works(ngx_pool_t *pool)
{
    ngx_uint_t  n;

    tap_expect(test_eject_init(pool, 4, 25) == NGX_OK);
    tap_expect(test_eject.allocated != 0);

    test_eject_answers(0, 20, 20);
    test_eject_answers(1, 20, 10);
    test_eject_at(1001);
    tap_check(test_eject_out() == 1);

    /* one of them is just good enough */

    test_eject_answers(2, 1, 1);
    test_eject_at(1002);
    test_eject_at(1003);
    tap_check(test_eject_out() == 1);

    test_eject_answers(1, 1, 1);
    test_eject_at(1004);
    tap_check(test_eject_out() == 1);
    test_eject_at(1005);
    tap_check(test_eject_out() == 0);

    /* nobody is known to fail */

    for (n = 0; n < NGX_ETCD_EJECT_STEPS; n++) {
        test_eject_at(1006 + n);
    }

    test_eject_answers(0, 20, 20);
    test_eject_answers(1, 20, 0);
    test_eject_at(1020);
    tap_check(test_eject_out() == 1);

    for (n = 0; n < NGX_ETCD_EJECT_STEPS; n++) {
        test_eject_at(1021);
    }

    tap_check(test_eject.members[1].sum.answers == 0);
    test_eject_at(1021);
    tap_check(test_eject_out() == 1);
}


/* The others fail their checks. */

static void
test_eject_none_left(ngx_pool_t *pool)
{
    ngx_uint_t        n;
    ngx_etcd_slot_t  *slot;

    tap_expect(test_eject_init(pool, 4, 50) == NGX_OK);
    tap_expect(test_eject.allocated != 0);

    test_eject_answers(0, 20, 20);
    test_eject_answers(1, 20, 20);
    test_eject_answers(2, 80, 0);
    test_eject_at(1001);
    tap_check(test_eject_out() == 3);

    for (n = 2; n < 4; n++) {
        test_eject_at(1002);
        test_eject_at(1003);
        tap_check(test_eject_out() == 3);

        slot = ngx_etcd_member_set_slot(test_world.set, n);
        ngx_etcd_counter_set(&slot->verdict, slot->uid,
                             NGX_ETCD_VERDICT_FAILED);
    }

    test_eject_at(1004);
    tap_check(test_eject_out() == 3);
    test_eject_at(1005);
    tap_check(test_eject_out() == 0);
}


/* An agent clears the verdicts that it does not set, and only these. */

static void
test_eject_pardon(ngx_pool_t *pool)
{
    ngx_etcd_member_set_adopt_t  adopt;

    ngx_memzero(&adopt, sizeof(ngx_etcd_member_set_adopt_t));

    tap_expect(test_eject_init(pool, 4, 25) == NGX_OK);
    tap_expect(test_eject.allocated != 0);

    test_eject_answers(0, 20, 20);
    test_eject_answers(1, 20, 0);
    test_eject_at(1001);
    tap_check(test_eject_out() == 1);

    adopt.verdicts = NGX_ETCD_VERDICT_EJECTED;
    tap_check(test_eject_adopt(&adopt) == NGX_OK);
    tap_check(test_eject_out() == 1);

    /* another process owns the zone */

    adopt.verdicts = NGX_ETCD_VERDICT_CHECKS;
    test_world.zone.epoch++;
    tap_check(test_eject_adopt(&adopt) == NGX_DECLINED);
    test_world.zone.epoch--;
    tap_check(test_eject_out() == 1);

    tap_check(test_eject_adopt(&adopt) == NGX_OK);
    tap_check(test_eject_out() == 0);
    tap_check(test_eject_note()->until == 0);
}


ngx_etcd_tap_test_t  test_eject_table[] = {
    { "eject: members that stick out", test_eject_sticks_out },
    { "eject: all fail alike", test_eject_alike },
    { "eject: few answers of the others", test_eject_few },
    { "eject: no more than max", test_eject_max },
    { "eject: members that are not used", test_eject_unusable },
    { "eject: the time", test_eject_time },
    { "eject: the newest steps of the window", test_eject_newest },
    { "eject: the window", test_eject_window },
    { "eject: no other member works", test_eject_none_works },
    { "eject: no other member is left", test_eject_none_left },
    { "eject: pardon", test_eject_pardon },
    { NULL, NULL }
};
