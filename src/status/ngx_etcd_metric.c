
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_metric.h>


static const char *
ngx_etcd_metric_suffix(const ngx_etcd_metric_t *metric)
{
    switch (metric->type) {

    case NGX_ETCD_METRIC_COUNTER:
        return "_total";

    case NGX_ETCD_METRIC_INFO:
        return "_info";

    default:
        return "";
    }
}


static void
ngx_etcd_metric_text(ngx_etcd_text_buffer_t *out, const char *text)
{
    ngx_etcd_text_buffer_bytes(out, text, ngx_strlen(text));
}


void
ngx_etcd_metric_head(ngx_etcd_text_buffer_t *out,
    const ngx_etcd_metric_t *metric, ngx_uint_t openmetrics)
{
    const char  *type, *suffix;

    static const char  *types[] = { "counter", "gauge", "histogram", "info" };

    type = types[metric->type];
    suffix = "";

    /*
     * the text format has no "info" type, and its TYPE has the sample's name
     */

    if (!openmetrics) {
        suffix = ngx_etcd_metric_suffix(metric);

        if (metric->type == NGX_ETCD_METRIC_INFO) {
            type = "gauge";
        }
    }

    ngx_etcd_text_buffer_printf(out, "# TYPE %s%s %s\n", metric->name, suffix,
                                type);

    if (openmetrics && metric->unit != NULL) {
        ngx_etcd_text_buffer_printf(out, "# UNIT %s %s\n", metric->name,
                                    metric->unit);
    }

    ngx_etcd_text_buffer_printf(out, "# HELP %s%s ", metric->name, suffix);
    ngx_etcd_metric_text(out, metric->help);
    ngx_etcd_text_buffer_literal(out, "\n");
}


static void
ngx_etcd_metric_begin(ngx_etcd_text_buffer_t *out,
    const ngx_etcd_metric_t *metric, const char *suffix,
    ngx_etcd_metric_label_t *labels, ngx_uint_t n)
{
    ngx_uint_t  i;

    ngx_etcd_metric_text(out, metric->name);
    ngx_etcd_metric_text(out, suffix);

    for (i = 0; i < n; i++) {
        ngx_etcd_metric_text(out, i == 0 ? "{" : ",");
        ngx_etcd_metric_text(out, labels[i].name);
        ngx_etcd_text_buffer_literal(out, "=");
        ngx_etcd_text_buffer_quote(out, &labels[i].value,
                                   NGX_ETCD_TEXT_BUFFER_LABEL);
    }

    ngx_etcd_metric_text(out, n == 0 ? " " : "} ");
}


/* the rest of the line */

static void
ngx_etcd_metric_value(ngx_etcd_text_buffer_t *out, uint64_t value,
    ngx_etcd_metric_scale_e scale)
{
    if (value == NGX_ETCD_METRIC_INFINITE) {
        ngx_etcd_text_buffer_literal(out, "+Inf\n");
        return;
    }

    switch (scale) {

    case NGX_ETCD_METRIC_MILLI:
        ngx_etcd_text_buffer_printf(out, "%uL.%03uL\n", value / 1000,
                                    value % 1000);
        return;

    case NGX_ETCD_METRIC_MICRO:
        ngx_etcd_text_buffer_printf(out, "%uL.%06uL\n", value / 1000000,
                                    value % 1000000);
        return;

    default: /* NGX_ETCD_METRIC_WHOLE */
        ngx_etcd_text_buffer_number(out, value);
        ngx_etcd_text_buffer_literal(out, "\n");
        return;
    }
}


void
ngx_etcd_metric_sample(ngx_etcd_text_buffer_t *out,
    const ngx_etcd_metric_t *metric, ngx_etcd_metric_label_t *labels,
    ngx_uint_t n, uint64_t value)
{
    ngx_etcd_metric_begin(out, metric, ngx_etcd_metric_suffix(metric), labels,
                          n);
    ngx_etcd_metric_value(out, value, metric->scale);
}


void
ngx_etcd_metric_histogram(ngx_etcd_text_buffer_t *out,
    const ngx_etcd_metric_t *metric, ngx_etcd_metric_label_t *labels,
    ngx_uint_t n, ngx_etcd_histogram_t *histogram)
{
    u_char                   *last;
    u_char                    buf[NGX_INT64_LEN + sizeof(".000000")];
    uint64_t                  bound, count;
    ngx_uint_t                i;
    ngx_etcd_metric_label_t  *le;

    le = &labels[n];
    le->name = "le";
    count = 0;

    for (i = 0; i < NGX_ETCD_HISTOGRAM_BOUNDS; i++) {
        bound = metric->bounds[i];
        count += histogram->counts[i];

        last = ngx_sprintf(buf, "%uL.%06uL", bound / 1000000,
                           bound % 1000000);

        /* OpenMetrics: "0.5" rather than "0.500000", but "1.0" */

        while (last[-1] == '0' && last[-2] != '.') {
            last--;
        }

        le->value.data = buf;
        le->value.len = last - buf;

        ngx_etcd_metric_begin(out, metric, "_bucket", labels, n + 1);
        ngx_etcd_metric_value(out, count, NGX_ETCD_METRIC_WHOLE);
    }

    count += histogram->counts[i];
    ngx_str_set(&le->value, "+Inf");

    ngx_etcd_metric_begin(out, metric, "_bucket", labels, n + 1);
    ngx_etcd_metric_value(out, count, NGX_ETCD_METRIC_WHOLE);
    ngx_etcd_metric_begin(out, metric, "_sum", labels, n);
    ngx_etcd_metric_value(out, histogram->sum, NGX_ETCD_METRIC_MICRO);
    ngx_etcd_metric_begin(out, metric, "_count", labels, n);
    ngx_etcd_metric_value(out, count, NGX_ETCD_METRIC_WHOLE);
}
