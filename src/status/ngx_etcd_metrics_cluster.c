
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Metrics of clusters and their zones.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_agent.h>
#include <ngx_etcd_agent_view.h>
#include <ngx_etcd_campaigner.h>
#include <ngx_etcd_peer_data.h>
#include <ngx_etcd_metrics.h>
#include <ngx_etcd_db_space.h>


static ngx_int_t ngx_etcd_metrics_build(ngx_etcd_status_t *status,
    const ngx_etcd_metrics_t *family);
static ngx_int_t ngx_etcd_metrics_each_cluster(ngx_etcd_status_t *status,
    const ngx_etcd_metrics_t *family);
static ngx_int_t ngx_etcd_metrics_cluster_states(ngx_etcd_status_t *status,
    const ngx_etcd_metrics_t *family);
static ngx_int_t ngx_etcd_metrics_endpoints(ngx_etcd_status_t *status,
    const ngx_etcd_metrics_t *family);
static ngx_int_t ngx_etcd_metrics_visible(ngx_etcd_status_t *status,
    const ngx_etcd_metrics_t *family);

static uint64_t ngx_etcd_metrics_agent_up(void *object);
static uint64_t ngx_etcd_metrics_cluster_revision(void *object);
static uint64_t ngx_etcd_metrics_staleness(void *object);
static uint64_t ngx_etcd_metrics_reconnects(void *object);
static uint64_t ngx_etcd_metrics_resyncs(void *object);
static uint64_t ngx_etcd_metrics_repairs(void *object);
static uint64_t ngx_etcd_metrics_db_size(void *object);
static uint64_t ngx_etcd_metrics_db_quota(void *object);
static uint64_t ngx_etcd_metrics_db_nospace(void *object);
static uint64_t ngx_etcd_metrics_zone_size(void *object);
static uint64_t ngx_etcd_metrics_zone_used(void *object);
static uint64_t ngx_etcd_metrics_stall(void *object);


const ngx_etcd_metrics_t  ngx_etcd_metrics_cluster[] = {

    { { "nginx_etcd_build", NGX_ETCD_METRIC_INFO, NGX_ETCD_METRIC_WHOLE, NULL,
        "Versions of nginx-etcd and of nginx." },
      ngx_etcd_metrics_build, NULL },

    ngx_etcd_metrics_gauge("nginx_etcd_agent_up",
        "Whether a worker watches the cluster for all of them.",
        ngx_etcd_metrics_each_cluster, ngx_etcd_metrics_agent_up),

    ngx_etcd_metrics_gauge("nginx_etcd_cluster_state",
        "Whether the cluster is in that state.",
        ngx_etcd_metrics_cluster_states, NULL),

    ngx_etcd_metrics_gauge("nginx_etcd_cluster_endpoints",
        "Endpoints of the cluster in that state.",
        ngx_etcd_metrics_endpoints, NULL),

    ngx_etcd_metrics_gauge("nginx_etcd_cluster_revision",
        "The highest revision of etcd that was seen.",
        ngx_etcd_metrics_each_cluster, ngx_etcd_metrics_cluster_revision),

    ngx_etcd_metrics_unit("nginx_etcd_cluster_staleness_seconds",
        NGX_ETCD_METRIC_MILLI, "seconds",
        "Time since what is known was proved to be what etcd has.",
        ngx_etcd_metrics_each_cluster, ngx_etcd_metrics_staleness),

    ngx_etcd_metrics_counter("nginx_etcd_cluster_reconnects",
        "Connections to etcd that were made anew.",
        ngx_etcd_metrics_each_cluster, ngx_etcd_metrics_reconnects),

    ngx_etcd_metrics_counter("nginx_etcd_cluster_resyncs",
        "Prefixes that were listed again.",
        ngx_etcd_metrics_each_cluster, ngx_etcd_metrics_resyncs),

    ngx_etcd_metrics_counter("nginx_etcd_cluster_repairs",
        "Keys that an audit found to differ from etcd.",
        ngx_etcd_metrics_each_cluster, ngx_etcd_metrics_repairs),

    ngx_etcd_metrics_unit("nginx_etcd_cluster_db_size_bytes",
        NGX_ETCD_METRIC_WHOLE, "bytes", "Size of etcd's database.",
        ngx_etcd_metrics_each_cluster, ngx_etcd_metrics_db_size),

    ngx_etcd_metrics_unit("nginx_etcd_cluster_db_quota_bytes",
        NGX_ETCD_METRIC_WHOLE, "bytes",
        "Size that etcd's database may have.",
        ngx_etcd_metrics_each_cluster, ngx_etcd_metrics_db_quota),

    ngx_etcd_metrics_gauge("nginx_etcd_cluster_db_nospace",
        "Whether etcd takes no writes, since its database is full.",
        ngx_etcd_metrics_each_cluster, ngx_etcd_metrics_db_nospace),

    { { "nginx_etcd_change_visible_seconds", NGX_ETCD_METRIC_HISTOGRAM,
        NGX_ETCD_METRIC_MICRO, "seconds",
        "Time from an event's arrival until a worker has read it." },
      ngx_etcd_metrics_visible, NULL },

    ngx_etcd_metrics_unit("nginx_etcd_zone_size_bytes",
        NGX_ETCD_METRIC_WHOLE, "bytes", "Size of the cluster's zone.",
        ngx_etcd_metrics_each_cluster, ngx_etcd_metrics_zone_size),

    ngx_etcd_metrics_unit("nginx_etcd_zone_used_bytes",
        NGX_ETCD_METRIC_WHOLE, "bytes", "What of it is in use.",
        ngx_etcd_metrics_each_cluster, ngx_etcd_metrics_zone_used),

    ngx_etcd_metrics_unit("nginx_etcd_longest_stall_seconds",
        NGX_ETCD_METRIC_MICRO, "seconds",
        "The longest time that a worker was kept from its other work.",
        ngx_etcd_metrics_each_cluster, ngx_etcd_metrics_stall),

    ngx_etcd_metrics_end
};


static ngx_int_t
ngx_etcd_metrics_build(ngx_etcd_status_t *status,
    const ngx_etcd_metrics_t *family)
{
    ngx_uint_t               n;
    ngx_etcd_metric_label_t  labels[NGX_ETCD_METRICS_LABELS];

    n = ngx_etcd_metrics_text(labels, 0, "version", NGX_ETCD_VERSION);
    n = ngx_etcd_metrics_text(labels, n, "nginx", NGINX_VERSION);

    ngx_etcd_metric_sample(&status->out, &family->metric, labels, n, 1);

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_metrics_each_cluster(ngx_etcd_status_t *status,
    const ngx_etcd_metrics_t *family)
{
    ngx_uint_t               n;
    ngx_etcd_conf_t         *ecf;
    ngx_etcd_metric_label_t  labels[NGX_ETCD_METRICS_LABELS];

    ecf = ngx_etcd_status_cluster(status);
    if (ecf == NULL) {
        return NGX_OK;
    }

    n = ngx_etcd_metrics_label(labels, 0, "cluster", &ecf->name);

    return ngx_etcd_metrics_row(status, family, labels, n, ecf);
}


static ngx_int_t
ngx_etcd_metrics_cluster_states(ngx_etcd_status_t *status,
    const ngx_etcd_metrics_t *family)
{
    char                     *now, **state;
    ngx_uint_t                n;
    ngx_etcd_conf_t          *ecf;
    ngx_etcd_metric_label_t   labels[NGX_ETCD_METRICS_LABELS];

    ecf = ngx_etcd_status_cluster(status);
    if (ecf == NULL) {
        return NGX_OK;
    }

    now = ngx_etcd_status_cluster_state(ecf);

    for (state = ngx_etcd_status_cluster_states; *state != NULL; state++) {
        n = ngx_etcd_metrics_label(labels, 0, "cluster", &ecf->name);
        n = ngx_etcd_metrics_text(labels, n, "state", *state);

        ngx_etcd_metric_sample(&status->out, &family->metric, labels, n,
                               *state == now);
    }

    status->row++;

    return NGX_AGAIN;
}


static ngx_int_t
ngx_etcd_metrics_endpoints(ngx_etcd_status_t *status,
    const ngx_etcd_metrics_t *family)
{
    ngx_uint_t                  i, n, counts[4];
    ngx_etcd_conf_t            *ecf;
    ngx_etcd_metric_label_t     labels[NGX_ETCD_METRICS_LABELS];
    ngx_etcd_zone_endpoints_t   endpoints;

    ecf = ngx_etcd_status_cluster(status);
    if (ecf == NULL) {
        return NGX_OK;
    }

    ngx_memzero(counts, sizeof(counts));
    ngx_etcd_status_endpoints(ecf, &endpoints);

    for (i = 0; i < endpoints.n; i++) {
        counts[endpoints.list[i].state & 3]++;
    }

    for (i = 0; i < 4; i++) {
        n = ngx_etcd_metrics_label(labels, 0, "cluster", &ecf->name);
        n = ngx_etcd_metrics_text(labels, n, "state",
                                  ngx_etcd_status_endpoint_states[i]);

        ngx_etcd_metric_sample(&status->out, &family->metric, labels, n,
                               counts[i]);
    }

    status->row++;

    return NGX_AGAIN;
}


static ngx_int_t
ngx_etcd_metrics_visible(ngx_etcd_status_t *status,
    const ngx_etcd_metrics_t *family)
{
    ngx_uint_t               n;
    ngx_etcd_conf_t         *ecf;
    ngx_etcd_metric_label_t  labels[NGX_ETCD_METRICS_LABELS];

    ecf = ngx_etcd_status_cluster(status);
    if (ecf == NULL) {
        return NGX_OK;
    }

    n = ngx_etcd_metrics_label(labels, 0, "cluster", &ecf->name);

    ngx_etcd_metric_histogram(&status->out, &family->metric, labels, n,
                              &ecf->zone.sh->visible);
    status->row++;

    return NGX_AGAIN;
}


/* No agent runs without services, values, elections and registrations. */

static uint64_t
ngx_etcd_metrics_agent_up(void *object)
{
    ngx_etcd_conf_t *ecf = object;

    uint64_t        owner;
    ngx_msec_int_t  silence;

    if (ecf->services.nelts == 0
        && ecf->values.nelts == 0
        && !ngx_etcd_campaigner_wanted(ecf))
    {
        return NGX_ETCD_METRIC_NONE;
    }

    owner = ngx_etcd_zone_owner(&ecf->zone);
    silence = (ngx_msec_int_t) (ngx_current_msec - ecf->zone.sh->heartbeat);

    return owner != 0 && silence <= NGX_ETCD_AGENT_STALE;
}


static uint64_t
ngx_etcd_metrics_cluster_revision(void *object)
{
    ngx_etcd_conf_t *ecf = object;

    return ngx_etcd_peer_data_known(ecf);
}


/* Infinite: there was no proof yet. */

static uint64_t
ngx_etcd_metrics_staleness(void *object)
{
    ngx_etcd_conf_t *ecf = object;

    int64_t  staleness;

    staleness = ngx_etcd_zone_staleness(&ecf->zone);

    return (staleness < 0) ? NGX_ETCD_METRIC_INFINITE : (uint64_t) staleness;
}


static uint64_t
ngx_etcd_metrics_reconnects(void *object)
{
    ngx_etcd_conf_t *ecf = object;

    return ecf->zone.sh->cluster.reconnects;
}


static uint64_t
ngx_etcd_metrics_resyncs(void *object)
{
    ngx_etcd_conf_t *ecf = object;

    return ecf->zone.sh->cluster.resyncs;
}


static uint64_t
ngx_etcd_metrics_repairs(void *object)
{
    ngx_etcd_conf_t *ecf = object;

    return ecf->zone.sh->cluster.repairs;
}


static uint64_t
ngx_etcd_metrics_db_size(void *object)
{
    ngx_etcd_conf_t *ecf = object;

    uint64_t  size;

    size = ecf->zone.sh->space.size;

    return (size != 0) ? size : NGX_ETCD_METRIC_NONE;
}


static uint64_t
ngx_etcd_metrics_db_quota(void *object)
{
    ngx_etcd_conf_t *ecf = object;

    uint64_t  quota;

    quota = ecf->zone.sh->space.quota;

    return (quota != 0) ? quota : NGX_ETCD_METRIC_NONE;
}


static uint64_t
ngx_etcd_metrics_db_nospace(void *object)
{
    ngx_etcd_conf_t *ecf = object;

    ngx_uint_t  state;

    state = ecf->zone.sh->space.state;

    if (state == NGX_ETCD_DB_SPACE_UNKNOWN
        || state == NGX_ETCD_DB_SPACE_REFUSED)
    {
        return NGX_ETCD_METRIC_NONE;
    }

    return state == NGX_ETCD_DB_SPACE_NONE;
}


static uint64_t
ngx_etcd_metrics_zone_size(void *object)
{
    ngx_etcd_conf_t *ecf = object;

    return ecf->zone_size;
}


static uint64_t
ngx_etcd_metrics_zone_used(void *object)
{
    ngx_etcd_conf_t *ecf = object;

    return ngx_etcd_zone_used(&ecf->zone);
}


static uint64_t
ngx_etcd_metrics_stall(void *object)
{
    ngx_etcd_conf_t *ecf = object;

    return ecf->zone.sh->stall;
}
