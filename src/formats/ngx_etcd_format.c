
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_address.h>
#include <ngx_etcd_attribute.h>
#include <ngx_etcd_format.h>
#include <ngx_etcd_format_url.h>
#include <ngx_etcd_json.h>
#include <ngx_etcd_json_layout.h>
#include <ngx_etcd_str.h>


/* The places of the formats that "auto" chooses in the table. */

enum {
    NGX_ETCD_FORMAT_JSON = 3,
    NGX_ETCD_FORMAT_GRPC,
    NGX_ETCD_FORMAT_KITEX,
    NGX_ETCD_FORMAT_UPSYNC = 15
};


static ngx_int_t ngx_etcd_format_auto(ngx_etcd_decode_t *d);


static ngx_str_t  ngx_etcd_format_no_scheme =
    ngx_string("does not have the scheme of \"scheme=\"");


/* Kitex takes a weight of 0 for none. */

static ngx_etcd_field_t  ngx_etcd_kitex_fields[] = {
    NGX_ETCD_ATTRIBUTE_FIELDS(NGX_ETCD_FIELD_ZERO)
};

/* the path read by the balancers of Kratos */

static ngx_etcd_field_t  ngx_etcd_kratos_fields[] = {
    NGX_ETCD_FIELD("/metadata/weight", WEIGHT, 0),
    ngx_etcd_null_field
};

static ngx_etcd_field_t  ngx_etcd_dubbo_app_fields[] = {
    NGX_ETCD_FIELD("/Weight", WEIGHT, NGX_ETCD_FIELD_ZERO),
    NGX_ETCD_FIELD("/Enable", DRAIN, NGX_ETCD_FIELD_NOT),
    NGX_ETCD_FIELD("/Healthy", DRAIN, NGX_ETCD_FIELD_NOT),
    ngx_etcd_null_field
};

static ngx_etcd_field_t  ngx_etcd_milvus_fields[] = {
    NGX_ETCD_FIELD("/Stopping", DRAIN, 0),
    ngx_etcd_null_field
};

static ngx_etcd_field_t  ngx_etcd_skydns_fields[] = {
    NGX_ETCD_FIELD("/weight", WEIGHT, NGX_ETCD_FIELD_ZERO),
    NGX_ETCD_FIELD("/priority", PRIORITY, NGX_ETCD_FIELD_ZERO),
    ngx_etcd_null_field
};

static ngx_etcd_field_t  ngx_etcd_apisix_fields[] = {
    NGX_ETCD_FIELD("/weight", WEIGHT, 0),
    NGX_ETCD_FIELD("/priority", PRECEDENCE, 0),
    ngx_etcd_null_field
};

static ngx_etcd_field_t  ngx_etcd_traefik_fields[] = {
    NGX_ETCD_FIELD("/weight", WEIGHT, 0),
    ngx_etcd_null_field
};

/* 1 and 2, abnormal and busy, are written by releases before 3.2 */

static ngx_etcd_field_t  ngx_etcd_dolphinscheduler_fields[] = {
    NGX_ETCD_FIELD("/workerHostWeight", WEIGHT, 0),
    NGX_ETCD_FIELD_WORD("/serverStatus", DRAIN, "BUSY"),
    NGX_ETCD_FIELD_WORD("/serverStatus", DRAIN, "1"),
    NGX_ETCD_FIELD_WORD("/serverStatus", DRAIN, "2"),
    ngx_etcd_null_field
};


static ngx_int_t
ngx_etcd_format_plain(ngx_etcd_decode_t *d)
{
    ngx_etcd_member_t  *member;

    member = ngx_etcd_decode_add(d);
    if (member == NULL) {
        return NGX_ERROR;
    }

    return ngx_etcd_address_set(d, member, "address", &d->value, 0);
}


static ngx_int_t
ngx_etcd_format_key(ngx_etcd_decode_t *d)
{
    ngx_etcd_member_t  *member;

    member = ngx_etcd_decode_add(d);
    if (member == NULL) {
        return NGX_ERROR;
    }

    return ngx_etcd_address_set_key(d, member);
}


/* The value is an object, or empty: the address is in the key. */

static ngx_int_t
ngx_etcd_format_upsync(ngx_etcd_decode_t *d)
{
    if (d->value.len == 0) {
        return ngx_etcd_format_key(d);
    }

    return (ngx_etcd_decode_object(d) == NGX_OK)
           ? ngx_etcd_json_layout_decode(d) : NGX_ERROR;
}


/* A value that is null is no value. */

static ngx_uint_t
ngx_etcd_format_has(ngx_etcd_decode_t *d, char *name)
{
    json_t  *value;

    value = json_object_get(d->object, name);

    return value != NULL && !json_is_null(value);
}


/* Decodes an instance with the port of the wanted protocol. */

static ngx_int_t
ngx_etcd_format_dubbo_endpoint(ngx_etcd_decode_t *d, json_t *endpoints)
{
    size_t   i;
    json_t  *endpoint;

    json_array_foreach(endpoints, i, endpoint) {

        if (ngx_etcd_json_equals(json_object_get(endpoint, "protocol"),
                                 &d->conf->scheme))
        {
            d->port = json_object_get(endpoint, "port");
            return ngx_etcd_json_layout_decode(d);
        }
    }

    ngx_etcd_decode_unused(d, NGX_ETCD_UNUSED_SCHEME,
                           &ngx_etcd_format_no_scheme);

    return NGX_DECLINED;
}


/* The ports of all protocols are JSON in a string, "dubbo.endpoints". */

static ngx_int_t
ngx_etcd_format_dubbo_ports(ngx_etcd_decode_t *d, ngx_str_t *text)
{
    ngx_int_t        rc;
    ngx_etcd_json_t  json;

    if (ngx_etcd_json_read(&json, text, 0) == NGX_ERROR) {
        return ngx_etcd_decode_no_memory(d);
    }

    rc = json_is_array(json.root)
         ? ngx_etcd_format_dubbo_endpoint(d, json.root)
         : ngx_etcd_decode_invalid(d, "dubbo.endpoints", text,
                                   "is not an array");

    ngx_etcd_json_done(&json);

    return rc;
}


/*
 * Dubbo's consumers do not use an instance of the revision "0": it exports no
 * service.
 */

static ngx_int_t
ngx_etcd_format_dubbo_app(ngx_etcd_decode_t *d)
{
    json_t     *metadata;
    ngx_str_t   text;

    metadata = json_object_get(d->object, "Metadata");

    if (ngx_etcd_json_says(json_object_get(metadata, "dubbo.metadata.revision"),
                           "0"))
    {
        return NGX_DECLINED;
    }

    if (d->conf->scheme.len != 0
        && ngx_etcd_json_string(json_object_get(metadata, "dubbo.endpoints"),
                                &text)
           == NGX_OK
        && text.len != 0)
    {
        return ngx_etcd_format_dubbo_ports(d, &text);
    }

    return ngx_etcd_json_layout_decode(d);
}


/* A record of CoreDNS that has a text, and no address, is one of type TXT. */

static ngx_int_t
ngx_etcd_format_skydns(ngx_etcd_decode_t *d)
{
    if (json_string_length(json_object_get(d->object, "host")) == 0
        && ngx_etcd_format_has(d, "text"))
    {
        return NGX_DECLINED;
    }

    return ngx_etcd_json_layout_decode(d);
}


/* Other objects of the configuration have weights too. */

static ngx_int_t
ngx_etcd_format_traefik(ngx_etcd_decode_t *d)
{
    if (!ngx_etcd_format_has(d, "url")
        && !ngx_etcd_format_has(d, "address"))
    {
        return NGX_DECLINED;
    }

    return ngx_etcd_json_layout_decode(d);
}


/* A row in a place of another one would replace it. */

#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Woverride-init"

static const ngx_etcd_format_t  ngx_etcd_formats[] = {

    { .name = ngx_string("auto"),
      .value = NGX_ETCD_VALUE_TEXT,
      .decode = ngx_etcd_format_auto,
      .takes = NGX_ETCD_TAKES_TAG },

    { .name = ngx_string("plain"),
      .value = NGX_ETCD_VALUE_TEXT,
      .decode = ngx_etcd_format_plain },

    { .name = ngx_string("key"),
      .value = NGX_ETCD_VALUE_IGNORED,
      .decode = ngx_etcd_format_key },

    [NGX_ETCD_FORMAT_JSON] =
    { .name = ngx_string("json"),
      .value = NGX_ETCD_VALUE_JSON,
      .decode = ngx_etcd_json_layout_decode,
      .takes = NGX_ETCD_TAKES_TAG|NGX_ETCD_TAKES_POINTERS,
      .layout = { .address = ngx_string("/address"),
                  .host = ngx_string("/host"),
                  .port = ngx_string("/port"),
                  .tags = ngx_string("/tags"),
                  .fields = ngx_etcd_attribute_fields,
                  .closed = 1 } },

    /*
     * etcd's Go package puts additions only, since a deletion deletes the key:
     * "Op" is ignored.  "Metadata" belongs to the application.
     */

    [NGX_ETCD_FORMAT_GRPC] =
    { .name = ngx_string("grpc"),
      .value = NGX_ETCD_VALUE_JSON,
      .decode = ngx_etcd_json_layout_decode,
      .takes = NGX_ETCD_TAKES_TAG,
      .layout = { .address = ngx_string("/Addr"),
                  .tags = ngx_string("/Metadata") } },

    [NGX_ETCD_FORMAT_KITEX] =
    { .name = ngx_string("kitex"),
      .value = NGX_ETCD_VALUE_JSON,
      .decode = ngx_etcd_json_layout_decode,
      .takes = NGX_ETCD_TAKES_TAG,
      .weight = 10,
      .layout = { .address = ngx_string("/address"),
                  .network = ngx_string("/network"),
                  .tags = ngx_string("/tags"),
                  .fields = ngx_etcd_kitex_fields } },

    { .name = ngx_string("kratos"),
      .value = NGX_ETCD_VALUE_JSON,
      .decode = ngx_etcd_json_layout_decode,
      .takes = NGX_ETCD_TAKES_TAG|NGX_ETCD_TAKES_SCHEME,
      .weight = 100,
      .layout = { .name = ngx_string("/name"),
                  .endpoints = ngx_string("/endpoints"),
                  .tags = ngx_string("/metadata"),
                  .fields = ngx_etcd_kratos_fields } },

    { .name = ngx_string("go-micro"),
      .value = NGX_ETCD_VALUE_JSON,
      .decode = ngx_etcd_json_layout_decode,
      .takes = NGX_ETCD_TAKES_TAG,
      .layout = { .name = ngx_string("/name"),
                  .nodes = ngx_string("/nodes"),
                  .address = ngx_string("/address"),
                  .tags = ngx_string("/metadata") } },

    { .name = ngx_string("dubbo"),
      .value = NGX_ETCD_VALUE_IGNORED,
      .decode = ngx_etcd_format_dubbo,
      .takes = NGX_ETCD_TAKES_TAG|NGX_ETCD_TAKES_SCHEME,
      .weight = 100 },

    { .name = ngx_string("dubbo-app"),
      .value = NGX_ETCD_VALUE_JSON,
      .decode = ngx_etcd_format_dubbo_app,
      .takes = NGX_ETCD_TAKES_TAG|NGX_ETCD_TAKES_SCHEME,
      .weight = 100,
      .layout = { .host = ngx_string("/Host"),
                  .port = ngx_string("/Port"),
                  .tags = ngx_string("/Metadata"),
                  .fields = ngx_etcd_dubbo_app_fields } },

    { .name = ngx_string("rpcx"),
      .value = NGX_ETCD_VALUE_TEXT,
      .decode = ngx_etcd_format_rpcx,
      .takes = NGX_ETCD_TAKES_TAG|NGX_ETCD_TAKES_SCHEME },

    /* the prefix also contains a counter of session ids */

    { .name = ngx_string("milvus"),
      .value = NGX_ETCD_VALUE_JSON,
      .other_key = ngx_string("/id"),
      .decode = ngx_etcd_json_layout_decode,
      .takes = NGX_ETCD_TAKES_TAG,
      .layout = { .address = ngx_string("/Address"),
                  .tags = ngx_string(""),
                  .fields = ngx_etcd_milvus_fields } },

    { .name = ngx_string("skydns"),
      .value = NGX_ETCD_VALUE_JSON,
      .decode = ngx_etcd_format_skydns,
      .takes = NGX_ETCD_TAKES_TAG,
      .weight = 100,
      .layout = { .host = ngx_string("/host"),
                  .port = ngx_string("/port"),
                  .tags = ngx_string(""),
                  .fields = ngx_etcd_skydns_fields,
                  .priority = 10 } },

    /* directories have a value, too */

    { .name = ngx_string("apisix"),
      .value = NGX_ETCD_VALUE_JSON,
      .other_value = ngx_string("init_dir"),
      .decode = ngx_etcd_json_layout_decode,
      .takes = NGX_ETCD_TAKES_TAG,
      .layout = { .nodes = ngx_string("/nodes"),
                  .host = ngx_string("/host"),
                  .port = ngx_string("/port"),
                  .scheme = ngx_string("/scheme"),
                  .tags = ngx_string("/metadata"),
                  .fields = ngx_etcd_apisix_fields,
                  .priority = NGX_ETCD_MEMBER_MAX_PRIORITY / 2 + 1 } },

    /* servers of HTTP services have a "url", of TCP services an "address" */

    { .name = ngx_string("traefik"),
      .value = NGX_ETCD_VALUE_JSON,
      .decode = ngx_etcd_format_traefik,
      .takes = NGX_ETCD_TAKES_SCHEME|NGX_ETCD_TAKES_GROUPS,
      .layout = { .url = ngx_string("/url"),
                  .address = ngx_string("/address"),
                  .fields = ngx_etcd_traefik_fields } },

    [NGX_ETCD_FORMAT_UPSYNC] =
    { .name = ngx_string("upsync"),
      .value = NGX_ETCD_VALUE_TEXT,
      .decode = ngx_etcd_format_upsync,
      .layout = { .from_key = 1,
                  .fields = ngx_etcd_attribute_fields } },

    { .name = ngx_string("dolphinscheduler"),
      .value = NGX_ETCD_VALUE_JSON,
      .decode = ngx_etcd_json_layout_decode,
      .weight = 100,
      .layout = { .host = ngx_string("/host"),
                  .port = ngx_string("/port"),
                  .from_key = 1,
                  .fields = ngx_etcd_dolphinscheduler_fields } },

    { .name = ngx_null_string }
};

#pragma GCC diagnostic pop


/* Detects the format of an object by the fields that are present. */

static ngx_int_t
ngx_etcd_format_auto_object(ngx_etcd_decode_t *d)
{
    ngx_uint_t                n;
    const ngx_etcd_format_t  *format;

    if (ngx_etcd_decode_object(d) != NGX_OK) {
        return NGX_ERROR;
    }

    n = NGX_ETCD_FORMAT_JSON;

    if (ngx_etcd_format_has(d, "Addr")) {
        n = NGX_ETCD_FORMAT_GRPC;

    } else if (ngx_etcd_format_has(d, "address")) {

        /* another "network" is an unknown field of "json" */

        if (ngx_etcd_json_layout_network(json_object_get(d->object, "network"))
            != AF_UNSPEC)
        {
            n = NGX_ETCD_FORMAT_KITEX;
        }

    } else if (!ngx_etcd_format_has(d, "host")) {
        n = NGX_ETCD_FORMAT_UPSYNC;

        if (!ngx_etcd_address_in_key(&d->key)) {
            return ngx_etcd_decode_invalid(d, "value", &d->value,
                                           "has no address, host or Addr, and "
                                           "the last segment of the key is no "
                                           "address");
        }
    }

    format = &ngx_etcd_formats[n];

    d->layout = &format->layout;
    ngx_etcd_decode_weight(d, format->weight);

    return ngx_etcd_json_layout_decode(d);
}


static ngx_int_t
ngx_etcd_format_auto(ngx_etcd_decode_t *d)
{
    ngx_etcd_tag_t  *tag;

    if (d->value.len != 0 && d->value.data[0] == '{') {
        return ngx_etcd_format_auto_object(d);
    }

    /* an address has no tags */

    tag = ngx_etcd_json_layout_untagged(d->conf, NULL, NULL);

    if (tag != NULL) {
        ngx_etcd_decode_unused(d, NGX_ETCD_UNUSED_TAG, &tag->text);
        return NGX_DECLINED;
    }

    return (d->value.len != 0) ? ngx_etcd_format_plain(d)
                               : ngx_etcd_format_key(d);
}


const ngx_etcd_format_t *
ngx_etcd_format_find(ngx_str_t *name)
{
    const ngx_etcd_format_t  *format;

    for (format = ngx_etcd_formats; format->name.len; format++) {
        if (ngx_etcd_str_equal(&format->name, name)) {
            return format;
        }
    }

    return NULL;
}


ngx_str_t *
ngx_etcd_format_name(const ngx_etcd_format_t *format)
{
    return (ngx_str_t *) &format->name;
}


ngx_str_t *
ngx_etcd_format_names(ngx_pool_t *pool)
{
    u_char                   *p;
    size_t                    len;
    ngx_str_t                *names;
    const ngx_etcd_format_t  *format;

    len = 0;

    for (format = ngx_etcd_formats; format->name.len; format++) {
        len += format->name.len + sizeof(", ") - 1;
    }

    names = ngx_palloc(pool, sizeof(ngx_str_t));
    if (names == NULL) {
        return NULL;
    }

    p = ngx_pnalloc(pool, len);
    if (p == NULL) {
        return NULL;
    }

    names->data = p;

    for (format = ngx_etcd_formats; format->name.len; format++) {

        if (format != ngx_etcd_formats) {
            p = ngx_cpymem(p, ", ", sizeof(", ") - 1);
        }

        p = ngx_cpymem(p, format->name.data, format->name.len);
    }

    names->len = p - names->data;

    return names;
}


ngx_uint_t
ngx_etcd_format_part(const ngx_etcd_format_t *format, ngx_str_t *name)
{
    ngx_str_t                      rest;
    ngx_etcd_field_t              *field;
    const ngx_etcd_json_layout_t  *layout;

    layout = &format->layout;

    for (field = layout->fields; field && field->path.data; field++) {
        if (ngx_etcd_json_pointer_begins(&field->path, name->data, name->len,
                                         &rest))
        {
            return 1;
        }
    }

    return ngx_etcd_json_pointer_begins(&layout->url, name->data, name->len,
                                        &rest)
           || ngx_etcd_json_pointer_begins(&layout->address, name->data,
                                           name->len, &rest);
}
