
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_channel.h>
#include <ngx_etcd_cluster.h>


static void
ngx_etcd_channel_set_state(ngx_etcd_channel_t *channel,
    ngx_etcd_channel_state_e state)
{
    /* the spare subchannel is useful only while the other one is in use */

    if (state != NGX_ETCD_CHANNEL_READY) {
        ngx_etcd_subchannel_close(channel->spare);
    }

    channel->state = state;
    channel->asked = 0;
    channel->connection += (state == NGX_ETCD_CHANNEL_READY);
    channel->cluster->changed(channel->cluster->data);
}


static void
ngx_etcd_channel_move(ngx_etcd_channel_t *channel)
{
    ngx_etcd_cluster_t     *cluster;
    ngx_etcd_subchannel_t  *former;

    cluster = channel->cluster;
    former = channel->subchannel;

    channel->subchannel = channel->spare;
    channel->spare = former;
    channel->returns++;

    ngx_log_error(NGX_LOG_NOTICE, cluster->log, 0,
                  "etcd cluster \"%V\": endpoint %V is back, %s return to it "
                  "from %V", &cluster->conf->name,
                  &channel->subchannel->place->endpoint->url, channel->name,
                  &former->place->endpoint->url);

    /* MOVING: calls that end now must not start again until all have ended */

    channel->state = NGX_ETCD_CHANNEL_MOVING;
    channel->answered = 0;

    ngx_etcd_subchannel_close(former);

    ngx_etcd_endpoints_set_current(&cluster->endpoints,
                                   channel->subchannel->place);
    ngx_etcd_channel_set_state(channel, NGX_ETCD_CHANNEL_READY);

    /* the home may have changed meanwhile */

    ngx_etcd_channel_settle(channel);

    ngx_etcd_waiter_wake_all(&channel->waiters);
}


static void
ngx_etcd_channel_ready(ngx_etcd_subchannel_t *subchannel)
{
    ngx_etcd_channel_t  *channel;
    ngx_etcd_cluster_t  *cluster;

    channel = subchannel->data;
    cluster = channel->cluster;

    if (subchannel == channel->spare) {
        ngx_etcd_channel_move(channel);
        return;
    }

    if (channel == cluster->streams) {
        cluster->counts.reconnects += channel->connected;
        channel->connected = 1;
    }

    ngx_etcd_channel_set_state(channel, NGX_ETCD_CHANNEL_READY);
    ngx_etcd_channel_settle(channel);

    ngx_etcd_waiter_wake_all(&channel->waiters);
}


static ngx_uint_t
ngx_etcd_channel_held(ngx_etcd_channel_t *channel)
{
    return channel->answered
           && ngx_current_msec - channel->subchannel->since
              > NGX_ETCD_CHANNEL_HELD;
}


static void
ngx_etcd_channel_resumed(ngx_etcd_channel_t *channel)
{
    ngx_etcd_cluster_t  *cluster;

    channel->outage = 0;
    cluster = channel->cluster;

    ngx_log_error(NGX_LOG_NOTICE, cluster->log, 0,
                  "etcd cluster \"%V\": endpoint %V answers, %s resumed",
                  &cluster->conf->name,
                  &channel->subchannel->place->endpoint->url,
                  channel->name);
}


static void
ngx_etcd_channel_alive(void *data, ngx_uint_t answer)
{
    ngx_etcd_subchannel_t *subchannel = data;

    ngx_etcd_channel_t  *channel;
    ngx_etcd_cluster_t  *cluster;

    channel = subchannel->data;
    cluster = channel->cluster;

    if (subchannel == channel->spare) {
        return;
    }

    if (answer) {
        channel->heard = ngx_current_msec;
        channel->asked = 0;
    }

    if (subchannel->state == NGX_ETCD_SUBCHANNEL_READY && subchannel->id != 0) {
        ngx_etcd_cluster_id_answered(cluster);
    }

    if (channel->outage && ngx_etcd_channel_held(channel)) {
        ngx_etcd_channel_resumed(channel);
    }

    if (channel == cluster->streams) {
        cluster->changed(cluster->data);
    }
}


static void
ngx_etcd_channel_pong(void *data, uint64_t sent)
{
    ngx_etcd_subchannel_t *subchannel = data;

    ngx_etcd_channel_t  *channel;
    ngx_etcd_cluster_t  *cluster;

    channel = subchannel->data;
    cluster = channel->cluster;

    if (subchannel == channel->subchannel && channel == cluster->streams) {
        ngx_etcd_cluster_prove(cluster, sent);
    }
}


static void
ngx_etcd_channel_draining(ngx_etcd_subchannel_t *subchannel)
{
    ngx_str_t            reason;
    ngx_etcd_channel_t  *channel;

    channel = subchannel->data;

    /*
     * A watch would stay for as long as the peer allows: streams move now.
     * Reads are short: their connection closes itself when the last one ends.
     */

    if (subchannel == channel->subchannel
        && channel == channel->cluster->streams)
    {
        ngx_str_set(&reason, "it is shutting down (GOAWAY)");
        ngx_etcd_channel_failed(channel, &reason);
    }
}


/* the endpoint is not back: the streams stay where they are */

static void
ngx_etcd_channel_stay(ngx_etcd_channel_t *channel, ngx_str_t *reason)
{
    ngx_etcd_place_t    *place;
    ngx_etcd_cluster_t  *cluster;

    cluster = channel->cluster;
    place = channel->spare->place;

    ngx_log_error(NGX_LOG_INFO, cluster->log, 0,
                  "etcd cluster \"%V\": endpoint %V is not back: %V",
                  &cluster->conf->name, &place->endpoint->url, reason);

    ngx_etcd_endpoints_failed(&cluster->endpoints, place, 0, reason);
    ngx_etcd_channel_settle(channel);

    cluster->changed(cluster->data);
}


/* An endpoint that is away is one cause, however the connection ends. */

static ngx_uint_t
ngx_etcd_channel_cause(ngx_etcd_cluster_t *cluster, ngx_str_t *reason)
{
    char       **p;
    size_t       len;
    ngx_str_t    none = ngx_null_string;

    static char *lost[] = {
        "connect()", "recv()", "send()", "connection closed by peer",
        "it is shutting down (GOAWAY)", NULL
    };

    for (p = lost; *p != NULL; p++) {
        len = ngx_strlen(*p);

        if (reason->len >= len && ngx_strncmp(reason->data, *p, len) == 0) {
            return ngx_etcd_cause_level(&cluster->outage.causes, 0, &none);
        }
    }

    return ngx_etcd_cause_level(&cluster->outage.causes, 0, reason);
}


/*
 * Logs each cause of an outage as an error once, although both channels notice
 * it, and recurring outages at most once in NGX_ETCD_CLUSTER_QUIET ms.
 */

static void
ngx_etcd_channel_report(ngx_etcd_channel_t *channel, ngx_str_t *reason)
{
    ngx_uint_t           level;
    ngx_etcd_cluster_t  *cluster;

    cluster = channel->cluster;
    level = NGX_LOG_INFO;

    if (!cluster->streams->outage
        && !channel->outage
        && ngx_current_msec - cluster->outage.reported > NGX_ETCD_CLUSTER_QUIET)
    {
        (void) ngx_etcd_cause_forget(&cluster->outage.causes);
    }

    /* an endpoint of another cluster has a line of its own */

    if (channel->subchannel->place->foreign == 0) {
        level = ngx_etcd_channel_cause(cluster, reason);
    }

    if (level == NGX_LOG_ERR) {
        channel->outage = 1;
        cluster->outage.reported = ngx_current_msec;
    }

    ngx_log_error(level, cluster->log, 0,
                  "etcd cluster \"%V\": endpoint %V failed for %s: %V, "
                  "trying again",
                  &cluster->conf->name,
                  &channel->subchannel->place->endpoint->url,
                  channel->name, reason);
}


/* the subchannel is already closed */

static void
ngx_etcd_channel_retry(ngx_etcd_channel_t *channel, ngx_str_t *reason)
{
    ngx_msec_t             delay;
    ngx_uint_t             held;
    ngx_etcd_endpoints_t  *endpoints;

    endpoints = &channel->cluster->endpoints;
    held = ngx_etcd_channel_held(channel);

    /*
     * An endpoint may answer and then fail each time: only a stable connection
     * ends the backoff.
     */

    if (held) {
        channel->flaps = 0;
        channel->failures = 0;
        channel->outage = 0;

    } else if (channel->answered) {
        channel->flaps++;
    }

    channel->answered = 0;

    if (ngx_current_msec - channel->subchannel->since
        > channel->cluster->conf->rebalance / 2)
    {
        channel->returns = 0;
    }

    ngx_etcd_channel_report(channel, reason);
    ngx_etcd_endpoints_failed(endpoints, channel->subchannel->place, held,
                              reason);

    /*
     * The first failure is followed by another endpoint at once.  The backoff
     * is divided by the number of endpoints, because all of them are tried in
     * turn.
     */

    delay = 1;

    if (channel->failures != 0) {
        delay += ngx_etcd_backoff(channel->cluster, channel->failures)
                 / ngx_etcd_endpoints_count(endpoints);
    }

    ngx_log_debug4(NGX_LOG_DEBUG_EVENT, channel->cluster->log, 0,
                   "etcd cluster \"%V\": %s: failures: %ui, delay: %M ms",
                   &channel->cluster->conf->name, channel->name,
                   channel->failures, delay);

    channel->failures++;
    channel->next = ngx_etcd_endpoints_choose(endpoints,
                                              channel->subchannel->place);

    ngx_etcd_channel_set_state(channel, NGX_ETCD_CHANNEL_BACKOFF);

    ngx_add_timer(&channel->timer, delay);
}


static void
ngx_etcd_channel_closed(ngx_etcd_subchannel_t *subchannel, ngx_str_t *reason)
{
    ngx_etcd_channel_t  *channel;
    ngx_etcd_cluster_t  *cluster;

    channel = subchannel->data;
    cluster = channel->cluster;

    if (subchannel == channel->spare) {
        ngx_etcd_channel_stay(channel, reason);
        return;
    }

    channel->late += subchannel->late;

    if (ngx_exiting && !cluster->lingers) {

        /* in a worker that shuts down, nginx closes idle connections */

        channel->state = NGX_ETCD_CHANNEL_IDLE;
        return;
    }

    if (channel == cluster->reads && ngx_queue_empty(&channel->waiters)) {

        /* no read waits now: the next one connects, with its own backoff */

        ngx_etcd_endpoints_failed(&cluster->endpoints, subchannel->place,
                                  ngx_etcd_channel_held(channel), reason);

        channel->answered = 0;
        channel->next = ngx_etcd_endpoints_choose(&cluster->endpoints,
                                                  subchannel->place);

        ngx_etcd_channel_set_state(channel, NGX_ETCD_CHANNEL_IDLE);
        return;
    }

    ngx_etcd_channel_retry(channel, reason);
}


static void
ngx_etcd_channel_init_subchannel(ngx_etcd_channel_t *channel,
    ngx_etcd_subchannel_t *subchannel)
{
    subchannel->cluster = channel->cluster;
    subchannel->data = channel;
    subchannel->ready = ngx_etcd_channel_ready;
    subchannel->alive = ngx_etcd_channel_alive;
    subchannel->pong = ngx_etcd_channel_pong;
    subchannel->draining = ngx_etcd_channel_draining;
    subchannel->failed = ngx_etcd_channel_closed;
}


static void
ngx_etcd_channel_connect(ngx_etcd_channel_t *channel)
{
    ngx_msec_t           timeout;
    ngx_etcd_place_t    *place;
    ngx_etcd_cluster_t  *cluster;

    cluster = channel->cluster;
    place = channel->next;
    channel->next = NULL;

    /* the place may have been dropped since it was chosen */

    if (place == NULL || place->endpoint == NULL) {
        place = ngx_etcd_endpoints_choose(&cluster->endpoints, NULL);
    }

    if (place == NULL) {

        /* ngx_etcd_channel_learned() ends the pause */

        ngx_etcd_channel_set_state(channel, NGX_ETCD_CHANNEL_BACKOFF);

        ngx_add_timer(&channel->timer,
                      ngx_etcd_backoff(cluster, channel->failures++));
        return;
    }

    ngx_log_error(NGX_LOG_INFO, cluster->log, 0,
                  "etcd cluster \"%V\": connecting to %V for %s",
                  &cluster->conf->name, &place->endpoint->url, channel->name);

    if (channel == cluster->streams) {
        ngx_etcd_endpoints_set_current(&cluster->endpoints, place);
    }

    timeout = cluster->conf->connect_timeout;

    channel->subchannel->patience = ngx_etcd_channel_patience(channel, timeout)
                                    - timeout;
    ngx_etcd_subchannel_open(channel->subchannel, place);

    ngx_etcd_channel_set_state(channel, NGX_ETCD_CHANNEL_CONNECTING);
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
ngx_etcd_channel_rebalance(ngx_event_t *ev)
{
    ngx_etcd_place_t    *home;
    ngx_etcd_channel_t  *channel;
    ngx_etcd_cluster_t  *cluster;

    channel = ev->data;
    cluster = channel->cluster;

    home = ngx_etcd_endpoints_home(&cluster->endpoints);

    /* without a connection: ngx_etcd_channel_ready() sets the timer again */

    if (channel->state != NGX_ETCD_CHANNEL_READY
        || channel->subchannel->place == home
        || ngx_exiting)
    {
        return;
    }

    ngx_log_error(NGX_LOG_INFO, cluster->log, 0,
                  "etcd cluster \"%V\": connecting to %V, to return there",
                  &cluster->conf->name, &home->endpoint->url);

    channel->spare->patience = 0;
    ngx_etcd_subchannel_open(channel->spare, home);

    cluster->changed(cluster->data);
}


void
ngx_etcd_channel_init(ngx_etcd_channel_t *channel, ngx_etcd_cluster_t *cluster,
    char *name, ngx_etcd_place_t *first)
{
    channel->cluster = cluster;
    channel->name = name;
    channel->next = first;

    channel->subchannel = &channel->subchannels[0];
    channel->spare = &channel->subchannels[1];

    ngx_etcd_channel_init_subchannel(channel, channel->subchannel);
    ngx_etcd_channel_init_subchannel(channel, channel->spare);

    ngx_etcd_event_init_timer(&channel->timer, ngx_etcd_channel_timer, channel,
                              cluster->log);

    ngx_etcd_event_init_timer(&channel->rebalance, ngx_etcd_channel_rebalance,
                              channel, cluster->log);

    ngx_queue_init(&channel->waiters);
}


void
ngx_etcd_channel_destroy(ngx_etcd_channel_t *channel)
{
    ngx_etcd_event_stop(&channel->timer);
    ngx_etcd_event_stop(&channel->rebalance);

    /* BACKOFF: calls that end now must not open another connection */

    channel->state = NGX_ETCD_CHANNEL_BACKOFF;

    ngx_etcd_subchannel_close(channel->spare);
    ngx_etcd_subchannel_close(channel->subchannel);

    ngx_etcd_waiter_drop_all(&channel->waiters);
}


ngx_etcd_http2_t *
ngx_etcd_channel_get(ngx_etcd_channel_t *channel)
{
    if (channel->state == NGX_ETCD_CHANNEL_IDLE
        && (!ngx_exiting || channel->cluster->lingers))
    {
        ngx_etcd_channel_connect(channel);
        return NULL;
    }

    if (channel->state == NGX_ETCD_CHANNEL_READY
        && ngx_etcd_http2_usable(channel->subchannel->h2))
    {
        return channel->subchannel->h2;
    }

    return NULL;
}


ngx_msec_t
ngx_etcd_channel_patience(ngx_etcd_channel_t *channel, ngx_msec_t patience)
{
    ngx_uint_t  n;

    n = ngx_etcd_endpoints_count(&channel->cluster->endpoints);

    return patience << ngx_min(channel->late / ngx_max(n, 1),
                               NGX_ETCD_CHANNEL_LATE);
}


ngx_uint_t
ngx_etcd_channel_slow(ngx_etcd_channel_t *channel)
{
    return channel->subchannel->took >= NGX_ETCD_CHANNEL_SLOW;
}


void
ngx_etcd_channel_linger(ngx_etcd_channel_t *channel)
{
    if (channel->subchannel->h2 != NULL) {
        ngx_etcd_http2_stay(channel->subchannel->h2);
    }

    if (channel->state == NGX_ETCD_CHANNEL_BACKOFF) {
        ngx_etcd_event_move(&channel->timer, 1);
    }
}


void
ngx_etcd_channel_hasten(ngx_etcd_channel_t *channel)
{
    if (channel->state == NGX_ETCD_CHANNEL_BACKOFF) {
        ngx_etcd_backoff_hasten(&channel->timer);
    }
}


void
ngx_etcd_channel_learned(ngx_etcd_channel_t *channel)
{
    if (channel->next != NULL) {
        return;
    }

    if (channel == channel->cluster->streams) {
        channel->next = ngx_etcd_endpoints_home(&channel->cluster->endpoints);
    }

    if (channel->state == NGX_ETCD_CHANNEL_BACKOFF) {
        channel->failures = 0;
        ngx_etcd_event_move(&channel->timer, 1);
    }
}


void
ngx_etcd_channel_wait(ngx_etcd_channel_t *channel, ngx_etcd_waiter_t *waiter)
{
    ngx_etcd_waiter_wait(waiter, &channel->waiters);
}


void
ngx_etcd_channel_succeeded(ngx_etcd_channel_t *channel)
{
    channel->answered = 1;
    channel->failures = channel->flaps;
    channel->late = 0;

    /*
     * a connection that fails again and again ends the outage only when stable
     */

    if (channel->outage
        && (channel->flaps < 2 || ngx_etcd_channel_held(channel)))
    {
        ngx_etcd_channel_resumed(channel);
    }
}


void
ngx_etcd_channel_failed(ngx_etcd_channel_t *channel, ngx_str_t *reason)
{
    if (channel->state != NGX_ETCD_CHANNEL_READY) {
        return;
    }

    /*
     * The calls that end now call this function again: the state must no longer
     * be READY.
     */

    channel->state = NGX_ETCD_CHANNEL_BACKOFF;

    ngx_etcd_subchannel_close(channel->subchannel);

    ngx_etcd_channel_retry(channel, reason);
}


void
ngx_etcd_channel_stuck(ngx_etcd_channel_t *streams, ngx_str_t *reason)
{
    ngx_etcd_place_t    *place;
    ngx_etcd_channel_t  *reads;

    reads = streams->cluster->reads;
    place = streams->subchannel->place;

    ngx_etcd_channel_failed(streams, reason);

    if (reads->subchannel->place == place && reads->asked != 0) {
        ngx_etcd_channel_failed(reads, reason);
    }
}


void
ngx_etcd_channel_settle(ngx_etcd_channel_t *channel)
{
    ngx_msec_t           about;
    ngx_etcd_cluster_t  *cluster;

    cluster = channel->cluster;
    about = cluster->conf->rebalance;

    if (about == 0
        || channel != cluster->streams
        || channel->state != NGX_ETCD_CHANNEL_READY
        || channel->rebalance.timer_set
        || channel->spare->state != NGX_ETCD_SUBCHANNEL_CLOSED
        || channel->subchannel->place
           == ngx_etcd_endpoints_home(&cluster->endpoints))
    {
        return;
    }

    about <<= ngx_min(channel->returns, NGX_ETCD_CHANNEL_RETURNS);

    ngx_add_timer(&channel->rebalance,
                  about / 2 + 1 + (ngx_msec_t) ngx_random() % about);
}
