
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Functions that compare and split texts, which ngx_string.h lacks.
 */


#ifndef _NGX_ETCD_STR_H_INCLUDED_
#define _NGX_ETCD_STR_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* Returns 1 if the bytes are equal.  The data of an empty text may be NULL. */

static ngx_inline ngx_uint_t
ngx_etcd_str_equal(const ngx_str_t *one, const ngx_str_t *two)
{
    return one->len == two->len
           && (one->len == 0
               || ngx_memcmp(one->data, two->data, one->len) == 0);
}


/* Returns 1 if the texts are equal, upper and lower case being the same. */

static ngx_inline ngx_uint_t
ngx_etcd_str_alike(const ngx_str_t *one, const ngx_str_t *two)
{
    return one->len == two->len
           && ngx_strncasecmp(one->data, two->data, one->len) == 0;
}


/* 1 if the text is that literal */

#define ngx_etcd_str_is(text, literal)                                        \
    ((text)->len == sizeof(literal) - 1                                       \
     && ngx_strncmp((text)->data, literal, sizeof(literal) - 1) == 0)


/*
 * Splits a text at the first such byte, which is in neither part; the parts
 * point into the text.  Returns 0 if there is no such byte.
 */

static ngx_inline ngx_uint_t
ngx_etcd_str_cut(ngx_str_t *text, u_char c, ngx_str_t *name, ngx_str_t *value)
{
    u_char  *p, *last;

    last = text->data + text->len;
    p = ngx_strlchr(text->data, last, c);

    if (p == NULL) {
        return 0;
    }

    name->data = text->data;
    name->len = p - text->data;

    value->data = p + 1;
    value->len = last - value->data;

    return 1;
}


#endif /* _NGX_ETCD_STR_H_INCLUDED_ */
