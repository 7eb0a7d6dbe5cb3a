
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Members of an object, found where its shape says they are.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_format.h>


static ngx_uint_t ngx_etcd_shape_named(ngx_etcd_decode_t *d);
static ngx_int_t ngx_etcd_shape_array(ngx_etcd_decode_t *d, json_t *nodes);
static ngx_int_t ngx_etcd_shape_map(ngx_etcd_decode_t *d, json_t *nodes);
static ngx_int_t ngx_etcd_shape_weighted(ngx_etcd_decode_t *d,
    const char *address, json_t *weight);
static ngx_int_t ngx_etcd_shape_node(ngx_etcd_decode_t *d, json_t *node);
static ngx_uint_t ngx_etcd_shape_chosen(ngx_etcd_decode_t *d, json_t *node);
static ngx_uint_t ngx_etcd_shape_is(json_t *value, ngx_str_t *wanted);
static ngx_int_t ngx_etcd_shape_endpoints(ngx_etcd_decode_t *d, json_t *node,
    json_t *endpoints);
static ngx_int_t ngx_etcd_shape_endpoint(ngx_etcd_decode_t *d, json_t *node,
    json_t *endpoint, ngx_str_t *scheme);
static ngx_int_t ngx_etcd_shape_add(ngx_etcd_decode_t *d, json_t *node,
    ngx_etcd_uri_t *url);
static ngx_int_t ngx_etcd_shape_url(ngx_etcd_decode_t *d, json_t *node,
    json_t *value);
static ngx_int_t ngx_etcd_shape_url_text(ngx_etcd_decode_t *d,
    const ngx_str_t *path, json_t *value, ngx_etcd_uri_t *url);
static ngx_int_t ngx_etcd_shape_address(ngx_etcd_decode_t *d,
    ngx_etcd_member_t *member, json_t *node);
static ngx_int_t ngx_etcd_shape_unix(ngx_etcd_decode_t *d,
    ngx_etcd_member_t *member, json_t *address);
static ngx_int_t ngx_etcd_shape_invalid(ngx_etcd_decode_t *d,
    const ngx_str_t *path, json_t *value, char *what);
static json_t *ngx_etcd_shape_get(json_t *node, const ngx_str_t *path);


static ngx_etcd_field_t  ngx_etcd_shape_weight = {
    ngx_string("/nodes"), NGX_ETCD_ATTR_WEIGHT, 0, ngx_null_string
};


ngx_int_t
ngx_etcd_format_shape(ngx_etcd_decode_t *d)
{
    json_t           *nodes;
    const ngx_str_t  *path;

    if (!ngx_etcd_shape_named(d)) {
        return NGX_DECLINED;
    }

    path = &d->shape->nodes;

    if (path->data == NULL) {
        return ngx_etcd_shape_node(d, d->object);
    }

    nodes = ngx_etcd_pointer_get(d->object, path);

    if (json_is_array(nodes)) {
        return ngx_etcd_shape_array(d, nodes);
    }

    if (json_is_object(nodes)) {
        return ngx_etcd_shape_map(d, nodes);
    }

    return ngx_etcd_shape_invalid(d, path, nodes,
                                  "is not an array or an object");
}


/* a prefix that does not end in "/" is also that of services like "NAME2" */

static ngx_uint_t
ngx_etcd_shape_named(ngx_etcd_decode_t *d)
{
    json_t  *name;

    if (d->conf->name.len == 0 || d->shape->name.data == NULL) {
        return 1;
    }

    name = ngx_etcd_pointer_get(d->object, &d->shape->name);

    return json_is_string(name)
           && json_string_length(name) == d->conf->name.len
           && ngx_memcmp(json_string_value(name), d->conf->name.data,
                         d->conf->name.len)
              == 0;
}


static ngx_int_t
ngx_etcd_shape_array(ngx_etcd_decode_t *d, json_t *nodes)
{
    size_t     i;
    json_t    *node;
    ngx_int_t  rc;

    for (i = 0; i < json_array_size(nodes); i++) {
        node = json_array_get(nodes, i);

        if (!json_is_object(node)) {
            return ngx_etcd_shape_invalid(d, &d->shape->nodes, node,
                                          "is not an object");
        }

        rc = ngx_etcd_shape_node(d, node);
        if (rc == NGX_ERROR) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_shape_map(ngx_etcd_decode_t *d, json_t *nodes)
{
    void       *iter;
    json_t     *node;
    ngx_int_t   rc;

    for (iter = json_object_iter(nodes);
         iter != NULL;
         iter = json_object_iter_next(nodes, iter))
    {
        node = json_object_iter_value(iter);

        rc = json_is_object(node)
             ? ngx_etcd_shape_node(d, node)
             : ngx_etcd_shape_weighted(d, json_object_iter_key(iter), node);

        if (rc == NGX_ERROR) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_shape_weighted(ngx_etcd_decode_t *d, const char *address,
    json_t *weight)
{
    ngx_str_t           text;
    ngx_etcd_member_t  *member;

    if (!ngx_etcd_shape_chosen(d, NULL)) {
        return NGX_DECLINED;
    }

    member = ngx_etcd_member_add(d);
    if (member == NULL) {
        return NGX_ERROR;
    }

    text.data = (u_char *) address;
    text.len = ngx_strlen(address);

    if (ngx_etcd_member_address(d, member,
                                ngx_etcd_pointer_name(&d->shape->nodes),
                                &text)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    member->attr.priority = d->shape->priority;

    return ngx_etcd_member_field(d, member, &ngx_etcd_shape_weight, weight);
}


static ngx_int_t
ngx_etcd_shape_node(ngx_etcd_decode_t *d, json_t *node)
{
    json_t  *value;

    /* who is not chosen may say what it likes */

    if (!ngx_etcd_shape_chosen(d, node)) {
        return NGX_DECLINED;
    }

    value = ngx_etcd_shape_get(node, &d->shape->endpoints);

    if (value != NULL) {
        return ngx_etcd_shape_endpoints(d, node, value);
    }

    value = ngx_etcd_shape_get(node, &d->shape->url);

    if (value != NULL) {
        return ngx_etcd_shape_url(d, node, value);
    }

    /* an address is of no scheme */

    if (d->conf->scheme.len != 0
        && ngx_etcd_shape_get(node, &d->shape->address) != NULL)
    {
        return NGX_DECLINED;
    }

    return ngx_etcd_shape_add(d, node, NULL);
}


/* tags are those of the node or, where it does not name one, of the object */

static ngx_uint_t
ngx_etcd_shape_chosen(ngx_etcd_decode_t *d, json_t *node)
{
    json_t        *own, *common, *value;
    ngx_str_t     *name;
    ngx_uint_t     i;
    ngx_keyval_t  *tag;

    if (d->conf->tags == NULL) {
        return 1;
    }

    own = ngx_etcd_shape_get(node, &d->shape->tags);
    common = ngx_etcd_shape_get(d->object, &d->shape->tags);
    tag = d->conf->tags->elts;

    for (i = 0; i < d->conf->tags->nelts; i++) {
        name = &tag[i].key;

        value = json_object_getn(own, (char *) name->data, name->len);

        if (value == NULL) {
            value = json_object_getn(common, (char *) name->data, name->len);
        }

        if (!ngx_etcd_shape_is(value, &tag[i].value)) {
            return 0;
        }
    }

    return 1;
}


static ngx_uint_t
ngx_etcd_shape_is(json_t *value, ngx_str_t *wanted)
{
    u_char     buf[NGX_ETCD_SCALAR_LEN];
    ngx_str_t  text;

    return value != NULL
           && ngx_etcd_scalar(value, buf, &text) == NGX_OK
           && text.len == wanted->len
           && ngx_memcmp(text.data, wanted->data, text.len) == 0;
}


/* members of one node, of the wanted scheme or of the only one there is */

static ngx_int_t
ngx_etcd_shape_endpoints(ngx_etcd_decode_t *d, json_t *node,
    json_t *endpoints)
{
    size_t     i;
    ngx_str_t  scheme;

    if (!json_is_array(endpoints)) {
        return ngx_etcd_shape_invalid(d, &d->shape->endpoints, endpoints,
                                      "is not an array");
    }

    ngx_str_null(&scheme);

    for (i = 0; i < json_array_size(endpoints); i++) {

        if (ngx_etcd_shape_endpoint(d, node, json_array_get(endpoints, i),
                                    &scheme)
            == NGX_ERROR)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_shape_endpoint(ngx_etcd_decode_t *d, json_t *node, json_t *endpoint,
    ngx_str_t *scheme)
{
    ngx_str_t        *wanted;
    ngx_etcd_uri_t    url;
    const ngx_str_t  *path;

    path = &d->shape->endpoints;

    if (ngx_etcd_shape_url_text(d, path, endpoint, &url) != NGX_OK) {
        return NGX_ERROR;
    }

    wanted = &d->conf->scheme;

    if (wanted->len == 0
        && scheme->len != 0
        && (scheme->len != url.scheme.len
            || ngx_strncasecmp(scheme->data, url.scheme.data, scheme->len)
               != 0))
    {
        return ngx_etcd_decode_invalid(d, ngx_etcd_pointer_name(path), NULL,
                                       "has URLs of several schemes; "
                                       "\"scheme=\" chooses one");
    }

    *scheme = url.scheme;

    return ngx_etcd_shape_add(d, node, &url);
}


/* a member whose address is that of a URL, or the one that the node names */

static ngx_int_t
ngx_etcd_shape_add(ngx_etcd_decode_t *d, json_t *node, ngx_etcd_uri_t *url)
{
    ngx_int_t                rc;
    const ngx_str_t         *path;
    ngx_etcd_member_t       *member;
    const ngx_etcd_shape_t  *shape;

    shape = d->shape;

    member = ngx_etcd_member_add(d);
    if (member == NULL) {
        return NGX_ERROR;
    }

    if (url != NULL) {
        path = shape->url.data ? &shape->url : &shape->endpoints;
        rc = ngx_etcd_member_url(d, member, ngx_etcd_pointer_name(path), url);

    } else {
        rc = ngx_etcd_shape_address(d, member, node);
    }

    if (rc == NGX_DECLINED) {
        d->members->nelts--;
    }

    if (rc != NGX_OK) {
        return rc;
    }

    member->attr.priority = shape->priority;

    return ngx_etcd_member_fields(d, member, shape->fields, node);
}


static ngx_int_t
ngx_etcd_shape_url(ngx_etcd_decode_t *d, json_t *node, json_t *value)
{
    ngx_etcd_uri_t  url;

    if (ngx_etcd_shape_url_text(d, &d->shape->url, value, &url) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_etcd_shape_add(d, node, &url);
}


static ngx_int_t
ngx_etcd_shape_url_text(ngx_etcd_decode_t *d, const ngx_str_t *path,
    json_t *value, ngx_etcd_uri_t *url)
{
    char       *err;
    ngx_str_t   text;

    if (!json_is_string(value)) {
        return ngx_etcd_shape_invalid(d, path, value, "is not a string");
    }

    text.data = (u_char *) json_string_value(value);
    text.len = json_string_length(value);

    err = ngx_etcd_uri_parse(url, &text);

    if (err != NULL) {
        return ngx_etcd_decode_invalid(d, ngx_etcd_pointer_name(path), &text,
                                       err);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_shape_address(ngx_etcd_decode_t *d, ngx_etcd_member_t *member,
    json_t *node)
{
    json_t                  *address, *host, *network;
    ngx_str_t                text;
    const ngx_str_t         *path;
    const ngx_etcd_shape_t  *shape;

    shape = d->shape;

    address = ngx_etcd_shape_get(node, &shape->address);

    if (address == NULL) {
        host = ngx_etcd_shape_get(node, &shape->host);

        if (host != NULL) {
            return ngx_etcd_member_host_port(d, member, shape, host,
                                             ngx_etcd_shape_get(node,
                                                                &shape->port));
        }

        if (shape->from_key) {
            return ngx_etcd_format_key_address(d, member);
        }
    }

    path = shape->url.data ? &shape->url
           : shape->endpoints.data ? &shape->endpoints
           : shape->address.data ? &shape->address : &shape->host;

    if (!json_is_string(address)) {
        return ngx_etcd_shape_invalid(d, path, address, "is not a string");
    }

    network = ngx_etcd_shape_get(node, &shape->network);

    if (network != NULL) {

        switch (ngx_etcd_shape_network(network)) {

        case AF_INET:
            break;

        case AF_UNIX:
            return ngx_etcd_shape_unix(d, member, address);

        default:
            return ngx_etcd_shape_invalid(d, &shape->network, network,
                                          "is not tcp or unix");
        }
    }

    text.data = (u_char *) json_string_value(address);
    text.len = json_string_length(address);

    return ngx_etcd_member_address(d, member, ngx_etcd_pointer_name(path),
                                   &text);
}


/* the address is the bare path of the socket */

static ngx_int_t
ngx_etcd_shape_unix(ngx_etcd_decode_t *d, ngx_etcd_member_t *member,
    json_t *address)
{
    u_char     *p;
    ngx_str_t   text;

    text.len = sizeof("unix:") - 1 + json_string_length(address);

    text.data = ngx_pnalloc(d->pool, text.len);
    if (text.data == NULL) {
        return ngx_etcd_decode_invalid(d, "no memory", NULL, NULL);
    }

    p = ngx_cpymem(text.data, "unix:", sizeof("unix:") - 1);
    ngx_memcpy(p, json_string_value(address), json_string_length(address));

    return ngx_etcd_member_address(d, member,
                                   ngx_etcd_pointer_name(&d->shape->address),
                                   &text);
}


ngx_uint_t
ngx_etcd_shape_network(json_t *network)
{
    const char  *name;

    if (!json_is_string(network)) {
        return AF_UNSPEC;
    }

    name = json_string_value(network);

    if (ngx_strcmp(name, "tcp") == 0
        || ngx_strcmp(name, "tcp4") == 0
        || ngx_strcmp(name, "tcp6") == 0)
    {
        return AF_INET;
    }

    if (ngx_strcmp(name, "unix") == 0) {
        return AF_UNIX;
    }

    return AF_UNSPEC;
}


/* the value may be missing */

static ngx_int_t
ngx_etcd_shape_invalid(ngx_etcd_decode_t *d, const ngx_str_t *path,
    json_t *value, char *what)
{
    char  *field;

    field = ngx_etcd_pointer_name(path);

    if (value == NULL) {
        return ngx_etcd_decode_invalid(d, field, NULL, "is missing");
    }

    return ngx_etcd_decode_invalid_json(d, field, value, what);
}


static json_t *
ngx_etcd_shape_get(json_t *node, const ngx_str_t *path)
{
    return (path->data != NULL) ? ngx_etcd_pointer_get(node, path) : NULL;
}
