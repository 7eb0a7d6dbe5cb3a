
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_cluster.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_str.h>


#define NGX_ETCD_CLUSTER_ID_HEX  16     /* digits */


ngx_uint_t
ngx_etcd_cluster_local(ngx_etcd_cluster_conf_t *conf)
{
    ngx_uint_t            i;
    ngx_etcd_endpoint_t  *endpoint;

    endpoint = conf->endpoints.elts;

    for (i = 0; i < conf->endpoints.nelts; i++) {
        if (endpoint[i].local) {
            return 1;
        }
    }

    return 0;
}


void
ngx_etcd_cluster_prove(ngx_etcd_cluster_t *cluster, uint64_t time)
{
    if (cluster->current) {
        cluster->proved = ngx_max(cluster->proved, time);
    }
}


ngx_msec_t
ngx_etcd_cluster_ping_interval(ngx_etcd_cluster_t *cluster)
{
    return cluster->conf->ping_interval
           << ngx_min(cluster->counts.too_many_pings, NGX_ETCD_CLUSTER_PINGS);
}


/* Returns the words of this nginx, or those of this client. */

static ngx_etcd_shared_id_t *
ngx_etcd_cluster_id_shared(ngx_etcd_cluster_t *cluster)
{
    ngx_etcd_shared_id_t  *shared;

    shared = cluster->conf->shared_id;

    return (shared != NULL && shared->epoch == cluster->conf->epoch)
           ? shared : &cluster->id;
}


uint64_t
ngx_etcd_cluster_id_known(ngx_etcd_cluster_t *cluster)
{
    ngx_etcd_shared_id_t  *shared;

    shared = ngx_etcd_cluster_id_shared(cluster);

    if (cluster->conf->cluster_id != 0
        && shared->id != cluster->conf->cluster_id)
    {
        shared->id = cluster->conf->cluster_id;
    }

    /* the copy stays when a new configuration agrees on another id */

    cluster->id.id = shared->id;

    return cluster->id.id;
}


/*
 * Returns for how many ms no endpoint of the known cluster has answered, though
 * each was asked again after request_timeout; 0 if one may.
 */

static uint64_t
ngx_etcd_cluster_id_missing(ngx_etcd_cluster_t *cluster)
{
    uint64_t  since, answered, end, now;

    since = cluster->endpoints.missing;

    if (since == 0) {
        return 0;
    }

    now = ngx_etcd_clock();
    answered = ngx_etcd_cluster_id_shared(cluster)->answered;
    since = ngx_max(since, answered);
    end = since + cluster->conf->request_timeout;

    return (now > end && ngx_etcd_endpoints_silent(&cluster->endpoints, end))
           ? now - since : 0;
}


ngx_int_t
ngx_etcd_cluster_id_check(ngx_etcd_cluster_t *cluster, uint64_t id)
{
    uint64_t  known, missing;

    if (id == 0) {
        return NGX_OK;
    }

    known = ngx_etcd_cluster_id_known(cluster);

    if (known == 0) {
        return NGX_AGAIN;
    }

    if (id == known) {
        ngx_etcd_cluster_id_answered(cluster);
        return NGX_OK;
    }

    missing = ngx_etcd_cluster_id_missing(cluster);

    if (missing == 0 || cluster->conf->cluster_id != 0) {
        return NGX_DECLINED;
    }

    if (ngx_etcd_cluster_id_adopt(cluster, id)) {
        ngx_log_error(NGX_LOG_WARN, cluster->log, 0,
                      "etcd cluster \"%V\": another history: another cluster "
                      "answers (cluster id %xL, was %xL), and no endpoint of "
                      "the former one has answered for %uL ms",
                      &cluster->conf->name, id, known, missing);
    }

    return (ngx_etcd_cluster_id_known(cluster) == id) ? NGX_OK : NGX_DECLINED;
}


void
ngx_etcd_cluster_id_answered(ngx_etcd_cluster_t *cluster)
{
    ngx_etcd_cluster_id_shared(cluster)->answered = ngx_etcd_clock();

    cluster->endpoints.missing = 0;
}


ngx_uint_t
ngx_etcd_cluster_id_adopt(ngx_etcd_cluster_t *cluster, uint64_t id)
{
    uint64_t               former;
    ngx_uint_t             first;
    ngx_etcd_shared_id_t  *shared;

    shared = ngx_etcd_cluster_id_shared(cluster);
    former = cluster->id.id;

    first = __atomic_compare_exchange_n(&shared->id, &former, id, 0,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);

    if (ngx_etcd_cluster_id_known(cluster) == id) {
        ngx_etcd_cluster_id_answered(cluster);
    }

    return first;
}


void
ngx_etcd_cluster_id_report(ngx_etcd_cluster_t *cluster,
    ngx_etcd_place_t *place, uint64_t id)
{
    ngx_str_t             *url;
    ngx_etcd_shared_id_t  *shared;

    url = &place->endpoint->url;
    shared = ngx_etcd_cluster_id_shared(cluster);

    /* clients of a former configuration have nothing new to say */

    if ((cluster->conf->shared_id != NULL && shared == &cluster->id)
        || !ngx_etcd_shared_id_mark(shared, url, id))
    {
        return;
    }

    if (id == 0) {
        ngx_log_error(NGX_LOG_NOTICE, cluster->log, 0,
                      "etcd cluster \"%V\": endpoint %V belongs to the cluster "
                      "in use again",
                      &cluster->conf->name, ngx_etcd_shown(url));
        return;
    }

    ngx_log_error(NGX_LOG_ERR, cluster->log, 0,
                  "etcd cluster \"%V\": endpoint %V is not used: it belongs to "
                  "another cluster (cluster id %xL, not %xL)",
                  &cluster->conf->name, ngx_etcd_shown(url), id,
                  ngx_etcd_cluster_id_known(cluster));
}


uint64_t
ngx_etcd_cluster_id_parse(ngx_str_t *text)
{
    size_t       len;
    u_char      *p, c;
    uint64_t     id, base, digit;

    p = text->data;
    len = text->len;
    base = 16;

    if (len > 2 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X')) {
        p += 2;
        len -= 2;

    } else if (len > NGX_ETCD_CLUSTER_ID_HEX) {
        base = 10;
    }

    for (id = 0; len != 0; len--) {
        c = ngx_tolower(*p);
        p++;

        if (c >= '0' && c <= '9') {
            digit = c - '0';

        } else if (c >= 'a' && c <= 'f') {
            digit = c - 'a' + 10;

        } else {
            return 0;
        }

        if (digit >= base || id > (UINT64_MAX - digit) / base) {
            return 0;
        }

        id = id * base + digit;
    }

    return id;
}


static void
ngx_etcd_endpoints_draw_home(ngx_etcd_endpoints_t *endpoints)
{
    ngx_uint_t  i, n;

    n = ngx_etcd_endpoints_count(endpoints);

    if (n == 0) {
        return;
    }

    n = (ngx_uint_t) ngx_random() % n;

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


ngx_etcd_place_t *
ngx_etcd_endpoints_home(ngx_etcd_endpoints_t *endpoints)
{
    ngx_etcd_place_t  *place;

    place = &endpoints->places[endpoints->home];

    return (place->endpoint != NULL) ? place : NULL;
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
ngx_etcd_endpoints_move(ngx_etcd_endpoints_t *endpoints,
    ngx_etcd_place_t *place, ngx_etcd_endpoint_state_e from,
    ngx_etcd_endpoint_state_e to)
{
    place->connecting -= (from == NGX_ETCD_ENDPOINT_CONNECTING);
    place->connected -= (from == NGX_ETCD_ENDPOINT_CONNECTED);

    if (to == NGX_ETCD_ENDPOINT_CONNECTING) {
        place->connecting++;
        place->tried = ngx_etcd_clock();
    }

    if (to == NGX_ETCD_ENDPOINT_CONNECTED) {
        place->connected++;
        place->failed = 0;
        place->until = 0;
    }

    endpoints->version++;
}


void
ngx_etcd_endpoints_failed(ngx_etcd_endpoints_t *endpoints,
    ngx_etcd_place_t *place, ngx_uint_t proved, ngx_str_t *reason)
{
    ngx_msec_t  max;

    if (proved) {
        place->failures = 0;
    }

    if (place->failures == 0) {
        place->since = ngx_time();
    }

    place->error_len = ngx_min(reason->len, NGX_ETCD_ENDPOINTS_ERROR);
    ngx_memcpy(place->error, reason->data, place->error_len);

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


ngx_int_t
ngx_etcd_endpoints_merge_add(ngx_etcd_endpoints_t *endpoints, ngx_pool_t *pool,
    ngx_etcd_endpoint_t *endpoint, ngx_etcd_endpoint_source_e source)
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
            place->listed |= (place->source == source);
            ngx_destroy_pool(pool);
            return NGX_OK;
        }
    }

    if (vacant == NULL) {
        return NGX_DECLINED;
    }

    ngx_memzero(vacant, sizeof(ngx_etcd_place_t));

    vacant->endpoint = endpoint;
    vacant->source = source;
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
ngx_etcd_endpoints_merge_end(ngx_etcd_endpoints_t *endpoints,
    ngx_etcd_endpoint_source_e source)
{
    ngx_uint_t         i;
    ngx_etcd_place_t  *place;

    for (i = 0; i < NGX_ETCD_ENDPOINTS_MAX; i++) {
        place = &endpoints->places[i];

        if (place->pool == NULL || place->source != source) {
            continue;
        }

        if (!place->listed
            && place->connecting == 0 && place->connected == 0)
        {
            ngx_etcd_endpoints_drop(endpoints, place);
        }

        place->listed = 0;
    }
}


ngx_msec_t
ngx_etcd_backoff(ngx_etcd_cluster_t *cluster, ngx_uint_t failures)
{
    ngx_msec_t  max, limit;

    limit = cluster->urgent ? NGX_ETCD_BACKOFF_URGENT : NGX_ETCD_BACKOFF_MAX;

    max = NGX_ETCD_BACKOFF_BASE << ngx_min(failures, 10);
    max = ngx_min(max, limit);

    return 1 + (ngx_msec_t) ngx_random() % max;
}


ngx_msec_t
ngx_etcd_backoff_around(ngx_msec_t mean)
{
    return mean / 2 + (ngx_msec_t) ngx_random() % mean;
}


void
ngx_etcd_backoff_hasten(ngx_event_t *timer)
{
    ngx_msec_int_t  left;

    left = (ngx_msec_int_t) (timer->timer.key - ngx_current_msec);

    if (!timer->timer_set || left <= NGX_ETCD_BACKOFF_URGENT) {
        return;
    }

    ngx_etcd_event_move(timer, 1 + (ngx_msec_t) ngx_random()
                               % NGX_ETCD_BACKOFF_URGENT);
}


ngx_uint_t
ngx_etcd_backoff_retriable(ngx_etcd_grpc_status_e status)
{
    return status == NGX_ETCD_GRPC_UNAVAILABLE
           || status == NGX_ETCD_GRPC_DEADLINE_EXCEEDED
           || status == NGX_ETCD_GRPC_RESOURCE_EXHAUSTED
           || status == NGX_ETCD_GRPC_CANCELLED
           || status == NGX_ETCD_GRPC_UNKNOWN
           || status == NGX_ETCD_GRPC_INTERNAL;
}
