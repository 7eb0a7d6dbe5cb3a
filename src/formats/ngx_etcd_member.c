
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A member and its attributes, and the reason if a value is invalid.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_escape.h>
#include <ngx_etcd_format.h>


/* bytes of the parts of a reason: field and text, description */

#define NGX_ETCD_REASON_SHOWN   64
#define NGX_ETCD_REASON_WHAT    160
#define NGX_ETCD_REASON_LEN                                                   \
    (2 * NGX_ETCD_ESCAPED(NGX_ETCD_REASON_SHOWN)                              \
     + NGX_ETCD_REASON_WHAT)

#define NGX_ETCD_ATTR_MAX       2147483647

/* precedence 0 is the middle priority */
#define NGX_ETCD_ATTR_FIRST     32768
#define NGX_ETCD_ATTR_LAST      -32767

/* seconds; fits in 32 bits as milliseconds */
#define NGX_ETCD_ATTR_MAX_TIME  2147483

#define NGX_ETCD_ATTR_NOT_INTEGER                                             \
    "is not an integer from 0 to " ngx_value(NGX_ETCD_ATTR_MAX)
#define NGX_ETCD_ATTR_NOT_TIME                                                \
    "is not a time like \"10s\" or an integer of seconds from 0 to "          \
    ngx_value(NGX_ETCD_ATTR_MAX_TIME)
#define NGX_ETCD_ATTR_NOT_FLAG                                                \
    "is not true, false, 1 or 0"


typedef enum {
    NGX_ETCD_ATTR_INTEGER = 0,
    NGX_ETCD_ATTR_SECONDS,
    NGX_ETCD_ATTR_MSECS,
    NGX_ETCD_ATTR_FLAG
} ngx_etcd_attr_type_e;


typedef struct {
    ngx_str_t               name;
    ngx_etcd_attr_type_e    type;
    ngx_int_t               min;
    ngx_int_t               max;
    ngx_uint_t              parameter;     /* allowed in etcd_members */
    char                   *otherwise;
} ngx_etcd_attr_t;


static ngx_int_t ngx_etcd_attr_json(const ngx_etcd_attr_t *row,
    ngx_etcd_field_t *field, json_t *value, ngx_int_t *n);
static ngx_int_t ngx_etcd_attr_text(const ngx_etcd_attr_t *row,
    ngx_str_t *text, ngx_int_t *n);
static ngx_int_t ngx_etcd_attr_equals(ngx_etcd_field_t *field,
    ngx_str_t *text);
static void ngx_etcd_attr_said(ngx_etcd_member_t *member,
    ngx_etcd_field_t *field, ngx_int_t n);
static void ngx_etcd_attr_set(ngx_etcd_member_attr_t *attr,
    ngx_etcd_attr_id_e id, ngx_int_t value);
static ngx_int_t ngx_etcd_decode_reason(ngx_etcd_decode_t *d, char *field,
    ngx_str_t *text, char *quote, char *what);


/* indexed by ngx_etcd_attr_id_e */

static const ngx_etcd_attr_t  ngx_etcd_attrs[] = {

    { ngx_string("weight"),
      NGX_ETCD_ATTR_INTEGER,
      0,
      NGX_ETCD_MEMBER_MAX_WEIGHT,
      1,
      "is not an integer from 0 to " ngx_value(NGX_ETCD_MEMBER_MAX_WEIGHT) },

    { ngx_string("max_fails"),
      NGX_ETCD_ATTR_INTEGER,
      0,
      NGX_ETCD_ATTR_MAX,
      1,
      NGX_ETCD_ATTR_NOT_INTEGER },

    { ngx_string("max_conns"),
      NGX_ETCD_ATTR_INTEGER,
      0,
      NGX_ETCD_ATTR_MAX,
      1,
      NGX_ETCD_ATTR_NOT_INTEGER },

    { ngx_string("fail_timeout"),
      NGX_ETCD_ATTR_SECONDS,
      0,
      NGX_ETCD_ATTR_MAX_TIME,
      1,
      NGX_ETCD_ATTR_NOT_TIME },

    { ngx_string("slow_start"),
      NGX_ETCD_ATTR_MSECS,
      0,
      NGX_ETCD_ATTR_MAX_TIME * 1000,
      1,
      NGX_ETCD_ATTR_NOT_TIME },

    { ngx_string("priority"),
      NGX_ETCD_ATTR_INTEGER,
      0,
      NGX_ETCD_MEMBER_MAX_PRIORITY,
      0,
      "is not an integer from 0 to " ngx_value(NGX_ETCD_MEMBER_MAX_PRIORITY) },

    { ngx_string("precedence"),
      NGX_ETCD_ATTR_INTEGER,
      NGX_ETCD_ATTR_LAST,
      NGX_ETCD_ATTR_FIRST,
      0,
      "is not an integer from " ngx_value(NGX_ETCD_ATTR_LAST) " to "
      ngx_value(NGX_ETCD_ATTR_FIRST) },

    { ngx_string("down"),
      NGX_ETCD_ATTR_FLAG,
      0,
      1,
      0,
      NGX_ETCD_ATTR_NOT_FLAG },

    { ngx_string("backup"),
      NGX_ETCD_ATTR_FLAG,
      0,
      1,
      0,
      NGX_ETCD_ATTR_NOT_FLAG },

    { ngx_string("drain"),
      NGX_ETCD_ATTR_FLAG,
      0,
      1,
      0,
      NGX_ETCD_ATTR_NOT_FLAG }
};


ngx_etcd_field_t  ngx_etcd_fields[] = {

    { ngx_string("/weight"), NGX_ETCD_ATTR_WEIGHT, 0, ngx_null_string },
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

    { ngx_null_string, 0, 0, ngx_null_string }
};


ngx_etcd_member_t *
ngx_etcd_member_add(ngx_etcd_decode_t *d)
{
    ngx_etcd_member_t       *member;
    ngx_etcd_member_attr_t  *attr, *defaults;

    if (d->members->nelts >= NGX_ETCD_MEMBER_MAX_NODES) {
        (void) ngx_etcd_decode_invalid(d, "value", &d->value,
                                       "has more than "
                                       ngx_value(NGX_ETCD_MEMBER_MAX_NODES)
                                       " members");
        return NULL;
    }

    member = ngx_array_push(d->members);
    if (member == NULL) {
        (void) ngx_etcd_decode_invalid(d, "no memory", NULL, NULL);
        return NULL;
    }

    /*
     * Members are compared as bytes, padding included: an assignment of the
     * whole struct would leave the padding undefined.
     */

    ngx_memzero(member, sizeof(ngx_etcd_member_t));

    attr = &member->attr;
    defaults = &d->conf->defaults;

    attr->weight = defaults->weight;
    attr->max_fails = defaults->max_fails;
    attr->max_conns = defaults->max_conns;
    attr->fail_timeout = defaults->fail_timeout;
    attr->slow_start = defaults->slow_start;
    attr->priority = defaults->priority;
    attr->down = defaults->down;
    attr->backup = defaults->backup;
    attr->drain = defaults->drain;

    return member;
}


/*
 * Iterates over the members of the node, not over the fields: most objects
 * have fewer members, and comparing is cheaper than a lookup.
 */

ngx_int_t
ngx_etcd_member_fields(ngx_etcd_decode_t *d, ngx_etcd_member_t *member,
    ngx_etcd_field_t *fields, json_t *node)
{
    void              *iter;
    size_t             len;
    u_char            *name;
    json_t            *value;
    ngx_str_t          rest;
    ngx_etcd_field_t  *field;

    for (iter = json_object_iter(node);
         iter != NULL;
         iter = json_object_iter_next(node, iter))
    {
        name = (u_char *) json_object_iter_key(iter);
        len = json_object_iter_key_len(iter);

        for (field = fields; field->path.data != NULL; field++) {

            if (!ngx_etcd_json_pointer_begins(&field->path, name, len, &rest))
            {
                continue;
            }

            value = ngx_etcd_json_pointer_get(json_object_iter_value(iter),
                                              &rest);

            if (value != NULL
                && ngx_etcd_member_field(d, member, field, value) != NGX_OK)
            {
                return NGX_ERROR;
            }
        }
    }

    return NGX_OK;
}


ngx_int_t
ngx_etcd_member_field(ngx_etcd_decode_t *d, ngx_etcd_member_t *member,
    ngx_etcd_field_t *field, json_t *value)
{
    ngx_int_t               n;
    const ngx_etcd_attr_t  *row;

    row = &ngx_etcd_attrs[field->id];

    if (ngx_etcd_attr_json(row, field, value, &n) == NGX_OK) {
        ngx_etcd_attr_said(member, field, n);
        return NGX_OK;
    }

    if (field->how & NGX_ETCD_FIELD_LOOSE) {
        return NGX_OK;
    }

    return ngx_etcd_decode_invalid_json(d,
                                      ngx_etcd_json_pointer_name(&field->path),
                                      value, row->otherwise);
}


ngx_int_t
ngx_etcd_member_field_text(ngx_etcd_decode_t *d, ngx_etcd_member_t *member,
    ngx_etcd_field_t *field, ngx_str_t *text)
{
    ngx_int_t               n;
    const ngx_etcd_attr_t  *row;

    row = &ngx_etcd_attrs[field->id];

    if (field->equals.len != 0) {
        ngx_etcd_attr_said(member, field, ngx_etcd_attr_equals(field, text));
        return NGX_OK;
    }

    if (ngx_etcd_attr_text(row, text, &n) == NGX_OK) {
        ngx_etcd_attr_said(member, field, n);
        return NGX_OK;
    }

    if (field->how & NGX_ETCD_FIELD_LOOSE) {
        return NGX_OK;
    }

    return ngx_etcd_decode_invalid(d, (char *) field->path.data, text,
                                   row->otherwise);
}


ngx_int_t
ngx_etcd_member_parameter(ngx_str_t *parameter, ngx_etcd_member_attr_t *attr)
{
    u_char                 *equals;
    ngx_int_t               n;
    ngx_str_t               name, text;
    ngx_uint_t              id;
    const ngx_etcd_attr_t  *row;

    equals = ngx_strlchr(parameter->data, parameter->data + parameter->len,
                         '=');
    if (equals == NULL) {
        return NGX_DECLINED;
    }

    name.data = parameter->data;
    name.len = equals - parameter->data;

    id = ngx_etcd_attr_find(&name);

    if (id == NGX_ETCD_ATTR_N || !ngx_etcd_attrs[id].parameter) {
        return NGX_DECLINED;
    }

    row = &ngx_etcd_attrs[id];

    text.data = equals + 1;
    text.len = parameter->len - name.len - 1;

    /* a weight of 0 drains a single member, but must not be the default */

    if (ngx_etcd_attr_text(row, &text, &n) != NGX_OK
        || (id == NGX_ETCD_ATTR_WEIGHT && n == 0))
    {
        return NGX_ERROR;
    }

    ngx_etcd_attr_set(attr, id, n);

    return NGX_OK;
}


ngx_uint_t
ngx_etcd_attr_find(ngx_str_t *name)
{
    ngx_uint_t              id;
    const ngx_etcd_attr_t  *row;

    for (id = 0; id < NGX_ETCD_ATTR_N; id++) {
        row = &ngx_etcd_attrs[id];

        if (row->name.len == name->len
            && ngx_memcmp(row->name.data, name->data, name->len) == 0)
        {
            break;
        }
    }

    return id;
}


ngx_uint_t
ngx_etcd_attr_is_flag(ngx_uint_t id)
{
    return ngx_etcd_attrs[id].type == NGX_ETCD_ATTR_FLAG;
}


/* Reads the value; *n is in the unit of the type. */

static ngx_int_t
ngx_etcd_attr_json(const ngx_etcd_attr_t *row, ngx_etcd_field_t *field,
    json_t *value, ngx_int_t *n)
{
    u_char      buf[NGX_ETCD_JSON_NUMBER];
    ngx_int_t   scale;
    ngx_str_t   text;
    json_int_t  i;

    if (field->equals.len != 0) {
        *n = !json_is_null(value)
             && ngx_etcd_json_scalar(value, buf, &text) == NGX_OK
             && ngx_etcd_attr_equals(field, &text);
        return NGX_OK;
    }

    if (row->type == NGX_ETCD_ATTR_FLAG && json_is_boolean(value)) {
        *n = json_is_true(value);
        return NGX_OK;
    }

    if (json_is_integer(value)) {
        i = json_integer_value(value);
        scale = (row->type == NGX_ETCD_ATTR_MSECS) ? 1000 : 1;

        if (i < row->min || i > row->max / scale) {
            return NGX_ERROR;
        }

        *n = i * scale;
        return NGX_OK;
    }

    if (ngx_etcd_json_string(value, &text) == NGX_OK
        && (row->type == NGX_ETCD_ATTR_SECONDS
            || row->type == NGX_ETCD_ATTR_MSECS
            || (field->how & NGX_ETCD_FIELD_TEXT)))
    {
        return ngx_etcd_attr_text(row, &text, n);
    }

    return NGX_ERROR;
}


static ngx_int_t
ngx_etcd_attr_text(const ngx_etcd_attr_t *row, ngx_str_t *text, ngx_int_t *n)
{
    switch (row->type) {

    case NGX_ETCD_ATTR_SECONDS:
        *n = ngx_parse_time(text, 1);
        break;

    case NGX_ETCD_ATTR_MSECS:
        *n = ngx_parse_time(text, 0);
        break;

    case NGX_ETCD_ATTR_FLAG:

        if (text->len == 4 && ngx_strncmp(text->data, "true", 4) == 0) {
            *n = 1;
            return NGX_OK;
        }

        if (text->len == 5 && ngx_strncmp(text->data, "false", 5) == 0) {
            *n = 0;
            return NGX_OK;
        }

        /* fall through */

    default: /* NGX_ETCD_ATTR_INTEGER */
        *n = ngx_atoi(text->data, text->len);
        break;
    }

    return (*n == NGX_ERROR || *n > row->max) ? NGX_ERROR : NGX_OK;
}


static ngx_int_t
ngx_etcd_attr_equals(ngx_etcd_field_t *field, ngx_str_t *text)
{
    return text->len == field->equals.len
           && ngx_memcmp(text->data, field->equals.data, text->len) == 0;
}


static void
ngx_etcd_attr_said(ngx_etcd_member_t *member, ngx_etcd_field_t *field,
    ngx_int_t n)
{
    if (n == 0 && (field->how & NGX_ETCD_FIELD_ZERO)) {
        return;
    }

    if (field->how & NGX_ETCD_FIELD_NOT) {
        n = !n;
    }

    ngx_etcd_attr_set(&member->attr, field->id, n);
}


static void
ngx_etcd_attr_set(ngx_etcd_member_attr_t *attr, ngx_etcd_attr_id_e id,
    ngx_int_t value)
{
    switch (id) {

    case NGX_ETCD_ATTR_WEIGHT:
        if (value == 0) {
            attr->drain = 1;
            break;
        }

        attr->weight = value;
        break;

    case NGX_ETCD_ATTR_MAX_FAILS:
        attr->max_fails = value;
        break;

    case NGX_ETCD_ATTR_MAX_CONNS:
        attr->max_conns = value;
        break;

    case NGX_ETCD_ATTR_FAIL_TIMEOUT:
        attr->fail_timeout = value;
        break;

    case NGX_ETCD_ATTR_SLOW_START:
        attr->slow_start = value;
        break;

    case NGX_ETCD_ATTR_PRIORITY:
        attr->priority = value;
        break;

    case NGX_ETCD_ATTR_PRECEDENCE:
        attr->priority = NGX_ETCD_ATTR_FIRST - value;
        break;

    /* several fields may set a flag, and a weight of 0 drains too */

    case NGX_ETCD_ATTR_DOWN:
        attr->down |= (value != 0);
        break;

    case NGX_ETCD_ATTR_BACKUP:
        attr->backup |= (value != 0);
        break;

    case NGX_ETCD_ATTR_DRAIN:
        attr->drain |= (value != 0);
        break;

    case NGX_ETCD_ATTR_N:
        break;
    }
}


ngx_int_t
ngx_etcd_decode_invalid(ngx_etcd_decode_t *d, char *field, ngx_str_t *text,
    char *what)
{
    return ngx_etcd_decode_reason(d, field, text, "\"", what);
}


ngx_int_t
ngx_etcd_decode_invalid_json(ngx_etcd_decode_t *d, char *field,
    json_t *value, char *what)
{
    char       *quote;
    u_char      buf[NGX_ETCD_JSON_NUMBER];
    ngx_str_t   text;

    quote = json_is_string(value) ? "\"" : "";

    if (ngx_etcd_json_scalar(value, buf, &text) != NGX_OK) {

        if (json_array_size(value) != 0) {
            ngx_str_set(&text, "[...]");

        } else if (json_object_size(value) != 0) {
            ngx_str_set(&text, "{...}");

        } else if (json_is_array(value)) {
            ngx_str_set(&text, "[]");

        } else {
            ngx_str_set(&text, "{}");
        }
    }

    return ngx_etcd_decode_reason(d, field, &text, quote, what);
}


static ngx_int_t
ngx_etcd_decode_reason(ngx_etcd_decode_t *d, char *field, ngx_str_t *text,
    char *quote, char *what)
{
    u_char     *p, *last;
    u_char      buf[NGX_ETCD_REASON_LEN];
    ngx_str_t   name;

    /* a field may be a JSON pointer from the configuration: escape it */

    last = buf + sizeof(buf);

    name.data = (u_char *) field;
    name.len = ngx_strlen(field);

    p = ngx_etcd_escape(buf, &name, NGX_ETCD_REASON_SHOWN);

    if (text != NULL) {
        p = ngx_slprintf(p, last, " %s", quote);
        p = ngx_etcd_escape(p, text, NGX_ETCD_REASON_SHOWN);
        p = ngx_slprintf(p, last, "%s", quote);
    }

    if (what != NULL) {
        p = ngx_slprintf(p, last, " %s", what);
    }

    d->reason->len = p - buf;
    d->reason->data = ngx_pnalloc(d->pool, d->reason->len);

    if (d->reason->data == NULL) {
        ngx_str_set(d->reason, "no memory");
        return NGX_ERROR;
    }

    ngx_memcpy(d->reason->data, buf, d->reason->len);

    return NGX_ERROR;
}
