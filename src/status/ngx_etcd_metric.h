
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Writes metrics in the Prometheus text format 0.0.4 and in OpenMetrics 1.0.
 */


#ifndef _NGX_ETCD_METRIC_H_INCLUDED_
#define _NGX_ETCD_METRIC_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_text_buffer.h>
#include <ngx_etcd_zone.h>


typedef enum {
    NGX_ETCD_METRIC_COUNTER = 0,
    NGX_ETCD_METRIC_GAUGE,
    NGX_ETCD_METRIC_HISTOGRAM,
    NGX_ETCD_METRIC_INFO
} ngx_etcd_metric_type_e;


/* the unit of values, which are integers */

typedef enum {
    NGX_ETCD_METRIC_WHOLE = 0,
    NGX_ETCD_METRIC_MILLI,
    NGX_ETCD_METRIC_MICRO
} ngx_etcd_metric_scale_e;

#define NGX_ETCD_METRIC_INFINITE  ((uint64_t) -1)


typedef struct {
    const char                *name;        /* without "_total" and other
                                               suffixes */
    ngx_etcd_metric_type_e     type;
    ngx_etcd_metric_scale_e    scale;
    const char                *unit;        /* suffix of the name, or NULL */
    const char                *help;        /* without "\" and line feeds */
    ngx_str_t                 *states;      /* NULL: one sample; otherwise one
                                               for each state, up to an empty
                                               one, with a label */
    const char                *label;       /* name of the label */
    const uint64_t            *bounds;      /* of a histogram */
} ngx_etcd_metric_t;


#define ngx_etcd_metric_make(name, type, scale, unit, help)                   \
    { name, NGX_ETCD_METRIC_ ## type, scale, unit, help, NULL, NULL, NULL }

#define ngx_etcd_metric_info(name, help)                                      \
    ngx_etcd_metric_make(name, INFO, NGX_ETCD_METRIC_WHOLE, NULL, help)

#define ngx_etcd_metric_counter(name, help)                                   \
    ngx_etcd_metric_make(name, COUNTER, NGX_ETCD_METRIC_WHOLE, NULL, help)

#define ngx_etcd_metric_gauge(name, help)                                     \
    ngx_etcd_metric_make(name, GAUGE, NGX_ETCD_METRIC_WHOLE, NULL, help)

#define ngx_etcd_metric_unit(name, scale, unit, help)                         \
    ngx_etcd_metric_make(name, GAUGE, scale, unit, help)

#define ngx_etcd_metric_bytes(name, help)                                     \
    ngx_etcd_metric_make(name, COUNTER, NGX_ETCD_METRIC_WHOLE, "bytes", help)

#define ngx_etcd_metric_states(name, states, help)                            \
    { name, NGX_ETCD_METRIC_GAUGE, NGX_ETCD_METRIC_WHOLE, NULL, help, states, \
      "state", NULL }

#define ngx_etcd_metric_counts(name, label, states, help)                     \
    { name, NGX_ETCD_METRIC_COUNTER, NGX_ETCD_METRIC_WHOLE, NULL, help,       \
      states, label, NULL }

#define ngx_etcd_metric_times(name, bounds, help)                             \
    { name, NGX_ETCD_METRIC_HISTOGRAM, NGX_ETCD_METRIC_MICRO, "seconds",      \
      help, NULL, NULL, bounds }


typedef struct {
    const char                *name;
    ngx_str_t                  value;
} ngx_etcd_metric_label_t;


/* Writes the header of a metric; its samples must follow immediately. */
void ngx_etcd_metric_head(ngx_etcd_text_buffer_t *out,
    const ngx_etcd_metric_t *metric, ngx_uint_t openmetrics);

void ngx_etcd_metric_sample(ngx_etcd_text_buffer_t *out,
    const ngx_etcd_metric_t *metric, ngx_etcd_metric_label_t *labels,
    ngx_uint_t n, uint64_t value);

/* Writes all samples of a histogram; labels must have room for one more. */
void ngx_etcd_metric_histogram(ngx_etcd_text_buffer_t *out,
    const ngx_etcd_metric_t *metric, ngx_etcd_metric_label_t *labels,
    ngx_uint_t n, ngx_etcd_histogram_t *histogram);


#endif /* _NGX_ETCD_METRIC_H_INCLUDED_ */
