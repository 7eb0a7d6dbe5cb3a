
/*
 * Copyright (C) nginx-etcd contributors
 *
 * JSON numbers and literals.  jansson evaluates and formats real numbers,
 * which are rare in values.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <jansson.h>
#include <ngx_etcd_json_scan.h>


/* digits that always fit in 64 bits; the limits for 19 digits */

#define NGX_ETCD_JSON_DIGITS    18
#define NGX_ETCD_JSON_POSITIVE  "9223372036854775807"
#define NGX_ETCD_JSON_NEGATIVE  "9223372036854775808"

/* a real number without an exponent, up to this length, is finite */

#define NGX_ETCD_JSON_SMALL     300


static ngx_int_t ngx_etcd_json_literal(ngx_etcd_json_reader_t *reader,
    ngx_etcd_json_t *node);
static ngx_int_t ngx_etcd_json_whole(ngx_etcd_json_reader_t *reader,
    ngx_etcd_json_t *node, u_char *digits);
static ngx_int_t ngx_etcd_json_fraction(ngx_etcd_json_reader_t *reader,
    ngx_etcd_json_t *node, u_char *p);
static u_char *ngx_etcd_json_digits(u_char *p, u_char *last);
static json_t *ngx_etcd_json_real(ngx_str_t *text);


ngx_int_t
ngx_etcd_json_word(ngx_etcd_json_reader_t *reader, ngx_etcd_json_t *node)
{
    u_char  *p, *digits, *last;

    p = reader->p;
    last = reader->last;

    if (*p >= 'a' && *p <= 'z') {
        return ngx_etcd_json_literal(reader, node);
    }

    if (*p == '-') {
        p++;
    }

    digits = p;
    p = ngx_etcd_json_digits(p, last);

    if (p == digits || (*digits == '0' && p - digits > 1)) {
        return ngx_etcd_json_fail(reader, reader->p, "invalid token");
    }

    node->text.data = reader->p;

    if (p < last && (*p == '.' || *p == 'e' || *p == 'E')) {
        return ngx_etcd_json_fraction(reader, node, p);
    }

    node->text.len = p - reader->p;

    return ngx_etcd_json_whole(reader, node, digits);
}


static ngx_int_t
ngx_etcd_json_literal(ngx_etcd_json_reader_t *reader, ngx_etcd_json_t *node)
{
    size_t   len;
    u_char  *p;

    p = reader->p;
    len = reader->last - p;

    if (len >= 4 && ngx_memcmp(p, "true", 4) == 0) {
        node->type = NGX_ETCD_JSON_TRUE;
        len = 4;

    } else if (len >= 5 && ngx_memcmp(p, "false", 5) == 0) {
        node->type = NGX_ETCD_JSON_FALSE;
        len = 5;

    } else if (len >= 4 && ngx_memcmp(p, "null", 4) == 0) {
        node->type = NGX_ETCD_JSON_NULL;
        len = 4;

    } else {
        return ngx_etcd_json_fail(reader, p, "invalid token");
    }

    reader->p += len;

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_json_whole(ngx_etcd_json_reader_t *reader, ngx_etcd_json_t *node,
    u_char *digits)
{
    char    *most;
    size_t   n;

    n = node->text.data + node->text.len - digits;

    if (n > NGX_ETCD_JSON_DIGITS) {
        most = (digits != node->text.data) ? NGX_ETCD_JSON_NEGATIVE
                                           : NGX_ETCD_JSON_POSITIVE;

        if (n > NGX_ETCD_JSON_DIGITS + 1 || ngx_memcmp(digits, most, n) > 0) {
            return ngx_etcd_json_fail(reader, reader->p, "too big integer");
        }
    }

    node->type = NGX_ETCD_JSON_INTEGER;
    reader->p += node->text.len;

    return NGX_OK;
}


/* p points past the digits of the integer part. */

static ngx_int_t
ngx_etcd_json_fraction(ngx_etcd_json_reader_t *reader, ngx_etcd_json_t *node,
    u_char *p)
{
    u_char      *digits, *last;
    json_t      *real;
    ngx_uint_t   check;

    last = reader->last;
    digits = NULL;
    check = 0;

    if (*p == '.') {
        digits = ++p;
        p = ngx_etcd_json_digits(p, last);
    }

    if (p != digits && p < last && (*p == 'e' || *p == 'E')) {
        check = 1;
        p++;

        if (p < last && (*p == '+' || *p == '-')) {
            p++;
        }

        digits = p;
        p = ngx_etcd_json_digits(p, last);
    }

    if (p == digits) {
        return ngx_etcd_json_fail(reader, reader->p, "invalid token");
    }

    node->type = NGX_ETCD_JSON_REAL;
    node->text.len = p - reader->p;

    if (check || node->text.len > NGX_ETCD_JSON_SMALL) {
        real = ngx_etcd_json_real(&node->text);

        if (real == NULL) {
            return ngx_etcd_json_fail(reader, reader->p,
                                      "real number overflow");
        }

        json_decref(real);
    }

    reader->p = p;

    return NGX_OK;
}


static u_char *
ngx_etcd_json_digits(u_char *p, u_char *last)
{
    while (p < last && *p >= '0' && *p <= '9') {
        p++;
    }

    return p;
}


/* NULL: out of range, or no memory. */

static json_t *
ngx_etcd_json_real(ngx_str_t *text)
{
    return json_loadb((char *) text->data, text->len, JSON_DECODE_ANY, NULL);
}


int64_t
ngx_etcd_json_integer(ngx_etcd_json_t *json)
{
    u_char    *p, *last;
    uint64_t   n;

    if (!ngx_etcd_json_is(json, NGX_ETCD_JSON_INTEGER)) {
        return 0;
    }

    n = 0;
    p = json->text.data;
    last = p + json->text.len;

    for (p += (*p == '-'); p < last; p++) {
        n = n * 10 + (*p - '0');
    }

    return (int64_t) ((json->text.data[0] == '-') ? 0 - n : n);
}


ngx_int_t
ngx_etcd_json_scalar(ngx_etcd_json_t *json, u_char *buf, ngx_str_t *text)
{
    json_t  *real;

    switch (json->type) {

    case NGX_ETCD_JSON_NULL:
        ngx_str_set(text, "null");
        return NGX_OK;

    case NGX_ETCD_JSON_FALSE:
        ngx_str_set(text, "false");
        return NGX_OK;

    case NGX_ETCD_JSON_TRUE:
        ngx_str_set(text, "true");
        return NGX_OK;

    case NGX_ETCD_JSON_INTEGER:
        *text = json->text;

        /* other integers have one representation only */

        if (text->len == 2 && text->data[0] == '-' && text->data[1] == '0') {
            ngx_str_set(text, "0");
        }

        return NGX_OK;

    case NGX_ETCD_JSON_REAL:
        real = ngx_etcd_json_real(&json->text);

        text->data = buf;
        text->len = ngx_min(json_dumpb(real, (char *) buf,
                                       NGX_ETCD_JSON_NUMBER, JSON_ENCODE_ANY),
                            NGX_ETCD_JSON_NUMBER);
        json_decref(real);
        return NGX_OK;

    case NGX_ETCD_JSON_STRING:
        *text = json->text;
        return NGX_OK;

    default: /* NGX_ETCD_JSON_ARRAY, NGX_ETCD_JSON_OBJECT */
        return NGX_DECLINED;
    }
}
