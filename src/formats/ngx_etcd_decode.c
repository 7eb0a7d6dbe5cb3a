
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_decode.h>
#include <ngx_etcd_json.h>
#include <ngx_etcd_str.h>


/* bytes of the parts of a reason: field and text, description */

#define NGX_ETCD_REASON_SHOWN   64
#define NGX_ETCD_REASON_WHAT    160
#define NGX_ETCD_REASON_LEN                                                   \
    (2 * NGX_ETCD_ESCAPED(NGX_ETCD_REASON_SHOWN)                              \
     + NGX_ETCD_REASON_WHAT)

#define NGX_ETCD_REASON_MORE    (sizeof("; and  more") + NGX_INT64_LEN)


static ngx_str_t  ngx_etcd_decode_no_member =
    ngx_string("is not a member in this format");
static ngx_str_t  ngx_etcd_no_lease =
    ngx_string("has no lease, and \"lease=required\" is set");


/* The data of an empty text may be NULL. */

static ngx_uint_t
ngx_etcd_decode_has_zero(ngx_str_t *text)
{
    return text->len != 0 && memchr(text->data, '\0', text->len) != NULL;
}


static ngx_int_t
ngx_etcd_decode_check_key(ngx_etcd_decode_t *d)
{
    char  *err;

    if (d->key.len > NGX_ETCD_DECODE_MAX_KEY) {
        err = "is longer than " ngx_value(NGX_ETCD_DECODE_MAX_KEY) " bytes";

    } else if (ngx_etcd_decode_has_zero(&d->key)) {
        err = "has a NUL byte";

    } else if (!ngx_etcd_utf8_valid(d->key.data, d->key.data + d->key.len)) {
        err = "is not valid UTF-8";

    } else {
        return NGX_OK;
    }

    return ngx_etcd_decode_invalid(d, "key", &d->key, err);
}


static ngx_int_t
ngx_etcd_decode_check_value(ngx_etcd_decode_t *d)
{
    const ngx_str_t          *end;
    const ngx_etcd_format_t  *format;

    format = d->conf->format;

    /* a directory, as created by tools that treat keys as a file system */

    if (d->value.len == 0
        && d->key.len
        && d->key.data[d->key.len - 1] == '/')
    {
        return NGX_DECLINED;
    }

    if (format->value == NGX_ETCD_VALUE_IGNORED) {
        return NGX_OK;
    }

    if (d->value.len > NGX_ETCD_DECODE_MAX_VALUE) {
        return ngx_etcd_decode_invalid(d, "value", &d->value,
                                       "is longer than "
                                       ngx_value(NGX_ETCD_DECODE_MAX_VALUE)
                                       " bytes");
    }

    if (ngx_etcd_decode_has_zero(&d->value)) {
        return ngx_etcd_decode_invalid(d, "value", &d->value,
                                       "has a NUL byte");
    }

    ngx_etcd_decode_trim(&d->value);

    end = &format->other_key;

    if (end->len != 0
        && d->key.len >= end->len
        && ngx_memcmp(d->key.data + d->key.len - end->len, end->data, end->len)
           == 0)
    {
        return NGX_DECLINED;
    }

    if (format->other_value.len != 0
        && ngx_etcd_str_equal(&d->value, &format->other_value))
    {
        return NGX_DECLINED;
    }

    return (format->value == NGX_ETCD_VALUE_JSON) ? ngx_etcd_decode_object(d)
                                                  : NGX_OK;
}


/* Removes duplicate addresses; the first member is kept. */

static ngx_int_t
ngx_etcd_decode_nodes(ngx_etcd_decode_t *d, ngx_uint_t first)
{
    ngx_uint_t          i, k, n;
    ngx_etcd_member_t  *member;

    member = d->members->elts;

    for (i = n = first; i < d->members->nelts; i++) {

        for (k = first; k < n; k++) {
            if (member[k].socklen == member[i].socklen
                && ngx_memcmp(&member[k].sockaddr, &member[i].sockaddr,
                              member[i].socklen)
                   == 0)
            {
                break;
            }
        }

        if (k < n) {
            continue;
        }

        if (i != n) {
            member[n] = member[i];
        }

        n++;
    }

    d->members->nelts = n;

    return (n > first) ? NGX_OK : NGX_DECLINED;
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
        return ngx_etcd_decode_no_memory(d);
    }

    ngx_memcpy(d->reason->data, buf, d->reason->len);

    return NGX_ERROR;
}


/*
 * Weights that are too great are divided, with the other weights of the value:
 * their proportions stay.
 */

static void
ngx_etcd_decode_scale(ngx_etcd_decode_t *d, ngx_uint_t first)
{
    u_char              buf[NGX_INT64_LEN];
    uint64_t            most, weight;
    ngx_str_t           text;
    ngx_uint_t          i;
    ngx_etcd_member_t  *member;

    member = d->members->elts;
    most = 0;

    for (i = first; i < d->members->nelts; i++) {
        most = ngx_max(most, member[i].attr.weight);
    }

    if (most <= NGX_ETCD_MEMBER_MAX_WEIGHT) {
        return;
    }

    for (i = first; i < d->members->nelts; i++) {
        weight = (uint64_t) member[i].attr.weight * NGX_ETCD_MEMBER_MAX_WEIGHT;
        member[i].attr.weight = ngx_max(1, weight / most);
    }

    if (d->members->nelts - first == 1) {
        text.data = buf;
        text.len = ngx_sprintf(buf, "%uL", most) - buf;

        (void) ngx_etcd_decode_reason(d, "weight", &text, "", "is greater than "
                                      ngx_value(NGX_ETCD_MEMBER_MAX_WEIGHT)
                                      ", which is used");
        ngx_etcd_decode_skip(d);
    }
}


/* Makes a reason of all parts that were skipped. */

static void
ngx_etcd_decode_rest(ngx_etcd_decode_t *d)
{
    u_char  *p;

    if (d->skipped == 0) {
        ngx_str_null(d->reason);
        return;
    }

    *d->reason = d->first;

    if (d->skipped == 1) {
        return;
    }

    p = ngx_pnalloc(d->pool, d->first.len + NGX_ETCD_REASON_MORE);
    if (p == NULL) {
        d->failed = 1;
        return;
    }

    d->reason->data = p;
    d->reason->len = ngx_sprintf(p, "%V; and %ui more", &d->first,
                                 d->skipped - 1)
                     - p;
}


ngx_int_t
ngx_etcd_decode_members(ngx_etcd_decode_t *d, ngx_etcd_reason_t *reason)
{
    ngx_int_t   rc;
    ngx_uint_t  n;

    n = d->members->nelts;

    rc = ngx_etcd_decode_check_key(d);

    if (rc == NGX_OK && d->object == NULL) {
        rc = ngx_etcd_decode_check_value(d);
    }

    if (rc == NGX_OK) {
        rc = d->conf->format->decode(d);
    }

    ngx_etcd_json_done(&d->json);

    if (rc == NGX_OK) {
        rc = ngx_etcd_decode_nodes(d, n);
    }

    if (rc == NGX_OK) {
        ngx_etcd_decode_scale(d, n);
    }

    if (rc == NGX_DECLINED) {
        ngx_etcd_decode_unused(d, NGX_ETCD_UNUSED_OTHER,
                               &ngx_etcd_decode_no_member);
    }

    if (rc != NGX_ERROR) {
        ngx_etcd_decode_rest(d);
    }

    if (d->failed) {
        rc = ngx_etcd_decode_no_memory(d);
    }

    if (rc != NGX_OK) {
        d->members->nelts = n;
    }

    reason->nodes = d->nodes;
    reason->note = d->note;

    /* a key that is used may have nodes that are not selected */

    reason->unused = (rc == NGX_DECLINED
                      || (rc == NGX_OK && d->unused == NGX_ETCD_UNUSED_FIELD))
                     ? d->unused : NGX_ETCD_UNUSED_NONE;

    return rc;
}


ngx_int_t
ngx_etcd_decode(ngx_etcd_member_conf_t *conf, ngx_str_t *key,
    ngx_str_t *value, ngx_pool_t *pool, ngx_array_t *members,
    ngx_etcd_reason_t *reason)
{
    ngx_etcd_decode_t  d;

    ngx_etcd_decode_init(&d, conf, key, pool, members, &reason->text);

    d.value = *value;

    return ngx_etcd_decode_members(&d, reason);
}


void
ngx_etcd_decode_init(ngx_etcd_decode_t *d, ngx_etcd_member_conf_t *conf,
    ngx_str_t *key, ngx_pool_t *pool, ngx_array_t *members,
    ngx_str_t *reason)
{
    d->conf = conf;
    d->layout = (conf->layout != NULL) ? conf->layout : &conf->format->layout;
    d->key = *key;
    ngx_str_null(&d->value);
    d->object = NULL;
    d->port = NULL;
    d->json.start = NULL;
    d->pool = pool;
    d->members = members;
    d->reason = reason;
    d->skipped = 0;
    d->nodes = 0;
    d->failed = 0;
    d->near = 0;
    d->unused = NGX_ETCD_UNUSED_NONE;
    ngx_etcd_decode_weight(d, conf->format->weight);

    ngx_str_null(&d->note);
    ngx_str_null(reason);
}


void
ngx_etcd_decode_weight(ngx_etcd_decode_t *d, ngx_uint_t weight)
{
    if (d->conf->defaults.weight != 0) {
        weight = d->conf->defaults.weight;
    }

    d->weight = weight ? weight : 1;
}


void
ngx_etcd_decode_skip(ngx_etcd_decode_t *d)
{
    if (d->skipped++ == 0) {
        d->first = *d->reason;
    }
}


void
ngx_etcd_decode_unused(ngx_etcd_decode_t *d, ngx_etcd_unused_e unused,
    ngx_str_t *text)
{
    if (d->unused == NGX_ETCD_UNUSED_NONE) {
        d->unused = unused;
        d->note = *text;
    }
}


ngx_uint_t
ngx_etcd_decode_unleased(ngx_etcd_member_conf_t *conf, int64_t lease,
    ngx_array_t *members, ngx_etcd_reason_t *reason)
{
    if (!conf->lease || lease != 0) {
        return 0;
    }

    members->nelts = 0;

    ngx_memzero(reason, sizeof(ngx_etcd_reason_t));
    reason->unused = NGX_ETCD_UNUSED_LEASE;
    reason->note = ngx_etcd_no_lease;

    return 1;
}


ngx_uint_t
ngx_etcd_decode_node(ngx_etcd_decode_t *d, ngx_int_t rc, ngx_uint_t first)
{
    if (rc != NGX_ERROR) {
        return 1;
    }

    d->members->nelts = first;
    d->nodes++;

    ngx_etcd_decode_skip(d);

    return 0;
}


void
ngx_etcd_decode_trim(ngx_str_t *text)
{
    u_char  *p, *last;

    ngx_etcd_utf8_skip_mark(text);

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


ngx_int_t
ngx_etcd_decode_object(ngx_etcd_decode_t *d)
{
    u_char        *last;
    u_char         field[sizeof("value is broken JSON at line , column :")
                         + 2 * NGX_INT64_LEN];
    ngx_int_t      rc;
    ngx_str_t      what;
    json_error_t  *error;

    if (d->value.len == 0 || d->value.data[0] != '{') {
        return ngx_etcd_decode_invalid(d, "value", &d->value,
                                       "is not a JSON object");
    }

    rc = ngx_etcd_json_read(&d->json, &d->value, 0);

    if (rc == NGX_ERROR) {
        return ngx_etcd_decode_no_memory(d);
    }

    if (rc != NGX_OK) {
        error = &d->json.error;

        last = ngx_snprintf(field, sizeof(field) - 1,
                            "value is broken JSON at line %d, column %d:",
                            error->line, error->column);
        *last = '\0';

        what.data = (u_char *) error->text;
        what.len = ngx_strlen(what.data);

        return ngx_etcd_decode_invalid(d, (char *) field, &what, NULL);
    }

    d->object = d->json.root;

    return NGX_OK;
}


ngx_etcd_member_t *
ngx_etcd_decode_add(ngx_etcd_decode_t *d)
{
    ngx_etcd_member_t  *member;

    if (d->members->nelts >= NGX_ETCD_DECODE_MAX_NODES) {
        (void) ngx_etcd_decode_invalid(d, "value", &d->value,
                                       "has more than "
                                       ngx_value(NGX_ETCD_DECODE_MAX_NODES)
                                       " members");
        return NULL;
    }

    member = ngx_array_push(d->members);
    if (member == NULL) {
        (void) ngx_etcd_decode_no_memory(d);
        return NULL;
    }

    /*
     * Members are compared as bytes, padding included, which the assignment of
     * a struct would leave undefined.
     */

    ngx_memzero(member, sizeof(ngx_etcd_member_t));
    ngx_memcpy(&member->attr, &d->conf->defaults,
               sizeof(ngx_etcd_member_attr_t));

    member->attr.weight = d->weight;

    return member;
}


ngx_int_t
ngx_etcd_decode_no_memory(ngx_etcd_decode_t *d)
{
    d->failed = 1;
    ngx_str_set(d->reason, "no memory");

    return NGX_ERROR;
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
