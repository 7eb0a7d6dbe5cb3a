
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_address.h>
#include <ngx_etcd_attribute.h>
#include <ngx_etcd_format.h>
#include <ngx_etcd_format_text.h>
#include <ngx_etcd_json.h>
#include <ngx_etcd_json_layout.h>
#include <ngx_etcd_str.h>


#define NGX_ETCD_FORMAT_KITEX_WEIGHT  10


static ngx_int_t ngx_etcd_format_auto(ngx_etcd_decode_t *d);
static ngx_int_t ngx_etcd_format_milvus(ngx_etcd_decode_t *d);
static ngx_int_t ngx_etcd_format_skydns(ngx_etcd_decode_t *d);
static ngx_int_t ngx_etcd_format_apisix(ngx_etcd_decode_t *d);
static ngx_int_t ngx_etcd_format_traefik(ngx_etcd_decode_t *d);


static ngx_etcd_field_t  ngx_etcd_no_fields[] = {

    { ngx_null_string, 0, 0, ngx_null_string }
};


/* the fields of "json", with what Kitex takes for no weight */

static ngx_etcd_field_t  ngx_etcd_kitex_fields[] = {

    { ngx_string("/weight"),
      NGX_ETCD_ATTR_WEIGHT, NGX_ETCD_FIELD_ZERO, ngx_null_string },
    { ngx_string("/max_fails"), NGX_ETCD_ATTR_MAX_FAILS, 0, ngx_null_string },
    { ngx_string("/max_conns"), NGX_ETCD_ATTR_MAX_CONNS, 0, ngx_null_string },
    { ngx_string("/fail_timeout"),
      NGX_ETCD_ATTR_FAIL_TIMEOUT, 0, ngx_null_string },
    { ngx_string("/slow_start"),
      NGX_ETCD_ATTR_SLOW_START, 0, ngx_null_string },
    { ngx_string("/priority"), NGX_ETCD_ATTR_PRIORITY, 0, ngx_null_string },
    { ngx_string("/down"), NGX_ETCD_ATTR_DOWN, 0, ngx_null_string },
    { ngx_string("/backup"), NGX_ETCD_ATTR_BACKUP, 0, ngx_null_string },
    { ngx_string("/drain"), NGX_ETCD_ATTR_DRAIN, 0, ngx_null_string },
    { ngx_string("/route"), NGX_ETCD_ATTR_ROUTE, 0, ngx_null_string },

    { ngx_null_string, 0, 0, ngx_null_string }
};


/* the path read by the balancers of Kratos */

static ngx_etcd_field_t  ngx_etcd_kratos_fields[] = {

    { ngx_string("/metadata/weight"),
      NGX_ETCD_ATTR_WEIGHT, 0, ngx_null_string },

    { ngx_null_string, 0, 0, ngx_null_string }
};


static ngx_etcd_field_t  ngx_etcd_dubbo_app_fields[] = {

    { ngx_string("/Weight"),
      NGX_ETCD_ATTR_WEIGHT, NGX_ETCD_FIELD_ZERO, ngx_null_string },
    { ngx_string("/Enable"),
      NGX_ETCD_ATTR_DRAIN, NGX_ETCD_FIELD_NOT, ngx_null_string },
    { ngx_string("/Healthy"),
      NGX_ETCD_ATTR_DRAIN, NGX_ETCD_FIELD_NOT, ngx_null_string },

    { ngx_null_string, 0, 0, ngx_null_string }
};


static ngx_etcd_field_t  ngx_etcd_milvus_fields[] = {

    { ngx_string("/Stopping"), NGX_ETCD_ATTR_DRAIN, 0, ngx_null_string },

    { ngx_null_string, 0, 0, ngx_null_string }
};


static ngx_etcd_field_t  ngx_etcd_skydns_fields[] = {

    { ngx_string("/weight"),
      NGX_ETCD_ATTR_WEIGHT, NGX_ETCD_FIELD_ZERO, ngx_null_string },
    { ngx_string("/priority"),
      NGX_ETCD_ATTR_PRIORITY, NGX_ETCD_FIELD_ZERO, ngx_null_string },

    { ngx_null_string, 0, 0, ngx_null_string }
};


static ngx_etcd_field_t  ngx_etcd_apisix_fields[] = {

    { ngx_string("/weight"), NGX_ETCD_ATTR_WEIGHT, 0, ngx_null_string },
    { ngx_string("/priority"), NGX_ETCD_ATTR_PRECEDENCE, 0, ngx_null_string },

    { ngx_null_string, 0, 0, ngx_null_string }
};


static ngx_etcd_field_t  ngx_etcd_traefik_fields[] = {

    { ngx_string("/weight"), NGX_ETCD_ATTR_WEIGHT, 0, ngx_null_string },

    { ngx_null_string, 0, 0, ngx_null_string }
};


/* 1 and 2, abnormal and busy, are written by releases before 3.2 */

static ngx_etcd_field_t  ngx_etcd_dolphinscheduler_fields[] = {

    { ngx_string("/workerHostWeight"),
      NGX_ETCD_ATTR_WEIGHT, 0, ngx_null_string },
    { ngx_string("/serverStatus"),
      NGX_ETCD_ATTR_DRAIN, 0, ngx_string("BUSY") },
    { ngx_string("/serverStatus"), NGX_ETCD_ATTR_DRAIN, 0, ngx_string("1") },
    { ngx_string("/serverStatus"), NGX_ETCD_ATTR_DRAIN, 0, ngx_string("2") },

    { ngx_null_string, 0, 0, ngx_null_string }
};


static const ngx_etcd_json_layout_t  ngx_etcd_format_layout_json = {
    .address = ngx_string("/address"),
    .host = ngx_string("/host"),
    .port = ngx_string("/port"),
    .tags = ngx_string("/tags"),
    .fields = ngx_etcd_attribute_fields,
    .closed = 1
};


/*
 * etcd's Go package puts additions only, since a deletion deletes the key:
 * "Op" is ignored.  "Metadata" belongs to the application.
 */

static const ngx_etcd_json_layout_t  ngx_etcd_format_layout_grpc = {
    .address = ngx_string("/Addr"),
    .tags = ngx_string("/Metadata"),
    .fields = ngx_etcd_no_fields
};


static const ngx_etcd_json_layout_t  ngx_etcd_format_layout_kitex = {
    .address = ngx_string("/address"),
    .network = ngx_string("/network"),
    .tags = ngx_string("/tags"),
    .fields = ngx_etcd_kitex_fields
};


static const ngx_etcd_json_layout_t  ngx_etcd_format_layout_kratos = {
    .name = ngx_string("/name"),
    .endpoints = ngx_string("/endpoints"),
    .tags = ngx_string("/metadata"),
    .fields = ngx_etcd_kratos_fields
};


static const ngx_etcd_json_layout_t  ngx_etcd_format_layout_go_micro = {
    .name = ngx_string("/name"),
    .nodes = ngx_string("/nodes"),
    .address = ngx_string("/address"),
    .tags = ngx_string("/metadata"),
    .fields = ngx_etcd_no_fields
};


static const ngx_etcd_json_layout_t  ngx_etcd_format_layout_dubbo_app = {
    .host = ngx_string("/Host"),
    .port = ngx_string("/Port"),
    .tags = ngx_string("/Metadata"),
    .fields = ngx_etcd_dubbo_app_fields
};


static const ngx_etcd_json_layout_t  ngx_etcd_format_layout_milvus = {
    .address = ngx_string("/Address"),
    .tags = ngx_string(""),
    .fields = ngx_etcd_milvus_fields
};


static const ngx_etcd_json_layout_t  ngx_etcd_format_layout_skydns = {
    .host = ngx_string("/host"),
    .port = ngx_string("/port"),
    .tags = ngx_string(""),
    .fields = ngx_etcd_skydns_fields,
    .priority = 10
};


static const ngx_etcd_json_layout_t  ngx_etcd_format_layout_apisix = {
    .nodes = ngx_string("/nodes"),
    .host = ngx_string("/host"),
    .port = ngx_string("/port"),
    .scheme = ngx_string("/scheme"),
    .tags = ngx_string("/metadata"),
    .fields = ngx_etcd_apisix_fields,
    .priority = NGX_ETCD_MEMBER_MAX_PRIORITY / 2 + 1
};


/*
 * servers of HTTP services have a "url", servers of TCP services an "address"
 */

static const ngx_etcd_json_layout_t  ngx_etcd_format_layout_traefik = {
    .url = ngx_string("/url"),
    .address = ngx_string("/address"),
    .fields = ngx_etcd_traefik_fields
};


static const ngx_etcd_json_layout_t  ngx_etcd_format_layout_upsync = {
    .from_key = 1,
    .fields = ngx_etcd_attribute_fields
};


static const ngx_etcd_json_layout_t  ngx_etcd_format_layout_dolphinscheduler = {
    .host = ngx_string("/host"),
    .port = ngx_string("/port"),
    .from_key = 1,
    .fields = ngx_etcd_dolphinscheduler_fields
};


static const ngx_etcd_format_t  ngx_etcd_formats[] = {

    { .name = ngx_string("auto"),
      .value = NGX_ETCD_VALUE_TEXT,
      .decode = ngx_etcd_format_auto,
      .takes = NGX_ETCD_TAKES_TAG },

    { .name = ngx_string("plain"),
      .value = NGX_ETCD_VALUE_TEXT,
      .decode = ngx_etcd_format_text_plain },

    { .name = ngx_string("key"),
      .value = NGX_ETCD_VALUE_IGNORED,
      .decode = ngx_etcd_format_text_key },

    { .name = ngx_string("json"),
      .value = NGX_ETCD_VALUE_JSON,
      .decode = ngx_etcd_json_layout_decode,
      .layout = &ngx_etcd_format_layout_json,
      .takes = NGX_ETCD_TAKES_TAG|NGX_ETCD_TAKES_POINTERS },

    { .name = ngx_string("grpc"),
      .value = NGX_ETCD_VALUE_JSON,
      .decode = ngx_etcd_json_layout_decode,
      .layout = &ngx_etcd_format_layout_grpc,
      .takes = NGX_ETCD_TAKES_TAG },

    { .name = ngx_string("kitex"),
      .value = NGX_ETCD_VALUE_JSON,
      .decode = ngx_etcd_json_layout_decode,
      .layout = &ngx_etcd_format_layout_kitex,
      .takes = NGX_ETCD_TAKES_TAG,
      .weight = NGX_ETCD_FORMAT_KITEX_WEIGHT },

    { .name = ngx_string("kratos"),
      .value = NGX_ETCD_VALUE_JSON,
      .decode = ngx_etcd_json_layout_decode,
      .layout = &ngx_etcd_format_layout_kratos,
      .takes = NGX_ETCD_TAKES_TAG|NGX_ETCD_TAKES_SCHEME,
      .weight = 100 },

    { .name = ngx_string("go-micro"),
      .value = NGX_ETCD_VALUE_JSON,
      .decode = ngx_etcd_json_layout_decode,
      .layout = &ngx_etcd_format_layout_go_micro,
      .takes = NGX_ETCD_TAKES_TAG },

    { .name = ngx_string("dubbo"),
      .value = NGX_ETCD_VALUE_IGNORED,
      .decode = ngx_etcd_format_text_dubbo,
      .takes = NGX_ETCD_TAKES_TAG|NGX_ETCD_TAKES_SCHEME,
      .weight = 100 },

    { .name = ngx_string("dubbo-app"),
      .value = NGX_ETCD_VALUE_JSON,
      .decode = ngx_etcd_json_layout_decode,
      .layout = &ngx_etcd_format_layout_dubbo_app,
      .takes = NGX_ETCD_TAKES_TAG,
      .weight = 100 },

    { .name = ngx_string("rpcx"),
      .value = NGX_ETCD_VALUE_TEXT,
      .decode = ngx_etcd_format_text_rpcx,
      .takes = NGX_ETCD_TAKES_TAG|NGX_ETCD_TAKES_SCHEME },

    { .name = ngx_string("milvus"),
      .value = NGX_ETCD_VALUE_TEXT,
      .decode = ngx_etcd_format_milvus,
      .layout = &ngx_etcd_format_layout_milvus,
      .takes = NGX_ETCD_TAKES_TAG },

    { .name = ngx_string("skydns"),
      .value = NGX_ETCD_VALUE_JSON,
      .decode = ngx_etcd_format_skydns,
      .layout = &ngx_etcd_format_layout_skydns,
      .takes = NGX_ETCD_TAKES_TAG,
      .weight = 100 },

    { .name = ngx_string("apisix"),
      .value = NGX_ETCD_VALUE_TEXT,
      .decode = ngx_etcd_format_apisix,
      .layout = &ngx_etcd_format_layout_apisix,
      .takes = NGX_ETCD_TAKES_TAG },

    { .name = ngx_string("traefik"),
      .value = NGX_ETCD_VALUE_JSON,
      .decode = ngx_etcd_format_traefik,
      .layout = &ngx_etcd_format_layout_traefik,
      .takes = NGX_ETCD_TAKES_SCHEME|NGX_ETCD_TAKES_GROUPS },

    { .name = ngx_string("upsync"),
      .value = NGX_ETCD_VALUE_TEXT,
      .decode = ngx_etcd_format_text_upsync,
      .layout = &ngx_etcd_format_layout_upsync },

    { .name = ngx_string("dolphinscheduler"),
      .value = NGX_ETCD_VALUE_JSON,
      .decode = ngx_etcd_json_layout_decode,
      .layout = &ngx_etcd_format_layout_dolphinscheduler,
      .weight = 100 },

    { .name = ngx_null_string }
};


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
ngx_etcd_format_grouped(const ngx_etcd_format_t *format)
{
    return (format->takes & NGX_ETCD_TAKES_GROUPS) != 0;
}


ngx_uint_t
ngx_etcd_format_part(const ngx_etcd_format_t *format, ngx_str_t *name)
{
    ngx_str_t                      rest;
    ngx_etcd_field_t              *field;
    const ngx_etcd_json_layout_t  *layout;

    layout = format->layout;

    for (field = layout->fields; field->path.data != NULL; field++) {
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


/* A value that is null is no value. */

static ngx_uint_t
ngx_etcd_format_has(ngx_etcd_decode_t *d, char *name)
{
    json_t  *value;

    value = json_object_get(d->object, name);

    return value != NULL && !json_is_null(value);
}


static ngx_int_t
ngx_etcd_format_as(ngx_etcd_decode_t *d, const ngx_etcd_json_layout_t *layout)
{
    d->layout = layout;

    if (d->object == NULL && ngx_etcd_decode_object(d) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_etcd_json_layout_decode(d);
}


static ngx_int_t
ngx_etcd_format_auto_object(ngx_etcd_decode_t *d)
{
    json_t  *network;

    if (ngx_etcd_decode_object(d) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_etcd_format_has(d, "Addr")) {
        return ngx_etcd_format_as(d, &ngx_etcd_format_layout_grpc);
    }

    if (ngx_etcd_format_has(d, "address")) {
        network = json_object_get(d->object, "network");

        /* another "network" is an unknown field of "json" */

        if (ngx_etcd_json_layout_network(network) != AF_UNSPEC) {
            ngx_etcd_decode_weight(d, NGX_ETCD_FORMAT_KITEX_WEIGHT);

            return ngx_etcd_format_as(d, &ngx_etcd_format_layout_kitex);
        }

        return ngx_etcd_format_as(d, &ngx_etcd_format_layout_json);
    }

    if (ngx_etcd_format_has(d, "host")) {
        return ngx_etcd_format_as(d, &ngx_etcd_format_layout_json);
    }

    if (ngx_etcd_address_in_key(&d->key)) {
        return ngx_etcd_format_as(d, &ngx_etcd_format_layout_upsync);
    }

    return ngx_etcd_decode_invalid(d, "value", &d->value,
                                   "has no address, host or Addr, and the "
                                   "last segment of the key is no address");
}


/* Detects the format by the fields that are present. */

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

    return (d->value.len != 0) ? ngx_etcd_format_text_plain(d)
                               : ngx_etcd_format_text_key(d);
}


/* The prefix also contains a counter of session ids, ".../id". */

static ngx_int_t
ngx_etcd_format_milvus(ngx_etcd_decode_t *d)
{
    if (d->key.len >= sizeof("/id") - 1
        && ngx_strncmp(d->key.data + d->key.len - (sizeof("/id") - 1), "/id",
                       sizeof("/id") - 1)
           == 0)
    {
        return NGX_DECLINED;
    }

    return ngx_etcd_format_as(d, &ngx_etcd_format_layout_milvus);
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


/* Directories have the value "init_dir". */

static ngx_int_t
ngx_etcd_format_apisix(ngx_etcd_decode_t *d)
{
    if (ngx_etcd_str_is(&d->value, "init_dir")) {
        return NGX_DECLINED;
    }

    return ngx_etcd_format_as(d, &ngx_etcd_format_layout_apisix);
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
