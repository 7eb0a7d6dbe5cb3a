
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "test_etcd.h"


static ngx_etcd_endpoints_t  test_endpoints_list;


/* Initializes three endpoints. */

static ngx_etcd_endpoints_t *
test_endpoints_init(ngx_pool_t *pool)
{
    test_etcd_conf(pool, 3);
    ngx_etcd_endpoints_init(&test_endpoints_list, &test_etcd.conf.endpoints,
                            pool->log);

    return &test_endpoints_list;
}


static void
test_endpoints_spread(ngx_pool_t *pool)
{
    ngx_uint_t             i, homes[3], chosen[3];
    ngx_etcd_place_t      *place;
    ngx_etcd_endpoints_t  *list;

    list = test_endpoints_init(pool);

    ngx_memzero(homes, sizeof(homes));
    ngx_memzero(chosen, sizeof(chosen));

    tap_check(ngx_etcd_endpoints_count(list) == 3);
    tap_check(list->current == -1);

    for (i = 0; i < 3000; i++) {
        ngx_etcd_endpoints_init(list, &test_etcd.conf.endpoints, pool->log);

        homes[ngx_etcd_endpoints_home(list) - list->places]++;
        chosen[ngx_etcd_endpoints_choose(list, NULL) - list->places]++;

        place = ngx_etcd_endpoints_choose(list, &list->places[1]);
        tap_check(place != &list->places[1]);
    }

    for (i = 0; i < 3; i++) {
        tap_check(homes[i] > 850 && homes[i] < 1150);
        tap_check(chosen[i] > 850 && chosen[i] < 1150);
    }
}


static ngx_str_t  why = ngx_string("connect() failed");


/* An endpoint that fails is set aside; if all are, the oldest try is next. */

static void
test_endpoints_aside(ngx_pool_t *pool)
{
    ngx_uint_t             i;
    ngx_etcd_place_t      *places;
    ngx_etcd_endpoints_t  *list;

    list = test_endpoints_init(pool);
    places = list->places;

    for (i = 0; i < 3; i++) {
        ngx_etcd_endpoints_move(list, &places[(i + 1) % 3],
                                NGX_ETCD_ENDPOINT_UNUSED,
                                NGX_ETCD_ENDPOINT_CONNECTING);
        tap_check(ngx_etcd_endpoints_state(&places[(i + 1) % 3])
                  == NGX_ETCD_ENDPOINT_CONNECTING);
        test_loop_pass(10);
        ngx_etcd_endpoints_move(list, &places[(i + 1) % 3],
                                NGX_ETCD_ENDPOINT_CONNECTING,
                                NGX_ETCD_ENDPOINT_UNUSED);
    }

    ngx_etcd_endpoints_failed(list, &places[0], 0, &why);
    tap_check(ngx_etcd_endpoints_state(&places[0])
              == NGX_ETCD_ENDPOINT_FAILED);

    for (i = 0; i < 100; i++) {
        tap_check(ngx_etcd_endpoints_choose(list, NULL) != &places[0]);
        tap_check(ngx_etcd_endpoints_choose(list, &places[1]) == &places[2]);
    }

    ngx_etcd_endpoints_failed(list, &places[1], 0, &why);
    ngx_etcd_endpoints_failed(list, &places[2], 0, &why);

    tap_check(ngx_etcd_endpoints_choose(list, NULL) == &places[1]);
    tap_check(ngx_etcd_endpoints_choose(list, &places[1]) == &places[2]);

    /* for five seconds at the most, the first time */

    test_loop_pass(NGX_ETCD_ENDPOINTS_ASIDE + 1);

    for (i = 0; i < 3; i++) {
        tap_check(places[i].until <= ngx_current_msec + 1);
    }
}


/* Times grow up to a minute; a connection that had proved itself ends that. */

static void
test_endpoints_backoff(ngx_pool_t *pool)
{
    uint64_t               most;
    ngx_uint_t             i, n;
    ngx_etcd_place_t      *place;
    ngx_etcd_endpoints_t  *list;

    list = test_endpoints_init(pool);
    place = &list->places[0];
    most = 0;

    for (n = 0; n < 40; n++) {
        ngx_etcd_endpoints_failed(list, place, 0, &why);
        most = ngx_max(most, place->until - (ngx_current_msec + 1));
    }

    tap_check(place->failures == 40);
    tap_check(most > 45000 && most <= NGX_ETCD_ENDPOINTS_ASIDE_MAX);

    for (i = 0; i < 100; i++) {
        ngx_etcd_endpoints_failed(list, place, 1, &why);
        tap_check(place->failures == 1);
        tap_check(place->until - (ngx_current_msec + 1)
                  <= NGX_ETCD_ENDPOINTS_ASIDE);
    }

    ngx_etcd_endpoints_move(list, place, NGX_ETCD_ENDPOINT_UNUSED,
                            NGX_ETCD_ENDPOINT_CONNECTING);
    ngx_etcd_endpoints_move(list, place, NGX_ETCD_ENDPOINT_CONNECTING,
                            NGX_ETCD_ENDPOINT_CONNECTED);

    tap_check(place->until == 0);
    tap_check(ngx_etcd_endpoints_state(place) == NGX_ETCD_ENDPOINT_CONNECTED);

    ngx_etcd_endpoints_move(list, place, NGX_ETCD_ENDPOINT_CONNECTED,
                            NGX_ETCD_ENDPOINT_UNUSED);
    tap_check(ngx_etcd_endpoints_state(place) == NGX_ETCD_ENDPOINT_UNUSED);
}


/* Takes in an endpoint as one that a member advertises. */

static ngx_int_t
test_endpoints_learn(ngx_pool_t *pool, ngx_etcd_endpoints_t *list, char *url)
{
    ngx_int_t             rc;
    ngx_pool_t           *own;
    ngx_etcd_endpoint_t  *endpoint;

    test_alloc_pause();

    own = ngx_create_pool(1024, pool->log);
    endpoint = ngx_pcalloc(own, sizeof(ngx_etcd_endpoint_t));
    endpoint->url = *tap_string(own, url);

    if (ngx_etcd_endpoint_parse(own, endpoint) != NULL) {
        abort();
    }

    rc = ngx_etcd_endpoints_merge_add(list, own, endpoint,
                                      NGX_ETCD_ENDPOINT_ADVERTISED);

    if (rc != NGX_OK) {
        ngx_destroy_pool(own);
    }

    test_alloc_resume();

    return rc;
}


static void
test_endpoints_learned(ngx_pool_t *pool)
{
    u_char                 url[64];
    ngx_uint_t             i, version;
    ngx_etcd_place_t      *place;
    ngx_etcd_endpoints_t  *list;

    list = test_endpoints_init(pool);
    place = &list->places[3];

    tap_check(test_endpoints_learn(pool, list, "10.0.0.2") == NGX_OK);
    tap_check(ngx_etcd_endpoints_count(list) == 3);
    tap_check(test_endpoints_learn(pool, list, "10.0.1.1") == NGX_OK);
    tap_check(test_endpoints_learn(pool, list, "http://10.0.1.1:2379")
              == NGX_OK);
    ngx_etcd_endpoints_merge_end(list, NGX_ETCD_ENDPOINT_ADVERTISED);

    tap_check(ngx_etcd_endpoints_count(list) == 4);
    tap_check(place->pool != NULL);
    tap_check(list->places[1].pool == NULL);

    /* an endpoint in use stays, and is dropped afterwards */

    list->home = 3;
    ngx_etcd_endpoints_set_current(list, place);
    ngx_etcd_endpoints_move(list, place, NGX_ETCD_ENDPOINT_UNUSED,
                            NGX_ETCD_ENDPOINT_CONNECTING);

    ngx_etcd_endpoints_merge_end(list, NGX_ETCD_ENDPOINT_ADVERTISED);
    tap_check(ngx_etcd_endpoints_count(list) == 4);

    ngx_etcd_endpoints_move(list, place, NGX_ETCD_ENDPOINT_CONNECTING,
                            NGX_ETCD_ENDPOINT_UNUSED);
    version = list->version;

    ngx_etcd_endpoints_merge_end(list, NGX_ETCD_ENDPOINT_ADVERTISED);

    tap_check(ngx_etcd_endpoints_count(list) == 3);
    tap_check(list->current == -1 && list->home < 3);
    tap_check(list->version != version);

    /* The configured ones stay, and there is room for so many. */

    for (i = 3; i < NGX_ETCD_ENDPOINTS_MAX; i++) {
        *ngx_sprintf(url, "10.0.2.%ui", i) = '\0';
        tap_check(test_endpoints_learn(pool, list, (char *) url) == NGX_OK);
    }

    tap_check(test_endpoints_learn(pool, list, "10.0.3.1") == NGX_DECLINED);
    ngx_etcd_endpoints_merge_end(list, NGX_ETCD_ENDPOINT_ADVERTISED);

    tap_check(ngx_etcd_endpoints_count(list) == NGX_ETCD_ENDPOINTS_MAX);

    for (i = 3; i < NGX_ETCD_ENDPOINTS_MAX; i++) {
        ngx_destroy_pool(list->places[i].pool);
    }
}


ngx_etcd_tap_test_t  test_endpoints[] = {
    { "endpoints: spread", test_endpoints_spread },
    { "endpoints: set aside", test_endpoints_aside },
    { "endpoints: for longer times", test_endpoints_backoff },
    { "endpoints: learned", test_endpoints_learned },
    { NULL, NULL }
};
