
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_str.h>
#include <ngx_etcd_uri.h>


typedef struct {
    ngx_str_t                       scheme;
    ngx_uint_t                      port;
} ngx_etcd_uri_port_t;


static const ngx_etcd_uri_port_t  ngx_etcd_uri_ports[] = {

    { ngx_string("http"), 80 },
    { ngx_string("h2c"), 80 },
    { ngx_string("ws"), 80 },
    { ngx_string("https"), 443 },
    { ngx_string("wss"), 443 },

    { ngx_null_string, 0 }
};


/* Returns the first of up to three delimiters, or the end. */

static u_char *
ngx_etcd_uri_part(u_char *p, u_char *last, u_char a, u_char b, u_char c)
{
    while (p < last && *p != a && *p != b && *p != c) {
        p++;
    }

    return p;
}


char *
ngx_etcd_uri_parse(ngx_etcd_uri_t *url, ngx_str_t *text)
{
    u_char  *p, *at, *end, *last;

    p = text->data;
    last = p + text->len;

    url->scheme.data = p;
    url->scheme.len = 0;

    end = ngx_strlchr(p, last, ':');

    if (end != NULL && end != p && last - end >= 3
        && end[1] == '/' && end[2] == '/')
    {
        url->scheme.len = end - p;
        p = end + 3;
    }

    end = ngx_etcd_uri_part(p, last, '/', '?', '#');

    url->user.data = p;

    while ((at = ngx_strlchr(p, end, '@')) != NULL) {
        p = at + 1;
    }

    url->user.len = p - url->user.data;

    url->authority.data = p;
    url->authority.len = end - p;

    p = ngx_etcd_uri_part(end, last, '?', '#', '#');

    if (p < last && *p == '?') {
        p++;
    }

    url->query.data = p;
    url->query.len = ngx_etcd_uri_part(p, last, '#', '#', '#') - p;

    if (url->scheme.len == 0) {
        return "is not a URL";
    }

    return url->authority.len ? NULL : "has no host";
}


ngx_uint_t
ngx_etcd_uri_port(ngx_str_t *scheme)
{
    const ngx_etcd_uri_port_t  *row;

    for (row = ngx_etcd_uri_ports; row->port != 0; row++) {

        if (ngx_etcd_str_alike(&row->scheme, scheme)) {
            return row->port;
        }
    }

    return 0;
}


ngx_int_t
ngx_etcd_uri_argument(ngx_str_t *query, ngx_str_t *name, ngx_str_t *value)
{
    u_char  *p, *end, *last;

    if (query->len == 0) {
        return NGX_DONE;
    }

    last = query->data + query->len;
    end = ngx_etcd_uri_part(query->data, last, '&', '&', '&');
    p = ngx_etcd_uri_part(query->data, end, '=', '=', '=');

    name->data = query->data;
    name->len = p - query->data;

    if (p < end) {
        p++;
    }

    value->data = p;
    value->len = end - p;

    if (end < last) {
        end++;
    }

    query->data = end;
    query->len = last - end;

    return NGX_OK;
}


ngx_int_t
ngx_etcd_uri_decode(ngx_str_t *dst, ngx_str_t *src, ngx_uint_t query)
{
    u_char     *p, *d, *last;
    ngx_int_t   c;

    d = dst->data;
    last = src->data + src->len;

    for (p = src->data; p < last; p++) {

        if (*p == '+' && query) {
            *d++ = ' ';
            continue;
        }

        if (*p != '%') {
            *d++ = *p;
            continue;
        }

        c = (last - p > 2) ? ngx_hextoi(p + 1, 2) : NGX_ERROR;

        if (c == NGX_ERROR) {
            return NGX_ERROR;
        }

        *d++ = (u_char) c;
        p += 2;
    }

    dst->len = d - dst->data;

    return NGX_OK;
}


void
ngx_etcd_uri_segments(ngx_str_t *path, ngx_str_t *parent, ngx_str_t *segment)
{
    u_char  *p, *last;

    last = path->data + path->len;

    for (p = last; p > path->data && p[-1] != '/'; p--) { /* void */ }

    segment->data = p;
    segment->len = last - p;

    last = (p > path->data) ? p - 1 : p;

    for (p = last; p > path->data && p[-1] != '/'; p--) { /* void */ }

    parent->data = p;
    parent->len = last - p;
}
