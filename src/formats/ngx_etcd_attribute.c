
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_attribute.h>
#include <ngx_etcd_json.h>
#include <ngx_etcd_str.h>


/* precedence 0 is the middle priority */
#define NGX_ETCD_ATTR_FIRST     32768
#define NGX_ETCD_ATTR_LAST      -32767

#define NGX_ETCD_ATTR_NOT_COUNT                                               \
    "is not an integer from 0 on; its default is used"
#define NGX_ETCD_ATTR_NOT_INTEGER                                             \
    "is not an integer; its default is used"
#define NGX_ETCD_ATTR_NOT_TIME                                                \
    "is not a time like \"10s\" or a number of seconds; its default is used"
#define NGX_ETCD_ATTR_NOT_FLAG                                                \
    "is not true or false; it counts as set"
#define NGX_ETCD_ATTR_NOT_ROUTE                                               \
    "is not a route of up to 32 characters; its default is used"


typedef enum {
    NGX_ETCD_ATTR_INTEGER = 0,
    NGX_ETCD_ATTR_SECONDS,
    NGX_ETCD_ATTR_MSECS,
    NGX_ETCD_ATTR_FLAG,
    NGX_ETCD_ATTR_TEXT
} ngx_etcd_attr_type_e;


typedef struct {
    ngx_str_t               name;
    ngx_etcd_attr_type_e    type;
    size_t                  offset;        /* of the number, in the attributes
                                              of a member */
    ngx_int_t               min;
    ngx_int_t               max;           /* greater numbers count as it */
    ngx_int_t               parameter;     /* maximum in etcd_members; 0: not
                                              allowed there */
    char                   *otherwise;
} ngx_etcd_attr_t;


/* indexed by ngx_etcd_attr_id_e */

static const ngx_etcd_attr_t  ngx_etcd_attrs[] = {

    { ngx_string("weight"), NGX_ETCD_ATTR_INTEGER,
      offsetof(ngx_etcd_member_attr_t, weight),
      0, NGX_ETCD_ATTR_MAX, NGX_ETCD_MEMBER_MAX_WEIGHT,
      NGX_ETCD_ATTR_NOT_COUNT },

    { ngx_string("max_fails"), NGX_ETCD_ATTR_INTEGER,
      offsetof(ngx_etcd_member_attr_t, max_fails),
      0, NGX_ETCD_ATTR_MAX, NGX_ETCD_ATTR_MAX, NGX_ETCD_ATTR_NOT_COUNT },

    { ngx_string("max_conns"), NGX_ETCD_ATTR_INTEGER,
      offsetof(ngx_etcd_member_attr_t, max_conns),
      0, NGX_ETCD_ATTR_MAX, NGX_ETCD_ATTR_MAX, NGX_ETCD_ATTR_NOT_COUNT },

    { ngx_string("fail_timeout"), NGX_ETCD_ATTR_SECONDS,
      offsetof(ngx_etcd_member_attr_t, fail_timeout),
      0, NGX_ETCD_ATTR_MAX_TIME, NGX_ETCD_ATTR_MAX_TIME,
      NGX_ETCD_ATTR_NOT_TIME },

    { ngx_string("slow_start"), NGX_ETCD_ATTR_MSECS,
      offsetof(ngx_etcd_member_attr_t, slow_start),
      0, NGX_ETCD_ATTR_MAX_TIME * 1000, NGX_ETCD_ATTR_MAX_TIME * 1000,
      NGX_ETCD_ATTR_NOT_TIME },

    { ngx_string("priority"), NGX_ETCD_ATTR_INTEGER,
      offsetof(ngx_etcd_member_attr_t, priority),
      0, NGX_ETCD_MEMBER_MAX_PRIORITY, 0, NGX_ETCD_ATTR_NOT_COUNT },

    { ngx_string("precedence"), NGX_ETCD_ATTR_INTEGER, 0,
      NGX_ETCD_ATTR_LAST, NGX_ETCD_ATTR_FIRST, 0, NGX_ETCD_ATTR_NOT_INTEGER },

    { ngx_string("down"), NGX_ETCD_ATTR_FLAG, 0, 0, 1, 0,
      NGX_ETCD_ATTR_NOT_FLAG },

    { ngx_string("backup"), NGX_ETCD_ATTR_FLAG, 0, 0, 1, 0,
      NGX_ETCD_ATTR_NOT_FLAG },

    { ngx_string("drain"), NGX_ETCD_ATTR_FLAG, 0, 0, 1, 0,
      NGX_ETCD_ATTR_NOT_FLAG },

    { ngx_string("route"), NGX_ETCD_ATTR_TEXT, 0, 0, 0, 0, NULL }
};


ngx_etcd_field_t  ngx_etcd_attribute_fields[] = {
    NGX_ETCD_ATTRIBUTE_FIELDS(0)
};


/*
 * Iterates over the members of the node, not over the fields: most objects
 * have fewer members, and comparing is cheaper than a lookup.
 */

ngx_uint_t
ngx_etcd_attribute_read(ngx_etcd_decode_t *d, ngx_etcd_member_t *member,
    ngx_etcd_field_t *fields, json_t *node)
{
    void              *iter;
    size_t             len;
    u_char            *name;
    json_t            *value;
    ngx_str_t          rest;
    ngx_uint_t         known, others;
    ngx_etcd_field_t  *field;

    others = 0;

    for (iter = json_object_iter(node);
         iter != NULL;
         iter = json_object_iter_next(node, iter))
    {
        name = (u_char *) json_object_iter_key(iter);
        len = json_object_iter_key_len(iter);
        known = 0;

        for (field = fields; field && field->path.data != NULL; field++) {

            if (!ngx_etcd_json_pointer_begins(&field->path, name, len, &rest))
            {
                continue;
            }

            known = 1;
            value = ngx_etcd_json_pointer_get(json_object_iter_value(iter),
                                              &rest);

            if (value != NULL) {
                ngx_etcd_attribute_value(d, member, field, value);
            }
        }

        others += !known;
    }

    return others;
}


/* nginx sends the route in a cookie. */

ngx_uint_t
ngx_etcd_attribute_is_route(ngx_str_t *text)
{
    u_char      c;
    ngx_uint_t  i;

    if (text->len > NGX_ETCD_MEMBER_MAX_ROUTE) {
        return 0;
    }

    for (i = 0; i < text->len; i++) {
        c = text->data[i];

        if (c <= ' ' || c >= 0x7f || c == '"' || c == ',' || c == ';'
            || c == '\\')
        {
            return 0;
        }
    }

    return 1;
}


static void
ngx_etcd_attribute_set(ngx_etcd_member_attr_t *attr, ngx_etcd_attr_id_e id,
    ngx_int_t value)
{
    switch (id) {

    case NGX_ETCD_ATTR_PRECEDENCE:
        attr->priority = NGX_ETCD_ATTR_FIRST - value;
        return;

    /* several fields may set a flag, and a weight of 0 drains too */

    case NGX_ETCD_ATTR_DOWN:
        attr->down |= (value != 0);
        return;

    case NGX_ETCD_ATTR_BACKUP:
        attr->backup |= (value != 0);
        return;

    case NGX_ETCD_ATTR_DRAIN:
        attr->drain |= (value != 0);
        return;

    case NGX_ETCD_ATTR_WEIGHT:
        if (value == 0) {
            attr->drain = 1;
            return;
        }

        break;

    default:
        break;
    }

    *(uint32_t *) ((u_char *) attr + ngx_etcd_attrs[id].offset) = value;
}


/* The reason is set. */

static void
ngx_etcd_attribute_skip(ngx_etcd_decode_t *d, ngx_etcd_member_t *member,
    ngx_etcd_field_t *field)
{
    ngx_etcd_decode_skip(d);

    /* each flag keeps requests away, which a word of any kind may mean */

    if (ngx_etcd_attribute_is_flag(field->id)) {
        ngx_etcd_attribute_set(&member->attr, field->id, 1);
    }
}


static void
ngx_etcd_attribute_route(ngx_etcd_decode_t *d, ngx_etcd_member_t *member,
    ngx_etcd_field_t *field, json_t *value)
{
    ngx_str_t  text;

    if (json_is_null(value)) {
        return;
    }

    if (ngx_etcd_json_string(value, &text) != NGX_OK
        || !ngx_etcd_attribute_is_route(&text))
    {
        (void) ngx_etcd_decode_invalid_json(d,
                                      ngx_etcd_json_pointer_name(&field->path),
                                            value, NGX_ETCD_ATTR_NOT_ROUTE);
        ngx_etcd_attribute_skip(d, member, field);
        return;
    }

    member->route.len = text.len;
    ngx_memcpy(member->route.data, text.data, text.len);
}


/* A number beyond the limits counts as the limit, if the format allows it. */

static ngx_int_t
ngx_etcd_attribute_number(const ngx_etcd_attr_t *row, ngx_uint_t how,
    double number, ngx_int_t *n)
{
    if (row->type == NGX_ETCD_ATTR_FLAG) {
        *n = (number != 0);
        return NGX_OK;
    }

    if (row->type == NGX_ETCD_ATTR_MSECS) {
        number *= 1000;
    }

    number = ngx_min(number, row->max);

    if (number < row->min) {

        if (row->min == 0
            && !(how & (NGX_ETCD_FIELD_ZERO|NGX_ETCD_FIELD_NEGATIVE)))
        {
            return NGX_ERROR;
        }

        number = row->min;
    }

    *n = (ngx_int_t) number;

    return (*n == number) ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
ngx_etcd_attribute_flag(ngx_str_t *text)
{
    ngx_uint_t  i;

    static const ngx_str_t  words[] = {
        ngx_string("false"), ngx_string("true"),
        ngx_string("no"), ngx_string("yes"),
        ngx_string("off"), ngx_string("on"),
        ngx_string("f"), ngx_string("t"),
        ngx_string("n"), ngx_string("y"),
    };

    for (i = 0; i < sizeof(words) / sizeof(ngx_str_t); i++) {
        if (ngx_etcd_str_alike(&words[i], text)) {
            return i & 1;
        }
    }

    return NGX_ERROR;
}


static ngx_int_t
ngx_etcd_attribute_parse(const ngx_etcd_attr_t *row, ngx_uint_t how,
    ngx_str_t *text, ngx_int_t *n)
{
    double  number;

    if (text->len == 0) {
        return NGX_DECLINED;
    }

    if (ngx_etcd_json_number(text, &number) == NGX_OK) {
        return ngx_etcd_attribute_number(row, how, number, n);
    }

    switch (row->type) {

    case NGX_ETCD_ATTR_FLAG:
        *n = ngx_etcd_attribute_flag(text);
        break;

    case NGX_ETCD_ATTR_SECONDS:
        *n = ngx_parse_time(text, 1);
        break;

    case NGX_ETCD_ATTR_MSECS:
        *n = ngx_parse_time(text, 0);
        break;

    default: /* NGX_ETCD_ATTR_INTEGER */
        return NGX_ERROR;
    }

    if (*n == NGX_ERROR) {
        return NGX_ERROR;
    }

    *n = ngx_min(*n, row->max);

    return NGX_OK;
}


/*
 * Reads the value; *n is in the unit of the type.  NGX_DECLINED: there is none,
 * writers put null or an empty string.
 */

static ngx_int_t
ngx_etcd_attribute_json(const ngx_etcd_attr_t *row, ngx_etcd_field_t *field,
    json_t *value, ngx_int_t *n)
{
    u_char      buf[NGX_ETCD_JSON_NUMBER];
    ngx_str_t   text;

    if (json_is_null(value)) {
        return NGX_DECLINED;
    }

    if (field->equals.len != 0) {
        *n = ngx_etcd_json_scalar(value, buf, &text) == NGX_OK
             && ngx_etcd_str_equal(&text, &field->equals);
        return NGX_OK;
    }

    if (ngx_etcd_json_string(value, &text) == NGX_OK) {
        return ngx_etcd_attribute_parse(row, field->how, &text, n);
    }

    if (json_is_number(value)) {
        return ngx_etcd_attribute_number(row, field->how,
                                         json_number_value(value), n);
    }

    if (json_is_boolean(value) && row->type == NGX_ETCD_ATTR_FLAG) {
        *n = json_is_true(value);
        return NGX_OK;
    }

    return NGX_ERROR;
}


static void
ngx_etcd_attribute_apply(ngx_etcd_member_t *member, ngx_etcd_field_t *field,
    ngx_int_t n)
{
    if (n == 0 && (field->how & NGX_ETCD_FIELD_ZERO)) {
        return;
    }

    if (field->how & NGX_ETCD_FIELD_NOT) {
        n = !n;
    }

    ngx_etcd_attribute_set(&member->attr, field->id, n);
}


void
ngx_etcd_attribute_value(ngx_etcd_decode_t *d, ngx_etcd_member_t *member,
    ngx_etcd_field_t *field, json_t *value)
{
    ngx_int_t               n;
    const ngx_etcd_attr_t  *row;

    row = &ngx_etcd_attrs[field->id];

    if (row->type == NGX_ETCD_ATTR_TEXT) {
        ngx_etcd_attribute_route(d, member, field, value);
        return;
    }

    switch (ngx_etcd_attribute_json(row, field, value, &n)) {

    case NGX_OK:
        ngx_etcd_attribute_apply(member, field, n);
        break;

    case NGX_ERROR:
        (void) ngx_etcd_decode_invalid_json(d,
                                      ngx_etcd_json_pointer_name(&field->path),
                                            value, row->otherwise);
        ngx_etcd_attribute_skip(d, member, field);
        break;
    }
}


void
ngx_etcd_attribute_text(ngx_etcd_decode_t *d, ngx_etcd_member_t *member,
    ngx_etcd_field_t *field, ngx_str_t *text)
{
    ngx_int_t               n;
    const ngx_etcd_attr_t  *row;

    row = &ngx_etcd_attrs[field->id];

    if (field->equals.len != 0) {
        n = ngx_etcd_str_equal(text, &field->equals);
        ngx_etcd_attribute_apply(member, field, n);
        return;
    }

    switch (ngx_etcd_attribute_parse(row, field->how, text, &n)) {

    case NGX_OK:
        ngx_etcd_attribute_apply(member, field, n);
        break;

    case NGX_ERROR:
        ngx_etcd_attribute_invalid(d, member, field, text, row->otherwise);
        break;
    }
}


void
ngx_etcd_attribute_invalid(ngx_etcd_decode_t *d, ngx_etcd_member_t *member,
    ngx_etcd_field_t *field, ngx_str_t *text, char *what)
{
    (void) ngx_etcd_decode_invalid(d, (char *) field->path.data, text, what);
    ngx_etcd_attribute_skip(d, member, field);
}


ngx_int_t
ngx_etcd_attribute_parameter(ngx_str_t *parameter, ngx_etcd_member_attr_t *attr)
{
    ngx_int_t               n;
    ngx_str_t               name, text;
    ngx_uint_t              id;
    const ngx_etcd_attr_t  *row;

    if (!ngx_etcd_str_cut(parameter, '=', &name, &text)) {
        return NGX_DECLINED;
    }

    id = ngx_etcd_attribute_find(&name);

    if (id == NGX_ETCD_ATTR_N || !ngx_etcd_attrs[id].parameter) {
        return NGX_DECLINED;
    }

    row = &ngx_etcd_attrs[id];

    /* a weight of 0 drains a single member, but must not be the default */

    if (ngx_etcd_attribute_parse(row, 0, &text, &n) != NGX_OK
        || n > row->parameter
        || (id == NGX_ETCD_ATTR_WEIGHT && n == 0))
    {
        return NGX_ERROR;
    }

    ngx_etcd_attribute_set(attr, id, n);

    return NGX_OK;
}


ngx_uint_t
ngx_etcd_attribute_find(ngx_str_t *name)
{
    ngx_uint_t  id;

    for (id = 0; id < NGX_ETCD_ATTR_N; id++) {
        if (ngx_etcd_str_equal(&ngx_etcd_attrs[id].name, name)) {
            break;
        }
    }

    return id;
}


ngx_uint_t
ngx_etcd_attribute_is_flag(ngx_uint_t id)
{
    return ngx_etcd_attrs[id].type == NGX_ETCD_ATTR_FLAG;
}
