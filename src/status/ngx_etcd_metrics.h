
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The list of metrics: families, each for objects of one kind.
 */


#ifndef _NGX_ETCD_METRICS_H_INCLUDED_
#define _NGX_ETCD_METRICS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_metric.h>
#include <ngx_etcd_status.h>


#define NGX_ETCD_METRICS_LABELS  6


typedef struct ngx_etcd_metrics_s  ngx_etcd_metrics_t;

struct ngx_etcd_metrics_s {
    ngx_etcd_metric_t    metric;

    /*
     * Writes the samples of the current row and moves to the next row, like a
     * part (ngx_etcd_status_pt).
     */
    ngx_int_t          (*write)(ngx_etcd_status_t *status,
                                const ngx_etcd_metrics_t *family);

    /* the value of an object with a single sample */
    uint64_t           (*value)(void *object);
};


#define ngx_etcd_metrics_counter(name, help, write, value)                    \
    { { name, NGX_ETCD_METRIC_COUNTER, NGX_ETCD_METRIC_WHOLE, NULL, help },   \
      write, value }

#define ngx_etcd_metrics_gauge(name, help, write, value)                      \
    { { name, NGX_ETCD_METRIC_GAUGE, NGX_ETCD_METRIC_WHOLE, NULL, help },     \
      write, value }

#define ngx_etcd_metrics_unit(name, scale, unit, help, write, value)          \
    { { name, NGX_ETCD_METRIC_GAUGE, scale, unit, help }, write, value }

#define ngx_etcd_metrics_end                                                  \
    { { NULL, NGX_ETCD_METRIC_GAUGE, NGX_ETCD_METRIC_WHOLE, NULL, NULL },     \
      NULL, NULL }


/* lists that end with an empty name */

extern const ngx_etcd_metrics_t  ngx_etcd_metrics_cluster[];
extern const ngx_etcd_metrics_t  ngx_etcd_metrics_upstream[];
extern const ngx_etcd_metrics_t  ngx_etcd_metrics_member[];
extern const ngx_etcd_metrics_t  ngx_etcd_metrics_election[];
extern const ngx_etcd_metrics_t  ngx_etcd_metrics_lock[];


/* Writes the sample of an object; the status moves to the next row. */
ngx_int_t ngx_etcd_metrics_row(ngx_etcd_status_t *status,
    const ngx_etcd_metrics_t *family, ngx_etcd_metric_label_t *labels,
    ngx_uint_t n, void *object);

/* Add a label; return the new number of labels. */
ngx_uint_t ngx_etcd_metrics_label(ngx_etcd_metric_label_t *labels,
    ngx_uint_t n, const char *name, ngx_str_t *value);
ngx_uint_t ngx_etcd_metrics_text(ngx_etcd_metric_label_t *labels,
    ngx_uint_t n, const char *name, char *value);

/* Sets the labels of an upstream; returns their number. */
ngx_uint_t ngx_etcd_metrics_upstream_labels(ngx_etcd_metric_label_t *labels,
    ngx_etcd_status_upstream_t *upstream);


#endif /* _NGX_ETCD_METRICS_H_INCLUDED_ */
