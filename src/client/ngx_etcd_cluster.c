
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_cluster.h>
#include <ngx_etcd_auth.h>


static void ngx_etcd_channel_init(ngx_etcd_cluster_t *cluster,
    ngx_etcd_channel_t *channel, char *name);
static void ngx_etcd_channel_destroy(ngx_etcd_channel_t *channel);
static void ngx_etcd_channel_resumed(ngx_etcd_channel_t *channel);
static ngx_uint_t ngx_etcd_channel_held(ngx_etcd_channel_t *channel);
static void ngx_etcd_channel_connect(ngx_etcd_channel_t *channel);
static void ngx_etcd_channel_secure(ngx_etcd_channel_t *channel,
    ngx_etcd_endpoint_t *endpoint);
static void ngx_etcd_channel_retry(ngx_etcd_channel_t *channel,
    ngx_str_t *reason);
static void ngx_etcd_channel_report(ngx_etcd_channel_t *channel,
    ngx_str_t *reason);
static void ngx_etcd_channel_next(ngx_etcd_channel_t *channel);
static void ngx_etcd_channel_timer(ngx_event_t *ev);
static void ngx_etcd_channel_ready(void *data);
static void ngx_etcd_channel_alive(void *data);
static void ngx_etcd_channel_pings(ngx_etcd_channel_t *channel);
static void ngx_etcd_channel_draining(void *data);
static void ngx_etcd_channel_closed(void *data, ngx_str_t *reason);
static void ngx_etcd_channel_set_state(ngx_etcd_channel_t *channel,
    ngx_etcd_channel_state_e state, ngx_etcd_endpoint_state_e endpoint);


ngx_etcd_cluster_t *
ngx_etcd_cluster_create(ngx_etcd_cluster_conf_t *conf,
    void (*changed)(void *data), void *data, ngx_log_t *log)
{
    ngx_pool_t          *pool;
    ngx_etcd_cluster_t  *cluster;

    pool = ngx_create_pool(4096, log);
    if (pool == NULL) {
        return NULL;
    }

    cluster = ngx_pcalloc(pool, sizeof(ngx_etcd_cluster_t));
    if (cluster == NULL) {
        ngx_destroy_pool(pool);
        return NULL;
    }

    cluster->endpoints = ngx_pcalloc(pool, conf->endpoints.nelts
                                           * sizeof(ngx_uint_t));
    if (cluster->endpoints == NULL) {
        ngx_destroy_pool(pool);
        return NULL;
    }

    cluster->conf = conf;
    cluster->pool = pool;
    cluster->log = log;
    cluster->changed = changed;
    cluster->data = data;

    ngx_etcd_channel_init(cluster, &cluster->streams, "streams");
    ngx_etcd_channel_init(cluster, &cluster->reads, "reads");

    cluster->auth = ngx_etcd_auth_create(cluster);
    if (cluster->auth == NULL) {
        ngx_destroy_pool(pool);
        return NULL;
    }

    return cluster;
}


void
ngx_etcd_cluster_destroy(ngx_etcd_cluster_t *cluster)
{
    ngx_etcd_auth_destroy(cluster->auth);

    ngx_etcd_channel_destroy(&cluster->streams);
    ngx_etcd_channel_destroy(&cluster->reads);

    ngx_destroy_pool(cluster->pool);
}


static void
ngx_etcd_channel_init(ngx_etcd_cluster_t *cluster, ngx_etcd_channel_t *channel,
    char *name)
{
    ngx_etcd_cluster_conf_t  *conf;

    conf = cluster->conf;

    channel->cluster = cluster;
    channel->name = name;

    /* instances that start together spread over the endpoints */

    channel->endpoint = (ngx_uint_t) ngx_random() % conf->endpoints.nelts;

    channel->conf.connect_timeout = conf->connect_timeout;
    channel->conf.ping_timeout = conf->ping_timeout;
    channel->conf.max_message_size = conf->max_message_size;
    channel->conf.ready = ngx_etcd_channel_ready;
    channel->conf.alive = ngx_etcd_channel_alive;
    channel->conf.draining = ngx_etcd_channel_draining;
    channel->conf.closed = ngx_etcd_channel_closed;
    channel->conf.data = channel;

    channel->timer.handler = ngx_etcd_channel_timer;
    channel->timer.data = channel;
    channel->timer.log = cluster->log;
    channel->timer.cancelable = 1;

    ngx_queue_init(&channel->waiters);
}


static void
ngx_etcd_channel_destroy(ngx_etcd_channel_t *channel)
{
    ngx_queue_t        *q;
    ngx_etcd_http2_t   *h2;
    ngx_etcd_waiter_t  *waiter;

    while (!ngx_queue_empty(&channel->waiters)) {
        q = ngx_queue_head(&channel->waiters);
        waiter = ngx_queue_data(q, ngx_etcd_waiter_t, queue);
        ngx_etcd_channel_forget(waiter);
    }

    if (channel->timer.timer_set) {
        ngx_del_timer(&channel->timer);
    }

    h2 = channel->h2;
    channel->h2 = NULL;

    if (h2 != NULL) {
        ngx_etcd_http2_close(h2);
    }
}


ngx_etcd_http2_t *
ngx_etcd_channel_get(ngx_etcd_channel_t *channel)
{
    if (channel->state == NGX_ETCD_CHANNEL_IDLE && !ngx_exiting) {
        ngx_etcd_channel_connect(channel);
        return NULL;
    }

    if (channel->state == NGX_ETCD_CHANNEL_READY
        && ngx_etcd_http2_usable(channel->h2))
    {
        return channel->h2;
    }

    return NULL;
}


void
ngx_etcd_channel_wait(ngx_etcd_channel_t *channel, ngx_etcd_waiter_t *waiter)
{
    if (!waiter->waiting) {
        waiter->waiting = 1;
        ngx_queue_insert_tail(&channel->waiters, &waiter->queue);
    }
}


void
ngx_etcd_channel_forget(ngx_etcd_waiter_t *waiter)
{
    if (waiter->waiting) {
        waiter->waiting = 0;
        ngx_queue_remove(&waiter->queue);
    }
}


void
ngx_etcd_channel_succeeded(ngx_etcd_channel_t *channel)
{
    channel->answered = 1;
    channel->failures = channel->flaps;

    /* of a connection that fails again and again only if it holds */

    if (channel->outage
        && (channel->flaps < 2 || ngx_etcd_channel_held(channel)))
    {
        ngx_etcd_channel_resumed(channel);
    }
}


static void
ngx_etcd_channel_resumed(ngx_etcd_channel_t *channel)
{
    ngx_etcd_cluster_t   *cluster;
    ngx_etcd_endpoint_t  *endpoint;

    channel->outage = 0;
    cluster = channel->cluster;
    endpoint = cluster->conf->endpoints.elts;

    ngx_log_error(NGX_LOG_NOTICE, cluster->log, 0,
                  "etcd cluster \"%V\": endpoint %V answers, %s resumed",
                  &cluster->conf->name, &endpoint[channel->endpoint].url,
                  channel->name);
}


static ngx_uint_t
ngx_etcd_channel_held(ngx_etcd_channel_t *channel)
{
    return channel->answered
           && ngx_current_msec - channel->since > NGX_ETCD_CHANNEL_HELD;
}


void
ngx_etcd_channel_failed(ngx_etcd_channel_t *channel, ngx_str_t *reason)
{
    ngx_etcd_http2_t  *h2;

    if (channel->state != NGX_ETCD_CHANNEL_READY) {
        return;
    }

    /*
     * the calls that end now come back here: the state says that this
     * connection is done with
     */

    h2 = channel->h2;
    channel->h2 = NULL;
    channel->state = NGX_ETCD_CHANNEL_BACKOFF;

    ngx_etcd_http2_close(h2);

    ngx_etcd_channel_retry(channel, reason);
}


static void
ngx_etcd_channel_connect(ngx_etcd_channel_t *channel)
{
    ngx_str_t             reason;
    ngx_etcd_cluster_t   *cluster;
    ngx_etcd_endpoint_t  *endpoint;

    cluster = channel->cluster;
    endpoint = cluster->conf->endpoints.elts;
    endpoint = &endpoint[channel->endpoint];

    channel->conf.addr = &endpoint->addr;
    channel->conf.authority = endpoint->authority;
    channel->conf.name = endpoint->url;
    channel->conf.ssl = NULL;
    channel->conf.ping_interval = cluster->conf->ping_interval
                                  << ngx_min(cluster->too_many_pings, 8);

    if (endpoint->secure) {
        ngx_etcd_channel_secure(channel, endpoint);
    }

    ngx_log_error(NGX_LOG_INFO, cluster->log, 0,
                  "etcd cluster \"%V\": connecting to %V for %s",
                  &cluster->conf->name, &endpoint->url, channel->name);

    ngx_etcd_channel_set_state(channel, NGX_ETCD_CHANNEL_CONNECTING,
                               NGX_ETCD_ENDPOINT_CONNECTING);

    channel->h2 = ngx_etcd_http2_connect(&channel->conf, cluster->log);

    if (channel->h2 == NULL) {
        ngx_str_set(&reason, "connect() failed");
        ngx_etcd_channel_retry(channel, &reason);
    }
}


static void
ngx_etcd_channel_secure(ngx_etcd_channel_t *channel,
    ngx_etcd_endpoint_t *endpoint)
{
    ngx_etcd_ssl_t      *ssl;
    ngx_etcd_cluster_t  *cluster;

    cluster = channel->cluster;
    ssl = cluster->conf->ssl;

    ngx_etcd_ssl_refresh(ssl, &cluster->conf->name, cluster->log);

    channel->conf.ssl = ssl;
    channel->conf.ssl_name = ssl->name.len ? ssl->name : endpoint->host;
}


static void
ngx_etcd_channel_retry(ngx_etcd_channel_t *channel, ngx_str_t *reason)
{
    ngx_msec_t  delay;

    /*
     * An endpoint may answer and then fail each time: only a connection that
     * holds ends the backoff.
     */

    if (ngx_etcd_channel_held(channel)) {
        channel->flaps = 0;
        channel->failures = 0;
        channel->outage = 0;

    } else if (channel->answered) {
        channel->flaps++;
    }

    channel->answered = 0;

    ngx_etcd_channel_report(channel, reason);

    /* the first failure is followed by the next endpoint at once */

    delay = channel->failures ? ngx_etcd_backoff(channel->failures) : 1;

    channel->failures++;

    ngx_etcd_channel_set_state(channel, NGX_ETCD_CHANNEL_BACKOFF,
                               NGX_ETCD_ENDPOINT_FAILED);

    ngx_etcd_channel_next(channel);
    ngx_add_timer(&channel->timer, delay);
}


/*
 * An outage once, though both channels feel it, and one that comes again and
 * again not each time.
 */

static void
ngx_etcd_channel_report(ngx_etcd_channel_t *channel, ngx_str_t *reason)
{
    ngx_uint_t            level;
    ngx_etcd_cluster_t   *cluster;
    ngx_etcd_endpoint_t  *endpoint;

    cluster = channel->cluster;
    endpoint = cluster->conf->endpoints.elts;
    level = NGX_LOG_INFO;

    if (!channel->outage
        && (cluster->reported == 0
            || ngx_current_msec - cluster->reported
               > NGX_ETCD_CLUSTER_QUIET))
    {
        level = NGX_LOG_ERR;
        channel->outage = 1;
        cluster->reported = ngx_current_msec;
    }

    ngx_log_error(level, cluster->log, 0,
                  "etcd cluster \"%V\": endpoint %V failed for %s: %V, "
                  "trying again",
                  &cluster->conf->name, &endpoint[channel->endpoint].url,
                  channel->name, reason);
}


/* another endpoint: the next that did not just fail, or simply the next */

static void
ngx_etcd_channel_next(ngx_etcd_channel_t *channel)
{
    ngx_uint_t           i, n, next;
    ngx_etcd_cluster_t  *cluster;

    cluster = channel->cluster;
    n = cluster->conf->endpoints.nelts;

    for (i = 1; i < n; i++) {
        next = (channel->endpoint + i) % n;

        if (cluster->endpoints[next] != NGX_ETCD_ENDPOINT_FAILED) {
            channel->endpoint = next;
            return;
        }
    }

    channel->endpoint = (channel->endpoint + 1) % n;
}


static void
ngx_etcd_channel_timer(ngx_event_t *ev)
{
    ngx_etcd_channel_t  *channel;

    channel = ev->data;

    if (channel->state == NGX_ETCD_CHANNEL_BACKOFF) {
        ngx_etcd_channel_connect(channel);
    }
}


static void
ngx_etcd_channel_ready(void *data)
{
    ngx_etcd_channel_t *channel = data;

    channel->since = ngx_current_msec;

    ngx_etcd_channel_set_state(channel, NGX_ETCD_CHANNEL_READY,
                               NGX_ETCD_ENDPOINT_CONNECTED);

    ngx_etcd_waiters_wake(&channel->waiters);
}


void
ngx_etcd_waiters_wake(ngx_queue_t *queue)
{
    ngx_queue_t        *q, waiters;
    ngx_etcd_waiter_t  *waiter;

    if (ngx_queue_empty(queue)) {
        return;
    }

    /* who waits again meanwhile waits for the next time */

    ngx_queue_init(&waiters);
    ngx_queue_add(&waiters, queue);
    ngx_queue_init(queue);

    while (!ngx_queue_empty(&waiters)) {
        q = ngx_queue_head(&waiters);
        waiter = ngx_queue_data(q, ngx_etcd_waiter_t, queue);

        ngx_etcd_channel_forget(waiter);
        waiter->handler(waiter->data);
    }
}


static void
ngx_etcd_channel_alive(void *data)
{
    ngx_etcd_channel_t *channel = data;

    ngx_etcd_cluster_t  *cluster;

    cluster = channel->cluster;
    channel->heard = ngx_current_msec;

    if (channel->outage && ngx_etcd_channel_held(channel)) {
        ngx_etcd_channel_resumed(channel);
    }

    if (channel == &cluster->streams) {
        cluster->proved = ngx_current_msec;
        cluster->changed(cluster->data);
    }
}


/* once for a connection that is given up */

static void
ngx_etcd_channel_pings(ngx_etcd_channel_t *channel)
{
    if (ngx_etcd_http2_too_many_pings(channel->h2)) {
        channel->cluster->too_many_pings++;
    }
}


static void
ngx_etcd_channel_draining(void *data)
{
    ngx_etcd_channel_t *channel = data;

    ngx_str_t  reason;

    /*
     * A watch would stay for as long as the peer lets it: it moves now.
     * Reads are short: the connection closes itself when they have ended.
     */

    if (channel == &channel->cluster->streams) {
        ngx_etcd_channel_pings(channel);

        ngx_str_set(&reason, "it is shutting down (GOAWAY)");
        ngx_etcd_channel_failed(channel, &reason);
    }
}


static void
ngx_etcd_channel_closed(void *data, ngx_str_t *reason)
{
    ngx_etcd_channel_t *channel = data;

    /* the GOAWAY may have come together with the end */

    ngx_etcd_channel_pings(channel);
    channel->h2 = NULL;

    if (ngx_exiting) {

        /* a worker that shuts down gives up its idle connections */

        channel->state = NGX_ETCD_CHANNEL_IDLE;
        return;
    }

    if (channel == &channel->cluster->reads
        && ngx_queue_empty(&channel->waiters))
    {
        /* nobody reads now: who does next connects, and backs off itself */

        ngx_etcd_channel_set_state(channel, NGX_ETCD_CHANNEL_IDLE,
                                   NGX_ETCD_ENDPOINT_FAILED);
        ngx_etcd_channel_next(channel);
        return;
    }

    ngx_etcd_channel_retry(channel, reason);
}


static void
ngx_etcd_channel_set_state(ngx_etcd_channel_t *channel,
    ngx_etcd_channel_state_e state, ngx_etcd_endpoint_state_e endpoint)
{
    ngx_etcd_cluster_t  *cluster;

    cluster = channel->cluster;

    if (channel == &cluster->streams && state == NGX_ETCD_CHANNEL_READY) {

        if (channel->connected) {
            cluster->reconnects++;
        }

        channel->connected = 1;
    }

    channel->state = state;
    cluster->endpoints[channel->endpoint] = endpoint;

    cluster->changed(cluster->data);
}


ngx_msec_t
ngx_etcd_backoff(ngx_uint_t failures)
{
    ngx_msec_t  max;

    max = NGX_ETCD_BACKOFF_BASE << ngx_min(failures, 10);
    max = ngx_min(max, NGX_ETCD_BACKOFF_MAX);

    return 1 + (ngx_msec_t) ngx_random() % max;
}


ngx_uint_t
ngx_etcd_retriable(ngx_etcd_grpc_status_e status)
{
    return status == NGX_ETCD_GRPC_UNAVAILABLE
           || status == NGX_ETCD_GRPC_DEADLINE_EXCEEDED
           || status == NGX_ETCD_GRPC_RESOURCE_EXHAUSTED
           || status == NGX_ETCD_GRPC_CANCELLED
           || status == NGX_ETCD_GRPC_UNKNOWN
           || status == NGX_ETCD_GRPC_INTERNAL;
}
