
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_json_pointer.h>


char *
ngx_etcd_json_pointer_check(ngx_str_t *pointer)
{
    u_char  *p, *last;

    if (pointer->len > NGX_ETCD_JSON_POINTER_MAX) {
        return "is longer than " ngx_value(NGX_ETCD_JSON_POINTER_MAX) " bytes";
    }

    last = pointer->data + pointer->len;

    if (pointer->len != 0 && pointer->data[0] != '/') {
        return "does not begin with \"/\"";
    }

    for (p = pointer->data; p < last; p++) {

        if (*p == '~' && (p + 1 == last || (p[1] != '0' && p[1] != '1'))) {
            return "has a \"~\" that is not \"~0\" or \"~1\"";
        }
    }

    return NULL;
}


static json_t *
ngx_etcd_json_pointer_element(json_t *array, u_char *p, size_t len)
{
    ngx_int_t  n;

    n = ngx_atoi(p, len);

    if (n == NGX_ERROR || (len > 1 && p[0] == '0')) {
        return NULL;
    }

    return json_array_get(array, n);
}


static size_t
ngx_etcd_json_pointer_unescape(u_char *dst, u_char *p, size_t len)
{
    u_char  *start, *last;

    start = dst;

    for (last = p + len; p < last; p++) {

        if (*p == '~') {
            p++;
            *dst++ = (*p == '1') ? '/' : '~';
            continue;
        }

        *dst++ = *p;
    }

    return dst - start;
}


static json_t *
ngx_etcd_json_pointer_step(json_t *value, u_char *p, size_t len)
{
    u_char  buf[NGX_ETCD_JSON_POINTER_MAX];

    if (json_is_array(value)) {
        return ngx_etcd_json_pointer_element(value, p, len);
    }

    if (memchr(p, '~', len) != NULL) {
        len = ngx_etcd_json_pointer_unescape(buf, p, len);
        p = buf;
    }

    /* NULL if the value is not an object */

    return json_object_getn(value, (char *) p, len);
}


json_t *
ngx_etcd_json_pointer_get(json_t *value, const ngx_str_t *pointer)
{
    u_char  *p, *end, *last;

    p = pointer->data;
    last = p + pointer->len;

    while (p < last && value != NULL) {
        p++;

        end = memchr(p, '/', last - p);
        if (end == NULL) {
            end = last;
        }

        value = ngx_etcd_json_pointer_step(value, p, end - p);
        p = end;
    }

    return value;
}


ngx_uint_t
ngx_etcd_json_pointer_begins(const ngx_str_t *pointer, u_char *name, size_t len,
    ngx_str_t *rest)
{
    u_char  *p, *last, c;

    p = pointer->data + 1;
    last = pointer->data + pointer->len;

    for ( /* void */ ; p < last && *p != '/'; p++, name++, len--) {
        c = *p;

        if (c == '~') {
            c = (*++p == '1') ? '/' : '~';
        }

        if (len == 0 || *name != c) {
            return 0;
        }
    }

    rest->data = p;
    rest->len = last - p;

    return len == 0;
}


char *
ngx_etcd_json_pointer_name(const ngx_str_t *pointer)
{
    u_char  *p;

    p = pointer->data;

    if (pointer->len > 1 && memchr(p + 1, '/', pointer->len - 1) == NULL) {
        p++;
    }

    return (char *) p;
}
