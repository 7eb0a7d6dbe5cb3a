
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_address.h>
#include <ngx_etcd_attribute.h>
#include <ngx_etcd_format_url.h>
#include <ngx_etcd_json_layout.h>
#include <ngx_etcd_str.h>


/* maximum length of a decoded query argument */

#define NGX_ETCD_FORMAT_ARGUMENT  256

#define NGX_ETCD_FORMAT_LAST      "last segment of the key"


static ngx_etcd_field_t  ngx_etcd_dubbo_fields[] = {
    NGX_ETCD_FIELD("weight", WEIGHT, NGX_ETCD_FIELD_NEGATIVE),
    NGX_ETCD_FIELD("disabled", DRAIN, 0),
    NGX_ETCD_FIELD("enabled", DRAIN, NGX_ETCD_FIELD_NOT),
    ngx_etcd_null_field
};

static ngx_etcd_field_t  ngx_etcd_rpcx_fields[] = {
    NGX_ETCD_FIELD("weight", WEIGHT, 0),
    { ngx_string("state"), NGX_ETCD_ATTR_DRAIN, 0, ngx_string("inactive") },
    ngx_etcd_null_field
};


/* NGX_DECLINED: the value cannot be decoded and is returned as it is. */

static ngx_int_t
ngx_etcd_query_next(ngx_str_t *query, ngx_str_t *name, ngx_str_t *value,
    u_char *buf)
{
    ngx_str_t  text;

    if (ngx_etcd_url_argument(query, name, value) == NGX_DONE) {
        return NGX_DONE;
    }

    text.data = buf;

    if (value->len > NGX_ETCD_FORMAT_ARGUMENT
        || ngx_etcd_url_decode(&text, value, 1) != NGX_OK)
    {
        return NGX_DECLINED;
    }

    *value = text;

    return NGX_OK;
}


static ngx_uint_t
ngx_etcd_query_tagged(ngx_str_t query, ngx_etcd_tag_t *tag)
{
    u_char      buf[NGX_ETCD_FORMAT_ARGUMENT];
    ngx_int_t   rc;
    ngx_str_t   name, value;

    while ((rc = ngx_etcd_query_next(&query, &name, &value, buf))
           != NGX_DONE)
    {
        if (rc == NGX_OK
            && ngx_etcd_str_equal(&name, &tag->key)
            && ngx_etcd_json_layout_tag_is(tag, &value))
        {
            return 1;
        }
    }

    return 0;
}


static ngx_uint_t
ngx_etcd_query_chosen(ngx_etcd_decode_t *d, ngx_str_t *query)
{
    ngx_uint_t       i;
    ngx_etcd_tag_t  *tag;

    if (d->conf->tags == NULL) {
        return 1;
    }

    tag = d->conf->tags->elts;

    for (i = 0; i < d->conf->tags->nelts; i++) {
        if (ngx_etcd_query_tagged(*query, &tag[i]) == tag[i].not) {
            ngx_etcd_decode_unused(d, NGX_ETCD_UNUSED_TAG, &tag[i].text);
            return 0;
        }
    }

    return 1;
}


static void
ngx_etcd_query_fields(ngx_etcd_decode_t *d, ngx_etcd_member_t *member,
    ngx_etcd_field_t *fields, ngx_str_t query)
{
    u_char             buf[NGX_ETCD_FORMAT_ARGUMENT];
    ngx_int_t          rc;
    ngx_str_t          name, value;
    ngx_etcd_field_t  *field;

    while ((rc = ngx_etcd_query_next(&query, &name, &value, buf))
           != NGX_DONE)
    {
        for (field = fields; field->path.data != NULL; field++) {

            if (!ngx_etcd_str_equal(&field->path, &name)) {
                continue;
            }

            if (rc == NGX_DECLINED) {
                ngx_etcd_attribute_invalid(d, member, field, &value,
                                           "is too long or has an invalid "
                                           "percent-encoding");
                continue;
            }

            ngx_etcd_attribute_text(d, member, field, &value);
        }
    }
}


static ngx_int_t
ngx_etcd_format_query(ngx_etcd_decode_t *d, ngx_etcd_url_t *url,
    ngx_etcd_field_t *fields)
{
    ngx_int_t           rc;
    ngx_etcd_member_t  *member;

    if (!ngx_etcd_query_chosen(d, &url->query)) {
        return NGX_DECLINED;
    }

    member = ngx_etcd_decode_add(d);
    if (member == NULL) {
        return NGX_ERROR;
    }

    rc = ngx_etcd_address_set_url(d, member, NGX_ETCD_FORMAT_LAST, url);

    if (rc == NGX_DECLINED) {
        (void) ngx_etcd_decode_invalid(d, "scheme", &url->scheme,
                                       "is not that of \"scheme=\"");
        ngx_etcd_decode_unused(d, NGX_ETCD_UNUSED_SCHEME, d->reason);
    }

    if (rc != NGX_OK) {
        return rc;
    }

    member->attr.near = (d->conf->prefer.key.len != 0
                         && ngx_etcd_query_tagged(url->query,
                                                  &d->conf->prefer));

    ngx_etcd_query_fields(d, member, fields, url->query);

    return NGX_OK;
}


ngx_int_t
ngx_etcd_format_dubbo(ngx_etcd_decode_t *d)
{
    char            *err;
    u_char           buf[NGX_ETCD_DECODE_MAX_KEY];
    ngx_str_t        parent, segment, text;
    ngx_etcd_url_t   url;

    ngx_etcd_url_segments(&d->key, &parent, &segment);

    if (!ngx_etcd_str_is(&parent, "providers")) {
        return NGX_DECLINED;
    }

    text.data = buf;

    if (ngx_etcd_url_decode(&text, &segment, 0) != NGX_OK) {
        return ngx_etcd_decode_invalid(d, NGX_ETCD_FORMAT_LAST, &segment,
                                       "has an invalid percent-encoding");
    }

    err = ngx_etcd_url_parse(&url, &text);
    if (err != NULL) {
        return ngx_etcd_decode_invalid(d, NGX_ETCD_FORMAT_LAST, &text, err);
    }

    return ngx_etcd_format_query(d, &url, ngx_etcd_dubbo_fields);
}


ngx_int_t
ngx_etcd_format_rpcx(ngx_etcd_decode_t *d)
{
    ngx_str_t       parent, segment;
    ngx_etcd_url_t  url;

    ngx_etcd_url_segments(&d->key, &parent, &segment);

    if (!ngx_etcd_str_cut(&segment, '@', &url.scheme, &url.authority)) {
        return NGX_DECLINED;
    }

    url.query = d->value;

    return ngx_etcd_format_query(d, &url, ngx_etcd_rpcx_fields);
}


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
