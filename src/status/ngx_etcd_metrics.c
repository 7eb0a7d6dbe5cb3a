
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The status as metrics.  The samples of one family must be adjacent: the
 * sums of upstreams are computed first, in one pass over their members.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_metrics.h>


static ngx_int_t ngx_etcd_metrics_count(ngx_etcd_status_t *status);
static void ngx_etcd_metrics_add(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream);
static ngx_int_t ngx_etcd_metrics_clusters(ngx_etcd_status_t *status);
static ngx_int_t ngx_etcd_metrics_upstreams(ngx_etcd_status_t *status);
static ngx_int_t ngx_etcd_metrics_members(ngx_etcd_status_t *status);
static ngx_int_t ngx_etcd_metrics_elections(ngx_etcd_status_t *status);
static ngx_int_t ngx_etcd_metrics_locks(ngx_etcd_status_t *status);
static ngx_int_t ngx_etcd_metrics_walk(ngx_etcd_status_t *status,
    const ngx_etcd_metrics_t *families);
static ngx_int_t ngx_etcd_metrics_eof(ngx_etcd_status_t *status);


const ngx_etcd_status_pt  ngx_etcd_status_metrics[] = {
    ngx_etcd_metrics_count,
    ngx_etcd_metrics_clusters,
    ngx_etcd_metrics_upstreams,
    ngx_etcd_metrics_members,
    ngx_etcd_metrics_elections,
    ngx_etcd_metrics_locks,
    ngx_etcd_metrics_eof,
    NULL
};


/* Stage 0: open the view of the row; stage 1: read the view. */

static ngx_int_t
ngx_etcd_metrics_count(ngx_etcd_status_t *status)
{
    ngx_int_t                    rc;
    ngx_etcd_status_upstream_t  *upstream;

    upstream = ngx_etcd_status_upstream(status);
    if (upstream == NULL) {
        return NGX_OK;
    }

    if (status->stage == 0) {
        rc = ngx_etcd_status_open(status, upstream->service);
        if (rc != NGX_OK) {
            return rc;
        }

        status->stage = 1;
    }

    rc = ngx_etcd_status_read(status);
    if (rc == NGX_BUSY) {
        return rc;
    }

    ngx_etcd_metrics_add(status, upstream);

    if (rc == NGX_DONE) {
        upstream->ninvalid = status->view.ninvalid;
        upstream->revision = status->view.revision;
        upstream->generation = status->view.generation;
        upstream->terms = status->view.terms;
        upstream->requests = ngx_etcd_view_requests(&status->view);

        status->stage = 0;
        status->row++;
    }

    return NGX_AGAIN;
}


static void
ngx_etcd_metrics_add(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream)
{
    ngx_uint_t                i;
    ngx_etcd_member_pack_t    record;
    ngx_etcd_view_member_t   *member;
    ngx_etcd_status_state_e   state;

    for (i = 0; i < status->view.n; i++) {
        member = &status->view.members[i];

        ngx_etcd_member_pack_read(&record, member->payload);

        state = ngx_etcd_status_member_state(&upstream->service->table,
                                             &record);

        upstream->states[state]++;
        upstream->conns += member->conns;
        upstream->fails += member->fails;
    }
}


static ngx_int_t
ngx_etcd_metrics_clusters(ngx_etcd_status_t *status)
{
    return ngx_etcd_metrics_walk(status, ngx_etcd_metrics_cluster);
}


static ngx_int_t
ngx_etcd_metrics_upstreams(ngx_etcd_status_t *status)
{
    return ngx_etcd_metrics_walk(status, ngx_etcd_metrics_upstream);
}


static ngx_int_t
ngx_etcd_metrics_members(ngx_etcd_status_t *status)
{
    if (!status->members) {
        return NGX_OK;
    }

    return ngx_etcd_metrics_walk(status, ngx_etcd_metrics_member);
}


static ngx_int_t
ngx_etcd_metrics_elections(ngx_etcd_status_t *status)
{
    return ngx_etcd_metrics_walk(status, ngx_etcd_metrics_election);
}


static ngx_int_t
ngx_etcd_metrics_locks(ngx_etcd_status_t *status)
{
    return ngx_etcd_metrics_walk(status, ngx_etcd_metrics_lock);
}


/* The stage is the index of the family, the row the index of the object. */

static ngx_int_t
ngx_etcd_metrics_walk(ngx_etcd_status_t *status,
    const ngx_etcd_metrics_t *families)
{
    ngx_int_t                  rc;
    const ngx_etcd_metrics_t  *family;

    family = &families[status->stage];

    if (family->metric.name == NULL) {
        return NGX_OK;
    }

    if (!status->begun) {
        status->begun = 1;
        ngx_etcd_metric_head(&status->out, &family->metric,
                             status->openmetrics);
    }

    rc = family->write(status, family);

    if (rc != NGX_OK) {
        return rc;
    }

    status->stage++;
    status->row = 0;
    status->begun = 0;

    return NGX_AGAIN;
}


static ngx_int_t
ngx_etcd_metrics_eof(ngx_etcd_status_t *status)
{
    if (status->openmetrics) {
        ngx_etcd_writer_literal(&status->out, "# EOF\n");
    }

    return NGX_OK;
}


ngx_int_t
ngx_etcd_metrics_row(ngx_etcd_status_t *status,
    const ngx_etcd_metrics_t *family, ngx_etcd_metric_label_t *labels,
    ngx_uint_t n, void *object)
{
    ngx_etcd_metric_sample(&status->out, &family->metric, labels, n,
                           family->value(object));

    status->row++;

    return NGX_AGAIN;
}


ngx_uint_t
ngx_etcd_metrics_label(ngx_etcd_metric_label_t *labels, ngx_uint_t n,
    const char *name, ngx_str_t *value)
{
    labels[n].name = name;
    labels[n].value = *value;

    return n + 1;
}


ngx_uint_t
ngx_etcd_metrics_text(ngx_etcd_metric_label_t *labels, ngx_uint_t n,
    const char *name, char *value)
{
    ngx_str_t  text;

    text.data = (u_char *) value;
    text.len = ngx_strlen(value);

    return ngx_etcd_metrics_label(labels, n, name, &text);
}


ngx_uint_t
ngx_etcd_metrics_upstream_labels(ngx_etcd_metric_label_t *labels,
    ngx_etcd_status_upstream_t *upstream)
{
    ngx_uint_t                n;
    ngx_etcd_service_conf_t  *service;

    service = upstream->service;

    n = ngx_etcd_metrics_label(labels, 0, "cluster", &upstream->cluster->name);
    n = ngx_etcd_metrics_text(labels, n, "module",
                              service->stream ? "stream" : "http");

    return ngx_etcd_metrics_label(labels, n, "upstream", &service->name);
}
