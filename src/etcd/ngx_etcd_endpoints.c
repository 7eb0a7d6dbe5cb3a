
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_endpoints.h>


static void
ngx_etcd_endpoints_draw_home(ngx_etcd_endpoints_t *endpoints)
{
    ngx_uint_t  i, n;

    n = (ngx_uint_t) ngx_random() % ngx_etcd_endpoints_count(endpoints);

    for (i = 0; i < NGX_ETCD_ENDPOINTS_MAX; i++) {
        if (endpoints->places[i].endpoint != NULL && n-- == 0) {
            endpoints->home = i;
            return;
        }
    }
}


void
ngx_etcd_endpoints_init(ngx_etcd_endpoints_t *endpoints, ngx_array_t *array,
    ngx_log_t *log)
{
    ngx_uint_t            i, n;
    ngx_etcd_endpoint_t  *endpoint;

    ngx_memzero(endpoints, sizeof(ngx_etcd_endpoints_t));

    endpoint = array->elts;
    n = ngx_min(array->nelts, NGX_ETCD_ENDPOINTS_MAX);

    for (i = 0; i < n; i++) {
        endpoints->places[i].endpoint = &endpoint[i];
    }

    endpoints->log = log;
    endpoints->current = -1;
    endpoints->version = 1;

    /* clients that start together are distributed over the endpoints */

    ngx_etcd_endpoints_draw_home(endpoints);
}


void
ngx_etcd_endpoints_done(ngx_etcd_endpoints_t *endpoints)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_ETCD_ENDPOINTS_MAX; i++) {
        if (endpoints->places[i].pool != NULL) {
            ngx_destroy_pool(endpoints->places[i].pool);
            endpoints->places[i].pool = NULL;
        }
    }
}


ngx_etcd_place_t *
ngx_etcd_endpoints_home(ngx_etcd_endpoints_t *endpoints)
{
    return &endpoints->places[endpoints->home];
}


ngx_etcd_place_t *
ngx_etcd_endpoints_choose(ngx_etcd_endpoints_t *endpoints,
    ngx_etcd_place_t *except)
{
    uint64_t           now;
    ngx_uint_t         i, n;
    ngx_etcd_place_t  *place, *chosen, *oldest;

    n = 0;
    chosen = NULL;
    oldest = NULL;
    now = ngx_etcd_clock();

    for (i = 0; i < NGX_ETCD_ENDPOINTS_MAX; i++) {
        place = &endpoints->places[i];

        if (place->endpoint == NULL || place == except) {
            continue;
        }

        if (place->until > now) {

            if (oldest == NULL || place->tried < oldest->tried) {
                oldest = place;
            }

            continue;
        }

        /*
         * reservoir sampling: the n-th candidate is chosen with probability 1/n
         */

        if ((ngx_uint_t) ngx_random() % ++n == 0) {
            chosen = place;
        }
    }

    if (chosen != NULL) {
        return chosen;
    }

    return (oldest != NULL) ? oldest : except;
}


ngx_uint_t
ngx_etcd_endpoints_count(ngx_etcd_endpoints_t *endpoints)
{
    ngx_uint_t  i, n;

    n = 0;

    for (i = 0; i < NGX_ETCD_ENDPOINTS_MAX; i++) {
        n += (endpoints->places[i].endpoint != NULL);
    }

    return n;
}


void
ngx_etcd_endpoints_connecting(ngx_etcd_endpoints_t *endpoints,
    ngx_etcd_place_t *place)
{
    place->connecting++;
    place->tried = ngx_etcd_clock();

    endpoints->version++;
}


void
ngx_etcd_endpoints_connected(ngx_etcd_endpoints_t *endpoints,
    ngx_etcd_place_t *place)
{
    place->connecting--;
    place->connected++;
    place->failed = 0;
    place->until = 0;

    endpoints->version++;
}


void
ngx_etcd_endpoints_left(ngx_etcd_endpoints_t *endpoints,
    ngx_etcd_place_t *place, ngx_uint_t connected)
{
    if (connected) {
        place->connected--;

    } else {
        place->connecting--;
    }

    endpoints->version++;
}


void
ngx_etcd_endpoints_failed(ngx_etcd_endpoints_t *endpoints,
    ngx_etcd_place_t *place, ngx_uint_t proved)
{
    ngx_msec_t  max;

    if (proved) {
        place->failures = 0;
    }

    max = (ngx_msec_t) NGX_ETCD_ENDPOINTS_ASIDE << ngx_min(place->failures, 10);
    max = ngx_min(max, NGX_ETCD_ENDPOINTS_ASIDE_MAX);

    place->failures++;
    place->failed = 1;
    place->lost = ngx_etcd_clock();
    place->until = place->lost + 1 + (ngx_msec_t) ngx_random() % max;

    if (endpoints->missing == 0) {
        endpoints->missing = place->lost;
    }

    endpoints->version++;
}


ngx_uint_t
ngx_etcd_endpoints_silent(ngx_etcd_endpoints_t *endpoints, uint64_t time)
{
    ngx_uint_t         i;
    ngx_etcd_place_t  *place;

    for (i = 0; i < NGX_ETCD_ENDPOINTS_MAX; i++) {
        place = &endpoints->places[i];

        if (place->endpoint != NULL
            && place->foreign == 0
            && place->lost < time)
        {
            return 0;
        }
    }

    return 1;
}


void
ngx_etcd_endpoints_set_current(ngx_etcd_endpoints_t *endpoints,
    ngx_etcd_place_t *place)
{
    endpoints->current = place - endpoints->places;
    endpoints->version++;
}


ngx_etcd_endpoint_state_e
ngx_etcd_endpoints_state(ngx_etcd_place_t *place)
{
    if (place->connected != 0) {
        return NGX_ETCD_ENDPOINT_CONNECTED;
    }

    if (place->connecting != 0) {
        return NGX_ETCD_ENDPOINT_CONNECTING;
    }

    return place->failed ? NGX_ETCD_ENDPOINT_FAILED : NGX_ETCD_ENDPOINT_UNUSED;
}


ngx_uint_t
ngx_etcd_endpoints_learned(ngx_etcd_place_t *place)
{
    return place->pool != NULL;
}


void
ngx_etcd_endpoints_merge_begin(ngx_etcd_endpoints_t *endpoints)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_ETCD_ENDPOINTS_MAX; i++) {
        endpoints->places[i].listed = 0;
    }
}


ngx_int_t
ngx_etcd_endpoints_merge_add(ngx_etcd_endpoints_t *endpoints, ngx_pool_t *pool,
    ngx_etcd_endpoint_t *endpoint)
{
    ngx_uint_t         i;
    ngx_etcd_place_t  *place, *vacant;

    vacant = NULL;

    for (i = 0; i < NGX_ETCD_ENDPOINTS_MAX; i++) {
        place = &endpoints->places[i];

        if (place->endpoint == NULL) {
            vacant = (vacant != NULL) ? vacant : place;
            continue;
        }

        if (ngx_etcd_endpoint_equal(place->endpoint, endpoint)) {
            place->listed = 1;
            ngx_destroy_pool(pool);
            return NGX_OK;
        }
    }

    if (vacant == NULL) {
        return NGX_DECLINED;
    }

    ngx_memzero(vacant, sizeof(ngx_etcd_place_t));

    vacant->endpoint = endpoint;
    vacant->pool = pool;
    vacant->listed = 1;

    ngx_log_error(NGX_LOG_INFO, endpoints->log, 0,
                  "etcd endpoint %V is advertised", &endpoint->url);

    if ((ngx_uint_t) ngx_random() % ngx_etcd_endpoints_count(endpoints) == 0) {
        endpoints->home = vacant - endpoints->places;
    }

    endpoints->version++;

    return NGX_OK;
}


static void
ngx_etcd_endpoints_drop(ngx_etcd_endpoints_t *endpoints,
    ngx_etcd_place_t *place)
{
    ngx_uint_t  i;

    ngx_log_error(NGX_LOG_INFO, endpoints->log, 0,
                  "etcd endpoint %V is not advertised any more",
                  &place->endpoint->url);

    ngx_destroy_pool(place->pool);
    ngx_memzero(place, sizeof(ngx_etcd_place_t));

    i = place - endpoints->places;

    if (endpoints->current == (ngx_int_t) i) {
        endpoints->current = -1;
    }

    if (endpoints->home == i) {
        ngx_etcd_endpoints_draw_home(endpoints);
    }

    endpoints->version++;
}


void
ngx_etcd_endpoints_merge_end(ngx_etcd_endpoints_t *endpoints)
{
    ngx_uint_t         i;
    ngx_etcd_place_t  *place;

    for (i = 0; i < NGX_ETCD_ENDPOINTS_MAX; i++) {
        place = &endpoints->places[i];

        if (place->pool != NULL && !place->listed
            && place->connecting == 0 && place->connected == 0)
        {
            ngx_etcd_endpoints_drop(endpoints, place);
        }
    }
}
