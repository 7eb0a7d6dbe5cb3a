
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Metrics of the elections in which this nginx takes part.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_metrics.h>


static ngx_int_t ngx_etcd_metrics_each_election(ngx_etcd_status_t *status,
    const ngx_etcd_metrics_t *family);

static uint64_t ngx_etcd_metrics_is_leader(void *object);
static uint64_t ngx_etcd_metrics_has_leader(void *object);
static uint64_t ngx_etcd_metrics_leaders(void *object);


const ngx_etcd_metrics_t  ngx_etcd_metrics_election[] = {

    ngx_etcd_metrics_gauge("nginx_etcd_election_is_leader",
        "Whether this nginx leads.",
        ngx_etcd_metrics_each_election, ngx_etcd_metrics_is_leader),

    ngx_etcd_metrics_gauge("nginx_etcd_election_has_leader",
        "Whether anybody is known to lead.",
        ngx_etcd_metrics_each_election, ngx_etcd_metrics_has_leader),

    ngx_etcd_metrics_counter("nginx_etcd_election_leader_changes",
        "Leaders that were seen, the first one included.",
        ngx_etcd_metrics_each_election, ngx_etcd_metrics_leaders),

    ngx_etcd_metrics_end
};


static ngx_int_t
ngx_etcd_metrics_each_election(ngx_etcd_status_t *status,
    const ngx_etcd_metrics_t *family)
{
    ngx_uint_t                n;
    ngx_etcd_campaign_t      *campaign;
    ngx_etcd_metric_label_t   labels[NGX_ETCD_METRICS_LABELS];

    campaign = ngx_etcd_status_election(status);
    if (campaign == NULL) {
        return NGX_OK;
    }

    n = ngx_etcd_metrics_label(labels, 0, "cluster",
                               &campaign->cluster->name);
    n = ngx_etcd_metrics_label(labels, n, "election", &campaign->name);

    return ngx_etcd_metrics_row(status, family, labels, n, campaign);
}


static uint64_t
ngx_etcd_metrics_is_leader(void *object)
{
    return ngx_etcd_campaign_leads(object);
}


static uint64_t
ngx_etcd_metrics_has_leader(void *object)
{
    ngx_etcd_seat_view_t  view;

    return ngx_etcd_campaign_leader(object, &view) == NGX_OK;
}


static uint64_t
ngx_etcd_metrics_leaders(void *object)
{
    ngx_etcd_campaign_t *campaign = object;

    return campaign->seat->leaders;
}
