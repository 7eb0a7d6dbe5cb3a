
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_peer_group.h>
#include "ngx_etcd_tap.h"


/* Members in the order of their names, each as long as its weight. */

static void
test_weighted_tree_at(ngx_pool_t *pool)
{
    ngx_uint_t         i, point, failed;
    ngx_etcd_treap_t   treap;
    ngx_etcd_peer_t    peers[6];

    static char        *names[] = { "b:1", "a:1", "a", "b:10", "c", "b:1" };
    static ngx_uint_t   weights[] = { 3, 1, 2, 65535, 1, 4 };
    static ngx_uint_t   order[] = { 2, 1, 0, 5, 3, 4 };

    srandom(1);
    ngx_memzero(peers, sizeof(peers));
    ngx_etcd_weighted_tree_init(&treap);
    failed = 0;

    for (i = 0; i < 6; i++) {
        peers[i].name = *tap_string(pool, names[i]);
        peers[i].attr.weight = weights[i];
        peers[i].uid = i;

        if (ngx_etcd_weighted_tree_reserve(&peers[i], pool->log) != NGX_OK) {
            tap_check(peers[i].weighted == NULL);
            failed = 1;
            continue;
        }

        ngx_etcd_treap_insert(&treap, &peers[i].weighted->node);
    }

    if (!failed) {
        tap_check(ngx_etcd_weighted_tree_weight(&treap) == 65546);

        point = 0;

        for (i = 0; i < 6; i++) {
            tap_check(ngx_etcd_weighted_tree_at(&treap, point)
                      == &peers[order[i]]);
            point += weights[order[i]];
            tap_check(ngx_etcd_weighted_tree_at(&treap, point - 1)
                      == &peers[order[i]]);
        }

        ngx_etcd_treap_remove(&treap, &peers[3].weighted->node);
        tap_check(ngx_etcd_weighted_tree_weight(&treap) == 11);
        tap_check(ngx_etcd_weighted_tree_at(&treap, 10) == &peers[4]);
    }

    for (i = 0; i < 6; i++) {
        ngx_free(peers[i].weighted);
    }

    tap_check(!failed || test_alloc_failed());
}


static void
test_weighted_tree_names(ngx_pool_t *pool)
{
    ngx_etcd_peer_t  one, two;

    one.name = *tap_string(pool, "a:1");
    two.name = *tap_string(pool, "a:10");
    tap_check(ngx_etcd_weighted_tree_names(&one, &two) < 0);
    tap_check(ngx_etcd_weighted_tree_names(&two, &one) > 0);
    tap_check(ngx_etcd_weighted_tree_names(&one, &one) == 0);

    two.name = *tap_string(pool, "a:2");
    tap_check(ngx_etcd_weighted_tree_names(&one, &two) < 0);

    /* bytes, not characters with signs */

    two.name = *tap_string(pool, "\xc3\xa4");
    tap_check(ngx_etcd_weighted_tree_names(&one, &two) < 0);
}


ngx_etcd_tap_test_t  test_weighted_tree[] = {
    { "weighted tree: points", test_weighted_tree_at },
    { "weighted tree: names", test_weighted_tree_names },
    { NULL, NULL }
};
