
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_peer.h>
#include "test_loop.h"
#include "test_world.h"


#define TEST_SID_PEERS  40


/* The id is that of nginx: the MD5 of the address, or the route. */

static void
test_sid_ids(ngx_pool_t *pool)
{
    ngx_str_t        none = ngx_null_string;
    ngx_str_t        route = ngx_string("0123456789abcdef0123456789abcdef");
    ngx_etcd_peer_t  peer;

    ngx_memzero(&peer, sizeof(ngx_etcd_peer_t));
    ngx_str_set(&peer.name, "127.0.0.1:8080");

    tap_expect(ngx_etcd_sid_create(&peer, &none, pool->log) == NGX_OK);
    tap_text(&peer.sid->id, "5958c386bf5e9109ac10d2a628645aea");
    ngx_free(peer.sid);

    tap_expect(ngx_etcd_sid_create(&peer, &route, pool->log) == NGX_OK);
    tap_text(&peer.sid->id, (char *) route.data);
    ngx_free(peer.sid);
}


/* Each third peer has the same route: they are found in the order of slots. */

static void
test_sid_routes(ngx_pool_t *pool)
{
    ngx_str_t          route[3] = { ngx_string("a"), ngx_string("b"),
                                    ngx_string("bb") };
    ngx_str_t          other = ngx_string("c");
    ngx_uint_t         i, n, made;
    ngx_etcd_peer_t    peers[TEST_SID_PEERS], *peer;
    ngx_etcd_treap_t   sids;

    ngx_memzero(peers, sizeof(peers));
    ngx_etcd_sid_init(&sids);

    for (made = 0; made < TEST_SID_PEERS; made++) {

        /* a step of 7 visits all of them, out of order */

        i = made * 7 % TEST_SID_PEERS;
        peers[i].index = i;

        if (ngx_etcd_sid_create(&peers[i], &route[i % 3], pool->log) != NGX_OK)
        {
            break;
        }

        ngx_etcd_treap_insert(&sids, &peers[i].sid->node);
    }

    for (n = 0; n < 3 && made == TEST_SID_PEERS; n++) {
        peer = NULL;

        for (i = n; i < TEST_SID_PEERS; i += 3) {
            peer = ngx_etcd_sid_find(&sids, &route[n], peer);
            tap_check(peer == &peers[i]);
        }

        tap_check(ngx_etcd_sid_find(&sids, &route[n], peer) == NULL);
    }

    tap_check(ngx_etcd_sid_find(&sids, &other, NULL) == NULL);

    for (i = 0; i < TEST_SID_PEERS; i++) {
        if (peers[i].sid != NULL) {
            ngx_etcd_treap_remove(&sids, &peers[i].sid->node);
            ngx_free(peers[i].sid);
        }
    }

    tap_check(sids.root == NULL);
}


static void
test_sid_table(ngx_pool_t *pool)
{
    ngx_str_t          id;
    ngx_etcd_peer_t   *peer;
    ngx_etcd_table_t  *table;

    table = &test_world.table;

    tap_expect(test_table_init(pool, "round_robin") == NGX_OK);
    test_world.conf.sids = 1;

    test_table_add(0, 5, NULL);
    tap_check(test_table_follow() == NGX_OK);

    peer = table->slots[3];
    id = *tap_bytes(pool, (char *) peer->sid->id.data, peer->sid->id.len);
    tap_check(ngx_etcd_sid_find(&table->sids, &id, NULL) == peer);

    /* another object of the same member */

    test_table_add(3, 1, "weight=9");
    tap_check(test_table_follow() == NGX_OK);
    tap_check(table->slots[3]->attr.weight == 9);
    tap_check(ngx_etcd_sid_find(&table->sids, &id, NULL) == table->slots[3]);

    test_table_remove(0, 5);
    tap_check(test_table_follow() == NGX_OK);
    tap_check(ngx_etcd_sid_find(&table->sids, &id, NULL) == NULL);
    tap_check(table->sids.root == NULL);
}


ngx_etcd_tap_test_t  test_sid[] = {
    { "sid: as of nginx", test_sid_ids },
    { "sid: routes", test_sid_routes },
    { "sid: follows the set", test_sid_table },
    { NULL, NULL }
};
