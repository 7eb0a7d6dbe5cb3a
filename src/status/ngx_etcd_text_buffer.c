
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
