
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The value formats: one row and one decoder for each.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_format.h>


static ngx_int_t ngx_etcd_decode_check_key(ngx_etcd_decode_t *d);
static ngx_uint_t ngx_etcd_utf8_valid(u_char *p, u_char *last);
static ngx_int_t ngx_etcd_decode_check_value(ngx_etcd_decode_t *d);
static void ngx_etcd_decode_trim(ngx_str_t *text);
static ngx_int_t ngx_etcd_decode_object(ngx_etcd_decode_t *d);
static ngx_int_t ngx_etcd_decode_broken(ngx_etcd_decode_t *d,
    json_error_t *error);

static ngx_int_t ngx_etcd_format_auto(ngx_etcd_decode_t *d);
static ngx_int_t ngx_etcd_format_auto_object(ngx_etcd_decode_t *d);
static ngx_int_t ngx_etcd_format_plain(ngx_etcd_decode_t *d);
static ngx_int_t ngx_etcd_format_key(ngx_etcd_decode_t *d);
static ngx_int_t ngx_etcd_format_json(ngx_etcd_decode_t *d);
static ngx_int_t ngx_etcd_format_grpc(ngx_etcd_decode_t *d);
static ngx_int_t ngx_etcd_format_kitex(ngx_etcd_decode_t *d);
static ngx_int_t ngx_etcd_format_kitex_address(ngx_etcd_decode_t *d,
    ngx_etcd_member_t *member);
static ngx_uint_t ngx_etcd_format_kitex_family(json_t *network);
static ngx_int_t ngx_etcd_format_upsync(ngx_etcd_decode_t *d);

static ngx_int_t ngx_etcd_format_key_address(ngx_etcd_decode_t *d,
    ngx_etcd_member_t *member);
static char *ngx_etcd_format_segment(ngx_str_t *key, ngx_str_t *segment,
    u_char *buf);
static ngx_int_t ngx_etcd_format_json_address(ngx_etcd_decode_t *d,
    ngx_etcd_member_t *member, char *field);


/* the longest segment that can be an address, every byte escaped as "%2F" */
#define NGX_ETCD_FORMAT_SEGMENT  (3 * NGX_ETCD_MEMBER_NAME_LEN)

#define NGX_ETCD_FORMAT_LAST     "last segment of the key"


static const ngx_etcd_format_t  ngx_etcd_formats[] = {

    { ngx_string("auto"), NGX_ETCD_VALUE_TEXT, ngx_etcd_format_auto },
    { ngx_string("plain"), NGX_ETCD_VALUE_TEXT, ngx_etcd_format_plain },
    { ngx_string("key"), NGX_ETCD_VALUE_IGNORED, ngx_etcd_format_key },
    { ngx_string("json"), NGX_ETCD_VALUE_JSON, ngx_etcd_format_json },
    { ngx_string("grpc"), NGX_ETCD_VALUE_JSON, ngx_etcd_format_grpc },
    { ngx_string("kitex"), NGX_ETCD_VALUE_JSON, ngx_etcd_format_kitex },
    { ngx_string("upsync"), NGX_ETCD_VALUE_TEXT, ngx_etcd_format_upsync },

    { ngx_null_string, NGX_ETCD_VALUE_IGNORED, NULL }
};


const ngx_etcd_format_t *
ngx_etcd_format_find(ngx_str_t *name)
{
    const ngx_etcd_format_t  *format;

    for (format = ngx_etcd_formats; format->name.len; format++) {

        if (format->name.len == name->len
            && ngx_strncmp(format->name.data, name->data, name->len) == 0)
        {
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


ngx_int_t
ngx_etcd_member_decode(ngx_etcd_member_conf_t *conf, ngx_str_t *key,
    ngx_str_t *value, ngx_pool_t *pool, ngx_array_t *members,
    ngx_str_t *reason)
{
    ngx_int_t          rc;
    ngx_uint_t         n;
    ngx_etcd_decode_t  d;

    d.conf = conf;
    d.key = *key;
    d.value = *value;
    d.object = NULL;
    d.pool = pool;
    d.members = members;
    d.reason = reason;

    n = members->nelts;

    rc = ngx_etcd_decode_check_key(&d);

    if (rc == NGX_OK) {
        rc = ngx_etcd_decode_check_value(&d);
    }

    if (rc == NGX_OK) {
        rc = conf->format->decode(&d);
    }

    if (d.object != NULL) {
        json_decref(d.object);
    }

    if (rc != NGX_OK) {
        members->nelts = n;
        return rc;
    }

    return (members->nelts > n) ? NGX_OK : NGX_DECLINED;
}


static ngx_int_t
ngx_etcd_decode_check_key(ngx_etcd_decode_t *d)
{
    u_char  *last;

    last = d->key.data + d->key.len;

    if (d->key.len > NGX_ETCD_MEMBER_MAX_KEY) {
        return ngx_etcd_decode_invalid(d, "key", &d->key,
                                       "is longer than "
                                       ngx_value(NGX_ETCD_MEMBER_MAX_KEY)
                                       " bytes");
    }

    if (ngx_strlchr(d->key.data, last, '\0') != NULL) {
        return ngx_etcd_decode_invalid(d, "key", &d->key, "has a NUL byte");
    }

    if (!ngx_etcd_utf8_valid(d->key.data, last)) {
        return ngx_etcd_decode_invalid(d, "key", &d->key,
                                       "is not valid UTF-8");
    }

    return NGX_OK;
}


/*
 * ngx_utf8_decode() lets pass surrogates, what is above U+10FFFF, and bytes
 * that continue nothing: no JSON may carry these.
 */

static ngx_uint_t
ngx_etcd_utf8_valid(u_char *p, u_char *last)
{
    u_char   c, low, high;
    ssize_t  n;

    while (p < last) {
        c = *p++;

        if (c < 0x80) {
            continue;
        }

        if (c < 0xc2 || c > 0xf4) {
            return 0;
        }

        n = (c < 0xe0) ? 1 : (c < 0xf0) ? 2 : 3;

        if (last - p < n) {
            return 0;
        }

        /* overlong forms, surrogates and excess show in the second byte */

        low = (c == 0xe0) ? 0xa0 : (c == 0xf0) ? 0x90 : 0x80;
        high = (c == 0xed) ? 0x9f : (c == 0xf4) ? 0x8f : 0xbf;

        if (*p < low || *p > high) {
            return 0;
        }

        for (p++, n--; n; p++, n--) {
            if ((*p & 0xc0) != 0x80) {
                return 0;
            }
        }
    }

    return 1;
}


static ngx_int_t
ngx_etcd_decode_check_value(ngx_etcd_decode_t *d)
{
    /* a directory as file system like tools make it */

    if (d->value.len == 0
        && d->key.len
        && d->key.data[d->key.len - 1] == '/')
    {
        return NGX_DECLINED;
    }

    if (d->conf->format->value == NGX_ETCD_VALUE_IGNORED) {
        return NGX_OK;
    }

    if (d->value.len > NGX_ETCD_MEMBER_MAX_VALUE) {
        return ngx_etcd_decode_invalid(d, "value", &d->value,
                                       "is longer than "
                                       ngx_value(NGX_ETCD_MEMBER_MAX_VALUE)
                                       " bytes");
    }

    if (ngx_strlchr(d->value.data, d->value.data + d->value.len, '\0')
        != NULL)
    {
        return ngx_etcd_decode_invalid(d, "value", &d->value,
                                       "has a NUL byte");
    }

    ngx_etcd_decode_trim(&d->value);

    if (d->conf->format->value == NGX_ETCD_VALUE_JSON) {
        return ngx_etcd_decode_object(d);
    }

    return NGX_OK;
}


static void
ngx_etcd_decode_trim(ngx_str_t *text)
{
    u_char  *p, *last;

    p = text->data;
    last = p + text->len;

    while (p < last
           && (*p == ' ' || *p == '\t' || *p == CR || *p == LF))
    {
        p++;
    }

    while (p < last
           && (last[-1] == ' ' || last[-1] == '\t'
               || last[-1] == CR || last[-1] == LF))
    {
        last--;
    }

    text->data = p;
    text->len = last - p;
}


static ngx_int_t
ngx_etcd_decode_object(ngx_etcd_decode_t *d)
{
    json_error_t  error;

    if (d->value.len == 0 || d->value.data[0] != '{') {
        return ngx_etcd_decode_invalid(d, "value", &d->value,
                                       "is not a JSON object");
    }

    d->object = json_loadb((char *) d->value.data, d->value.len,
                           JSON_REJECT_DUPLICATES, &error);

    if (d->object == NULL) {
        return ngx_etcd_decode_broken(d, &error);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_decode_broken(ngx_etcd_decode_t *d, json_error_t *error)
{
    u_char     *last;
    u_char      field[sizeof("value is broken JSON at line , column :")
                      + 2 * NGX_INT32_LEN];
    ngx_str_t   text;

    last = ngx_snprintf(field, sizeof(field) - 1,
                        "value is broken JSON at line %d, column %d:",
                        error->line, error->column);
    *last = '\0';

    /* it cites the value, so it may hold any byte */

    text.data = (u_char *) error->text;
    text.len = ngx_strnlen(text.data, JSON_ERROR_TEXT_LENGTH - 1);

    return ngx_etcd_decode_invalid(d, (char *) field, &text, NULL);
}


/* tells the formats apart by the shape of what is there */

static ngx_int_t
ngx_etcd_format_auto(ngx_etcd_decode_t *d)
{
    if (d->value.len == 0) {
        return ngx_etcd_format_key(d);
    }

    if (d->value.data[0] != '{') {
        return ngx_etcd_format_plain(d);
    }

    if (ngx_etcd_decode_object(d) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_etcd_format_auto_object(d);
}


static ngx_int_t
ngx_etcd_format_auto_object(ngx_etcd_decode_t *d)
{
    u_char             buf[NGX_ETCD_FORMAT_SEGMENT];
    json_t            *network;
    ngx_str_t          segment;
    ngx_etcd_member_t  member;

    if (json_object_get(d->object, "Addr") != NULL) {
        return ngx_etcd_format_grpc(d);
    }

    if (json_object_get(d->object, "address") != NULL) {
        network = json_object_get(d->object, "network");

        /* any other "network" is a field that json does not know */

        if (ngx_etcd_format_kitex_family(network) != AF_UNSPEC) {
            return ngx_etcd_format_kitex(d);
        }

        return ngx_etcd_format_json(d);
    }

    if (json_object_get(d->object, "host") != NULL) {
        return ngx_etcd_format_json(d);
    }

    if (ngx_etcd_format_segment(&d->key, &segment, buf) == NULL
        && ngx_etcd_address_parse(&member, &segment) == NULL)
    {
        return ngx_etcd_format_upsync(d);
    }

    return ngx_etcd_decode_invalid(d, "value", &d->value,
                                   "has no address, host or Addr, and the "
                                   "last segment of the key is no address");
}


static ngx_int_t
ngx_etcd_format_plain(ngx_etcd_decode_t *d)
{
    ngx_etcd_member_t  *member;

    member = ngx_etcd_member_add(d);
    if (member == NULL) {
        return NGX_ERROR;
    }

    return ngx_etcd_member_address(d, member, "address", &d->value);
}


static ngx_int_t
ngx_etcd_format_key(ngx_etcd_decode_t *d)
{
    ngx_etcd_member_t  *member;

    member = ngx_etcd_member_add(d);
    if (member == NULL) {
        return NGX_ERROR;
    }

    return ngx_etcd_format_key_address(d, member);
}


static ngx_int_t
ngx_etcd_format_json(ngx_etcd_decode_t *d)
{
    json_t             *host;
    ngx_int_t           rc;
    ngx_etcd_member_t  *member;

    member = ngx_etcd_member_add(d);
    if (member == NULL) {
        return NGX_ERROR;
    }

    host = NULL;

    if (json_object_get(d->object, "address") == NULL) {
        host = json_object_get(d->object, "host");
    }

    if (host != NULL) {
        rc = ngx_etcd_member_host_port(d, member, host,
                                       json_object_get(d->object, "port"));
    } else {
        rc = ngx_etcd_format_json_address(d, member, "address");
    }

    if (rc != NGX_OK) {
        return rc;
    }

    return ngx_etcd_member_attributes(d, member, d->object);
}


/*
 * What etcd's own Go package puts is always an addition: a deletion deletes
 * the key.  So "Op" says nothing, and "Metadata" is the application's.
 */

static ngx_int_t
ngx_etcd_format_grpc(ngx_etcd_decode_t *d)
{
    ngx_etcd_member_t  *member;

    member = ngx_etcd_member_add(d);
    if (member == NULL) {
        return NGX_ERROR;
    }

    return ngx_etcd_format_json_address(d, member, "Addr");
}


static ngx_int_t
ngx_etcd_format_kitex(ngx_etcd_decode_t *d)
{
    ngx_etcd_member_t  *member;

    member = ngx_etcd_member_add(d);
    if (member == NULL) {
        return NGX_ERROR;
    }

    if (ngx_etcd_format_kitex_address(d, member) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_etcd_member_attributes(d, member, d->object);
}


static ngx_int_t
ngx_etcd_format_kitex_address(ngx_etcd_decode_t *d, ngx_etcd_member_t *member)
{
    u_char     *p;
    json_t     *network, *address;
    ngx_str_t   text;

    network = json_object_get(d->object, "network");
    address = json_object_get(d->object, "address");

    if (network == NULL) {
        return ngx_etcd_format_json_address(d, member, "address");
    }

    switch (ngx_etcd_format_kitex_family(network)) {

    case AF_INET:
        return ngx_etcd_format_json_address(d, member, "address");

    case AF_UNIX:
        break;

    default:
        return ngx_etcd_decode_invalid_json(d, "network", network,
                                            "is not tcp or unix");
    }

    if (!json_is_string(address)) {
        return ngx_etcd_format_json_address(d, member, "address");
    }

    /* the address is the bare path of the socket */

    text.len = sizeof("unix:") - 1 + json_string_length(address);

    text.data = ngx_pnalloc(d->pool, text.len);
    if (text.data == NULL) {
        return ngx_etcd_decode_invalid(d, "no memory", NULL, NULL);
    }

    p = ngx_cpymem(text.data, "unix:", sizeof("unix:") - 1);
    ngx_memcpy(p, json_string_value(address), json_string_length(address));

    return ngx_etcd_member_address(d, member, "address", &text);
}


/* AF_INET stands for both families of IP, AF_UNSPEC for what is unknown */

static ngx_uint_t
ngx_etcd_format_kitex_family(json_t *network)
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


static ngx_int_t
ngx_etcd_format_upsync(ngx_etcd_decode_t *d)
{
    ngx_etcd_member_t  *member;

    member = ngx_etcd_member_add(d);
    if (member == NULL) {
        return NGX_ERROR;
    }

    if (ngx_etcd_format_key_address(d, member) != NGX_OK) {
        return NGX_ERROR;
    }

    if (d->value.len == 0) {
        return NGX_OK;
    }

    /* auto has parsed it already */

    if (d->object == NULL && ngx_etcd_decode_object(d) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_etcd_member_attributes(d, member, d->object);
}


static ngx_int_t
ngx_etcd_format_key_address(ngx_etcd_decode_t *d, ngx_etcd_member_t *member)
{
    char       *err;
    u_char      buf[NGX_ETCD_FORMAT_SEGMENT];
    ngx_str_t   segment;

    err = ngx_etcd_format_segment(&d->key, &segment, buf);

    if (err != NULL) {
        return ngx_etcd_decode_invalid(d, NGX_ETCD_FORMAT_LAST, &segment, err);
    }

    return ngx_etcd_member_address(d, member, NGX_ETCD_FORMAT_LAST, &segment);
}


/*
 * Finds the last segment of the key and decodes it into buf, which is of
 * NGX_ETCD_FORMAT_SEGMENT bytes.  Returns NULL, or what is wrong with the
 * segment, which is left as it is in the key then.
 */

static char *
ngx_etcd_format_segment(ngx_str_t *key, ngx_str_t *segment, u_char *buf)
{
    u_char     *p, *dst, *last;
    ngx_int_t   c;

    last = key->data + key->len;

    for (p = last; p > key->data && p[-1] != '/'; p--) { /* void */ }

    segment->data = p;
    segment->len = last - p;

    if (segment->len > NGX_ETCD_FORMAT_SEGMENT) {
        return "is too long to be an address";
    }

    for (dst = buf; p < last; p++) {

        if (*p != '%') {
            *dst++ = *p;
            continue;
        }

        c = (last - p > 2) ? ngx_hextoi(p + 1, 2) : NGX_ERROR;

        if (c == NGX_ERROR) {
            return "has an invalid percent-encoding";
        }

        *dst++ = (u_char) c;
        p += 2;
    }

    segment->data = buf;
    segment->len = dst - buf;

    return NULL;
}


static ngx_int_t
ngx_etcd_format_json_address(ngx_etcd_decode_t *d, ngx_etcd_member_t *member,
    char *field)
{
    json_t     *address;
    ngx_str_t   text;

    address = json_object_get(d->object, field);

    if (address == NULL) {
        return ngx_etcd_decode_invalid(d, field, NULL, "is missing");
    }

    if (!json_is_string(address)) {
        return ngx_etcd_decode_invalid_json(d, field, address,
                                            "is not a string");
    }

    text.data = (u_char *) json_string_value(address);
    text.len = json_string_length(address);

    return ngx_etcd_member_address(d, member, field, &text);
}
