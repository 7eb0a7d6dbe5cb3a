
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_writer.h>


static ngx_int_t ngx_etcd_writer_grow(ngx_etcd_writer_t *writer);
static int ngx_etcd_writer_dumped(const char *data, size_t len, void *writer);


void
ngx_etcd_writer_init(ngx_etcd_writer_t *writer, ngx_pool_t *pool,
    ngx_buf_tag_t tag)
{
    ngx_memzero(writer, sizeof(ngx_etcd_writer_t));

    writer->pool = pool;
    writer->tag = tag;
    writer->last = &writer->out;
}


ngx_chain_t *
ngx_etcd_writer_take(ngx_etcd_writer_t *writer)
{
    ngx_chain_t  *out;

    out = writer->out;

    writer->out = NULL;
    writer->last = &writer->out;
    writer->buf = NULL;
    writer->size = 0;

    return out;
}


static ngx_int_t
ngx_etcd_writer_grow(ngx_etcd_writer_t *writer)
{
    ngx_buf_t    *b;
    ngx_chain_t  *cl;

    cl = ngx_chain_get_free_buf(writer->pool, &writer->free);
    if (cl == NULL) {
        return NGX_ERROR;
    }

    b = cl->buf;

    if (b->start == NULL) {
        b->start = ngx_palloc(writer->pool, NGX_ETCD_WRITER_BUFFER);
        if (b->start == NULL) {
            return NGX_ERROR;
        }

        b->end = b->start + NGX_ETCD_WRITER_BUFFER;
        b->tag = writer->tag;
        b->temporary = 1;
    }

    b->pos = b->start;
    b->last = b->start;
    b->flush = 0;

    *writer->last = cl;
    writer->last = &cl->next;
    writer->buf = b;

    return NGX_OK;
}


void
ngx_etcd_writer_bytes(ngx_etcd_writer_t *writer, const void *data, size_t len)
{
    size_t         n;
    ngx_buf_t     *b;
    const u_char  *p;

    p = data;

    while (len != 0 && !writer->failed) {
        b = writer->buf;

        if (b == NULL || b->last == b->end) {

            if (ngx_etcd_writer_grow(writer) != NGX_OK) {
                writer->failed = 1;
            }

            continue;
        }

        n = ngx_min(len, (size_t) (b->end - b->last));

        b->last = ngx_cpymem(b->last, p, n);
        p += n;
        len -= n;
        writer->size += n;
    }
}


void
ngx_etcd_writer_printf(ngx_etcd_writer_t *writer, const char *fmt, ...)
{
    u_char    buf[NGX_ETCD_WRITER_FORMAT], *p;
    va_list   args;

    va_start(args, fmt);
    p = ngx_vslprintf(buf, buf + NGX_ETCD_WRITER_FORMAT, fmt, args);
    va_end(args);

    ngx_etcd_writer_bytes(writer, buf, p - buf);
}


void
ngx_etcd_writer_json(ngx_etcd_writer_t *writer, json_t *json, size_t flags)
{
    if (json == NULL) {
        writer->failed = 1;
        return;
    }

    if (json_dump_callback(json, ngx_etcd_writer_dumped, writer,
                           JSON_COMPACT|JSON_ENCODE_ANY|flags)
        != 0)
    {
        writer->failed = 1;
    }

    json_decref(json);
}


static int
ngx_etcd_writer_dumped(const char *data, size_t len, void *writer)
{
    ngx_etcd_writer_bytes(writer, data, len);

    return 0;
}


void
ngx_etcd_writer_label(ngx_etcd_writer_t *writer, ngx_str_t *value)
{
    u_char       ch;
    size_t       i, len;
    json_t      *string;
    const char  *text;

    string = ngx_etcd_writer_str(value);

    if (string == NULL) {
        writer->failed = 1;
        return;
    }

    text = json_string_value(string);
    len = json_string_length(string);

    for (i = 0; i < len; i++) {
        ch = text[i];

        if (ch == '\n') {
            ngx_etcd_writer_literal(writer, "\\n");

        } else if (ch == '"' || ch == '\\') {
            ngx_etcd_writer_printf(writer, "\\%c", ch);

        } else if (ch < 0x20 || ch == 0x7f) {
            ngx_etcd_writer_printf(writer, "\\\\x%02xd", ch);

        } else {
            ngx_etcd_writer_bytes(writer, &ch, 1);
        }
    }

    json_decref(string);
}


json_t *
ngx_etcd_writer_string(u_char *data, size_t len)
{
    u_char  *buf, *p;
    size_t   i;
    json_t  *string;

    string = json_stringn(len ? (char *) data : "", len);

    if (string != NULL) {
        return string;
    }

    buf = ngx_alloc(len * (sizeof("\\xff") - 1) + 1, ngx_cycle->log);
    if (buf == NULL) {
        return NULL;
    }

    p = buf;

    for (i = 0; i < len; i++) {
        if (data[i] >= 0x80) {
            p = ngx_sprintf(p, "\\x%02xd", data[i]);

        } else {
            *p++ = data[i];
        }
    }

    string = json_stringn((char *) buf, p - buf);

    ngx_free(buf);

    return string;
}
