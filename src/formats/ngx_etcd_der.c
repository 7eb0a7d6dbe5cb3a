
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_der.h>


ngx_int_t
ngx_etcd_der_read(ngx_str_t *text, u_char tag, ngx_str_t *content)
{
    size_t       len, left;
    u_char      *p;
    ngx_uint_t   n;

    if (text->len < 2 || text->data[0] != tag) {
        return NGX_DECLINED;
    }

    p = text->data + 1;
    left = text->len - 2;
    len = *p++;

    if (len & 0x80) {
        n = len & 0x7f;

        if (n == 0 || n > 2 || n > left) {
            return NGX_DECLINED;
        }

        left -= n;
        len = (n == 1) ? p[0] : (size_t) p[0] << 8 | p[1];

        if (len < ((n == 1) ? 0x80 : 0x100)) {
            return NGX_DECLINED;
        }

        p += n;
    }

    if (len > left) {
        return NGX_DECLINED;
    }

    content->data = p;
    content->len = len;

    text->data = p + len;
    text->len = left - len;

    return NGX_OK;
}


ngx_int_t
ngx_etcd_der_optional(ngx_str_t *text, u_char tag, ngx_str_t *content)
{
    if (text->len != 0 && text->data[0] == tag) {
        return ngx_etcd_der_read(text, tag, content);
    }

    ngx_str_null(content);

    return NGX_OK;
}


ngx_int_t
ngx_etcd_der_integer(ngx_str_t *text, ngx_str_t *content)
{
    if (ngx_etcd_der_read(text, NGX_ETCD_DER_INTEGER, content) != NGX_OK
        || content->len == 0
        || (content->data[0] & 0x80))
    {
        return NGX_DECLINED;
    }

    if (content->data[0] != 0) {
        return NGX_OK;
    }

    content->data++;
    content->len--;

    return (content->len == 0 || (content->data[0] & 0x80)) ? NGX_OK
                                                            : NGX_DECLINED;
}


ngx_int_t
ngx_etcd_der_bytes(ngx_str_t *text, ngx_str_t *content)
{
    if (ngx_etcd_der_read(text, NGX_ETCD_DER_BIT_STRING, content) != NGX_OK
        || content->len == 0
        || content->data[0] != 0)
    {
        return NGX_DECLINED;
    }

    content->data++;
    content->len--;

    return NGX_OK;
}


ngx_uint_t
ngx_etcd_der_bits(ngx_str_t *integer)
{
    u_char      first;
    ngx_uint_t  bits;

    if (integer->len == 0) {
        return 0;
    }

    bits = integer->len * 8;

    for (first = integer->data[0]; !(first & 0x80); first <<= 1) {
        bits--;
    }

    return bits;
}
