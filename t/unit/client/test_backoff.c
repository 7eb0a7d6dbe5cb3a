
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_cluster.h>
#include "test_etcd.h"


static void
test_backoff_times(ngx_pool_t *pool)
{
    ngx_msec_t          time, most, least;
    ngx_uint_t          i, k;
    ngx_etcd_cluster_t  cluster;

    static struct {
        ngx_uint_t   failures;
        ngx_uint_t   urgent;
        ngx_msec_t   max;
    } cases[] = {
        { 0, 0, 50 }, { 1, 0, 100 }, { 5, 0, 1600 }, { 6, 0, 3000 },
        { 1000000, 0, 3000 }, { 0, 1, 50 }, { 4, 1, 500 }, { 64, 1, 500 }
    };

    srandom(1);
    ngx_memzero(&cluster, sizeof(ngx_etcd_cluster_t));

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cluster.urgent = cases[i].urgent;
        most = 0;
        least = 10000;

        for (k = 0; k < 3000; k++) {
            time = ngx_etcd_backoff(&cluster, cases[i].failures);
            most = ngx_max(most, time);
            least = ngx_min(least, time);
        }

        tap_check(least >= 1 && least <= 1 + cases[i].max / 50);
        tap_check(most <= cases[i].max && most >= cases[i].max * 49 / 50);
    }
}


static void
test_backoff_none(ngx_event_t *ev)
{
    /* the time is over */
}


static void
test_backoff_hasten(ngx_pool_t *pool)
{
    ngx_event_t  timer;

    test_loop_init(pool->log);
    ngx_memzero(&timer, sizeof(ngx_event_t));

    timer.handler = test_backoff_none;
    timer.log = pool->log;

    ngx_etcd_backoff_hasten(&timer);
    tap_check(!timer.timer_set);

    ngx_add_timer(&timer, 3000);
    ngx_etcd_backoff_hasten(&timer);
    tap_check(timer.timer_set && timer.timer.key - ngx_current_msec <= 500);

    test_loop_pass(500);
    tap_check(!timer.timer_set);

    /* a timer that ends soon enough stays */

    ngx_add_timer(&timer, 499);
    ngx_etcd_backoff_hasten(&timer);
    tap_check(timer.timer.key - ngx_current_msec == 499);

    ngx_del_timer(&timer);
}


static void
test_backoff_retriable(ngx_pool_t *pool)
{
    ngx_uint_t  status, n;

    n = 0;

    for (status = 0; status <= NGX_ETCD_GRPC_UNAUTHENTICATED; status++) {
        n += ngx_etcd_backoff_retriable(status);
    }

    tap_check(n == 6);
    tap_check(!ngx_etcd_backoff_retriable(NGX_ETCD_GRPC_OK));
    tap_check(!ngx_etcd_backoff_retriable(NGX_ETCD_GRPC_PERMISSION_DENIED));
    tap_check(!ngx_etcd_backoff_retriable(NGX_ETCD_GRPC_FAILED_PRECONDITION));
    tap_check(ngx_etcd_backoff_retriable(NGX_ETCD_GRPC_UNAVAILABLE));
    tap_check(ngx_etcd_backoff_retriable(NGX_ETCD_GRPC_INTERNAL));
}


ngx_etcd_tap_test_t  test_backoff[] = {
    { "backoff: times", test_backoff_times },
    { "backoff: hastened", test_backoff_hasten },
    { "backoff: what is tried again", test_backoff_retriable },
    { NULL, NULL }
};
