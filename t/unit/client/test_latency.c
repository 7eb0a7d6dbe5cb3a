
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_clock.h>
#include "test_etcd.h"


static void
test_latency_attempt(ngx_pool_t *pool)
{
    ngx_etcd_latency_t  latency;

    test_loop_init(pool->log);
    ngx_memzero(&latency, sizeof(ngx_etcd_latency_t));

    tap_check(ngx_etcd_latency(&latency) == 0);
    tap_check(ngx_etcd_latency_attempt(&latency, 500, 5000) == 500);

    ngx_etcd_latency_saw(&latency, 250);
    tap_check(ngx_etcd_latency_attempt(&latency, 500, 5000) == 500);

    ngx_etcd_latency_saw(&latency, 1800);
    tap_check(ngx_etcd_latency_attempt(&latency, 500, 5000) == 3600);
    tap_check(ngx_etcd_latency_attempt(&latency, 500, 2500) == 2500);
    tap_check(ngx_etcd_latency_attempt(&latency, 500, 100) == 500);
}


/* Quick writes, and time, end it. */

static void
test_latency_ends(ngx_pool_t *pool)
{
    ngx_uint_t          i;
    ngx_etcd_latency_t  latency;

    test_loop_init(pool->log);
    ngx_memzero(&latency, sizeof(ngx_etcd_latency_t));

    ngx_etcd_latency_saw(&latency, 2000);

    test_loop_pass(59999);
    tap_check(ngx_etcd_latency(&latency) == 2000);

    test_loop_pass(1);
    tap_check(ngx_etcd_latency(&latency) == 1000);

    ngx_etcd_latency_saw(&latency, 0);
    tap_check(ngx_etcd_latency(&latency) == 750);

    for (i = 0; i < 20; i++) {
        ngx_etcd_latency_saw(&latency, 2);
    }

    tap_check(ngx_etcd_latency(&latency) < 20);

    ngx_etcd_latency_saw(&latency, 2000);
    test_loop_pass(60000 * 100);
    tap_check(ngx_etcd_latency(&latency) == 0);
}


ngx_etcd_tap_test_t  test_latency[] = {
    { "latency: attempts", test_latency_attempt },
    { "latency: it ends", test_latency_ends },
    { NULL, NULL }
};
