
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_fresh.h>
#include "ngx_etcd_tap.h"
#include "test_loop.h"


static ngx_uint_t          test_fresh_requests;
static ngx_int_t           test_fresh_rc;
static ngx_etcd_cluster_t  test_fresh_cluster;


static ngx_int_t
test_fresh_ask(void *data)
{
    if (test_fresh_rc == NGX_OK) {
        test_fresh_requests++;
    }

    return test_fresh_rc;
}


static void
test_fresh_init(ngx_pool_t *pool, ngx_etcd_fresh_t *fresh)
{
    test_loop_init(pool->log);

    ngx_memzero(fresh, sizeof(ngx_etcd_fresh_t));
    ngx_memzero(&test_fresh_cluster, sizeof(ngx_etcd_cluster_t));

    test_fresh_requests = 0;
    test_fresh_rc = NGX_OK;

    ngx_etcd_fresh_init(fresh, &test_fresh_cluster, test_fresh_ask, NULL);
}


/* A proof needs a watch in force, and no reason against it. */

static void
test_fresh_proofs(ngx_pool_t *pool)
{
    ngx_etcd_fresh_t  fresh;

    test_fresh_init(pool, &fresh);

    ngx_etcd_fresh_received(&fresh);
    ngx_etcd_fresh_ask(&fresh);
    tap_check(test_fresh_cluster.proved == 0 && test_fresh_requests == 0);

    ngx_etcd_fresh_count(&fresh, 0, 1);
    ngx_etcd_fresh_count(&fresh, 1, 0);
    ngx_etcd_fresh_received(&fresh);
    tap_check(test_fresh_cluster.proved == 0);

    ngx_etcd_fresh_count(&fresh, 0, -1);
    ngx_etcd_fresh_received(&fresh);
    tap_check(test_fresh_cluster.proved == ngx_etcd_clock());

    ngx_etcd_fresh_count(&fresh, -1, 0);
    ngx_current_msec += 10;
    ngx_etcd_fresh_received(&fresh);
    tap_check(test_fresh_cluster.proved == ngx_etcd_clock() - 10);

    ngx_etcd_fresh_count(&fresh, 1, 0);
    ngx_etcd_fresh_done(&fresh);
    ngx_etcd_fresh_received(&fresh);
    tap_check(test_fresh_cluster.proved == ngx_etcd_clock() - 10);
}


/* An answer proves the time of the first request that had none yet. */

static void
test_fresh_requested(ngx_pool_t *pool)
{
    uint64_t          first;
    ngx_etcd_fresh_t  fresh;

    test_fresh_init(pool, &fresh);
    ngx_etcd_fresh_count(&fresh, 1, 0);

    /* nobody was asked */

    ngx_etcd_fresh_answered(&fresh);
    tap_check(test_fresh_cluster.proved == 0);

    test_fresh_rc = NGX_DECLINED;
    ngx_etcd_fresh_ask(&fresh);
    tap_check(fresh.asked == 0);

    test_fresh_rc = NGX_OK;
    first = ngx_etcd_clock();
    ngx_etcd_fresh_ask(&fresh);
    ngx_current_msec += NGX_ETCD_FRESH_AGAIN - 1;
    ngx_etcd_fresh_ask(&fresh);
    tap_check(test_fresh_requests == 1);

    ngx_current_msec++;
    ngx_etcd_fresh_ask(&fresh);
    tap_check(test_fresh_requests == 2);

    ngx_etcd_fresh_answered(&fresh);
    tap_check(test_fresh_cluster.proved == first);

    /* the answer to the other request must not count for a third one */

    ngx_current_msec += NGX_ETCD_FRESH_AGAIN - 1;
    ngx_etcd_fresh_ask(&fresh);
    tap_check(test_fresh_requests == 2);

    ngx_etcd_fresh_answered(&fresh);
    tap_check(test_fresh_cluster.proved == first);

    ngx_current_msec++;
    ngx_etcd_fresh_ask(&fresh);
    ngx_etcd_fresh_answered(&fresh);
    tap_check(test_fresh_cluster.proved == ngx_etcd_clock());

    /* a request that was not repeated delays nothing */

    ngx_etcd_fresh_ask(&fresh);
    tap_check(test_fresh_requests == 4);

    /* the answer to this request will not come on another stream */

    ngx_etcd_fresh_ended(&fresh);
    ngx_current_msec++;
    ngx_etcd_fresh_answered(&fresh);
    tap_check(test_fresh_cluster.proved == ngx_etcd_clock() - 1);

    ngx_etcd_fresh_ask(&fresh);
    tap_check(test_fresh_requests == 5);
}


ngx_etcd_tap_test_t  test_fresh[] = {
    { "fresh: proofs", test_fresh_proofs },
    { "fresh: requests for progress", test_fresh_requested },
    { NULL, NULL }
};
