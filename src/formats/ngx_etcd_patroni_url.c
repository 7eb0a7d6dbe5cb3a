
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_address.h>
#include <ngx_etcd_patroni_url.h>
#include <ngx_etcd_str.h>


static const ngx_etcd_patroni_url_t  ngx_etcd_patroni_conn_url = {
    "conn_url",
    { ngx_string("postgres"), ngx_string("postgresql") },
    { 5432, 5432 },
    "does not begin with postgres://HOST"
};

static const ngx_etcd_patroni_url_t  ngx_etcd_patroni_proxy_url = {
    "proxy_url",
    { ngx_string("postgres"), ngx_string("postgresql") },
    { 5432, 5432 },
    "does not begin with postgres://HOST"
};

const ngx_etcd_patroni_url_t  ngx_etcd_patroni_api_url = {
    "api_url",
    { ngx_string("http"), ngx_string("https") },
    { 80, 443 },
    "does not begin with http://HOST or https://HOST"
};


static ngx_int_t
ngx_etcd_patroni_url_text(ngx_etcd_decode_t *d,
    const ngx_etcd_patroni_url_t *url, ngx_str_t *text)
{
    json_t  *json;

    json = json_object_get(d->object, url->field);

    if (json == NULL) {
        return ngx_etcd_decode_invalid(d, url->field, NULL, "is missing");
    }

    if (ngx_etcd_json_string(json, text) != NGX_OK) {
        return ngx_etcd_decode_invalid_json(d, url->field, json,
                                            "is not a string");
    }

    return NGX_OK;
}


ngx_int_t
ngx_etcd_patroni_url_read(ngx_etcd_decode_t *d,
    const ngx_etcd_patroni_url_t *url, ngx_str_t *text)
{
    ngx_int_t  rc;

    ngx_etcd_decode_trim(&d->value);

    rc = ngx_etcd_decode_object(d);

    if (rc == NGX_OK) {
        rc = ngx_etcd_patroni_url_text(d, url, text);
    }

    if (rc == NGX_OK) {
        text->data = ngx_pstrdup(d->pool, text);

        if (text->data == NULL) {
            rc = ngx_etcd_decode_no_memory(d);
        }
    }

    ngx_etcd_json_done(&d->json);

    return rc;
}


/* the "10.0.0.7:5432" of "postgres://user:password@10.0.0.7:5432/db?..." */

static ngx_int_t
ngx_etcd_patroni_url_host(const ngx_etcd_patroni_url_t *url, ngx_str_t *text,
    ngx_uint_t *scheme, ngx_str_t *host)
{
    ngx_uint_t        i;
    ngx_etcd_url_t    uri;
    const ngx_str_t  *name;

    if (ngx_etcd_url_parse(&uri, text) != NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < NGX_ETCD_PATRONI_SCHEMES; i++) {
        name = &url->schemes[i];

        if (ngx_etcd_str_equal(&uri.scheme, name)) {
            *scheme = i;
            *host = uri.authority;

            return NGX_OK;
        }
    }

    return NGX_ERROR;
}


ngx_int_t
ngx_etcd_patroni_url_add(ngx_etcd_decode_t *d,
    const ngx_etcd_patroni_url_t *url, ngx_str_t *text)
{
    ngx_str_t           host;
    ngx_uint_t          scheme;
    ngx_etcd_member_t  *member;

    member = ngx_etcd_decode_add(d);
    if (member == NULL) {
        return NGX_ERROR;
    }

    if (ngx_etcd_patroni_url_host(url, text, &scheme, &host) != NGX_OK) {
        return ngx_etcd_decode_invalid(d, url->field, text, url->otherwise);
    }

    return ngx_etcd_address_set(d, member, url->field, &host,
                                url->ports[scheme]);
}


static ngx_int_t
ngx_etcd_patroni_decode(ngx_etcd_decode_t *d)
{
    ngx_str_t                      text;
    const ngx_etcd_patroni_url_t  *url;

    url = (d->conf->format == &ngx_etcd_patroni_proxy_format)
          ? &ngx_etcd_patroni_proxy_url : &ngx_etcd_patroni_conn_url;

    return (ngx_etcd_patroni_url_text(d, url, &text) == NGX_OK)
           ? ngx_etcd_patroni_url_add(d, url, &text) : NGX_ERROR;
}


const ngx_etcd_format_t  ngx_etcd_patroni_format = {
    .name = ngx_string("patroni"),
    .value = NGX_ETCD_VALUE_JSON,
    .decode = ngx_etcd_patroni_decode
};

const ngx_etcd_format_t  ngx_etcd_patroni_proxy_format = {
    .name = ngx_string("patroni proxy_url"),
    .value = NGX_ETCD_VALUE_JSON,
    .decode = ngx_etcd_patroni_decode
};


ngx_int_t
ngx_etcd_patroni_url_scheme(const ngx_etcd_patroni_url_t *url,
    ngx_str_t *text, ngx_uint_t *scheme, ngx_str_t *host)
{
    u_char  *p, *last;

    if (ngx_etcd_patroni_url_host(url, text, scheme, host) != NGX_OK) {
        return NGX_DECLINED;
    }

    p = host->data;
    last = p + host->len;

    if (*p == '[') {
        p = ngx_strlchr(p, last, ']');
    }

    p = (p != NULL) ? ngx_strlchr(p, last, ':') : NULL;

    if (p != NULL) {
        host->len = p - host->data;
    }

    if (host->len > 2 && host->data[0] == '['
        && host->data[host->len - 1] == ']')
    {
        host->data++;
        host->len -= 2;
    }

    return NGX_OK;
}
