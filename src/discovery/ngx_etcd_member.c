
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A member as the formats make it: its attributes, or why it is none.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_format.h>


/* bytes of a text that a reason shows */

#define NGX_ETCD_REASON_SHOWN   64
#define NGX_ETCD_REASON_LEN     512

#define NGX_ETCD_ATTR_MAX       2147483647

/* seconds; as milliseconds it still fits into 32 bits */
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


typedef enum {
    NGX_ETCD_ATTR_WEIGHT = 0,
    NGX_ETCD_ATTR_MAX_FAILS,
    NGX_ETCD_ATTR_MAX_CONNS,
    NGX_ETCD_ATTR_FAIL_TIMEOUT,
    NGX_ETCD_ATTR_SLOW_START,
    NGX_ETCD_ATTR_DOWN,
    NGX_ETCD_ATTR_BACKUP,
    NGX_ETCD_ATTR_DRAIN
} ngx_etcd_attr_id_e;


typedef struct {
    ngx_str_t               name;
    ngx_etcd_attr_id_e      id;
    ngx_etcd_attr_type_e    type;
    ngx_int_t               max;
    char                   *otherwise;
} ngx_etcd_attr_t;


static const ngx_etcd_attr_t *ngx_etcd_attr_find(u_char *name, size_t len);
static ngx_int_t ngx_etcd_attr_json(const ngx_etcd_attr_t *row, json_t *value);
static ngx_int_t ngx_etcd_attr_text(const ngx_etcd_attr_t *row,
    ngx_str_t *text);
static void ngx_etcd_attr_set(ngx_etcd_member_attr_t *attr,
    ngx_etcd_attr_id_e id, ngx_int_t value);
static ngx_int_t ngx_etcd_decode_reason(ngx_etcd_decode_t *d, char *field,
    ngx_str_t *text, char *quote, char *what);


static const ngx_etcd_attr_t  ngx_etcd_attrs[] = {

    { ngx_string("weight"),
      NGX_ETCD_ATTR_WEIGHT,
      NGX_ETCD_ATTR_INTEGER,
      NGX_ETCD_MEMBER_MAX_WEIGHT,
      "is not an integer from 0 to " ngx_value(NGX_ETCD_MEMBER_MAX_WEIGHT) },

    { ngx_string("max_fails"),
      NGX_ETCD_ATTR_MAX_FAILS,
      NGX_ETCD_ATTR_INTEGER,
      NGX_ETCD_ATTR_MAX,
      NGX_ETCD_ATTR_NOT_INTEGER },

    { ngx_string("max_conns"),
      NGX_ETCD_ATTR_MAX_CONNS,
      NGX_ETCD_ATTR_INTEGER,
      NGX_ETCD_ATTR_MAX,
      NGX_ETCD_ATTR_NOT_INTEGER },

    { ngx_string("fail_timeout"),
      NGX_ETCD_ATTR_FAIL_TIMEOUT,
      NGX_ETCD_ATTR_SECONDS,
      NGX_ETCD_ATTR_MAX_TIME,
      NGX_ETCD_ATTR_NOT_TIME },

    { ngx_string("slow_start"),
      NGX_ETCD_ATTR_SLOW_START,
      NGX_ETCD_ATTR_MSECS,
      NGX_ETCD_ATTR_MAX_TIME * 1000,
      NGX_ETCD_ATTR_NOT_TIME },

    { ngx_string("down"),
      NGX_ETCD_ATTR_DOWN,
      NGX_ETCD_ATTR_FLAG,
      1,
      NGX_ETCD_ATTR_NOT_FLAG },

    { ngx_string("backup"),
      NGX_ETCD_ATTR_BACKUP,
      NGX_ETCD_ATTR_FLAG,
      1,
      NGX_ETCD_ATTR_NOT_FLAG },

    { ngx_string("drain"),
      NGX_ETCD_ATTR_DRAIN,
      NGX_ETCD_ATTR_FLAG,
      1,
      NGX_ETCD_ATTR_NOT_FLAG },

    { ngx_null_string, 0, 0, 0, NULL }
};


ngx_etcd_member_t *
ngx_etcd_member_add(ngx_etcd_decode_t *d)
{
    ngx_etcd_member_t       *member;
    ngx_etcd_member_attr_t  *attr, *defaults;

    member = ngx_array_push(d->members);
    if (member == NULL) {
        (void) ngx_etcd_decode_invalid(d, "no memory", NULL, NULL);
        return NULL;
    }

    /*
     * members are compared as bytes, so the padding must always be the same:
     * an assignment of the whole attributes would leave that open
     */

    ngx_memzero(member, sizeof(ngx_etcd_member_t));

    attr = &member->attr;
    defaults = &d->conf->defaults;

    attr->weight = defaults->weight;
    attr->max_fails = defaults->max_fails;
    attr->max_conns = defaults->max_conns;
    attr->fail_timeout = defaults->fail_timeout;
    attr->slow_start = defaults->slow_start;
    attr->down = defaults->down;
    attr->backup = defaults->backup;
    attr->drain = defaults->drain;

    return member;
}


ngx_int_t
ngx_etcd_member_attributes(ngx_etcd_decode_t *d, ngx_etcd_member_t *member,
    json_t *object)
{
    void                   *iter;
    u_char                 *name;
    json_t                 *value;
    ngx_int_t               n;
    const ngx_etcd_attr_t  *row;

    for (iter = json_object_iter(object);
         iter != NULL;
         iter = json_object_iter_next(object, iter))
    {
        name = (u_char *) json_object_iter_key(iter);

        row = ngx_etcd_attr_find(name, ngx_strlen(name));
        if (row == NULL) {
            continue;
        }

        value = json_object_iter_value(iter);

        n = ngx_etcd_attr_json(row, value);

        if (n == NGX_ERROR) {
            return ngx_etcd_decode_invalid_json(d, (char *) row->name.data,
                                                value, row->otherwise);
        }

        ngx_etcd_attr_set(&member->attr, row->id, n);
    }

    return NGX_OK;
}


ngx_int_t
ngx_etcd_member_parameter(ngx_str_t *parameter, ngx_etcd_member_attr_t *attr)
{
    u_char                 *last, *equals;
    ngx_int_t               n;
    ngx_str_t               text;
    const ngx_etcd_attr_t  *row;

    last = parameter->data + parameter->len;

    equals = ngx_strlchr(parameter->data, last, '=');
    if (equals == NULL) {
        return NGX_DECLINED;
    }

    row = ngx_etcd_attr_find(parameter->data, equals - parameter->data);
    if (row == NULL || row->type == NGX_ETCD_ATTR_FLAG) {
        return NGX_DECLINED;
    }

    text.data = equals + 1;
    text.len = last - text.data;

    n = ngx_etcd_attr_text(row, &text);
    if (n == NGX_ERROR) {
        return NGX_ERROR;
    }

    /* a member may be drained, but not all that say nothing of it */

    if (row->id == NGX_ETCD_ATTR_WEIGHT && n == 0) {
        return NGX_ERROR;
    }

    ngx_etcd_attr_set(attr, row->id, n);

    return NGX_OK;
}


static const ngx_etcd_attr_t *
ngx_etcd_attr_find(u_char *name, size_t len)
{
    const ngx_etcd_attr_t  *row;

    for (row = ngx_etcd_attrs; row->name.len; row++) {

        if (row->name.len == len
            && ngx_memcmp(row->name.data, name, len) == 0)
        {
            return row;
        }
    }

    return NULL;
}


/* returns the value in the unit of the type, or NGX_ERROR */

static ngx_int_t
ngx_etcd_attr_json(const ngx_etcd_attr_t *row, json_t *value)
{
    ngx_int_t   scale;
    ngx_str_t   text;
    json_int_t  n;

    if (row->type == NGX_ETCD_ATTR_FLAG && json_is_boolean(value)) {
        return json_is_true(value);
    }

    if (json_is_integer(value)) {
        n = json_integer_value(value);
        scale = (row->type == NGX_ETCD_ATTR_MSECS) ? 1000 : 1;

        if (n < 0 || n > row->max / scale) {
            return NGX_ERROR;
        }

        return n * scale;
    }

    if (json_is_string(value)
        && (row->type == NGX_ETCD_ATTR_SECONDS
            || row->type == NGX_ETCD_ATTR_MSECS))
    {
        text.data = (u_char *) json_string_value(value);
        text.len = json_string_length(value);

        return ngx_etcd_attr_text(row, &text);
    }

    return NGX_ERROR;
}


static ngx_int_t
ngx_etcd_attr_text(const ngx_etcd_attr_t *row, ngx_str_t *text)
{
    ngx_int_t  n;

    switch (row->type) {

    case NGX_ETCD_ATTR_SECONDS:
        n = ngx_parse_time(text, 1);
        break;

    case NGX_ETCD_ATTR_MSECS:
        n = ngx_parse_time(text, 0);
        break;

    default: /* NGX_ETCD_ATTR_INTEGER, NGX_ETCD_ATTR_FLAG */
        n = ngx_atoi(text->data, text->len);
        break;
    }

    return (n > row->max) ? NGX_ERROR : n;
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

    case NGX_ETCD_ATTR_DOWN:
        attr->down = (value != 0);
        break;

    case NGX_ETCD_ATTR_BACKUP:
        attr->backup = (value != 0);
        break;

    case NGX_ETCD_ATTR_DRAIN:

        /* a weight of 0 drains too, wherever it stands in the object */

        attr->drain |= (value != 0);
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
ngx_etcd_decode_invalid_json(ngx_etcd_decode_t *d, char *field, json_t *value,
    char *what)
{
    char       buf[NGX_ETCD_REASON_SHOWN];
    ngx_str_t  text;

    switch (json_typeof(value)) {

    case JSON_STRING:
        text.data = (u_char *) json_string_value(value);
        text.len = json_string_length(value);

        return ngx_etcd_decode_reason(d, field, &text, "\"", what);

    case JSON_OBJECT:
        ngx_str_set(&text, "{}");

        if (json_object_size(value)) {
            ngx_str_set(&text, "{...}");
        }

        break;

    case JSON_ARRAY:
        ngx_str_set(&text, "[]");

        if (json_array_size(value)) {
            ngx_str_set(&text, "[...]");
        }

        break;

    default: /* numbers, booleans, null: all of them fit */
        text.data = (u_char *) buf;
        text.len = ngx_min(json_dumpb(value, buf, sizeof(buf),
                                      JSON_ENCODE_ANY),
                           sizeof(buf));
        break;
    }

    return ngx_etcd_decode_reason(d, field, &text, "", what);
}


static ngx_int_t
ngx_etcd_decode_reason(ngx_etcd_decode_t *d, char *field, ngx_str_t *text,
    char *quote, char *what)
{
    u_char  *p, *last;
    u_char   buf[NGX_ETCD_REASON_LEN];

    /* fields and what are our own words: the text is all that is unknown */

    last = buf + sizeof(buf);

    p = ngx_slprintf(buf, last, "%s", field);

    if (text != NULL) {
        p = ngx_slprintf(p, last, " %s", quote);
        p = ngx_etcd_member_escape(p, text, NGX_ETCD_REASON_SHOWN);
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


u_char *
ngx_etcd_member_escape(u_char *p, ngx_str_t *text, size_t shown)
{
    u_char  *s, *last;

    last = text->data + ngx_min(text->len, shown);

    for (s = text->data; s < last; s++) {

        if (*s < 0x20 || *s >= 0x7f) {
            p = ngx_sprintf(p, "\\x%02xd", *s);
            continue;
        }

        if (*s == '"' || *s == '\\') {
            *p++ = '\\';
        }

        *p++ = *s;
    }

    if (text->len > shown) {
        p = ngx_cpymem(p, "...", 3);
    }

    return p;
}
