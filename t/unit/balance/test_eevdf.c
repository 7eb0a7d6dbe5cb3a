
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_eevdf.h>
#include "ngx_etcd_tap.h"


#define TEST_EEVDF_LINKS  60
#define TEST_EEVDF_TURNS  20000


typedef struct {
    ngx_etcd_eevdf_link_t   link;
    ngx_uint_t              weight;
    ngx_uint_t              turns;
    ngx_uint_t              conns;
} test_eevdf_link_t;


static test_eevdf_link_t  test_eevdf_links[TEST_EEVDF_LINKS];


#define test_eevdf_of(l)  ngx_queue_data(l, test_eevdf_link_t, link)


/* The next one takes its turn: its number. */

static ngx_uint_t
test_eevdf_turn(ngx_etcd_eevdf_t *eevdf)
{
    test_eevdf_link_t      *test;
    ngx_etcd_eevdf_link_t  *link;

    link = ngx_etcd_eevdf_next(eevdf);
    test = test_eevdf_of(link);
    test->turns++;

    ngx_etcd_eevdf_take(eevdf, link);

    return test - test_eevdf_links;
}


static ngx_int_t
test_eevdf_init(ngx_etcd_eevdf_t *eevdf, ngx_log_t *log, ngx_uint_t n,
    ngx_uint_t equal)
{
    ngx_uint_t          i;
    test_eevdf_link_t  *test;

    srandom(1);
    ngx_memzero(test_eevdf_links, sizeof(test_eevdf_links));
    ngx_etcd_eevdf_init(eevdf, log);

    for (i = 0; i < n; i++) {
        test = &test_eevdf_links[i];
        test->weight = equal ? 64 : 64 * (1 + random() % 50);

        if (ngx_etcd_eevdf_add(eevdf, &test->link, test->weight, 0)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/* No link may be left then. */

static void
test_eevdf_done(ngx_etcd_eevdf_t *eevdf)
{
    ngx_etcd_eevdf_link_t  *link;

    while ((link = ngx_etcd_eevdf_next(eevdf)) != NULL) {
        ngx_etcd_eevdf_remove(eevdf, link);
    }

    ngx_etcd_eevdf_done(eevdf);
}


static void
test_eevdf_equal(ngx_pool_t *pool)
{
    ngx_uint_t        i;
    ngx_etcd_eevdf_t  eevdf;

    ngx_etcd_eevdf_init(&eevdf, pool->log);
    tap_check(ngx_etcd_eevdf_next(&eevdf) == NULL);

    if (test_eevdf_init(&eevdf, pool->log, 4, 1) != NGX_OK) {
        test_eevdf_done(&eevdf);
        tap_check(test_alloc_failed());
        return;
    }

    /* asking uses no turn */

    tap_check(ngx_etcd_eevdf_next(&eevdf) == ngx_etcd_eevdf_next(&eevdf));

    for (i = 0; i < 12; i++) {
        tap_check(test_eevdf_turn(&eevdf) == i % 4);
    }

    ngx_etcd_eevdf_remove(&eevdf, &test_eevdf_links[1].link);
    tap_check(!ngx_etcd_eevdf_taken_by(&test_eevdf_links[1].link));
    tap_check(test_eevdf_turn(&eevdf) == 0 && test_eevdf_turn(&eevdf) == 2
              && test_eevdf_turn(&eevdf) == 3 && test_eevdf_turn(&eevdf) == 0);

    test_eevdf_done(&eevdf);
}


/* Nobody is a turn away from its share, at any time. */

static void
test_eevdf_shares(ngx_pool_t *pool)
{
    double             due;
    ngx_uint_t         i, k, sum;
    ngx_etcd_eevdf_t   eevdf;

    test_alloc_pause();

    tap_check(test_eevdf_init(&eevdf, pool->log, TEST_EEVDF_LINKS, 0)
              == NGX_OK);
    sum = 0;

    for (k = 0; k < TEST_EEVDF_LINKS; k++) {
        sum += test_eevdf_links[k].weight;
    }

    tap_check(eevdf.weight == sum);

    for (i = 1; i <= TEST_EEVDF_TURNS; i++) {
        (void) test_eevdf_turn(&eevdf);

        for (k = 0; k < TEST_EEVDF_LINKS; k++) {
            due = (double) i * test_eevdf_links[k].weight / sum
                  - test_eevdf_links[k].turns;
            tap_check(due < 1.001 && due > -1.001);
        }
    }

    test_eevdf_done(&eevdf);
    test_alloc_resume();
}


/* A peer that comes, goes, or changes its weight gets no burst, no pause. */

static void
test_eevdf_changes(ngx_pool_t *pool)
{
    ngx_uint_t              i, k, n;
    test_eevdf_link_t      *test;
    ngx_etcd_eevdf_t        eevdf;

    test_alloc_pause();

    tap_check(test_eevdf_init(&eevdf, pool->log, 30, 0) == NGX_OK);

    for (i = 0; i < 300; i++) {
        test = &test_eevdf_links[random() % TEST_EEVDF_LINKS];

        if (!ngx_etcd_eevdf_taken_by(&test->link)) {
            test->weight = 64 * (1 + random() % 50);
            tap_check(ngx_etcd_eevdf_add(&eevdf, &test->link, test->weight, 0)
                      == NGX_OK);

        } else if (random() % 2) {
            test->weight = 64 * (1 + random() % 50);
            tap_check(ngx_etcd_eevdf_reweigh(&eevdf, &test->link, test->weight)
                      == NGX_OK);

        } else {
            ngx_etcd_eevdf_remove(&eevdf, &test->link);
        }

        for (k = 0; k < TEST_EEVDF_LINKS; k++) {
            test_eevdf_links[k].turns = 0;
        }

        for (n = 0; n < 200 && eevdf.weight != 0; n++) {
            (void) test_eevdf_turn(&eevdf);
        }

        for (k = 0; k < TEST_EEVDF_LINKS; k++) {
            test = &test_eevdf_links[k];

            if (ngx_etcd_eevdf_taken_by(&test->link)) {
                tap_check(test->turns
                          <= (200 * test->weight) / eevdf.weight + 3);
                tap_check(test->turns + 3
                          >= (200 * test->weight) / eevdf.weight);

            } else {
                tap_check(test->turns == 0);
            }
        }
    }

    test_eevdf_done(&eevdf);
    test_alloc_resume();
}


/* The fewest connections for the weight; equals rotate. */

static void
test_eevdf_conns(ngx_pool_t *pool)
{
    ngx_uint_t          i;
    test_eevdf_link_t  *test;
    ngx_etcd_eevdf_t    eevdf;

    test_alloc_pause();

    ngx_memzero(test_eevdf_links, sizeof(test_eevdf_links));
    ngx_etcd_eevdf_init(&eevdf, pool->log);

    for (i = 0; i < 3; i++) {
        tap_check(ngx_etcd_eevdf_add(&eevdf, &test_eevdf_links[i].link,
                                     i == 2 ? 128 : 64, 0)
                  == NGX_OK);
    }

    /* 40 connections that stay: one, one and two of four */

    for (i = 0; i < 40; i++) {
        test = &test_eevdf_links[test_eevdf_turn(&eevdf)];
        ngx_etcd_eevdf_load(&eevdf, &test->link, ++test->conns);
    }

    tap_check(test_eevdf_links[0].conns == 10 && test_eevdf_links[1].conns == 10
              && test_eevdf_links[2].conns == 20);
    tap_check(ngx_etcd_eevdf_conns(&test_eevdf_links[2].link) == 20);

    ngx_etcd_eevdf_load(&eevdf, &test_eevdf_links[1].link, 3);

    for (i = 0; i < 7; i++) {
        tap_check(test_eevdf_turn(&eevdf) == 1);
        ngx_etcd_eevdf_load(&eevdf, &test_eevdf_links[1].link, 4 + i);
    }

    test_eevdf_done(&eevdf);
    test_alloc_resume();
}


/* Without memory nothing changes; what is reserved needs none. */

static void
test_eevdf_memory(ngx_pool_t *pool)
{
    uint64_t                weight;
    ngx_int_t               rc;
    ngx_etcd_eevdf_t        eevdf;
    ngx_etcd_eevdf_link_t   other;

    if (test_eevdf_init(&eevdf, pool->log, 2, 1) != NGX_OK
        || ngx_etcd_eevdf_reserve(&eevdf) != NGX_OK)
    {
        test_eevdf_done(&eevdf);
        tap_check(test_alloc_failed());
        return;
    }

    tap_check(ngx_etcd_eevdf_add(&eevdf, &test_eevdf_links[2].link, 6400, 0)
              == NGX_OK);

    weight = eevdf.weight;
    rc = ngx_etcd_eevdf_reweigh(&eevdf, &test_eevdf_links[0].link, 640);

    tap_check(eevdf.weight == weight + (rc == NGX_OK ? 640 - 64 : 0));

    rc = ngx_etcd_eevdf_add(&eevdf, &test_eevdf_links[3].link, 1, 7);
    tap_check(ngx_etcd_eevdf_taken_by(&test_eevdf_links[3].link)
              == (rc == NGX_OK));

    ngx_etcd_eevdf_load(&eevdf, &test_eevdf_links[1].link, 5);
    tap_check(ngx_etcd_eevdf_conns(&test_eevdf_links[1].link)
              == (test_alloc_failed()
                  ? ngx_etcd_eevdf_conns(&test_eevdf_links[1].link) : 5));

    ngx_memzero(&other, sizeof(ngx_etcd_eevdf_link_t));
    ngx_etcd_eevdf_replace(&other, &test_eevdf_links[1].link);
    tap_check(ngx_etcd_eevdf_taken_by(&other));
    tap_check(!ngx_etcd_eevdf_taken_by(&test_eevdf_links[1].link));

    ngx_etcd_eevdf_remove(&eevdf, &other);
    ngx_etcd_eevdf_remove(&eevdf, &test_eevdf_links[0].link);
    ngx_etcd_eevdf_remove(&eevdf, &test_eevdf_links[2].link);

    if (rc == NGX_OK) {
        ngx_etcd_eevdf_remove(&eevdf, &test_eevdf_links[3].link);
    }

    tap_check(eevdf.weight == 0 && ngx_etcd_eevdf_next(&eevdf) == NULL);

    test_eevdf_done(&eevdf);
}


/* Turns out of order count, but at most one of them is owed. */

static void
test_eevdf_charge(ngx_pool_t *pool)
{
    ngx_uint_t        i;
    ngx_etcd_eevdf_t  eevdf;

    if (test_eevdf_init(&eevdf, pool->log, 2, 1) != NGX_OK
        || ngx_etcd_eevdf_reweigh(&eevdf, &test_eevdf_links[1].link, 640)
           != NGX_OK)
    {
        test_eevdf_done(&eevdf);
        return;
    }

    /* one in ten is charged: the turns of the light one are used up */

    for (i = 0; i < 1000; i++) {

        if (i % 10 == 0) {
            ngx_etcd_eevdf_charge(&eevdf, &test_eevdf_links[0].link);
        }

        (void) test_eevdf_turn(&eevdf);
    }

    tap_check(test_eevdf_links[0].turns <= 2);

    /* far more than its share, then its share again */

    for (i = 0; i < 1000; i++) {
        ngx_etcd_eevdf_charge(&eevdf, &test_eevdf_links[0].link);
    }

    test_eevdf_links[0].turns = 0;

    for (i = 0; i < 110; i++) {
        (void) test_eevdf_turn(&eevdf);
    }

    tap_check(test_eevdf_links[0].turns >= 8);
    tap_check(test_eevdf_links[0].turns <= 11);

    test_eevdf_done(&eevdf);
}


ngx_etcd_tap_test_t  test_eevdf[] = {
    { "EEVDF: equals", test_eevdf_equal },
    { "EEVDF: shares", test_eevdf_shares },
    { "EEVDF: changes", test_eevdf_changes },
    { "EEVDF: connections", test_eevdf_conns },
    { "EEVDF: memory", test_eevdf_memory },
    { "EEVDF: turns out of order", test_eevdf_charge },
    { NULL, NULL }
};
