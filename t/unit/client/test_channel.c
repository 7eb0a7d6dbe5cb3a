
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_channel.h>
#include "test_etcd.h"


static ngx_uint_t         test_channel_woken;
static ngx_etcd_waiter_t  test_channel_waiter;


static void
test_channel_handler(void *data)
{
    test_channel_woken++;
}


static ngx_int_t
test_channel_init(ngx_pool_t *pool, ngx_uint_t endpoints)
{
    test_channel_woken = 0;
    ngx_memzero(&test_channel_waiter, sizeof(ngx_etcd_waiter_t));
    test_channel_waiter.handler = test_channel_handler;

    test_etcd_conf(pool, endpoints);
    test_etcd.conf.rebalance = 10000;

    return test_etcd_create(pool);
}


/* The channel's connection after so many milliseconds; NULL: none is ready. */

static ngx_etcd_http2_t *
test_channel_get(ngx_etcd_channel_t *channel, ngx_msec_t time)
{
    (void) ngx_etcd_channel_get(channel);
    test_loop_pass(time);

    return ngx_etcd_channel_get(channel);
}


static void
test_channel_connect(ngx_pool_t *pool)
{
    ngx_etcd_channel_t  *streams;

    tap_expect(test_channel_init(pool, 3) == NGX_OK);

    streams = test_etcd.cluster->streams;

    test_loop_run();
    tap_check(test_etcd.connects == 0);

    tap_check(ngx_etcd_channel_get(streams) == NULL);
    ngx_etcd_channel_wait(streams, &test_channel_waiter);
    tap_check(test_etcd.connects == 1 && test_channel_woken == 0);

    test_loop_run();
    tap_expect(ngx_etcd_channel_get(streams) != NULL);
    tap_check(test_channel_woken == 1);
    tap_check(streams->subchannel->place
              == ngx_etcd_endpoints_home(&test_etcd.cluster->endpoints));
    tap_check(test_etcd.cluster->counts.reconnects == 0);
}


/* Another endpoint at once, the next ones after longer pauses. */

static void
test_channel_failures(ngx_pool_t *pool)
{
    ngx_uint_t           where;
    ngx_etcd_http2_t    *h2;
    ngx_etcd_channel_t  *streams;

    tap_expect(test_channel_init(pool, 3) == NGX_OK);

    streams = test_etcd.cluster->streams;
    h2 = test_channel_get(streams, 0);
    tap_expect(h2 != NULL);

    test_etcd.down = 1;
    test_etcd_break(h2, "broken");
    tap_check(ngx_etcd_channel_get(streams) == NULL);
    tap_check(test_etcd.connects == 1);

    test_loop_pass(1);
    tap_check(test_etcd.connects >= 2);

    /* all are tried again and again, but not without a pause */

    test_loop_pass(60000);
    tap_check(test_etcd.connects > 60 && test_etcd.connects < 1000);
    tap_check(streams->outage || test_alloc_failed());

    test_etcd.down = 0;
    ngx_etcd_client_hasten(test_etcd.cluster);
    tap_check(test_etcd.cluster->urgent);
    h2 = test_channel_get(streams, NGX_ETCD_BACKOFF_URGENT + 1);
    tap_expect(h2 != NULL);
    tap_check(test_etcd.cluster->counts.reconnects == 1);

    /* a place that is set aside is not the next one */

    where = test_etcd_where(h2);
    test_etcd_break(h2, "broken again");
    h2 = test_channel_get(streams, 5000);
    tap_expect(h2 != NULL);
    tap_check(test_etcd_where(h2) != where);
}


/* GOAWAY: streams move; reads stay until they have ended. */

static void
test_channel_goaway(ngx_pool_t *pool)
{
    ngx_etcd_http2_t    *streams, *reads;
    ngx_etcd_cluster_t  *cluster;

    tap_expect(test_channel_init(pool, 2) == NGX_OK);

    cluster = test_etcd.cluster;
    streams = test_channel_get(cluster->streams, 0);
    tap_expect(streams != NULL);

    reads = test_channel_get(cluster->reads, 0);
    tap_expect(reads != NULL);

    test_etcd_goaway(reads, 0);
    tap_check(ngx_etcd_channel_get(cluster->reads) == NULL);
    tap_check(test_etcd_connection(1) == reads);

    test_etcd_goaway(streams, 1);
    tap_check(test_etcd_connection(0) == reads);
    tap_check(cluster->counts.too_many_pings == 1);
    tap_check(ngx_etcd_cluster_ping_interval(cluster) == 20000);

    tap_expect(test_channel_get(cluster->streams, 5000) != NULL);

    test_etcd_break(reads, "closed");
    tap_expect(test_channel_get(cluster->reads, 5000) != NULL);
}


/* Streams return to the home when it is back, without an outage. */

static void
test_channel_rebalance(ngx_pool_t *pool)
{
    ngx_uint_t           home;
    ngx_etcd_http2_t    *h2;
    ngx_etcd_channel_t  *streams;
    ngx_etcd_cluster_t  *cluster;

    tap_expect(test_channel_init(pool, 2) == NGX_OK);

    cluster = test_etcd.cluster;
    streams = cluster->streams;

    h2 = test_channel_get(streams, 0);
    tap_expect(h2 != NULL);

    home = test_etcd_where(h2);
    test_etcd_break(h2, "broken");

    h2 = test_channel_get(streams, 100);
    tap_expect(h2 != NULL);
    tap_expect(test_etcd_where(h2) != home && cluster->counts.reconnects == 1);

    test_loop_pass(4900);
    tap_check(ngx_etcd_channel_get(streams) == h2);

    /* the home is not back yet: nothing else happens */

    test_etcd.down = 1;
    test_loop_pass(11000);
    tap_check(ngx_etcd_channel_get(streams) == h2);
    tap_check(test_etcd.connects >= 3);

    test_etcd.down = 0;
    ngx_etcd_channel_wait(streams, &test_channel_waiter);
    test_loop_pass(16000);

    h2 = ngx_etcd_channel_get(streams);
    tap_expect(h2 != NULL && test_etcd_where(h2) == home);
    tap_check(test_channel_woken == 1 && cluster->counts.reconnects == 1);
    tap_check(test_etcd_connection(1) == NULL);
}


/* The connection to the home as soon as it is there, or after so many ms. */

static ngx_etcd_http2_t *
test_channel_home(ngx_etcd_channel_t *channel, ngx_uint_t home, ngx_msec_t time)
{
    ngx_msec_t         ms;
    ngx_etcd_http2_t  *h2;

    for (ms = 0; ms <= time; ms += 1000) {
        test_loop_pass(1000);

        h2 = ngx_etcd_channel_get(channel);

        if (h2 != NULL && test_etcd_where(h2) == home) {
            return h2;
        }
    }

    return NULL;
}


/* A home that fails soon after each return is tried less often. */

static void
test_channel_returns(ngx_pool_t *pool)
{
    ngx_uint_t           home, n;
    ngx_etcd_http2_t    *h2;
    ngx_etcd_channel_t  *streams;

    tap_expect(test_channel_init(pool, 2) == NGX_OK);

    streams = test_etcd.cluster->streams;

    h2 = test_channel_get(streams, 0);
    tap_expect(h2 != NULL);

    home = test_etcd_where(h2);

    for (n = 0; n < 3; n++) {
        test_etcd_break(h2, "broken");

        h2 = test_channel_get(streams, 100);
        tap_expect(h2 != NULL && test_etcd_where(h2) != home);

        /* a return comes after half of 10 s, 20 s, 40 s at least */

        test_loop_pass((5000 << n) - 200);
        tap_check(ngx_etcd_channel_get(streams) == h2);

        h2 = test_channel_home(streams, home, 10000 << n);
        tap_expect(h2 != NULL);
    }

    tap_check(streams->returns == 3);

    /* the connection lasts: all begins anew */

    test_loop_pass(45000);
    test_etcd_break(h2, "broken");
    h2 = test_channel_get(streams, 100);
    tap_expect(h2 != NULL && test_etcd_where(h2) != home);
    tap_expect(test_channel_home(streams, home, 15000) != NULL);
}


/* The time between the next attempts, of endpoints that are late. */

static ngx_msec_t
test_channel_attempt(void)
{
    ngx_msec_t  begun;
    ngx_uint_t  connects;

    connects = test_etcd.connects;
    begun = ngx_current_msec;

    while (test_etcd.connects == connects
           && ngx_current_msec - begun < 60000)
    {
        test_loop_pass(1);
    }

    return ngx_current_msec - begun;
}


/*
 * An endpoint that takes a connection and does not answer is left for the
 * others.  Where all are late, attempts last longer in each round.
 */

static void
test_channel_late(ngx_pool_t *pool)
{
    ngx_msec_t           least, most, took;
    ngx_uint_t           i;
    ngx_etcd_channel_t  *streams;

    tap_expect(test_channel_init(pool, 3) == NGX_OK);

    streams = test_etcd.cluster->streams;
    test_etcd.silent = 7;
    (void) ngx_etcd_channel_get(streams);

    for (i = 0; i < 12; i++) {
        tap_expect(streams->state == NGX_ETCD_CHANNEL_CONNECTING);

        least = 1000 << ngx_min(i / 3, NGX_ETCD_CHANNEL_LATE);
        took = test_channel_attempt();

        /* and a pause, which is not longer than others */

        most = least + 1 + NGX_ETCD_BACKOFF_MAX / 3;

        tap_check((took >= least && took <= most) || test_alloc_failed());
        tap_check(streams->late == i + 1 || test_alloc_failed());
    }

    /* one answers: it is found when the attempts before it are over */

    test_etcd.silent = 3;
    took = ngx_current_msec;

    while (ngx_etcd_channel_get(streams) == NULL
           && ngx_current_msec - took < 60000)
    {
        test_loop_pass(1);
    }

    took = ngx_current_msec - took;
    most = 3 * (4000 + NGX_ETCD_BACKOFF_MAX / 3);

    tap_check(took <= most || test_alloc_failed());

    ngx_etcd_channel_succeeded(streams);
    tap_check(streams->late == 0);
}


/* An endpoint that stands still among others costs an attempt each time. */

static void
test_channel_still(ngx_pool_t *pool)
{
    ngx_uint_t           i, where;
    ngx_etcd_http2_t    *h2;
    ngx_etcd_channel_t  *streams;

    tap_expect(test_channel_init(pool, 3) == NGX_OK);

    streams = test_etcd.cluster->streams;

    for (i = 0; i < 12; i++) {
        h2 = test_channel_get(streams, 1002 + NGX_ETCD_BACKOFF_MAX / 3);
        tap_expect(h2 != NULL && streams->late <= 1);

        ngx_etcd_channel_succeeded(streams);

        h2 = test_channel_get(streams, NGX_ETCD_CHANNEL_HELD + 1);
        tap_expect(h2 != NULL);
        ngx_etcd_channel_succeeded(streams);

        where = test_etcd_where(h2);
        test_etcd.silent = 1 << where % 3;
        test_etcd_break(h2, "broken");
    }
}


/* A call that failed for the endpoint's sake moves the channel. */

static void
test_channel_failed(ngx_pool_t *pool)
{
    ngx_str_t            reason = ngx_string("no leader");
    ngx_uint_t           where;
    ngx_etcd_http2_t    *h2;
    ngx_etcd_channel_t  *reads;

    tap_expect(test_channel_init(pool, 2) == NGX_OK);

    reads = test_etcd.cluster->reads;

    ngx_etcd_channel_failed(reads, &reason);
    tap_check(test_etcd.connects == 0);

    h2 = test_channel_get(reads, 0);
    tap_expect(h2 != NULL);
    where = test_etcd_where(h2);

    ngx_etcd_channel_failed(reads, &reason);
    ngx_etcd_channel_failed(reads, &reason);
    tap_check(test_etcd_connection(0) == NULL);

    h2 = test_channel_get(reads, 1);
    tap_expect(h2 != NULL);
    tap_check(test_etcd_where(h2) != where);
}


/* A process that exits waits as long as it may, or until it is done. */

static void
test_channel_wait(ngx_pool_t *pool)
{
    ngx_uint_t  done;
    ngx_msec_t  begin;

    tap_expect(test_channel_init(pool, 1) == NGX_OK);

    begin = ngx_current_msec;
    done = 0;

    ngx_etcd_client_wait(test_etcd.cluster, &done, 300);
    tap_check(ngx_current_msec == begin);

    tap_expect(test_channel_get(test_etcd.cluster->reads, 0) != NULL);

    ngx_etcd_client_wait(test_etcd.cluster, &done, 300);
    tap_check(ngx_current_msec == begin + 300);

    done = 1;
    ngx_etcd_client_wait(test_etcd.cluster, &done, 300);
    tap_check(ngx_current_msec == begin + 300);

    ngx_etcd_client_linger(test_etcd.cluster);
    tap_check(ngx_etcd_channel_get(test_etcd.cluster->reads) != NULL);
}


static void
test_channel_cluster(ngx_pool_t *pool)
{
    ngx_etcd_cluster_t  *cluster;

    tap_expect(test_channel_init(pool, 2) == NGX_OK);

    cluster = test_etcd.cluster;

    tap_check(!ngx_etcd_cluster_local(&test_etcd.conf));
    test_etcd.endpoints[1].local = 1;
    tap_check(ngx_etcd_cluster_local(&test_etcd.conf));

    cluster->counts.too_many_pings = 3;
    tap_check(ngx_etcd_cluster_ping_interval(cluster) == 80000);
    cluster->counts.too_many_pings = 100;
    tap_check(ngx_etcd_cluster_ping_interval(cluster) == 2560000);

    ngx_etcd_cluster_prove(cluster, 5);
    tap_check(cluster->proved == 0);

    cluster->current = 1;
    ngx_etcd_cluster_prove(cluster, 5);
    ngx_etcd_cluster_prove(cluster, 3);
    tap_check(cluster->proved == 5);
}


ngx_etcd_tap_test_t  test_channel[] = {
    { "channel: a connection", test_channel_connect },
    { "channel: failures", test_channel_failures },
    { "channel: GOAWAY", test_channel_goaway },
    { "channel: the way back home", test_channel_rebalance },
    { "channel: a home that does not last", test_channel_returns },
    { "channel: endpoints that are late", test_channel_late },
    { "channel: one that stands still", test_channel_still },
    { "channel: no leader", test_channel_failed },
    { "client: waits", test_channel_wait },
    { "cluster: what all share", test_channel_cluster },
    { NULL, NULL }
};
