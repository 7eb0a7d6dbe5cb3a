
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_address.h>
#include <ngx_etcd_json.h>
#include <ngx_etcd_json_layout.h>
#include <ngx_etcd_str.h>


/* bytes of the names of unknown fields that are reported */

#define NGX_ETCD_LAYOUT_NAMES  128


static ngx_etcd_field_t  ngx_etcd_layout_weight = {
    ngx_string("/nodes"), NGX_ETCD_ATTR_WEIGHT, 0, ngx_null_string
};


static ngx_str_t  ngx_etcd_layout_other_name =
    ngx_string("has another name than the end of the prefix");
static ngx_str_t  ngx_etcd_layout_no_scheme =
    ngx_string("does not have the scheme of \"scheme=\"");


/* Null is no value. */

static json_t *
ngx_etcd_layout_get(json_t *node, const ngx_str_t *path)
{
    json_t  *value;

    if (path->data == NULL) {
        return NULL;
    }

    value = ngx_etcd_json_pointer_get(node, path);

    return json_is_null(value) ? NULL : value;
}


ngx_uint_t
ngx_etcd_json_layout_tag_is(ngx_etcd_tag_t *tag, ngx_str_t *value)
{
    return tag->any ? !ngx_etcd_str_is(value, "false")
                    : ngx_etcd_str_equal(value, &tag->value);
}


/* Looks the tag up in ["NAME", "NAME:VALUE", "NAME=VALUE"]. */

static ngx_int_t
ngx_etcd_layout_listed(ngx_etcd_tag_t *tag, json_t *tags)
{
    size_t      i;
    json_t     *element;
    ngx_int_t   rc;
    ngx_str_t   text, value;

    rc = NGX_DONE;

    json_array_foreach(tags, i, element) {

        if (ngx_etcd_json_string(element, &text) != NGX_OK
            || text.len < tag->key.len
            || ngx_strncmp(text.data, tag->key.data, tag->key.len) != 0)
        {
            continue;
        }

        value.data = text.data + tag->key.len;
        value.len = text.len - tag->key.len;

        if (value.len != 0) {

            if (*value.data != ':' && *value.data != '=') {
                continue;
            }

            value.data++;
            value.len--;
        }

        if (ngx_etcd_json_layout_tag_is(tag, &value)) {
            return NGX_OK;
        }

        rc = NGX_DECLINED;
    }

    return rc;
}


static ngx_uint_t
ngx_etcd_layout_is(json_t *value, ngx_etcd_tag_t *tag)
{
    u_char     buf[NGX_ETCD_JSON_NUMBER];
    ngx_str_t  text;

    if (tag->any && (json_is_array(value) || json_is_object(value))) {
        return json_array_size(value) != 0 || json_object_size(value) != 0;
    }

    return !json_is_null(value)
           && ngx_etcd_json_scalar(value, buf, &text) == NGX_OK
           && ngx_etcd_json_layout_tag_is(tag, &text);
}


/* NGX_DECLINED: the tag has another value.  NGX_DONE: there is no such tag. */

static ngx_int_t
ngx_etcd_layout_tag(ngx_etcd_tag_t *tag, json_t *tags)
{
    size_t   i;
    json_t  *value, *element;

    if (json_is_array(tags)) {
        return ngx_etcd_layout_listed(tag, tags);
    }

    value = json_object_getn(tags, (char *) tag->key.data, tag->key.len);

    if (value == NULL) {
        return NGX_DONE;
    }

    json_array_foreach(value, i, element) {
        if (ngx_etcd_layout_is(element, tag)) {
            return NGX_OK;
        }
    }

    return ngx_etcd_layout_is(value, tag) ? NGX_OK : NGX_DECLINED;
}


static ngx_uint_t
ngx_etcd_layout_has(ngx_etcd_tag_t *tag, json_t *own, json_t *common)
{
    ngx_int_t  rc;

    rc = ngx_etcd_layout_tag(tag, own);

    if (rc == NGX_DONE) {
        rc = ngx_etcd_layout_tag(tag, common);
    }

    return rc == NGX_OK;
}


ngx_etcd_tag_t *
ngx_etcd_json_layout_untagged(ngx_etcd_member_conf_t *conf, json_t *own,
    json_t *common)
{
    ngx_uint_t       i;
    ngx_etcd_tag_t  *tag;

    if (conf->tags == NULL) {
        return NULL;
    }

    tag = conf->tags->elts;

    for (i = 0; i < conf->tags->nelts; i++) {
        if (ngx_etcd_layout_has(&tag[i], own, common) == tag[i].not) {
            return &tag[i];
        }
    }

    return NULL;
}


/* Returns 0 if a tag excludes the node; d->near gets the preference. */

static ngx_uint_t
ngx_etcd_layout_chosen(ngx_etcd_decode_t *d, json_t *node)
{
    json_t          *own, *common;
    ngx_etcd_tag_t  *tag;

    if (d->conf->tags == NULL && d->conf->prefer.key.len == 0) {
        return 1;
    }

    own = ngx_etcd_layout_get(node, &d->layout->tags);
    common = ngx_etcd_layout_get(d->object, &d->layout->tags);

    tag = ngx_etcd_json_layout_untagged(d->conf, own, common);

    if (tag != NULL) {
        ngx_etcd_decode_unused(d, NGX_ETCD_UNUSED_TAG, &tag->text);
        return 0;
    }

    d->near = (d->conf->prefer.key.len != 0
               && ngx_etcd_layout_has(&d->conf->prefer, own, common));

    return 1;
}


ngx_uint_t
ngx_etcd_json_layout_network(json_t *network)
{
    if (ngx_etcd_json_says(network, "tcp")
        || ngx_etcd_json_says(network, "tcp4")
        || ngx_etcd_json_says(network, "tcp6"))
    {
        return AF_INET;
    }

    if (ngx_etcd_json_says(network, "unix")) {
        return AF_UNIX;
    }

    return AF_UNSPEC;
}


/* The value may be NULL. */

static ngx_int_t
ngx_etcd_layout_invalid(ngx_etcd_decode_t *d, const ngx_str_t *path,
    json_t *value, char *what)
{
    char  *field;

    field = ngx_etcd_json_pointer_name(path);

    if (value == NULL) {
        return ngx_etcd_decode_invalid(d, field, NULL, "is missing");
    }

    return ngx_etcd_decode_invalid_json(d, field, value, what);
}


static ngx_int_t
ngx_etcd_layout_url_text(ngx_etcd_decode_t *d, const ngx_str_t *path,
    json_t *value, ngx_etcd_url_t *url)
{
    char       *err;
    ngx_str_t   text;

    if (ngx_etcd_json_string(value, &text) != NGX_OK) {
        return ngx_etcd_layout_invalid(d, path, value, "is not a string");
    }

    err = ngx_etcd_url_parse(url, &text);

    if (err != NULL) {
        return ngx_etcd_decode_invalid(d, ngx_etcd_json_pointer_name(path),
                                       &text, err);
    }

    return NGX_OK;
}


/* The port of addresses without one, as the scheme has it; 0: none. */

static ngx_uint_t
ngx_etcd_layout_port(ngx_etcd_decode_t *d)
{
    json_t  *scheme;

    if (d->layout->scheme.data == NULL) {
        return 0;
    }

    scheme = ngx_etcd_layout_get(d->object, &d->layout->scheme);

    if (scheme == NULL
        || ngx_etcd_json_says(scheme, "http")
        || ngx_etcd_json_says(scheme, "grpc"))
    {
        return 80;
    }

    return (ngx_etcd_json_says(scheme, "https")
            || ngx_etcd_json_says(scheme, "grpcs")) ? 443 : 0;
}


static ngx_int_t
ngx_etcd_layout_address(ngx_etcd_decode_t *d, ngx_etcd_member_t *member,
    json_t *node)
{
    json_t                        *address, *host, *port, *network;
    ngx_str_t                      text;
    const ngx_str_t               *path;
    const ngx_etcd_json_layout_t  *layout;

    layout = d->layout;

    address = ngx_etcd_layout_get(node, &layout->address);

    if (address == NULL) {
        host = ngx_etcd_layout_get(node, &layout->host);

        if (host != NULL) {
            port = d->port ? d->port : ngx_etcd_layout_get(node, &layout->port);

            return ngx_etcd_address_set_host(d, member, host, port,
                                             ngx_etcd_layout_port(d));
        }

        if (layout->from_key) {
            return ngx_etcd_address_set_key(d, member);
        }
    }

    path = layout->url.data ? &layout->url
           : layout->endpoints.data ? &layout->endpoints
           : layout->address.data ? &layout->address : &layout->host;

    if (ngx_etcd_json_string(address, &text) != NGX_OK) {
        return ngx_etcd_layout_invalid(d, path, address, "is not a string");
    }

    network = ngx_etcd_layout_get(node, &layout->network);

    if (network != NULL) {

        switch (ngx_etcd_json_layout_network(network)) {

        case AF_INET:
            break;

        case AF_UNIX:
            return ngx_etcd_address_set_unix(d, member,
                                             ngx_etcd_json_pointer_name(path),
                                             &text);

        default:
            return ngx_etcd_layout_invalid(d, &layout->network, network,
                                           "is not tcp or unix");
        }
    }

    return ngx_etcd_address_set(d, member, ngx_etcd_json_pointer_name(path),
                                &text, 0);
}


static ngx_uint_t
ngx_etcd_layout_known(const ngx_etcd_json_layout_t *layout, u_char *name,
    size_t len)
{
    ngx_str_t          rest;
    ngx_uint_t         i;
    ngx_etcd_field_t  *field;

    const ngx_str_t  *paths[] = {
        &layout->address, &layout->host, &layout->port, &layout->tags
    };

    for (i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        if (ngx_etcd_json_pointer_begins(paths[i], name, len, &rest)) {
            return 1;
        }
    }

    for (field = layout->fields; field && field->path.data; field++) {
        if (ngx_etcd_json_pointer_begins(&field->path, name, len, &rest)) {
            return 1;
        }
    }

    return 0;
}


/* Notes fields that the module's own format does not have. */

static void
ngx_etcd_layout_fields(ngx_etcd_decode_t *d, json_t *node)
{
    void       *iter;
    u_char     *p, *last;
    u_char      buf[NGX_ETCD_LAYOUT_NAMES];
    ngx_str_t   name;

    p = buf;
    last = buf + NGX_ETCD_LAYOUT_NAMES;

    for (iter = json_object_iter(node);
         iter != NULL;
         iter = json_object_iter_next(node, iter))
    {
        name.data = (u_char *) json_object_iter_key(iter);
        name.len = json_object_iter_key_len(iter);

        if (!ngx_etcd_layout_known(d->layout, name.data, name.len)) {
            p = ngx_slprintf(p, last, "%s%V", (p == buf) ? "" : ", ", &name);
        }
    }

    if (p != buf) {
        name.data = buf;
        name.len = p - buf;

        (void) ngx_etcd_decode_invalid(d, "field", &name, "is unknown");
        ngx_etcd_decode_unused(d, NGX_ETCD_UNUSED_FIELD, d->reason);
    }
}


/*
 * Adds a member with the address of the URL, or with the address in the node.
 */

static ngx_int_t
ngx_etcd_layout_add(ngx_etcd_decode_t *d, json_t *node,
    ngx_etcd_url_t *url)
{
    ngx_int_t                      rc;
    ngx_uint_t                     others;
    const ngx_str_t               *path;
    ngx_etcd_member_t             *member;
    const ngx_etcd_json_layout_t  *layout;

    layout = d->layout;

    member = ngx_etcd_decode_add(d);
    if (member == NULL) {
        return NGX_ERROR;
    }

    if (url != NULL) {
        path = layout->url.data ? &layout->url : &layout->endpoints;
        rc = ngx_etcd_address_set_url(d, member,
                                      ngx_etcd_json_pointer_name(path), url);

    } else {
        rc = ngx_etcd_layout_address(d, member, node);
    }

    if (rc == NGX_DECLINED) {
        d->members->nelts--;

        ngx_etcd_decode_unused(d, NGX_ETCD_UNUSED_SCHEME,
                               &ngx_etcd_layout_no_scheme);
    }

    if (rc != NGX_OK) {
        return rc;
    }

    member->attr.priority = layout->priority;
    member->attr.near = d->near;

    others = ngx_etcd_attribute_read(d, member, layout->fields, node);

    /* a single other one is the address */

    if (layout->closed && others > 1) {
        ngx_etcd_layout_fields(d, node);
    }

    return NGX_OK;
}


/*
 * Adds the URL, unless a former one of the node has added a member.  NGX_ABORT:
 * the node is invalid, since its endpoints have several schemes.
 */

static ngx_int_t
ngx_etcd_layout_endpoint(ngx_etcd_decode_t *d, json_t *node,
    json_t *endpoint, ngx_str_t *scheme, ngx_uint_t added)
{
    ngx_str_t        *wanted;
    ngx_etcd_url_t    url;
    const ngx_str_t  *path;

    path = &d->layout->endpoints;

    if (ngx_etcd_layout_url_text(d, path, endpoint, &url) != NGX_OK) {
        return NGX_ERROR;
    }

    wanted = &d->conf->scheme;

    if (wanted->len == 0
        && scheme->len != 0
        && !ngx_etcd_str_alike(scheme, &url.scheme))
    {
        (void) ngx_etcd_decode_invalid(d, ngx_etcd_json_pointer_name(path),
                                       NULL, "has URLs of several schemes; "
                                       "\"scheme=\" chooses one");
        return NGX_ABORT;
    }

    *scheme = url.scheme;

    return added ? NGX_DECLINED : ngx_etcd_layout_add(d, node, &url);
}


/*
 * Adds the first URL of a node with the wanted scheme, or with the only scheme,
 * as clients of Kratos do: another one is that of another server of the
 * instance.
 */

static ngx_int_t
ngx_etcd_layout_endpoints(ngx_etcd_decode_t *d, json_t *node,
    json_t *endpoints)
{
    size_t       i;
    json_t      *endpoint;
    ngx_int_t    rc;
    ngx_str_t    scheme;
    ngx_uint_t   start, first, valid;

    if (!json_is_array(endpoints)) {
        return ngx_etcd_layout_invalid(d, &d->layout->endpoints, endpoints,
                                       "is not an array");
    }

    ngx_str_null(&scheme);

    start = d->members->nelts;
    valid = (json_array_size(endpoints) == 0);

    json_array_foreach(endpoints, i, endpoint) {
        first = d->members->nelts;

        rc = ngx_etcd_layout_endpoint(d, node, endpoint, &scheme,
                                      first > start);

        /* no endpoint is better than another one */

        if (rc == NGX_ABORT) {
            return NGX_ERROR;
        }

        valid |= ngx_etcd_decode_node(d, rc, first);
    }

    return valid ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
ngx_etcd_layout_node(ngx_etcd_decode_t *d, json_t *node)
{
    json_t          *value;
    ngx_etcd_url_t   url;

    /* ignore the other fields of a node that is not selected */

    if (!ngx_etcd_layout_chosen(d, node)) {
        return NGX_DECLINED;
    }

    value = ngx_etcd_layout_get(node, &d->layout->endpoints);

    if (value != NULL) {
        return ngx_etcd_layout_endpoints(d, node, value);
    }

    value = ngx_etcd_layout_get(node, &d->layout->url);

    if (value != NULL) {
        return (ngx_etcd_layout_url_text(d, &d->layout->url, value, &url)
                == NGX_OK)
               ? ngx_etcd_layout_add(d, node, &url) : NGX_ERROR;
    }

    /* an address has no scheme */

    if (d->conf->scheme.len != 0
        && ngx_etcd_layout_get(node, &d->layout->address) != NULL)
    {
        ngx_etcd_decode_unused(d, NGX_ETCD_UNUSED_SCHEME,
                               &ngx_etcd_layout_no_scheme);
        return NGX_DECLINED;
    }

    return ngx_etcd_layout_add(d, node, NULL);
}


static ngx_int_t
ngx_etcd_layout_array(ngx_etcd_decode_t *d, json_t *nodes)
{
    size_t       i;
    json_t      *node;
    ngx_int_t    rc;
    ngx_uint_t   first, valid;

    valid = (json_array_size(nodes) == 0);

    json_array_foreach(nodes, i, node) {
        first = d->members->nelts;

        rc = json_is_object(node)
             ? ngx_etcd_layout_node(d, node)
             : ngx_etcd_layout_invalid(d, &d->layout->nodes, node,
                                       "is not an object");

        valid |= ngx_etcd_decode_node(d, rc, first);
    }

    return valid ? NGX_OK : NGX_ERROR;
}


/* An element "ADDRESS": WEIGHT. */

static ngx_int_t
ngx_etcd_layout_weighted(ngx_etcd_decode_t *d, ngx_str_t *address,
    json_t *weight)
{
    ngx_etcd_member_t  *member;

    if (!ngx_etcd_layout_chosen(d, NULL)) {
        return NGX_DECLINED;
    }

    member = ngx_etcd_decode_add(d);
    if (member == NULL) {
        return NGX_ERROR;
    }

    if (ngx_etcd_address_set_bare(d, member,
                                  ngx_etcd_json_pointer_name(&d->layout->nodes),
                                  address, ngx_etcd_layout_port(d))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    member->attr.priority = d->layout->priority;
    member->attr.near = d->near;

    ngx_etcd_attribute_value(d, member, &ngx_etcd_layout_weight, weight);

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_layout_map(ngx_etcd_decode_t *d, json_t *nodes)
{
    json_t      *node;
    ngx_int_t    rc;
    ngx_str_t    name;
    ngx_uint_t   first, valid;
    const char  *key;

    valid = (json_object_size(nodes) == 0);

    json_object_keylen_foreach(nodes, key, name.len, node) {
        name.data = (u_char *) key;
        first = d->members->nelts;

        rc = json_is_object(node) ? ngx_etcd_layout_node(d, node)
                                  : ngx_etcd_layout_weighted(d, &name, node);

        valid |= ngx_etcd_decode_node(d, rc, first);
    }

    return valid ? NGX_OK : NGX_ERROR;
}


ngx_int_t
ngx_etcd_json_layout_decode(ngx_etcd_decode_t *d)
{
    json_t           *nodes;
    const ngx_str_t  *path;

    path = &d->layout->name;

    /* a prefix that does not end with "/" also matches services like "NAME2" */

    if (d->conf->name.len != 0
        && path->data != NULL
        && !ngx_etcd_json_equals(ngx_etcd_json_pointer_get(d->object, path),
                                 &d->conf->name))
    {
        ngx_etcd_decode_unused(d, NGX_ETCD_UNUSED_OTHER,
                               &ngx_etcd_layout_other_name);
        return NGX_DECLINED;
    }

    path = &d->layout->nodes;

    if (path->data == NULL) {
        return ngx_etcd_layout_node(d, d->object);
    }

    nodes = ngx_etcd_json_pointer_get(d->object, path);

    if (json_is_array(nodes)) {
        return ngx_etcd_layout_array(d, nodes);
    }

    if (json_is_object(nodes)) {
        return ngx_etcd_layout_map(d, nodes);
    }

    return ngx_etcd_layout_invalid(d, path, nodes,
                                   "is not an array or an object");
}
