
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Functions that compare and split texts, which ngx_string.h lacks.
 */


#ifndef _NGX_ETCD_STR_H_INCLUDED_
#define _NGX_ETCD_STR_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * Escapes foreign bytes for logs and people: the result cannot start another
 * log line, end the quotes around it, or control a terminal.
 */

/* maximum length of an escaped text of "shown" bytes */
#define NGX_ETCD_ESCAPED(shown)  (4 * (shown) + sizeof("...") - 1)


/*
 * Writes at most "shown" bytes of the text, escaped, and "..." if the text is
 * longer.  Control bytes and bytes above 0x7e become "\x0a"; a quote and a
 * backslash are preceded by a backslash.  Returns the end of the output;
 * NGX_ETCD_ESCAPED(shown) bytes are enough.
 */
u_char *ngx_etcd_escape(u_char *p, ngx_str_t *text, size_t shown);

/* Returns 1 if there is a control byte (below 0x20, or 0x7f). */
ngx_uint_t ngx_etcd_escape_has_control(const u_char *data, size_t len);


/*
 * Foreign bytes as arguments of a log line, escaped (ngx_etcd_str.h).
 */

#define NGX_ETCD_SHOWN_LEN    256      /* bytes of one text */
#define NGX_ETCD_SHOWN_SLOTS  8        /* texts in one log line */


/*
 * Returns the escaped text as an argument for "%V" in a log line.  The result
 * is valid until NGX_ETCD_SHOWN_SLOTS more texts have been escaped.
 */
ngx_str_t *ngx_etcd_shown(ngx_str_t *text);
ngx_str_t *ngx_etcd_shown_bytes(const u_char *data, size_t len);


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


/* Returns 1 if the text can be a part of a variable's name. */

static ngx_inline ngx_uint_t
ngx_etcd_str_is_word(const ngx_str_t *text)
{
    u_char  c;
    size_t  i;

    for (i = 0; i < text->len; i++) {
        c = ngx_tolower(text->data[i]);

        if ((c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_') {
            return 0;
        }
    }

    return text->len != 0;
}


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
