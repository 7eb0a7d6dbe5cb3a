
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Metrics of upstreams: sums over their members.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_metrics.h>


static ngx_int_t ngx_etcd_metrics_each_upstream(ngx_etcd_status_t *status,
    const ngx_etcd_metrics_t *family);
static ngx_int_t ngx_etcd_metrics_states(ngx_etcd_status_t *status,
    const ngx_etcd_metrics_t *family);

static uint64_t ngx_etcd_metrics_revision(void *object);
static uint64_t ngx_etcd_metrics_changes(void *object);
static uint64_t ngx_etcd_metrics_invalid(void *object);
static uint64_t ngx_etcd_metrics_waiting(void *object);
static uint64_t ngx_etcd_metrics_requests(void *object);
static uint64_t ngx_etcd_metrics_conns(void *object);
static uint64_t ngx_etcd_metrics_fails(void *object);
static uint64_t ngx_etcd_metrics_has_leader(void *object);
static uint64_t ngx_etcd_metrics_leaders(void *object);
static uint64_t ngx_etcd_metrics_failsafe(void *object);
static ngx_uint_t ngx_etcd_metrics_leads(ngx_etcd_service_conf_t *service);


const ngx_etcd_metrics_t  ngx_etcd_metrics_upstream[] = {

    ngx_etcd_metrics_gauge("nginx_etcd_upstream_members",
        "Members of the upstream in that state.",
        ngx_etcd_metrics_states, NULL),

    ngx_etcd_metrics_gauge("nginx_etcd_upstream_revision",
        "The revision of etcd up to which the upstream is complete.",
        ngx_etcd_metrics_each_upstream, ngx_etcd_metrics_revision),

    ngx_etcd_metrics_counter("nginx_etcd_upstream_changes",
        "Changes of members.",
        ngx_etcd_metrics_each_upstream, ngx_etcd_metrics_changes),

    ngx_etcd_metrics_gauge("nginx_etcd_upstream_invalid_values",
        "Keys whose value cannot be read, up to 256.",
        ngx_etcd_metrics_each_upstream, ngx_etcd_metrics_invalid),

    ngx_etcd_metrics_gauge("nginx_etcd_upstream_waiting_requests",
        "Requests and connections that wait for a member.",
        ngx_etcd_metrics_each_upstream, ngx_etcd_metrics_waiting),

    ngx_etcd_metrics_counter("nginx_etcd_upstream_requests",
        "Requests and connections that went to members.",
        ngx_etcd_metrics_each_upstream, ngx_etcd_metrics_requests),

    ngx_etcd_metrics_gauge("nginx_etcd_upstream_connections",
        "Requests and connections that members have now.",
        ngx_etcd_metrics_each_upstream, ngx_etcd_metrics_conns),

    ngx_etcd_metrics_gauge("nginx_etcd_upstream_failures",
        "Failures that are counted against members now.",
        ngx_etcd_metrics_each_upstream, ngx_etcd_metrics_fails),

    ngx_etcd_metrics_gauge("nginx_etcd_upstream_has_leader",
        "Whether there is a leader to go to.",
        ngx_etcd_metrics_each_upstream, ngx_etcd_metrics_has_leader),

    ngx_etcd_metrics_counter("nginx_etcd_upstream_leader_changes",
        "Leaders that were seen, the first one included.",
        ngx_etcd_metrics_each_upstream, ngx_etcd_metrics_leaders),

    ngx_etcd_metrics_gauge("nginx_etcd_upstream_failsafe",
        "Whether a stale leader is used on, as its own API confirms.",
        ngx_etcd_metrics_each_upstream, ngx_etcd_metrics_failsafe),

    ngx_etcd_metrics_end
};


static ngx_int_t
ngx_etcd_metrics_each_upstream(ngx_etcd_status_t *status,
    const ngx_etcd_metrics_t *family)
{
    ngx_uint_t                   n;
    ngx_etcd_metric_label_t      labels[NGX_ETCD_METRICS_LABELS];
    ngx_etcd_status_upstream_t  *upstream;

    upstream = ngx_etcd_status_upstream(status);
    if (upstream == NULL) {
        return NGX_OK;
    }

    n = ngx_etcd_metrics_upstream_labels(labels, upstream);

    return ngx_etcd_metrics_row(status, family, labels, n, upstream);
}


static ngx_int_t
ngx_etcd_metrics_states(ngx_etcd_status_t *status,
    const ngx_etcd_metrics_t *family)
{
    ngx_uint_t                   i, n;
    ngx_etcd_metric_label_t      labels[NGX_ETCD_METRICS_LABELS];
    ngx_etcd_status_upstream_t  *upstream;

    upstream = ngx_etcd_status_upstream(status);
    if (upstream == NULL) {
        return NGX_OK;
    }

    for (i = 0; i < NGX_ETCD_STATUS_STATES; i++) {
        n = ngx_etcd_metrics_upstream_labels(labels, upstream);
        n = ngx_etcd_metrics_text(labels, n, "state",
                                  ngx_etcd_status_member_states[i]);

        ngx_etcd_metric_sample(&status->out, &family->metric, labels, n,
                               upstream->states[i]);
    }

    status->row++;

    return NGX_AGAIN;
}


static uint64_t
ngx_etcd_metrics_revision(void *object)
{
    ngx_etcd_status_upstream_t *upstream = object;

    return upstream->revision;
}


static uint64_t
ngx_etcd_metrics_changes(void *object)
{
    ngx_etcd_status_upstream_t *upstream = object;

    return upstream->generation;
}


static uint64_t
ngx_etcd_metrics_invalid(void *object)
{
    ngx_etcd_status_upstream_t *upstream = object;

    return upstream->ninvalid;
}


static uint64_t
ngx_etcd_metrics_waiting(void *object)
{
    ngx_etcd_status_upstream_t *upstream = object;

    return ngx_etcd_status_waiting(upstream->service);
}


static uint64_t
ngx_etcd_metrics_requests(void *object)
{
    ngx_etcd_status_upstream_t *upstream = object;

    return upstream->requests;
}


static uint64_t
ngx_etcd_metrics_conns(void *object)
{
    ngx_etcd_status_upstream_t *upstream = object;

    return upstream->conns;
}


static uint64_t
ngx_etcd_metrics_fails(void *object)
{
    ngx_etcd_status_upstream_t *upstream = object;

    return upstream->fails;
}


static uint64_t
ngx_etcd_metrics_has_leader(void *object)
{
    ngx_etcd_status_upstream_t *upstream = object;

    if (!ngx_etcd_metrics_leads(upstream->service)) {
        return NGX_ETCD_METRIC_NONE;
    }

    return ngx_etcd_table_usable(&upstream->service->table);
}


static uint64_t
ngx_etcd_metrics_leaders(void *object)
{
    ngx_etcd_status_upstream_t *upstream = object;

    if (!ngx_etcd_metrics_leads(upstream->service)) {
        return NGX_ETCD_METRIC_NONE;
    }

    return upstream->terms;
}


static uint64_t
ngx_etcd_metrics_failsafe(void *object)
{
    ngx_etcd_status_upstream_t *upstream = object;

    if (!upstream->service->rules.failsafe) {
        return NGX_ETCD_METRIC_NONE;
    }

    return ngx_etcd_table_failsafe(&upstream->service->table);
}


/* Returns 1 for an upstream whose only peer is the leader. */

static ngx_uint_t
ngx_etcd_metrics_leads(ngx_etcd_service_conf_t *service)
{
    return service->rules.sole;
}
