
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The text of the status, which grows as a chain of buffers.  They are reused
 * after they have been sent.  Metrics are written in the Prometheus text format
 * 0.0.4 and in OpenMetrics 1.0.
 */


#ifndef _NGX_ETCD_TEXT_BUFFER_H_INCLUDED_
#define _NGX_ETCD_TEXT_BUFFER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_counter.h>


#define NGX_ETCD_TEXT_BUFFER_BUFFER  16384


/*
 * If an allocation fails, "failed" is set and further output is ignored:
 * callers need not check each call.
 */

typedef struct {
    ngx_pool_t      *pool;
    ngx_buf_tag_t    tag;               /* buf->tag */
    ngx_chain_t     *out;               /* chain of output */
    ngx_chain_t    **last;
    ngx_buf_t       *buf;               /* last buffer of out, or NULL */
    ngx_chain_t     *free;              /* buffers to reuse */
    size_t           size;              /* bytes in out */
    ngx_uint_t       failed;
} ngx_etcd_text_buffer_t;


void ngx_etcd_text_buffer_init(ngx_etcd_text_buffer_t *buffer, ngx_pool_t *pool,
    ngx_buf_tag_t tag);

/*
 * Detaches the output.  The caller sends it and returns sent buffers to
 * text buffer->free.
 */
ngx_chain_t *ngx_etcd_text_buffer_take(ngx_etcd_text_buffer_t *buffer);

/* Appends data that does not fit into the last buffer. */
void ngx_etcd_text_buffer_spill(ngx_etcd_text_buffer_t *buffer,
    const void *data, size_t len);


static ngx_inline void
ngx_etcd_text_buffer_bytes(ngx_etcd_text_buffer_t *buffer, const void *data,
    size_t len)
{
    ngx_buf_t  *b;

    b = buffer->buf;

    if (b == NULL || len > (size_t) (b->end - b->last)) {
        ngx_etcd_text_buffer_spill(buffer, data, len);
        return;
    }

    if (len != 0) {
        b->last = ngx_cpymem(b->last, data, len);
        buffer->size += len;
    }
}


#define ngx_etcd_text_buffer_literal(buffer, text)                             \
    ngx_etcd_text_buffer_bytes(buffer, text, sizeof(text) - 1)

/*
 * The format is that of ngx_sprintf(); at most NGX_ETCD_TEXT_BUFFER_FORMAT
 * bytes.
 */

#define NGX_ETCD_TEXT_BUFFER_FORMAT  128

void ngx_etcd_text_buffer_printf(ngx_etcd_text_buffer_t *buffer,
    const char *fmt, ...);

void ngx_etcd_text_buffer_number(ngx_etcd_text_buffer_t *buffer, int64_t n);

/*
 * Writes bytes with quotes, and "control" before the two digits of a control
 * character: NGX_ETCD_TEXT_BUFFER_JSON for a JSON string, and _LABEL for a
 * label's value in the formats of Prometheus, where no escape exists for them.
 * Bytes that are not UTF-8 are written as \xff.
 */
void ngx_etcd_text_buffer_quote(ngx_etcd_text_buffer_t *buffer, ngx_str_t *text,
    const char *control);

#define NGX_ETCD_TEXT_BUFFER_JSON   "\\u00"
#define NGX_ETCD_TEXT_BUFFER_LABEL  "\\\\x"

#define ngx_etcd_text_buffer_text(buffer, text)                               \
    ngx_etcd_text_buffer_quote(buffer, text, NGX_ETCD_TEXT_BUFFER_JSON)


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


#endif /* _NGX_ETCD_TEXT_BUFFER_H_INCLUDED_ */
