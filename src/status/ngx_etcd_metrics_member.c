
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Metrics of single members, which are optional because of their number.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_metrics.h>


static ngx_int_t ngx_etcd_metrics_each_member(ngx_etcd_status_t *status,
    const ngx_etcd_metrics_t *family);
static void ngx_etcd_metrics_one_member(ngx_etcd_status_t *status,
    const ngx_etcd_metrics_t *family, ngx_etcd_status_upstream_t *upstream,
    ngx_etcd_view_member_t *member);

static uint64_t ngx_etcd_metrics_weight(void *object);
static uint64_t ngx_etcd_metrics_requests(void *object);
static uint64_t ngx_etcd_metrics_conns(void *object);
static uint64_t ngx_etcd_metrics_fails(void *object);


const ngx_etcd_metrics_t  ngx_etcd_metrics_member[] = {

    ngx_etcd_metrics_gauge("nginx_etcd_member_weight",
        "Weight of the member.",
        ngx_etcd_metrics_each_member, ngx_etcd_metrics_weight),

    ngx_etcd_metrics_counter("nginx_etcd_member_requests",
        "Requests and connections that went to the member.",
        ngx_etcd_metrics_each_member, ngx_etcd_metrics_requests),

    ngx_etcd_metrics_gauge("nginx_etcd_member_connections",
        "Requests and connections that the member has now.",
        ngx_etcd_metrics_each_member, ngx_etcd_metrics_conns),

    ngx_etcd_metrics_gauge("nginx_etcd_member_failures",
        "Failures that are counted against the member now.",
        ngx_etcd_metrics_each_member, ngx_etcd_metrics_fails),

    ngx_etcd_metrics_end
};


/* Items 0: open the view of the row; items 1: read the view. */

static ngx_int_t
ngx_etcd_metrics_each_member(ngx_etcd_status_t *status,
    const ngx_etcd_metrics_t *family)
{
    ngx_int_t                    rc;
    ngx_uint_t                   i;
    ngx_etcd_status_upstream_t  *upstream;

    upstream = ngx_etcd_status_upstream(status);
    if (upstream == NULL) {
        return NGX_OK;
    }

    if (status->items == 0) {
        rc = ngx_etcd_status_open(status, upstream->service);
        if (rc != NGX_OK) {
            return rc;
        }

        status->items = 1;
    }

    rc = ngx_etcd_status_read(status);
    if (rc == NGX_BUSY) {
        return rc;
    }

    for (i = 0; i < status->view.n; i++) {
        ngx_etcd_metrics_one_member(status, family, upstream,
                                    &status->view.members[i]);
    }

    if (rc == NGX_DONE) {
        status->items = 0;
        status->row++;
    }

    return NGX_AGAIN;
}


static void
ngx_etcd_metrics_one_member(ngx_etcd_status_t *status,
    const ngx_etcd_metrics_t *family, ngx_etcd_status_upstream_t *upstream,
    ngx_etcd_view_member_t *member)
{
    ngx_uint_t               n;
    ngx_etcd_member_pack_t   record;
    ngx_etcd_metric_label_t  labels[NGX_ETCD_METRICS_LABELS];

    ngx_etcd_member_pack_read(&record, member->payload);

    n = ngx_etcd_metrics_upstream_labels(labels, upstream);
    n = ngx_etcd_metrics_label(labels, n, "address", &record.name);
    n = ngx_etcd_metrics_label(labels, n, "key", &member->key);

    ngx_etcd_metric_sample(&status->out, &family->metric, labels, n,
                           family->value(member));
}


static uint64_t
ngx_etcd_metrics_weight(void *object)
{
    ngx_etcd_view_member_t *member = object;

    ngx_etcd_member_pack_t  record;

    ngx_etcd_member_pack_read(&record, member->payload);

    return record.attr.weight;
}


static uint64_t
ngx_etcd_metrics_requests(void *object)
{
    ngx_etcd_view_member_t *member = object;

    return member->requests;
}


static uint64_t
ngx_etcd_metrics_conns(void *object)
{
    ngx_etcd_view_member_t *member = object;

    return member->conns;
}


static uint64_t
ngx_etcd_metrics_fails(void *object)
{
    ngx_etcd_view_member_t *member = object;

    return member->fails;
}
