
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_metrics.h>
#include <ngx_etcd_status_field.h>
#include <ngx_etcd_status_sets.h>


/* of an object, of a state, and "le" of a histogram */

#define NGX_ETCD_METRICS_LABELS  8


static ngx_int_t ngx_etcd_metrics_find(ngx_etcd_status_t *status,
    const ngx_etcd_status_kind_t *kind);
static ngx_int_t ngx_etcd_metrics_count(ngx_etcd_status_t *status,
    const ngx_etcd_status_kind_t *kind);
static ngx_int_t ngx_etcd_metrics_members(ngx_etcd_status_t *status,
    const ngx_etcd_status_kind_t *kind);
static ngx_int_t ngx_etcd_metrics_walk(ngx_etcd_status_t *status,
    const ngx_etcd_status_kind_t *kind);
static ngx_int_t ngx_etcd_metrics_eof(ngx_etcd_status_t *status,
    const ngx_etcd_status_kind_t *kind);


const ngx_etcd_status_part_t  ngx_etcd_metrics[] = {
    { ngx_etcd_metrics_count, &ngx_etcd_status_upstreams },
    { ngx_etcd_metrics_walk, &ngx_etcd_status_nginx },
    { ngx_etcd_metrics_walk, &ngx_etcd_status_clusters },
    { ngx_etcd_metrics_walk, &ngx_etcd_status_endpoints },
    { ngx_etcd_metrics_walk, &ngx_etcd_status_upstreams },
    { ngx_etcd_metrics_members, &ngx_etcd_status_members },
    { ngx_etcd_metrics_walk, &ngx_etcd_status_elections },
    { ngx_etcd_metrics_walk, &ngx_etcd_status_locks },
    { ngx_etcd_metrics_walk, &ngx_etcd_status_variables },
    { ngx_etcd_metrics_eof, NULL },
    { NULL, NULL }
};


const ngx_etcd_status_part_t  ngx_etcd_metrics_set[] = {
    { ngx_etcd_metrics_find, &ngx_etcd_status_upstreams },
    { ngx_etcd_metrics_count, &ngx_etcd_status_upstreams },
    { ngx_etcd_metrics_walk, &ngx_etcd_status_upstreams },
    { ngx_etcd_metrics_members, &ngx_etcd_status_members },
    { ngx_etcd_metrics_eof, NULL },
    { NULL, NULL }
};


/* Upstreams that have the set become that set; no others are shown. */

static ngx_int_t
ngx_etcd_metrics_find(ngx_etcd_status_t *status,
    const ngx_etcd_status_kind_t *kind)
{
    ngx_int_t                    rc;
    ngx_etcd_status_upstream_t  *upstream;

    upstream = kind->row(status);
    if (upstream == NULL) {
        return NGX_OK;
    }

    rc = (upstream->catalog != NULL
          && ngx_etcd_status_wanted(status, upstream))
         ? ngx_etcd_status_sets_find(status, upstream) : NGX_DECLINED;

    if (rc == NGX_OK) {
        *upstream = status->walk.one;
        upstream->set = status->asked.like;
        status->row++;

        return NGX_AGAIN;
    }

    if (rc != NGX_DECLINED) {
        return rc;
    }

    status->upstreams.nelts--;

    ngx_memmove(upstream, upstream + 1,
                (status->upstreams.nelts - status->row)
                * sizeof(ngx_etcd_status_upstream_t));

    return NGX_AGAIN;
}


/* Sums over all sets of a prefix with variables. */

static ngx_int_t
ngx_etcd_metrics_count_sets(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream)
{
    ngx_int_t  rc;

    if (status->stage == 0) {
        ngx_etcd_status_object_catalog(upstream);

        if (ngx_etcd_attendant_judges(&upstream->service->attendants,
                                      NGX_ETCD_VERDICT_CHECKS))
        {
            upstream->sums.checks = 0;
            upstream->sums.check_failures = 0;
            upstream->sums.panic = 0;
        }

        status->stage = 1;
    }

    rc = ngx_etcd_status_sets_sum(status, upstream);

    if (rc == NGX_OK) {
        status->stage = 0;
        status->row++;

        return NGX_AGAIN;
    }

    return rc;
}


/* Stage 0: open the view of the row; stage 1: read the view. */

static ngx_int_t
ngx_etcd_metrics_count(ngx_etcd_status_t *status,
    const ngx_etcd_status_kind_t *kind)
{
    ngx_int_t                       rc;
    ngx_uint_t                      i;
    ngx_etcd_member_pack_t          record;
    ngx_etcd_view_member_t         *member;
    ngx_etcd_status_upstream_t     *upstream;
    ngx_etcd_member_state_e        state;

    upstream = ngx_etcd_status_upstreams.row(status);
    if (upstream == NULL) {
        return NGX_OK;
    }

    if (upstream->catalog != NULL) {
        return ngx_etcd_metrics_count_sets(status, upstream);
    }

    if (status->stage == 0) {
        rc = ngx_etcd_status_open(status, upstream);
        if (rc != NGX_OK) {
            return rc;
        }

        status->stage = 1;
    }

    rc = ngx_etcd_status_read(status);
    if (rc == NGX_BUSY) {
        return rc;
    }

    for (i = 0; i < status->view.n; i++) {
        member = &status->view.members[i];

        /* hidden members were counted when the view was opened */

        if (member->hidden_by.data != NULL) {
            continue;
        }

        ngx_etcd_member_pack_read(&record, member->payload);
        state = ngx_etcd_status_member_state(upstream->lowest, &record,
                                             member);
        upstream->sums.states[state]++;
        upstream->sums.conns += member->conns;
        upstream->sums.fails += member->fails;
    }

    if (rc == NGX_DONE) {
        upstream->sums.requests = ngx_etcd_view_requests(&status->view);

        status->stage = 0;
        status->row++;
    }

    return NGX_AGAIN;
}


static ngx_int_t
ngx_etcd_metrics_members(ngx_etcd_status_t *status,
    const ngx_etcd_status_kind_t *kind)
{
    return status->members ? ngx_etcd_metrics_walk(status, kind) : NGX_OK;
}


/* A text counts as 1 for its state, and 0 for all others. */

static void
ngx_etcd_metrics_states(ngx_etcd_text_buffer_t *out,
    const ngx_etcd_status_field_t *field, ngx_etcd_metric_label_t *labels,
    ngx_uint_t n, void *value)
{
    ngx_str_t   *states;
    ngx_uint_t   i;

    states = field->metric.states;
    labels[n].name = field->metric.label;

    for (i = 0; states[i].len != 0; i++) {
        labels[n].value = states[i];

        ngx_etcd_metric_sample(out, &field->metric, labels, n + 1,
                               (field->type == NGX_ETCD_STATUS_COUNTS
                                || field->type == NGX_ETCD_STATUS_REASONS)
                               ? ((uint64_t *) value)[i]
                               : ((ngx_str_t *) value)->data
                                 == states[i].data);
    }
}


static void
ngx_etcd_metrics_samples(ngx_etcd_text_buffer_t *out,
    const ngx_etcd_status_kind_t *kind, const ngx_etcd_status_field_t *field,
    void *object)
{
    void                           *value;
    int64_t                         number;
    ngx_str_t                      *text;
    ngx_uint_t                      n;
    ngx_etcd_metric_label_t         labels[NGX_ETCD_METRICS_LABELS];
    const ngx_etcd_status_field_t  *label;

    value = ngx_etcd_status_at(object, field);

    if (ngx_etcd_status_field_absent(field, value)) {
        return;
    }

    n = 0;

    for (label = kind->labels; label->type != NGX_ETCD_STATUS_END; label++) {
        text = ngx_etcd_status_at(object, label);

        if (label->type == NGX_ETCD_STATUS_OPTIONAL && text->data == NULL) {
            continue;
        }

        labels[n].name = (const char *) label->name.data;
        labels[n++].value = *text;
    }

    if (field->metric.states != NULL) {
        ngx_etcd_metrics_states(out, field, labels, n, value);
        return;
    }

    if (field->type == NGX_ETCD_STATUS_HISTOGRAM) {
        ngx_etcd_metric_histogram(out, &field->metric, labels, n,
                                  value);
        return;
    }

    if (field->type == NGX_ETCD_STATUS_OPTIONAL) {

        /* a text that is no state: a label */

        labels[n].name = (const char *) field->name.data;
        labels[n++].value = *(ngx_str_t *) value;
        number = 1;

    } else {
        number = *(int64_t *) value;
    }

    ngx_etcd_metric_sample(out, &field->metric, labels, n,
                           (number < 0) ? NGX_ETCD_METRIC_INFINITE
                                        : (uint64_t) number);
}


/* Whether no member of the upstream can have the field: answers not counted. */

static ngx_uint_t
ngx_etcd_metrics_lacks(ngx_etcd_status_upstream_t *upstream,
    const ngx_etcd_status_field_t *field)
{
    size_t  answers;

    answers = offsetof(ngx_etcd_status_member_t, view.answers);

    return !upstream->service->rules.outcomes
           && field->offset >= answers
           && field->offset < answers + sizeof(ngx_etcd_answers_t);
}


/* Items 0: open the view of the row; items 1: read the view. */

static ngx_int_t
ngx_etcd_metrics_each_member(ngx_etcd_status_t *status,
    const ngx_etcd_status_field_t *field)
{
    ngx_int_t                    rc;
    ngx_uint_t                   i;
    ngx_etcd_status_member_t    *member;
    ngx_etcd_status_upstream_t  *upstream;

    upstream = ngx_etcd_status_upstreams.row(status);
    if (upstream == NULL) {
        return NGX_OK;
    }

    /* of a prefix with variables there may be too many */

    if (upstream->catalog != NULL || ngx_etcd_metrics_lacks(upstream, field)) {
        status->row++;
        return NGX_AGAIN;
    }

    if (status->items == 0) {
        rc = ngx_etcd_status_open(status, upstream);
        if (rc != NGX_OK) {
            return rc;
        }

        status->items = 1;
    }

    rc = ngx_etcd_status_read(status);
    if (rc == NGX_BUSY) {
        return rc;
    }

    member = &status->object.member;

    for (i = 0; i < status->view.n; i++) {

        /* another member has the address, the label that tells members apart */

        if (status->view.members[i].hidden_by.data != NULL) {
            continue;
        }

        ngx_etcd_status_member_set(member, upstream,
                                   &status->view.members[i]);
        ngx_etcd_metrics_samples(&status->out, &ngx_etcd_status_members, field,
                                 member);
    }

    if (rc == NGX_DONE) {
        status->items = 0;
        status->row++;
    }

    return NGX_AGAIN;
}


/* The stage is the index of the field, the row the index of the object. */

static ngx_int_t
ngx_etcd_metrics_walk(ngx_etcd_status_t *status,
    const ngx_etcd_status_kind_t *kind)
{
    void                           *object;
    ngx_int_t                       rc;
    const ngx_etcd_status_field_t  *field;

    field = &kind->fields[status->stage];

    while (field->type != NGX_ETCD_STATUS_END && field->metric.name == NULL) {
        field++;
        status->stage++;
    }

    if (field->type == NGX_ETCD_STATUS_END) {
        return NGX_OK;
    }

    if (!status->begun) {
        status->begun = 1;
        ngx_etcd_metric_head(&status->out, &field->metric,
                             status->openmetrics);
    }

    if (kind == &ngx_etcd_status_members) {
        rc = ngx_etcd_metrics_each_member(status, field);
        if (rc != NGX_OK) {
            return rc;
        }

    } else {
        object = kind->row(status);
        if (object != NULL) {
            ngx_etcd_metrics_samples(&status->out, kind, field, object);
            status->row++;

            return NGX_AGAIN;
        }
    }

    status->stage++;
    status->row = 0;
    status->begun = 0;

    return NGX_AGAIN;
}


static ngx_int_t
ngx_etcd_metrics_eof(ngx_etcd_status_t *status,
    const ngx_etcd_status_kind_t *kind)
{
    if (status->openmetrics) {
        ngx_etcd_text_buffer_literal(&status->out, "# EOF\n");
    }

    return NGX_OK;
}
