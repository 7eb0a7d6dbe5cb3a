
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_agent.h>
#include <ngx_etcd_agent_services.h>
#include <ngx_etcd_auth.h>
#include <ngx_etcd_campaigner.h>
#include <ngx_etcd_client.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_conn_queue.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_reload.h>
#include <ngx_etcd_shared.h>
#include <ngx_etcd_state_file.h>
#include <ngx_etcd_value_change.h>
#include <ngx_etcd_watch.h>
#include <ngx_etcd_worker_locks.h>
#include <ngx_etcd_zone.h>


#if (NGX_ETCD_ENDPOINTS_MAX > NGX_ETCD_ZONE_MAX_ENDPOINTS)
#error the zone has no room for all endpoints
#endif


struct ngx_etcd_agent_s {
    ngx_etcd_conf_t         *conf;
    ngx_etcd_zone_t         *zone;
    ngx_fd_t                 wakeup;
    ngx_log_t               *log;
    ngx_event_t              tick;
    ngx_event_t              sync;     /* continues incomplete tables */
    ngx_event_t              enter;    /* continues entering the zone */
    ngx_event_t              leave;    /* posted: the zone has a new owner */
    ngx_event_t              resign;   /* timeout: etcd does not answer, the
                                          leases will expire */
    ngx_etcd_state_file_t    state_file;

    /* fields of an agent that does not own the zone */

    ngx_msec_t               seen;     /* the owner's last heartbeat */
    ngx_uint_t               silent;   /* ticks since then */

    /* fields of the owner */

    ngx_etcd_cluster_t      *cluster;
    ngx_etcd_watch_stream_t *stream;
    ngx_etcd_agent_services_t  services;
    ngx_etcd_campaigner_t   *campaigner; /* NULL: nothing to hold */
    ngx_uint_t               endpoints; /* version in the zone */
};


/* all agents of this worker, created by each process */

static ngx_array_t  *ngx_etcd_agents;


/* Returns 1 if this is the newest process that holds leases in etcd. */

static ngx_uint_t
ngx_etcd_agent_holds(ngx_etcd_agent_t *agent)
{
    return agent->campaigner != NULL
           && ngx_etcd_zone_owned(agent->zone)
           && ngx_etcd_zone_newest(agent->zone);
}


/*
 * The zone has a new owner, or all campaigns have ended.  Called by a service
 * or by the campaigner, which must not be destroyed here.
 */

static void
ngx_etcd_agent_lost(void *data)
{
    ngx_etcd_agent_t *agent = data;

    ngx_post_event(&agent->leave, &ngx_posted_events);
}


/*
 * Resigns on QUIT, so that others take over leadership and registrations
 * while the worker finishes its requests.
 */

static void
ngx_etcd_agent_shutdown(ngx_etcd_agent_t *agent)
{
    if (!ngx_etcd_agent_holds(agent) || agent->resign.timer_set) {
        return;
    }

    ngx_add_timer(&agent->resign, NGX_ETCD_AGENT_RESIGN);

    ngx_etcd_client_linger(agent->cluster);
    ngx_etcd_campaigner_resign(agent->campaigner, ngx_etcd_agent_lost, agent);
}


/* Continues an incomplete update after the other events of this cycle. */

static void
ngx_etcd_agent_sync(ngx_etcd_agent_t *agent)
{
    ngx_int_t  rc;

    rc = ngx_etcd_worker_tables_sync(agent->conf);

    if (rc == NGX_AGAIN) {
        ngx_post_event(&agent->sync, &ngx_posted_next_events);

    } else if (rc != NGX_OK && !agent->sync.timer_set) {
        ngx_add_timer(&agent->sync, NGX_ETCD_AGENT_SYNC);
    }
}


static void
ngx_etcd_agent_woken(ngx_event_t *ev)
{
    ngx_uint_t         i, closing;
    ngx_connection_t  *c;
    ngx_etcd_agent_t  *agent;

    c = ev->data;

    closing = c->close;
    c->close = 0;

    if (closing) {
        ngx_etcd_worker_locks_shutdown();
    }

    agent = ngx_etcd_agents->elts;

    for (i = 0; i < ngx_etcd_agents->nelts; i++) {

        if (closing) {
            ngx_etcd_agent_shutdown(&agent[i]);
            continue;
        }

        ngx_etcd_agent_sync(&agent[i]);
    }
}


static void
ngx_etcd_agent_destroy(ngx_etcd_agent_t *agent)
{
    if (agent->cluster == NULL) {
        return;
    }

    ngx_etcd_state_file_cancel(&agent->state_file);

    if (agent->stream != NULL) {
        ngx_etcd_watch_stream_destroy(agent->stream);
        agent->stream = NULL;
    }

    if (agent->campaigner != NULL) {
        ngx_etcd_campaigner_destroy(agent->campaigner);
        agent->campaigner = NULL;
    }

    ngx_etcd_agent_services_destroy(&agent->services);

    ngx_etcd_client_destroy(agent->cluster);
    agent->cluster = NULL;
}


static void
ngx_etcd_agent_leave(ngx_etcd_agent_t *agent)
{
    ngx_uint_t  entered;

    ngx_etcd_event_stop(&agent->enter);
    ngx_etcd_event_stop(&agent->leave);
    ngx_etcd_event_stop(&agent->resign);

    entered = (agent->cluster != NULL);

    ngx_etcd_agent_destroy(agent);

    if (entered) {
        ngx_log_error(NGX_LOG_INFO, agent->log, 0,
                      "etcd cluster \"%V\": this worker is not the agent any "
                      "more", &agent->conf->name);
    }
}


/*
 * Returns 0 if an agent of a newer configuration has removed a set: this
 * process has started late, or the newer configuration needs no agent any more.
 */

static ngx_uint_t
ngx_etcd_agent_declared(ngx_etcd_conf_t *conf)
{
    ngx_uint_t                 i;
    ngx_etcd_catalog_conf_t  **catalogs;
    ngx_etcd_service_conf_t  **services;

    services = conf->services.elts;

    for (i = 0; i < conf->services.nelts; i++) {
        if (services[i]->set->object.id != services[i]->set_id) {
            return 0;
        }
    }

    catalogs = conf->catalogs.elts;

    for (i = 0; i < conf->catalogs.nelts; i++) {
        if (catalogs[i]->map->object.id != catalogs[i]->map_id) {
            return 0;
        }
    }

    return 1;
}


static ngx_uint_t
ngx_etcd_agent_vacant(ngx_etcd_agent_t *agent, uint64_t owner)
{
    ngx_msec_t  heartbeat;

    if (ngx_exiting || !ngx_etcd_agent_wanted(agent->conf)) {
        return 0;
    }

    if (owner == 0
        || ngx_etcd_zone_owner_epoch(owner) < agent->zone->epoch)
    {
        return ngx_etcd_agent_declared(agent->conf);
    }

    if (ngx_etcd_zone_owner_epoch(owner) > agent->zone->epoch) {
        return 0;
    }

    if (ngx_etcd_process_gone(ngx_etcd_zone_owner_pid(owner))) {
        return 1;
    }

    /*
     * The silence is counted in ticks of this worker, so that the owner can
     * run first after the whole machine was stopped.
     */

    heartbeat = agent->zone->sh->heartbeat;

    if (agent->seen != heartbeat) {
        agent->seen = heartbeat;
        agent->silent = 0;
        return 0;
    }

    return ++agent->silent >= NGX_ETCD_AGENT_STALE / NGX_ETCD_AGENT_TICK;
}


/* Advance the zone's freshness only after every earlier event is published. */

static void
ngx_etcd_agent_proved(ngx_etcd_agent_t *agent)
{
    uint64_t              proved;
    ngx_etcd_atomic64_t  *word;

    proved = agent->cluster->proved;
    word = &agent->zone->sh->cluster.proved;

    if (proved <= *word) {
        return;
    }

    if (ngx_etcd_agent_services_pending(&agent->services)) {
        return;
    }

    __atomic_store_n(word, proved, __ATOMIC_RELEASE);

    ngx_etcd_agent_services_proved(&agent->services);
}


/* The endpoints for the status. */

static ngx_int_t
ngx_etcd_agent_view_endpoints(ngx_etcd_zone_t *zone,
    ngx_etcd_cluster_t *cluster)
{
    ngx_uint_t                 i;
    ngx_etcd_place_t          *place;
    ngx_etcd_zone_endpoint_t  *ep;
    ngx_etcd_endpoints_t      *known;
    ngx_etcd_zone_endpoints_t  endpoints;

    known = &cluster->endpoints;

    ngx_memzero(&endpoints, sizeof(ngx_etcd_zone_endpoints_t));

    endpoints.current = -1;

    if (cluster->auth->unauthorized) {
        endpoints.refusal_len = ngx_min(cluster->auth->refusal.len,
                                        NGX_ETCD_ZONE_ERROR_LEN);
        ngx_memcpy(endpoints.refusal, cluster->auth->refusal.data,
                   endpoints.refusal_len);
    }

    for (i = 0; i < NGX_ETCD_ENDPOINTS_MAX; i++) {
        place = &known->places[i];

        if (place->endpoint == NULL) {
            continue;
        }

        if (known->current == (ngx_int_t) i) {
            endpoints.current = endpoints.n;
        }

        ep = &endpoints.list[endpoints.n++];

        ep->state = ngx_etcd_endpoints_state(place);
        ep->learned = (place->pool != NULL);
        ep->url_len = ngx_min(place->endpoint->url.len, NGX_ETCD_ZONE_URL_LEN);

        ngx_memcpy(ep->url, place->endpoint->url.data, ep->url_len);

        if (place->failed) {
            ep->since = place->since;
            ep->error_len = ngx_min(place->error_len, NGX_ETCD_ZONE_ERROR_LEN);
            ngx_memcpy(ep->error, place->error, ep->error_len);
        }
    }

    return ngx_etcd_zone_set_endpoints(zone, &endpoints);
}


/* Publishes the client's state in the zone. */

static void
ngx_etcd_agent_changed(void *data)
{
    ngx_etcd_agent_t *agent = data;

    ngx_etcd_cluster_t       *cluster;
    ngx_etcd_zone_cluster_t  *zc;

    if (!ngx_etcd_zone_owned(agent->zone) || agent->cluster == NULL) {
        return;
    }

    cluster = agent->cluster;
    zc = &agent->zone->sh->cluster;

    if (cluster->streams->state != NGX_ETCD_CHANNEL_READY) {
        zc->state = NGX_ETCD_CLUSTER_CONNECTING;

    } else {
        zc->state = cluster->auth->unauthorized ? NGX_ETCD_CLUSTER_UNAUTHORIZED
                                                : NGX_ETCD_CLUSTER_CONNECTED;
    }

    zc->cluster_id = cluster->cluster_id;
    zc->revision = cluster->revision;
    zc->patience = ngx_etcd_cluster_ping_interval(cluster)
                   + cluster->conf->ping_timeout;

    ngx_etcd_agent_proved(agent);

    if (cluster->endpoints.version != agent->endpoints
        && ngx_etcd_agent_view_endpoints(agent->zone, cluster) == NGX_OK)
    {
        agent->endpoints = cluster->endpoints.version;
    }

    /* add the increments since the last call */

    zc->reconnects += cluster->counts.reconnects;
    zc->resyncs += cluster->counts.resyncs;
    zc->repairs += cluster->counts.repairs;
    cluster->counts.reconnects = 0;
    cluster->counts.resyncs = 0;
    cluster->counts.repairs = 0;
}


static void
ngx_etcd_agent_published(void *data, ngx_uint_t changed)
{
    ngx_etcd_agent_t *agent = data;

    /* the zone may not know yet to which cluster the data belongs */

    ngx_etcd_agent_changed(agent);

    if (!changed) {
        return;
    }

    ngx_etcd_wakeup_signal(agent->wakeup, agent->log);
    ngx_etcd_agent_sync(agent);
}


/* The values of ngx_etcd_retire_sets(), or NGX_ERROR. */

static ngx_int_t
ngx_etcd_agent_enter(ngx_etcd_agent_t *agent)
{
    ngx_int_t                   rc;
    ngx_etcd_agent_services_t  *services;

    if (ngx_etcd_set_map_retire_old(agent->zone) != NGX_OK
        || ngx_etcd_object_retire_old(agent->zone, &ngx_etcd_outcome_type,
                                      NULL, NULL)
           != NGX_OK)
    {
        return NGX_BUSY;
    }

    rc = ngx_etcd_value_object_retire_old(agent->zone,
                                          ngx_etcd_time_budget_now()
                                          + NGX_ETCD_TIME_BUDGET);

    if (rc != NGX_OK) {
        return rc;
    }

    agent->cluster = ngx_etcd_client_create(&agent->conf->client,
                                            ngx_etcd_agent_changed, agent,
                                            agent->log);
    if (agent->cluster == NULL) {
        return NGX_ERROR;
    }

    agent->endpoints = 0;

    agent->cluster->revision = agent->zone->sh->cluster.revision;
    agent->cluster->cluster_id = agent->zone->sh->cluster.cluster_id;

    agent->stream = ngx_etcd_watch_stream_create(agent->cluster);

    if (agent->stream == NULL
        || ngx_etcd_server_faults_ask(agent->cluster, agent->conf) != NGX_OK)
    {
        return NGX_ERROR;
    }

    services = &agent->services;

    services->conf = agent->conf;
    services->stream = agent->stream;
    services->pool = agent->cluster->pool;
    services->published = ngx_etcd_agent_published;
    services->changed = ngx_etcd_agent_changed;
    services->lost = ngx_etcd_agent_lost;
    services->data = agent;
    services->log = agent->log;

    if (ngx_etcd_agent_services_create(services) != NGX_OK) {
        return NGX_ERROR;
    }

    if (!ngx_etcd_campaigner_wanted(agent->conf)) {
        return NGX_OK;
    }

    agent->campaigner = ngx_etcd_campaigner_create(agent->conf, agent->stream,
                                                   ngx_etcd_agent_lost, agent,
                                                   agent->log, &rc);

    return (agent->campaigner != NULL) ? NGX_OK : rc;
}


/* Frees the sets of former configurations first: their memory is needed. */

static void
ngx_etcd_agent_enter_handler(ngx_event_t *ev)
{
    ngx_int_t          rc;
    ngx_etcd_agent_t  *agent;

    agent = ev->data;

    if (!ngx_etcd_zone_owned(agent->zone)) {
        return;
    }

    rc = NGX_OK;

    if (agent->cluster == NULL) {
        rc = ngx_etcd_retire_sets(agent->zone, ngx_etcd_time_budget_now()
                                               + NGX_ETCD_TIME_BUDGET);
        if (rc == NGX_OK) {
            rc = ngx_etcd_agent_enter(agent);
        }
    }

    if (rc == NGX_OK) {
        rc = ngx_etcd_agent_services_load(&agent->services);
    }

    switch (rc) {

    case NGX_OK:
        return;

    case NGX_AGAIN:
        ngx_post_event(&agent->enter, &ngx_posted_next_events);
        return;

    case NGX_BUSY:
        ngx_etcd_agent_destroy(agent);
        ngx_add_timer(&agent->enter, NGX_ETCD_AGENT_BUSY);
        return;
    }

    /* the next tick of any worker tries again */

    ngx_etcd_agent_leave(agent);
    ngx_etcd_zone_release(agent->zone);
}


static void
ngx_etcd_agent_tick(ngx_event_t *ev)
{
    uint64_t           owner;
    ngx_etcd_agent_t  *agent;

    agent = ev->data;

    if (ngx_etcd_zone_owned(agent->zone)) {
        agent->zone->sh->heartbeat = ngx_current_msec;
        ngx_etcd_state_file_tick(&agent->state_file);

        if (agent->campaigner != NULL) {
            ngx_etcd_campaigner_tick(agent->campaigner);
        }

        (void) ngx_etcd_connection_count_check(agent->zone, -1);

    } else {
        ngx_etcd_agent_leave(agent);

        owner = ngx_etcd_zone_owner(agent->zone);

        if (ngx_etcd_agent_vacant(agent, owner)
            && ngx_etcd_zone_claim(agent->zone, owner) == NGX_OK)
        {
            ngx_log_error(NGX_LOG_NOTICE, agent->log, 0,
                          "etcd cluster \"%V\": this worker is the agent",
                          &agent->conf->name);

            ngx_etcd_agent_enter_handler(&agent->enter);
        }
    }

    /* retry if the mutex was held when this worker started */

    ngx_etcd_connection_count_enter(agent->zone);
    ngx_etcd_value_object_hide(agent->zone);

    /* fallback if a wake-up was missed or is unavailable */

    ngx_etcd_agent_sync(agent);
    ngx_etcd_worker_tables_tick(agent->conf);

    ngx_add_timer(&agent->tick, NGX_ETCD_AGENT_TICK);
}


static void
ngx_etcd_agent_sync_handler(ngx_event_t *ev)
{
    ngx_etcd_agent_sync(ev->data);
}


static void
ngx_etcd_agent_leave_handler(ngx_event_t *ev)
{
    ngx_etcd_agent_leave(ev->data);
}


static ngx_int_t
ngx_etcd_agent_create(ngx_cycle_t *cycle, ngx_etcd_agent_t *agent,
    ngx_etcd_conf_t *conf, ngx_fd_t wakeup)
{
    ngx_memzero(agent, sizeof(ngx_etcd_agent_t));

    agent->conf = conf;
    agent->zone = &conf->zone;
    agent->wakeup = wakeup;
    agent->log = cycle->log;

    ngx_etcd_event_init_timer(&agent->tick, ngx_etcd_agent_tick, agent,
                              cycle->log);

    ngx_etcd_event_init_timer(&agent->sync, ngx_etcd_agent_sync_handler, agent,
                              cycle->log);

    ngx_etcd_event_init_timer(&agent->enter, ngx_etcd_agent_enter_handler,
                              agent, cycle->log);

    ngx_etcd_event_init(&agent->leave, ngx_etcd_agent_leave_handler, agent,
                        cycle->log);

    ngx_etcd_event_init(&agent->resign, ngx_etcd_agent_leave_handler, agent,
                        cycle->log);

    if (ngx_etcd_state_file_init(&agent->state_file, conf, cycle) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_etcd_connection_count_enter(agent->zone);

    ngx_etcd_worker_tables_init(conf, &agent->sync, cycle->log);

    ngx_etcd_agent_tick(&agent->tick);

    return NGX_OK;
}


ngx_int_t
ngx_etcd_agent_start(ngx_cycle_t *cycle, ngx_etcd_main_conf_t *conf)
{
    ngx_uint_t         i;
    ngx_etcd_conf_t  **clusters;
    ngx_etcd_agent_t  *agents;

    ngx_etcd_agents = ngx_array_create(cycle->pool,
                                       ngx_max(conf->clusters.nelts, 1),
                                       sizeof(ngx_etcd_agent_t));
    if (ngx_etcd_agents == NULL) {
        return NGX_ERROR;
    }

    agents = ngx_array_push_n(ngx_etcd_agents, conf->clusters.nelts);
    if (agents == NULL) {
        return NGX_ERROR;
    }

    /*
     * Listen before connecting to etcd: at shutdown nginx calls this handler
     * first, while the connections to etcd still exist.
     */

    if (conf->clusters.nelts != 0
        && (ngx_etcd_wakeup_listen(cycle, conf->wakeup, ngx_etcd_agent_woken,
                                   NULL)
            == NGX_ERROR
            || ngx_etcd_conn_queue_start(cycle, conf->queue_wakeup) != NGX_OK))
    {
        return NGX_ERROR;
    }

    clusters = conf->clusters.elts;

    for (i = 0; i < conf->clusters.nelts; i++) {
        if (ngx_etcd_agent_create(cycle, &agents[i], clusters[i],
                                  conf->wakeup)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static void
ngx_etcd_agent_exited(void *data)
{
    ngx_uint_t *done = data;

    *done = 1;
}


/*
 * Resigns on TERM.  The process waits shortly: etcd may drop requests when
 * the connection is closed.
 */

static void
ngx_etcd_agent_exit(ngx_etcd_agent_t *agent)
{
    ngx_uint_t  done;

    if (!ngx_etcd_agent_holds(agent) || agent->resign.timer_set) {
        return;
    }

    done = 0;

    ngx_etcd_campaigner_resign(agent->campaigner, ngx_etcd_agent_exited,
                               &done);
    ngx_etcd_client_wait(agent->cluster, &done, NGX_ETCD_AGENT_EXIT);
}


void
ngx_etcd_agent_stop(ngx_cycle_t *cycle)
{
    ngx_uint_t         i;
    ngx_etcd_agent_t  *agent;

    if (ngx_etcd_agents == NULL) {
        return;
    }

    agent = ngx_etcd_agents->elts;

    for (i = 0; i < ngx_etcd_agents->nelts; i++) {

        if (ngx_etcd_zone_owned(agent[i].zone)) {
            ngx_etcd_agent_exit(&agent[i]);
            ngx_etcd_state_file_finish(&agent[i].state_file);
        }

        ngx_etcd_agent_leave(&agent[i]);
        ngx_etcd_zone_release(agent[i].zone);

        ngx_etcd_worker_tables_done(agent[i].conf);

        ngx_etcd_connection_count_leave(agent[i].zone);
    }

    ngx_etcd_agents = NULL;
}


ngx_uint_t
ngx_etcd_agent_wanted(ngx_etcd_conf_t *conf)
{
    return conf->services.nelts != 0
           || conf->catalogs.nelts != 0
           || conf->value_maps.nelts != 0
           || ngx_etcd_campaigner_wanted(conf);
}
