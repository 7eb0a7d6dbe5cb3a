
/*
 * Copyright (C) nginx-etcd contributors
 *
 * JSON strings.  A string without escapes is not copied from the text.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_json_scan.h>
#include <ngx_etcd_utf8.h>


/* the byte repeated eight times */

#define NGX_ETCD_JSON_EACH(c)  ((uint64_t) (c) * 0x0101010101010101ULL)


static u_char *ngx_etcd_json_plain(u_char *p, u_char *last);
static ngx_int_t ngx_etcd_json_copy(ngx_etcd_json_reader_t *reader,
    ngx_str_t *text);
static ngx_int_t ngx_etcd_json_escape(ngx_etcd_json_reader_t *reader);
static ngx_int_t ngx_etcd_json_unicode(ngx_etcd_json_reader_t *reader);
static ngx_int_t ngx_etcd_json_hex(u_char *p, u_char *last);
static ngx_int_t ngx_etcd_json_character(ngx_etcd_json_reader_t *reader,
    ngx_uint_t copied);


ngx_int_t
ngx_etcd_json_string(ngx_etcd_json_reader_t *reader, ngx_str_t *text)
{
    u_char      *p;
    ngx_int_t    rc;
    ngx_uint_t   copied;

    text->data = ++reader->p;
    copied = 0;

    for ( ;; ) {
        p = ngx_etcd_json_plain(reader->p, reader->last);

        if (copied) {
            reader->end = ngx_cpymem(reader->end, reader->p, p - reader->p);
        }

        reader->p = p;

        if (p == reader->last) {
            return ngx_etcd_json_fail(reader, p, "premature end of a string");
        }

        if (*p == '"') {
            break;
        }

        if (*p != '\\') {
            rc = ngx_etcd_json_character(reader, copied);

        } else {
            rc = copied ? NGX_OK : ngx_etcd_json_copy(reader, text);
            copied = 1;

            if (rc == NGX_OK) {
                rc = ngx_etcd_json_escape(reader);
            }
        }

        if (rc != NGX_OK) {
            return NGX_ERROR;
        }
    }

    text->len = (copied ? reader->end : p) - text->data;
    reader->p++;

    return NGX_OK;
}


/*
 * Returns the first byte that is not a plain ASCII character.  Eight bytes
 * are tested at once: the high bit of a byte of the result is set if the byte
 * is above 0x7f, or if the subtraction borrowed, that is, the byte is a
 * control character, a quote or a backslash.  A borrow may also mark a
 * following byte: the bytes of such a word are tested one by one.
 */

static u_char *
ngx_etcd_json_plain(u_char *p, u_char *last)
{
    uint64_t  word, found;

    while (last - p >= (ssize_t) sizeof(uint64_t)) {
        ngx_memcpy(&word, p, sizeof(uint64_t));

        found = word
                | (word - NGX_ETCD_JSON_EACH(0x20))
                | ((word ^ NGX_ETCD_JSON_EACH('"')) - NGX_ETCD_JSON_EACH(1))
                | ((word ^ NGX_ETCD_JSON_EACH('\\')) - NGX_ETCD_JSON_EACH(1));

        if (found & NGX_ETCD_JSON_EACH(0x80)) {
            break;
        }

        p += sizeof(uint64_t);
    }

    while (p < last && *p >= 0x20 && *p < 0x80 && *p != '"' && *p != '\\') {
        p++;
    }

    return p;
}


/*
 * Decodes into the reader's buffer.  A decoded string is never longer than
 * its text and no text is decoded twice: a buffer of the size of the text
 * suffices.
 */

static ngx_int_t
ngx_etcd_json_copy(ngx_etcd_json_reader_t *reader, ngx_str_t *text)
{
    u_char  *p;

    if (reader->decoded == NULL) {
        reader->decoded = ngx_alloc(reader->last - reader->start,
                                    ngx_cycle->log);
        if (reader->decoded == NULL) {
            return ngx_etcd_json_fail(reader, reader->p, "no memory");
        }

        reader->end = reader->decoded;
    }

    p = reader->end;
    reader->end = ngx_cpymem(p, text->data, reader->p - text->data);
    text->data = p;

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_json_escape(ngx_etcd_json_reader_t *reader)
{
    u_char  c;

    c = (reader->last - reader->p > 1) ? reader->p[1] : '\0';

    switch (c) {

    case '"':
    case '\\':
    case '/':
        break;

    case 'b':
        c = '\b';
        break;

    case 'f':
        c = '\f';
        break;

    case 'n':
        c = LF;
        break;

    case 'r':
        c = CR;
        break;

    case 't':
        c = '\t';
        break;

    case 'u':
        return ngx_etcd_json_unicode(reader);

    default:
        return ngx_etcd_json_fail(reader, reader->p, "invalid escape");
    }

    *reader->end++ = c;
    reader->p += 2;

    return NGX_OK;
}


/* \uXXXX, or two of them for a surrogate pair. */

static ngx_int_t
ngx_etcd_json_unicode(ngx_etcd_json_reader_t *reader)
{
    u_char     *p;
    ngx_int_t   c, low;

    p = reader->p;
    c = ngx_etcd_json_hex(p, reader->last);

    if (c == 0) {
        return ngx_etcd_json_fail(reader, p, "\\u0000 is not allowed");
    }

    if (c >= 0xd800 && c < 0xdc00) {
        low = ngx_etcd_json_hex(p + 6, reader->last);

        if (low < 0xdc00 || low > 0xdfff) {
            return ngx_etcd_json_fail(reader, p, "invalid Unicode escape");
        }

        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        p += 6;
    }

    if (c == NGX_ERROR || (c >= 0xdc00 && c <= 0xdfff)) {
        return ngx_etcd_json_fail(reader, p, "invalid Unicode escape");
    }

    reader->end = ngx_etcd_utf8_encode(reader->end, (uint32_t) c);
    reader->p = p + 6;

    return NGX_OK;
}


/* Reads "\uXXXX"; p may be the end. */

static ngx_int_t
ngx_etcd_json_hex(u_char *p, u_char *last)
{
    if (last - p < 6 || p[0] != '\\' || p[1] != 'u') {
        return NGX_ERROR;
    }

    return ngx_hextoi(p + 2, 4);
}


/* A multi-byte UTF-8 character. */

static ngx_int_t
ngx_etcd_json_character(ngx_etcd_json_reader_t *reader, ngx_uint_t copied)
{
    char    *what;
    u_char   buf[sizeof("unable to decode byte 0xff")];
    size_t   n;

    n = ngx_etcd_utf8_length(reader->p, reader->last);

    if (*reader->p < 0x20 || n == 0) {
        what = (n == 0) ? "unable to decode byte 0x%02xd%Z"
                        : "control character 0x%02xd%Z";

        ngx_sprintf(buf, what, *reader->p);

        return ngx_etcd_json_fail(reader, reader->p, (char *) buf);
    }

    if (copied) {
        reader->end = ngx_cpymem(reader->end, reader->p, n);
    }

    reader->p += n;

    return NGX_OK;
}
