
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_json.h>
#include <ngx_etcd_json_layout.h>
#include <ngx_etcd_parameter.h>
#include <ngx_etcd_str.h>
#include <ngx_etcd_url.h>


/* attributes with a pointer in one directive */

#define NGX_ETCD_PARAMETER_FIELDS  32

#define NGX_ETCD_PARAMETER_TAG     "is not selected by \"tag="


typedef struct {
    ngx_str_t                       name;
    size_t                          offset;        /* in layout */
} ngx_etcd_parameter_path_t;


static const ngx_etcd_parameter_path_t  ngx_etcd_parameter_paths[] = {

    { ngx_string("nodes"), offsetof(ngx_etcd_json_layout_t, nodes) },
    { ngx_string("address"), offsetof(ngx_etcd_json_layout_t, address) },
    { ngx_string("url"), offsetof(ngx_etcd_json_layout_t, url) },
    { ngx_string("host"), offsetof(ngx_etcd_json_layout_t, host) },
    { ngx_string("port"), offsetof(ngx_etcd_json_layout_t, port) },
    { ngx_string("tags"), offsetof(ngx_etcd_json_layout_t, tags) },

    { ngx_null_string, 0 }
};


static ngx_int_t
ngx_etcd_parameter_tag(ngx_etcd_member_conf_t *conf, ngx_str_t *value,
    ngx_pool_t *pool, char **err)
{
    u_char          *p;
    ngx_str_t        text;
    ngx_etcd_tag_t   parsed, *tag;

    ngx_memzero(&parsed, sizeof(ngx_etcd_tag_t));

    text = *value;

    if (text.len != 0 && text.data[0] == '!') {
        parsed.not = 1;
        text.data++;
        text.len--;
    }

    if (!ngx_etcd_str_cut(&text, ':', &parsed.key, &parsed.value)) {
        parsed.key = text;
        parsed.any = 1;
    }

    if (parsed.key.len == 0) {
        *err = "it is not \"tag=NAME\", \"tag=NAME:VALUE\" or one with \"!\"";
        return NGX_ERROR;
    }

    *err = "no memory";

    p = ngx_pnalloc(pool, sizeof(NGX_ETCD_PARAMETER_TAG "\"") + value->len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    parsed.text.data = p;
    parsed.text.len = ngx_sprintf(p, NGX_ETCD_PARAMETER_TAG "%V\"", value) - p;

    if (conf->tags == NULL) {
        conf->tags = ngx_array_create(pool, 2, sizeof(ngx_etcd_tag_t));
        if (conf->tags == NULL) {
            return NGX_ERROR;
        }
    }

    tag = ngx_array_push(conf->tags);
    if (tag == NULL) {
        return NGX_ERROR;
    }

    *tag = parsed;

    return NGX_OK;
}


/* The first pointer creates an empty layout: only pointers are read then. */

static ngx_etcd_json_layout_t *
ngx_etcd_parameter_layout(ngx_etcd_member_conf_t *conf, ngx_pool_t *pool)
{
    ngx_etcd_json_layout_t  *layout;

    if (conf->layout != NULL) {
        return (ngx_etcd_json_layout_t *) conf->layout;
    }

    layout = ngx_pcalloc(pool, sizeof(ngx_etcd_json_layout_t));
    if (layout == NULL) {
        return NULL;
    }

    layout->fields = ngx_pcalloc(pool, (NGX_ETCD_PARAMETER_FIELDS + 1)
                                      * sizeof(ngx_etcd_field_t));
    if (layout->fields == NULL) {
        return NULL;
    }

    conf->layout = layout;

    return layout;
}


static ngx_int_t
ngx_etcd_parameter_field(ngx_etcd_json_layout_t *layout, ngx_uint_t id,
    ngx_str_t *pointer, ngx_uint_t not, char **err)
{
    ngx_uint_t         n;
    ngx_etcd_field_t  *field;

    for (n = 0; layout->fields[n].path.data != NULL; n++) { /* void */ }

    if (n == NGX_ETCD_PARAMETER_FIELDS) {
        *err = "too many pointers";
        return NGX_ERROR;
    }

    field = &layout->fields[n];

    field->path = *pointer;
    field->id = id;
    field->how = not ? NGX_ETCD_FIELD_NOT : 0;

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_parameter_path(ngx_etcd_json_layout_t *layout, ngx_str_t *name,
    ngx_str_t *pointer, char **err)
{
    ngx_str_t                        *path;
    const ngx_etcd_parameter_path_t  *row;

    for (row = ngx_etcd_parameter_paths; row->name.len != 0; row++) {
        if (!ngx_etcd_str_equal(&row->name, name)) {
            continue;
        }

        path = (ngx_str_t *) ((u_char *) layout + row->offset);

        if (path->data != NULL) {
            *err = "it is duplicate";
            return NGX_ERROR;
        }

        *path = *pointer;

        return NGX_OK;
    }

    return NGX_DECLINED;
}


/* NAME=/POINTER, or NAME=!/POINTER for a negated flag. */

static ngx_int_t
ngx_etcd_parameter_pointer(ngx_etcd_member_conf_t *conf, ngx_str_t *name,
    ngx_str_t *value, ngx_pool_t *pool, char **err)
{
    ngx_str_t                pointer;
    ngx_uint_t               id, not;
    ngx_etcd_json_layout_t  *layout;

    pointer = *value;
    not = (pointer.len != 0 && pointer.data[0] == '!');

    if (not) {
        pointer.data++;
        pointer.len--;
    }

    if (pointer.len == 0 || pointer.data[0] != '/') {
        return NGX_DECLINED;
    }

    if (!(conf->format->takes & NGX_ETCD_TAKES_POINTERS)) {
        *err = "only \"format=json\" takes pointers";
        return NGX_ERROR;
    }

    *err = ngx_etcd_json_pointer_check(&pointer);
    if (*err != NULL) {
        return NGX_ERROR;
    }

    layout = ngx_etcd_parameter_layout(conf, pool);
    if (layout == NULL) {
        *err = "no memory";
        return NGX_ERROR;
    }

    id = ngx_etcd_attribute_find(name);

    if (not && (id == NGX_ETCD_ATTR_N || !ngx_etcd_attribute_is_flag(id))) {
        *err = "\"!\" is for flags";
        return NGX_ERROR;
    }

    if (id != NGX_ETCD_ATTR_N) {
        return ngx_etcd_parameter_field(layout, id, &pointer, not, err);
    }

    return ngx_etcd_parameter_path(layout, name, &pointer, err);
}


ngx_int_t
ngx_etcd_parameter(ngx_etcd_member_conf_t *conf, ngx_str_t *parameter,
    ngx_pool_t *pool, char **err)
{
    ngx_int_t  rc, port;
    ngx_str_t  name, value;

    if (!ngx_etcd_str_cut(parameter, '=', &name, &value)) {
        return NGX_DECLINED;
    }

    rc = NGX_OK;

    if (ngx_etcd_str_is(&name, "scheme")) {
        if (value.len == 0) {
            *err = "invalid value";
            return NGX_ERROR;
        }

        conf->scheme = value;

    } else if (ngx_etcd_str_is(&name, "tag")) {
        rc = ngx_etcd_parameter_tag(conf, &value, pool, err);

    } else if (ngx_etcd_str_is(&name, "lease")) {
        conf->lease = ngx_etcd_str_is(&value, "required");

        if (!conf->lease && !ngx_etcd_str_is(&value, "any")) {
            *err = "it is neither \"required\" nor \"any\"";
            return NGX_ERROR;
        }

    } else if (ngx_etcd_str_is(&name, "port")
               && (value.len == 0 || value.data[0] != '/'))
    {
        /* the port of addresses without one */

        port = ngx_atoi(value.data, value.len);

        if (port < 1 || port > 65535) {
            *err = "it is not a port from 1 to 65535";
            return NGX_ERROR;
        }

        conf->port = port;

    } else {
        rc = ngx_etcd_parameter_pointer(conf, &name, &value, pool, err);
    }

    if (rc == NGX_OK) {
        conf->hash = conf->hash * 31
                     + ngx_crc32_long(parameter->data, parameter->len);
    }

    return rc;
}


char *
ngx_etcd_parameter_complete(ngx_etcd_member_conf_t *conf, ngx_str_t *prefix)
{
    ngx_str_t                      parent;
    const ngx_etcd_json_layout_t  *layout;

    layout = conf->layout;

    if (layout != NULL
        && layout->address.data == NULL
        && layout->url.data == NULL
        && (layout->host.data == NULL
            || (layout->port.data == NULL && conf->port == 0)))
    {
        return "has pointers, but none to an address: \"address=\", \"url=\", "
               "or \"host=\" and \"port=\"";
    }

    if (conf->scheme.len != 0
        && !(conf->format->takes & NGX_ETCD_TAKES_SCHEME)
        && (layout == NULL || layout->url.data == NULL))
    {
        return "has \"scheme=\", but the format has no schemes";
    }

    if (conf->tags != NULL && !ngx_etcd_parameter_tags(conf)) {
        return "has \"tag=\", but the format has no tags";
    }

    /*
     * the prefix may match other services: compare the service name in the
     * value
     */

    ngx_etcd_url_segments(prefix, &parent, &conf->name);

    return NULL;
}


ngx_uint_t
ngx_etcd_parameter_tags(ngx_etcd_member_conf_t *conf)
{
    return (conf->format->takes & NGX_ETCD_TAKES_TAG)
           && (conf->layout == NULL || conf->layout->tags.data != NULL);
}
