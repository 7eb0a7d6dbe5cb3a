
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Names and keys as the status writes them: as JSON, and as labels of metrics.
 * An input is a byte that says how much of a buffer was written before, then
 * the name.  What was written is read again.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <jansson.h>
#include <ngx_etcd_text_buffer.h>
#include "fuzz.h"


static void fuzz_json(ngx_str_t *name, size_t before, ngx_pool_t *pool);
static void fuzz_label(ngx_str_t *name, size_t before, ngx_pool_t *pool);
static void fuzz_begin(ngx_etcd_text_buffer_t *writer, size_t before,
    ngx_pool_t *pool);
static ngx_str_t fuzz_written(ngx_etcd_text_buffer_t *writer, size_t before,
    ngx_pool_t *pool);
static ngx_str_t fuzz_shown(ngx_str_t *name, ngx_pool_t *pool);
static u_char *fuzz_unescape(u_char *p, u_char *last, ngx_str_t *text);


static const ngx_etcd_metric_t  fuzz_metric = {
    "a_seconds", NGX_ETCD_METRIC_COUNTER, NGX_ETCD_METRIC_MILLI, "seconds",
    "Some."
};


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t       before;
    ngx_str_t    name;
    ngx_pool_t  *pool;

    if (size == 0) {
        return 0;
    }

    before = NGX_ETCD_TEXT_BUFFER_BUFFER - *data;
    data++;
    size--;

    pool = ngx_create_pool(4096, ngx_cycle->log);
    fuzz_check(pool != NULL);

    name = fuzz_bytes(&data, &size, size);

    fuzz_json(&name, before, pool);
    fuzz_label(&name, before, pool);

    ngx_free(name.data);
    ngx_destroy_pool(pool);

    return 0;
}


static void
fuzz_json(ngx_str_t *name, size_t before, ngx_pool_t *pool)
{
    json_t                  *read, *value;
    ngx_str_t                text, shown;
    ngx_etcd_text_buffer_t   writer;

    fuzz_begin(&writer, before, pool);

    ngx_etcd_text_buffer_literal(&writer, "{\"t\":");
    ngx_etcd_text_buffer_text(&writer, name);
    ngx_etcd_text_buffer_literal(&writer, "}");

    text = fuzz_written(&writer, before, pool);
    shown = fuzz_shown(name, pool);

    read = json_loadb((char *) text.data, text.len,
                      JSON_ALLOW_NUL|JSON_REJECT_DUPLICATES, NULL);
    fuzz_check(read != NULL);
    fuzz_check(json_object_size(read) == 1);

    value = json_object_get(read, "t");

    fuzz_check(json_string_length(value) == shown.len);
    fuzz_check(ngx_memcmp(json_string_value(value), shown.data, shown.len)
               == 0);

    json_decref(read);
}


/* the line has the form a_seconds_total{l="...",m="..."} 1.234 */

static void
fuzz_label(ngx_str_t *name, size_t before, ngx_pool_t *pool)
{
    u_char                   *p, *last;
    ngx_str_t                 text, shown, read;
    ngx_uint_t                i;
    ngx_etcd_text_buffer_t    writer;
    ngx_etcd_metric_label_t   labels[2];

    fuzz_begin(&writer, before, pool);

    labels[0].name = "l";
    labels[0].value = *name;
    labels[1].name = "m";
    labels[1].value = *name;

    ngx_etcd_metric_sample(&writer, &fuzz_metric, labels, 2, 1234);

    text = fuzz_written(&writer, before, pool);
    shown = fuzz_shown(name, pool);

    p = text.data;
    last = text.data + text.len;

    fuzz_check(ngx_strncmp(p, "a_seconds_total{", 16) == 0);
    p += 16;

    for (i = 0; i < 2; i++) {
        fuzz_check(ngx_strncmp(p, i == 0 ? "l=\"" : ",m=\"", 3 + i) == 0);
        p += 3 + i;

        read.data = ngx_pnalloc(pool, text.len);
        fuzz_check(read.data != NULL);

        p = fuzz_unescape(p, last, &read);

        /* control characters are shown longer */

        fuzz_check(read.len >= shown.len);
        fuzz_check(read.len != shown.len
                   || ngx_memcmp(read.data, shown.data, shown.len) == 0);
    }

    fuzz_check(last - p == 8 && ngx_strncmp(p, "} 1.234\n", 8) == 0);
}


static void
fuzz_begin(ngx_etcd_text_buffer_t *writer, size_t before, ngx_pool_t *pool)
{
    static u_char  bytes[NGX_ETCD_TEXT_BUFFER_BUFFER];

    ngx_etcd_text_buffer_init(writer, pool, (ngx_buf_tag_t) &fuzz_metric);
    ngx_etcd_text_buffer_bytes(writer, bytes, before);
}


static ngx_str_t
fuzz_written(ngx_etcd_text_buffer_t *writer, size_t before, ngx_pool_t *pool)
{
    size_t        size;
    u_char       *p;
    ngx_str_t     text;
    ngx_chain_t  *cl;

    fuzz_check(!writer->failed);

    size = writer->size;
    text.data = ngx_pnalloc(pool, size + 1);
    fuzz_check(text.data != NULL);

    p = text.data;

    for (cl = ngx_etcd_text_buffer_take(writer); cl != NULL; cl = cl->next) {
        fuzz_check(cl->buf->last > cl->buf->pos);
        p = ngx_cpymem(p, cl->buf->pos, cl->buf->last - cl->buf->pos);
    }

    fuzz_check((size_t) (p - text.data) == size && size >= before);

    *p = '\0';
    text.data += before;
    text.len = size - before;

    return text;
}


/* UTF-8, as it is to be read: what is none has more bytes than before */

static ngx_str_t
fuzz_shown(ngx_str_t *name, ngx_pool_t *pool)
{
    size_t      i;
    u_char     *p;
    json_t     *valid;
    ngx_str_t   shown;

    shown.data = ngx_pnalloc(pool, name->len * (sizeof("\\xff") - 1) + 1);
    fuzz_check(shown.data != NULL);

    p = shown.data;
    valid = json_stringn(name->len ? (char *) name->data : "", name->len);

    for (i = 0; i < name->len; i++) {
        if (valid != NULL || name->data[i] < 0x80) {
            *p++ = name->data[i];

        } else {
            p = ngx_sprintf(p, "\\x%02xd", name->data[i]);
        }
    }

    shown.len = p - shown.data;

    json_decref(valid);

    fuzz_check(shown.len >= name->len);
    fuzz_check(shown.len != name->len
               || ngx_memcmp(shown.data, name->data, name->len) == 0);

    return shown;
}


/* up to the quote behind it, which is skipped */

static u_char *
fuzz_unescape(u_char *p, u_char *last, ngx_str_t *text)
{
    text->len = 0;

    while (p < last && *p != '"') {

        fuzz_check(*p >= 0x20 && *p != 0x7f);

        if (*p == '\\') {
            p++;
            fuzz_check(p < last && (*p == '\\' || *p == '"' || *p == 'n'));

            text->data[text->len++] = (*p == 'n') ? '\n' : *p;
            p++;
            continue;
        }

        text->data[text->len++] = *p++;
    }

    fuzz_check(p < last);

    return p + 1;
}
