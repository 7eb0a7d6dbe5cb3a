
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_channel.h>
#include "test_etcd.h"


#define TEST_CLUSTER_WAIT  120000       /* ms */


static void
test_cluster_id_parse(ngx_pool_t *pool)
{
    ngx_uint_t  i;

    static struct {
        char      *text;
        uint64_t   id;
    } cases[] = {
        { "cdf818194e3a8c32", 0xcdf818194e3a8c32 },
        { "CDF818194E3A8C32", 0xcdf818194e3a8c32 },
        { "0xcdf818194e3a8c32", 0xcdf818194e3a8c32 },
        { "0XCDF818194e3a8c32", 0xcdf818194e3a8c32 },
        { "14841639068965178418", 0xcdf818194e3a8c32 },
        { "18446744073709551615", 0xffffffffffffffff },
        { "ffffffffffffffff", 0xffffffffffffffff },
        { "1", 1 }, { "0x1", 1 }, { "1234567890123456", 0x1234567890123456 },
        { "12345678901234567", 12345678901234567 },
        { "00000000000000000017", 17 },
        { "", 0 }, { "0", 0 }, { "0x", 0 }, { "x1", 0 }, { "0x0", 0 },
        { "g", 0 }, { "-1", 0 }, { "+1", 0 }, { " 1", 0 }, { "1 ", 0 },
        { "18446744073709551616", 0 }, { "0x10000000000000000", 0 },
        { "cdf818194e3a8c321", 0 }, { "99999999999999999999999", 0 },
    };

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tap_check(ngx_etcd_cluster_id_parse(tap_string(pool, cases[i].text))
                  == cases[i].id);
    }
}


/* The streams are connected within that time, to that endpoint. */

static ngx_uint_t
test_cluster_connects(ngx_msec_t time, ngx_uint_t where)
{
    ngx_etcd_http2_t  *h2;

    (void) ngx_etcd_channel_get(test_etcd.cluster->streams);
    test_loop_pass(time);

    h2 = ngx_etcd_channel_get(test_etcd.cluster->streams);

    return h2 != NULL && test_etcd_where(h2) == where;
}


/* Endpoint 1 is of cluster 7, endpoint 2 of cluster 8; the former is in use. */

static ngx_int_t
test_cluster_init(ngx_pool_t *pool)
{
    test_etcd_conf(pool, 2);
    test_etcd.ids[0] = 7;
    test_etcd.ids[1] = 8;

    if (test_etcd_create(pool) != NGX_OK) {
        return NGX_ERROR;
    }

    (void) ngx_etcd_cluster_id_adopt(test_etcd.cluster, 7);

    return NGX_OK;
}


/* An endpoint of another cluster is set aside; no call is made there. */

static void
test_cluster_foreign(ngx_pool_t *pool)
{
    ngx_etcd_place_t  *places;

    tap_expect(test_cluster_init(pool) == NGX_OK);

    places = test_etcd.cluster->endpoints.places;
    test_etcd.cluster->streams->next = &places[1];

    tap_expect(test_cluster_connects(5000, 1));
    tap_expect(places[1].foreign == 8 && places[1].failures == 1);
    tap_check(places[0].foreign == 0);

    /* the known one answers: it stays the one in use */

    test_etcd_break(test_etcd_connection(0), "broken");
    tap_expect(test_cluster_connects(5000, 1));
    tap_check(ngx_etcd_cluster_id_known(test_etcd.cluster) == 7);
    tap_expect(test_etcd.connects < 6);
    tap_expect(test_etcd.started == 0);
}


/* Another one takes the place of one that is silent for request_timeout. */

static void
test_cluster_silent(ngx_pool_t *pool)
{
    ngx_etcd_cluster_t  *cluster;

    tap_expect(test_cluster_init(pool) == NGX_OK);

    cluster = test_etcd.cluster;
    tap_expect(test_cluster_connects(5000, 1));

    test_etcd.refused = 1;
    test_etcd_break(test_etcd_connection(0), "broken");
    test_loop_pass(test_etcd.conf.request_timeout - 1);
    tap_check(ngx_etcd_cluster_id_known(cluster) == 7);

    tap_expect(test_cluster_connects(TEST_CLUSTER_WAIT, 2));
    tap_check(ngx_etcd_cluster_id_known(cluster) == 8);

    /* now the former one is foreign */

    test_etcd.refused = 0;
    test_etcd_break(test_etcd_connection(0), "broken");
    tap_expect(test_cluster_connects(5000, 2));
    tap_check(ngx_etcd_cluster_id_known(cluster) == 8);
}


/*
 * An endpoint that fails for less than request_timeout is asked once more
 * before another cluster takes its place.
 */

static void
test_cluster_returns(ngx_pool_t *pool)
{
    tap_expect(test_cluster_init(pool) == NGX_OK);
    tap_expect(test_cluster_connects(5000, 1));

    test_etcd.refused = 1;
    test_etcd_break(test_etcd_connection(0), "broken");
    test_loop_pass(test_etcd.conf.request_timeout - 1);

    test_etcd.refused = 0;
    tap_expect(test_cluster_connects(TEST_CLUSTER_WAIT, 1));
    tap_check(ngx_etcd_cluster_id_known(test_etcd.cluster) == 7);
}


/* "cluster_id" is never left. */

static void
test_cluster_pinned(ngx_pool_t *pool)
{
    tap_expect(test_cluster_init(pool) == NGX_OK);

    test_etcd.conf.cluster_id = 7;
    test_etcd.refused = 1;

    tap_check(!test_cluster_connects(TEST_CLUSTER_WAIT, 2));
    tap_check(ngx_etcd_cluster_id_known(test_etcd.cluster) == 7);

    test_etcd.refused = 0;
    tap_expect(test_cluster_connects(5000, 1));
}


/* Another cluster answers on a connection in use: a proxy has changed sides. */

static void
test_cluster_proxy(ngx_pool_t *pool)
{
    ngx_etcd_http2_t  *h2;
    ngx_etcd_place_t  *place;

    tap_expect(test_cluster_init(pool) == NGX_OK);

    test_etcd.ids[0] = 0;
    test_etcd.cluster->streams->next = &test_etcd.cluster->endpoints.places[0];
    tap_expect(test_cluster_connects(0, 1));

    h2 = test_etcd_connection(0);
    place = test_etcd.cluster->streams->subchannel->place;

    tap_check(test_etcd_header(h2, 0) == NGX_OK);
    tap_check(test_etcd_header(h2, 7) == NGX_OK && place->foreign == 0);
    tap_check(test_etcd_header(h2, 8) == NGX_DECLINED && place->foreign == 8);
    test_loop_run();
    tap_check(ngx_etcd_channel_get(test_etcd.cluster->streams) == NULL);
}


ngx_etcd_tap_test_t  test_cluster[] = {
    { "cluster: ids", test_cluster_id_parse },
    { "cluster: an endpoint of another one", test_cluster_foreign },
    { "cluster: another one takes its place", test_cluster_silent },
    { "cluster: it returns in time", test_cluster_returns },
    { "cluster: it has to be this one", test_cluster_pinned },
    { "cluster: a proxy to another one", test_cluster_proxy },
    { NULL, NULL }
};
