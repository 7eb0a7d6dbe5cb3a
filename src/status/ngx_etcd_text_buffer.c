
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_json.h>
#include <ngx_etcd_text_buffer.h>


/*
 * bitmap of the bytes that are written as they are: ASCII except control
 * characters, '"' and '\\'
 */

static const uint32_t  ngx_etcd_text_buffer_plain[] = {
    0x00000000, 0xfffffffb, 0xefffffff, 0x7fffffff,
    0x00000000, 0x00000000, 0x00000000, 0x00000000
};


void
ngx_etcd_text_buffer_init(ngx_etcd_text_buffer_t *buffer, ngx_pool_t *pool,
    ngx_buf_tag_t tag)
{
    ngx_memzero(buffer, sizeof(ngx_etcd_text_buffer_t));

    buffer->pool = pool;
    buffer->tag = tag;
    buffer->last = &buffer->out;
}


ngx_chain_t *
ngx_etcd_text_buffer_take(ngx_etcd_text_buffer_t *buffer)
{
    ngx_chain_t  *out;

    out = buffer->out;

    buffer->out = NULL;
    buffer->last = &buffer->out;
    buffer->buf = NULL;
    buffer->size = 0;

    return out;
}


static ngx_int_t
ngx_etcd_text_buffer_grow(ngx_etcd_text_buffer_t *buffer)
{
    ngx_buf_t    *b;
    ngx_chain_t  *cl;

    cl = ngx_chain_get_free_buf(buffer->pool, &buffer->free);
    if (cl == NULL) {
        return NGX_ERROR;
    }

    b = cl->buf;

    if (b->start == NULL) {
        b->start = ngx_palloc(buffer->pool, NGX_ETCD_TEXT_BUFFER_BUFFER);
        if (b->start == NULL) {
            return NGX_ERROR;
        }

        b->end = b->start + NGX_ETCD_TEXT_BUFFER_BUFFER;
        b->tag = buffer->tag;
        b->temporary = 1;
    }

    b->pos = b->start;
    b->last = b->start;
    b->flush = 0;

    *buffer->last = cl;
    buffer->last = &cl->next;
    buffer->buf = b;

    return NGX_OK;
}


void
ngx_etcd_text_buffer_spill(ngx_etcd_text_buffer_t *buffer, const void *data,
    size_t len)
{
    size_t         n;
    ngx_buf_t     *b;
    const u_char  *p;

    p = data;

    while (len != 0 && !buffer->failed) {
        b = buffer->buf;

        if (b == NULL || b->last == b->end) {

            if (ngx_etcd_text_buffer_grow(buffer) != NGX_OK) {
                buffer->failed = 1;
            }

            continue;
        }

        n = ngx_min(len, (size_t) (b->end - b->last));

        b->last = ngx_cpymem(b->last, p, n);
        p += n;
        len -= n;
        buffer->size += n;
    }
}


void
ngx_etcd_text_buffer_printf(ngx_etcd_text_buffer_t *buffer, const char *fmt,
    ...)
{
    u_char   buf[NGX_ETCD_TEXT_BUFFER_FORMAT], *p;
    va_list  args;

    va_start(args, fmt);
    p = ngx_vslprintf(buf, buf + NGX_ETCD_TEXT_BUFFER_FORMAT, fmt, args);
    va_end(args);

    ngx_etcd_text_buffer_bytes(buffer, buf, p - buf);
}


void
ngx_etcd_text_buffer_number(ngx_etcd_text_buffer_t *buffer, int64_t n)
{
    u_char     buf[NGX_INT64_LEN], *p;
    uint64_t   left;

    p = buf + NGX_INT64_LEN;
    left = (n < 0) ? -(uint64_t) n : (uint64_t) n;

    do {
        *--p = (u_char) ('0' + left % 10);
        left /= 10;
    } while (left != 0);

    if (n < 0) {
        *--p = '-';
    }

    ngx_etcd_text_buffer_bytes(buffer, p, buf + NGX_INT64_LEN - p);
}


static void
ngx_etcd_text_buffer_hex(ngx_etcd_text_buffer_t *buffer, const char *prefix,
    u_char ch)
{
    u_char  digits[2];

    (void) ngx_hex_dump(digits, &ch, 1);

    ngx_etcd_text_buffer_bytes(buffer, prefix, ngx_strlen(prefix));
    ngx_etcd_text_buffer_bytes(buffer, digits, 2);
}


static void
ngx_etcd_text_buffer_special(ngx_etcd_text_buffer_t *buffer, u_char ch,
    const char *control)
{
    switch (ch) {

    case '"':
    case '\\':
        ngx_etcd_text_buffer_literal(buffer, "\\");
        ngx_etcd_text_buffer_bytes(buffer, &ch, 1);
        return;

    case '\n':
        ngx_etcd_text_buffer_literal(buffer, "\\n");
        return;

    default:
        ngx_etcd_text_buffer_hex(buffer, control, ch);
        return;
    }
}


/*
 * "control" is the escape that precedes the two digits of a control
 * character.
 */

void
ngx_etcd_text_buffer_quote(ngx_etcd_text_buffer_t *buffer, ngx_str_t *text,
    const char *control)
{
    u_char     *p, *begun, *last;
    ngx_int_t   valid;

    p = text->data;
    last = p + text->len;
    valid = -1;                         /* not checked yet */

    ngx_etcd_text_buffer_literal(buffer, "\"");

    for ( ;; ) {
        begun = p;

        while (p < last
               && (ngx_etcd_text_buffer_plain[*p >> 5] & (1U << (*p & 0x1f))))
        {
            p++;
        }

        ngx_etcd_text_buffer_bytes(buffer, begun, p - begun);

        if (p == last) {
            break;
        }

        if (*p >= 0x80 && valid == -1) {
            valid = ngx_etcd_utf8_valid(p, last);
        }

        if (*p < 0x80) {
            ngx_etcd_text_buffer_special(buffer, *p++, control);

        } else if (valid) {
            ngx_etcd_text_buffer_bytes(buffer, p++, 1);

        } else {
            ngx_etcd_text_buffer_hex(buffer, "\\\\x", *p++);
        }
    }

    ngx_etcd_text_buffer_literal(buffer, "\"");
}


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
