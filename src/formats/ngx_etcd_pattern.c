
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_pattern.h>
#include <ngx_etcd_str.h>


ngx_uint_t
ngx_etcd_pattern_has_variable(ngx_str_t *text)
{
    return ngx_strlchr(text->data, text->data + text->len, '$') != NULL;
}


/* The literal part is everything before the first variable. */

static ngx_int_t
ngx_etcd_pattern_literal(ngx_etcd_pattern_t *pattern, ngx_uint_t rooted,
    char **err)
{
    u_char     *p;
    ngx_str_t  *text, *literal;

    text = &pattern->text;
    literal = &pattern->literal;

    p = ngx_strlchr(text->data, text->data + text->len, '$');

    if (p == NULL) {
        *err = "it has no variable";
        return NGX_DECLINED;
    }

    if (text->len > NGX_ETCD_PATTERN_PREFIX) {
        *err = "it is longer than 4096 bytes";
        return NGX_DECLINED;
    }

    literal->data = text->data;
    literal->len = p - text->data;

    if (!rooted && literal->len == 0) {
        *err = "it begins with a variable, all keys of etcd would be watched";
        return NGX_DECLINED;
    }

    if (literal->len != 0 && p[-1] != '/') {
        *err = "a segment mixes text and a variable";
        return NGX_DECLINED;
    }

    if (!rooted && literal->len == 1) {
        *err = "it has only \"/\" before the first variable, all keys of etcd "
               "would be watched";
        return NGX_DECLINED;
    }

    return NGX_OK;
}


/* Returns the end of the segment at p. */

static u_char *
ngx_etcd_pattern_end(u_char *p, u_char *last)
{
    while (p < last && *p != '/') {
        p++;
    }

    return p;
}


/* Reduces "$name" or "${name}" to the name.  Returns what is wrong, or NULL. */

static char *
ngx_etcd_pattern_variable(ngx_str_t *text)
{
    u_char      ch;
    ngx_str_t   name;
    ngx_uint_t  i;

    name = *text;

    if (name.data[0] != '$') {
        return "a segment mixes text and a variable";
    }

    name.data++;
    name.len--;

    if (name.len != 0 && name.data[0] == '{') {

        if (ngx_strlchr(name.data, name.data + name.len, '}') == NULL) {
            return "a variable has no closing bracket";
        }

        if (name.data[name.len - 1] != '}') {
            return "a segment mixes text and a variable";
        }

        name.data++;
        name.len -= 2;
    }

    if (name.len == 0) {
        return "a variable has no name";
    }

    for (i = 0; i < name.len; i++) {
        ch = ngx_tolower(name.data[i]);

        if ((ch < 'a' || ch > 'z') && (ch < '0' || ch > '9') && ch != '_') {
            return (i == 0) ? "a variable has no name"
                            : "a segment mixes text and a variable";
        }
    }

    *text = name;

    return NULL;
}


static ngx_int_t
ngx_etcd_pattern_segment(ngx_etcd_pattern_t *pattern, ngx_str_t *text,
    char **err)
{
    ngx_etcd_pattern_segment_t  *segment;

    static const ngx_str_t  ssl = ngx_string("ssl_server_name");
    static const ngx_str_t  preread = ngx_string("ssl_preread_server_name");

    if (text->len == 0) {
        *err = "it has \"//\" after a variable";
        return NGX_DECLINED;
    }

    segment = ngx_array_push(&pattern->segments);
    if (segment == NULL) {
        return NGX_ERROR;
    }

    segment->text = *text;
    segment->variable = ngx_etcd_pattern_has_variable(text);
    segment->lower = 0;

    if (!segment->variable) {
        return NGX_OK;
    }

    *err = ngx_etcd_pattern_variable(&segment->text);

    if (*err != NULL) {
        return NGX_DECLINED;
    }

    /* nginx finds variables without regard to case */

    segment->lower = ngx_etcd_str_alike(&segment->text, &ssl)
                     || ngx_etcd_str_alike(&segment->text, &preread);

    if (++pattern->nvariables > NGX_ETCD_PATTERN_VARIABLES) {
        *err = "it has more than 8 variables";
        return NGX_DECLINED;
    }

    return NGX_OK;
}


ngx_int_t
ngx_etcd_pattern_parse(ngx_etcd_pattern_t *pattern, ngx_str_t *text,
    ngx_uint_t rooted, ngx_pool_t *pool, char **err)
{
    u_char     *p, *last;
    ngx_int_t   rc;
    ngx_str_t   segment;

    ngx_memzero(pattern, sizeof(ngx_etcd_pattern_t));
    pattern->text = *text;

    rc = ngx_etcd_pattern_literal(pattern, rooted, err);

    if (rc != NGX_OK) {
        return rc;
    }

    if (ngx_array_init(&pattern->segments, pool, 4,
                       sizeof(ngx_etcd_pattern_segment_t))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    p = text->data + pattern->literal.len;
    last = text->data + text->len;

    while (p < last) {
        segment.data = p;
        p = ngx_etcd_pattern_end(p, last);
        segment.len = p - segment.data;

        rc = ngx_etcd_pattern_segment(pattern, &segment, err);

        if (rc != NGX_OK) {
            return rc;
        }

        pattern->below = (p < last);
        p += pattern->below;
    }

    return NGX_OK;
}


/* Returns 1 if a variable may have the value. */

static ngx_uint_t
ngx_etcd_pattern_valid(ngx_str_t *value)
{
    size_t  i, dots;

    if (value->len == 0 || value->len > NGX_ETCD_PATTERN_SEGMENT) {
        return 0;
    }

    dots = 0;

    for (i = 0; i < value->len; i++) {
        switch (value->data[i]) {

        case '\0':
        case '/':
            return 0;

        case '.':
            dots++;
        }
    }

    return (dots != value->len || dots > 2)
           && !ngx_etcd_str_is(value, NGX_ETCD_PATTERN_NOT);
}


size_t
ngx_etcd_pattern_match(ngx_etcd_pattern_t *pattern, ngx_str_t *key)
{
    size_t                       len;
    u_char                      *p, *last;
    ngx_str_t                    text;
    ngx_uint_t                   i;
    ngx_etcd_pattern_segment_t  *segment;

    if (key->len < pattern->literal.len
        || ngx_memcmp(key->data, pattern->literal.data, pattern->literal.len)
           != 0)
    {
        return 0;
    }

    p = key->data + pattern->literal.len;
    last = key->data + key->len;
    segment = pattern->segments.elts;

    for (i = 0; i < pattern->segments.nelts; i++) {

        if (i != 0) {
            if (p == last) {
                return 0;
            }

            p++;
        }

        text.data = p;
        p = ngx_etcd_pattern_end(p, last);
        text.len = p - text.data;

        if (segment[i].variable ? !ngx_etcd_pattern_valid(&text)
                                : !ngx_etcd_str_equal(&text, &segment[i].text))
        {
            return 0;
        }
    }

    if (pattern->below && (p == last || ++p == last)) {
        return 0;
    }

    len = p - key->data;

    return (len <= NGX_ETCD_PATTERN_PREFIX) ? len : 0;
}


ngx_int_t
ngx_etcd_pattern_prefix(ngx_etcd_pattern_t *pattern, ngx_str_t *values,
    u_char *buf, ngx_str_t *prefix)
{
    u_char                      *p, *last;
    ngx_str_t                   *text;
    ngx_uint_t                   i;
    ngx_etcd_pattern_segment_t  *segment;

    last = buf + NGX_ETCD_PATTERN_PREFIX;
    p = ngx_cpymem(buf, pattern->literal.data, pattern->literal.len);

    segment = pattern->segments.elts;

    for (i = 0; i < pattern->segments.nelts; i++) {
        text = &segment[i].text;

        if (segment[i].variable) {
            text = values++;

            if (!ngx_etcd_pattern_valid(text)) {
                return NGX_DECLINED;
            }
        }

        if (text->len + (i != 0) > (size_t) (last - p)) {
            return NGX_DECLINED;
        }

        if (i != 0) {
            *p++ = '/';
        }

        if (segment[i].lower) {
            ngx_strlow(p, text->data, text->len);
            p += text->len;

        } else {
            p = ngx_cpymem(p, text->data, text->len);
        }
    }

    if (pattern->below) {
        if (p == last) {
            return NGX_DECLINED;
        }

        *p++ = '/';
    }

    prefix->data = buf;
    prefix->len = p - buf;

    return NGX_OK;
}


void
ngx_etcd_pattern_name(ngx_etcd_pattern_t *pattern, ngx_str_t *prefix,
    ngx_str_t *name)
{
    name->data = prefix->data + pattern->literal.len;
    name->len = prefix->len - pattern->literal.len - pattern->below;
}
