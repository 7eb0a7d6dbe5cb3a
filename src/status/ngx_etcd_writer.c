
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_utf8.h>
#include <ngx_etcd_writer.h>


/*
 * bitmap of the bytes that are written as they are: ASCII except control
 * characters, '"' and '\\'
 */

static const uint32_t  ngx_etcd_writer_plain[] = {
    0x00000000, 0xfffffffb, 0xefffffff, 0x7fffffff,
    0x00000000, 0x00000000, 0x00000000, 0x00000000
};


static ngx_int_t ngx_etcd_writer_grow(ngx_etcd_writer_t *writer);
static void ngx_etcd_writer_quote(ngx_etcd_writer_t *writer, ngx_str_t *text,
    const char *control);
static void ngx_etcd_writer_special(ngx_etcd_writer_t *writer, u_char ch,
    const char *control);
static void ngx_etcd_writer_hex(ngx_etcd_writer_t *writer, const char *prefix,
    u_char ch);


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
ngx_etcd_writer_spill(ngx_etcd_writer_t *writer, const void *data, size_t len)
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
ngx_etcd_writer_number(ngx_etcd_writer_t *writer, int64_t n)
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

    ngx_etcd_writer_bytes(writer, p, buf + NGX_INT64_LEN - p);
}


void
ngx_etcd_writer_text(ngx_etcd_writer_t *writer, ngx_str_t *text)
{
    ngx_etcd_writer_quote(writer, text, "\\u00");
}


void
ngx_etcd_writer_label(ngx_etcd_writer_t *writer, ngx_str_t *value)
{
    ngx_etcd_writer_quote(writer, value, "\\\\x");
}


/*
 * "control" is the escape that precedes the two digits of a control
 * character.
 */

static void
ngx_etcd_writer_quote(ngx_etcd_writer_t *writer, ngx_str_t *text,
    const char *control)
{
    u_char     *p, *begun, *last;
    ngx_int_t   valid;

    p = text->data;
    last = p + text->len;
    valid = -1;                         /* not checked yet */

    ngx_etcd_writer_literal(writer, "\"");

    for ( ;; ) {
        begun = p;

        while (p < last
               && (ngx_etcd_writer_plain[*p >> 5] & (1U << (*p & 0x1f))))
        {
            p++;
        }

        ngx_etcd_writer_bytes(writer, begun, p - begun);

        if (p == last) {
            break;
        }

        if (*p >= 0x80 && valid == -1) {
            valid = ngx_etcd_utf8_valid(p, last);
        }

        if (*p < 0x80) {
            ngx_etcd_writer_special(writer, *p++, control);

        } else if (valid) {
            ngx_etcd_writer_bytes(writer, p++, 1);

        } else {
            ngx_etcd_writer_hex(writer, "\\\\x", *p++);
        }
    }

    ngx_etcd_writer_literal(writer, "\"");
}


static void
ngx_etcd_writer_special(ngx_etcd_writer_t *writer, u_char ch,
    const char *control)
{
    switch (ch) {

    case '"':
    case '\\':
        ngx_etcd_writer_literal(writer, "\\");
        ngx_etcd_writer_bytes(writer, &ch, 1);
        return;

    case '\n':
        ngx_etcd_writer_literal(writer, "\\n");
        return;

    default:
        ngx_etcd_writer_hex(writer, control, ch);
        return;
    }
}


static void
ngx_etcd_writer_hex(ngx_etcd_writer_t *writer, const char *prefix, u_char ch)
{
    u_char  digits[2];

    (void) ngx_hex_dump(digits, &ch, 1);

    ngx_etcd_writer_bytes(writer, prefix, ngx_strlen(prefix));
    ngx_etcd_writer_bytes(writer, digits, 2);
}
