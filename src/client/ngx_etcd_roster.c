
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_roster.h>


static ngx_uint_t ngx_etcd_roster_index(ngx_etcd_roster_t *roster,
    ngx_etcd_place_t *place);
static ngx_uint_t ngx_etcd_roster_size(ngx_etcd_roster_t *roster);
static void ngx_etcd_roster_drop(ngx_etcd_roster_t *roster,
    ngx_etcd_place_t *place);
static void ngx_etcd_roster_draw_home(ngx_etcd_roster_t *roster);


void
ngx_etcd_roster_init(ngx_etcd_roster_t *roster, ngx_array_t *endpoints,
    ngx_log_t *log)
{
    ngx_uint_t            i, n;
    ngx_etcd_endpoint_t  *endpoint;

    ngx_memzero(roster, sizeof(ngx_etcd_roster_t));

    endpoint = endpoints->elts;
    n = ngx_min(endpoints->nelts, NGX_ETCD_ROSTER_MAX);

    for (i = 0; i < n; i++) {
        roster->places[i].endpoint = &endpoint[i];
    }

    roster->log = log;
    roster->current = -1;
    roster->version = 1;

    /* clients that start together spread over the endpoints */

    ngx_etcd_roster_draw_home(roster);
}


void
ngx_etcd_roster_done(ngx_etcd_roster_t *roster)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_ETCD_ROSTER_MAX; i++) {
        if (roster->places[i].pool != NULL) {
            ngx_destroy_pool(roster->places[i].pool);
            roster->places[i].pool = NULL;
        }
    }
}


ngx_etcd_place_t *
ngx_etcd_roster_home(ngx_etcd_roster_t *roster)
{
    return &roster->places[roster->home];
}


ngx_etcd_place_t *
ngx_etcd_roster_choose(ngx_etcd_roster_t *roster, ngx_etcd_place_t *except)
{
    uint64_t           now;
    ngx_uint_t         i, n;
    ngx_etcd_place_t  *place, *chosen, *oldest;

    n = 0;
    chosen = NULL;
    oldest = NULL;
    now = ngx_etcd_clock();

    for (i = 0; i < NGX_ETCD_ROSTER_MAX; i++) {
        place = &roster->places[i];

        if (place->endpoint == NULL || place == except) {
            continue;
        }

        if (place->until > now) {

            if (oldest == NULL || place->tried < oldest->tried) {
                oldest = place;
            }

            continue;
        }

        /* the n-th takes the place of those before with a chance of 1/n */

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
ngx_etcd_roster_count(ngx_etcd_roster_t *roster)
{
    ngx_uint_t  i, n;

    n = 0;

    for (i = 0; i < NGX_ETCD_ROSTER_MAX; i++) {
        n += (roster->places[i].endpoint != NULL);
    }

    return n;
}


void
ngx_etcd_roster_connecting(ngx_etcd_roster_t *roster, ngx_etcd_place_t *place)
{
    place->connecting++;
    place->tried = ngx_etcd_clock();

    roster->version++;
}


void
ngx_etcd_roster_connected(ngx_etcd_roster_t *roster, ngx_etcd_place_t *place)
{
    place->connecting--;
    place->connected++;
    place->failed = 0;
    place->until = 0;

    roster->version++;
}


void
ngx_etcd_roster_left(ngx_etcd_roster_t *roster, ngx_etcd_place_t *place,
    ngx_uint_t connected)
{
    if (connected) {
        place->connected--;

    } else {
        place->connecting--;
    }

    roster->version++;
}


void
ngx_etcd_roster_failed(ngx_etcd_roster_t *roster, ngx_etcd_place_t *place,
    ngx_uint_t proved)
{
    ngx_msec_t  max;

    if (proved) {
        place->failures = 0;
    }

    max = (ngx_msec_t) NGX_ETCD_ROSTER_ASIDE << ngx_min(place->failures, 10);
    max = ngx_min(max, NGX_ETCD_ROSTER_ASIDE_MAX);

    place->failures++;
    place->failed = 1;
    place->until = ngx_etcd_clock() + 1 + (ngx_msec_t) ngx_random() % max;

    roster->version++;
}


void
ngx_etcd_roster_set_current(ngx_etcd_roster_t *roster, ngx_etcd_place_t *place)
{
    roster->current = (ngx_int_t) ngx_etcd_roster_index(roster, place);
    roster->version++;
}


static ngx_uint_t
ngx_etcd_roster_index(ngx_etcd_roster_t *roster, ngx_etcd_place_t *place)
{
    return place - roster->places;
}


ngx_etcd_endpoint_state_e
ngx_etcd_roster_state(ngx_etcd_place_t *place)
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
ngx_etcd_roster_learned(ngx_etcd_place_t *place)
{
    return place->pool != NULL;
}


void
ngx_etcd_roster_merge_begin(ngx_etcd_roster_t *roster)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_ETCD_ROSTER_MAX; i++) {
        roster->places[i].listed = 0;
    }
}


ngx_int_t
ngx_etcd_roster_merge_add(ngx_etcd_roster_t *roster, ngx_pool_t *pool,
    ngx_etcd_endpoint_t *endpoint)
{
    ngx_uint_t         i;
    ngx_etcd_place_t  *place, *vacant;

    vacant = NULL;

    for (i = 0; i < NGX_ETCD_ROSTER_MAX; i++) {
        place = &roster->places[i];

        if (place->endpoint == NULL) {
            vacant = (vacant != NULL) ? vacant : place;
            continue;
        }

        if (ngx_etcd_url_equal(place->endpoint, endpoint)) {
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

    ngx_log_error(NGX_LOG_INFO, roster->log, 0,
                  "etcd endpoint %V is advertised", &endpoint->url);

    if ((ngx_uint_t) ngx_random() % ngx_etcd_roster_size(roster) == 0) {
        roster->home = ngx_etcd_roster_index(roster, vacant);
    }

    roster->version++;

    return NGX_OK;
}


void
ngx_etcd_roster_merge_end(ngx_etcd_roster_t *roster)
{
    ngx_uint_t         i;
    ngx_etcd_place_t  *place;

    for (i = 0; i < NGX_ETCD_ROSTER_MAX; i++) {
        place = &roster->places[i];

        if (place->pool != NULL && !place->listed
            && place->connecting == 0 && place->connected == 0)
        {
            ngx_etcd_roster_drop(roster, place);
        }
    }
}


static void
ngx_etcd_roster_drop(ngx_etcd_roster_t *roster, ngx_etcd_place_t *place)
{
    ngx_uint_t  i;

    ngx_log_error(NGX_LOG_INFO, roster->log, 0,
                  "etcd endpoint %V is not advertised any more",
                  &place->endpoint->url);

    ngx_destroy_pool(place->pool);
    ngx_memzero(place, sizeof(ngx_etcd_place_t));

    i = ngx_etcd_roster_index(roster, place);

    if (roster->current == (ngx_int_t) i) {
        roster->current = -1;
    }

    if (roster->home == i) {
        ngx_etcd_roster_draw_home(roster);
    }

    roster->version++;
}


static ngx_uint_t
ngx_etcd_roster_size(ngx_etcd_roster_t *roster)
{
    ngx_uint_t  i, n;

    n = 0;

    for (i = 0; i < NGX_ETCD_ROSTER_MAX; i++) {
        n += (roster->places[i].endpoint != NULL);
    }

    return n;
}


static void
ngx_etcd_roster_draw_home(ngx_etcd_roster_t *roster)
{
    ngx_uint_t  i, n;

    n = (ngx_uint_t) ngx_random() % ngx_etcd_roster_size(roster);

    for (i = 0; i < NGX_ETCD_ROSTER_MAX; i++) {
        if (roster->places[i].endpoint != NULL && n-- == 0) {
            roster->home = i;
            return;
        }
    }
}
