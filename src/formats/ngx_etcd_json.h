
/*
 * Copyright (C) nginx-etcd contributors
 *
 * JSON (RFC 8259), parsed by jansson.
 *
 * The values of a text are in one block of memory, which is allocated before
 * the text is parsed.  jansson 2.14 does not notice when the buffer of its
 * scanner cannot grow: with malloc(), strings lose bytes and are read beyond
 * their end when memory is short.
 */


#ifndef _NGX_ETCD_JSON_H_INCLUDED_
#define _NGX_ETCD_JSON_H_INCLUDED_


#include <jansson.h>

#include <ngx_config.h>
#include <ngx_core.h>


/*
 * Strict UTF-8 (RFC 3629): ngx_utf8_decode() accepts surrogates, code points
 * above U+10FFFF, and stray continuation bytes.
 */

ngx_uint_t ngx_etcd_utf8_valid(u_char *p, u_char *last);


/* Removes a byte order mark, with which Windows begins a text. */
void ngx_etcd_utf8_skip_mark(ngx_str_t *text);


/* bytes; descriptions of all methods of a service take hundreds of KB */

#define NGX_ETCD_JSON_MAX_TEXT   524288

/* maximum length of a number from ngx_etcd_json_scalar() */

#define NGX_ETCD_JSON_NUMBER     32


typedef struct {
    json_t        *root;                  /* array or object; or NULL */
    json_error_t   error;                 /* text, line, column */

    u_char        *start;                 /* of the block */
    u_char        *free;
    u_char        *end;
} ngx_etcd_json_t;


/*
 * Parses a text of any length, whose root is an array or an object.  Zero
 * bytes, "\u0000", and two members of an object with one name are refused.
 * The only flag is JSON_DISABLE_EOF_CHECK: bytes after the root are ignored.
 *
 *     NGX_OK        json->root is set; ngx_etcd_json_done() has to follow,
 *     NGX_DECLINED  not JSON: json->error is set,
 *     NGX_ERROR     no memory.
 */
ngx_int_t ngx_etcd_json_parse(ngx_etcd_json_t *json, ngx_str_t *text,
    size_t flags);

/*
 * Parses a text as ngx_etcd_json_parse() does, unless it is longer than
 * NGX_ETCD_JSON_MAX_TEXT: such a text is refused.
 */
ngx_int_t ngx_etcd_json_read(ngx_etcd_json_t *json, ngx_str_t *text,
    size_t flags);

/* Frees all values; does nothing where json->start is NULL. */
void ngx_etcd_json_done(ngx_etcd_json_t *json);

/*
 * The following functions accept NULL as a value.  Texts point into values.
 */

/* NGX_DECLINED: the value is not a string. */
ngx_int_t ngx_etcd_json_string(json_t *value, ngx_str_t *text);

/* Returns 1 if the value is a string equal to text. */
ngx_uint_t ngx_etcd_json_equals(json_t *value, ngx_str_t *text);
ngx_uint_t ngx_etcd_json_says(json_t *value, char *text);

/*
 * Returns a string, number, true, false or null as text; buf has
 * NGX_ETCD_JSON_NUMBER bytes.  An integer is "1000" however it is written.
 * NGX_DECLINED: an array or an object, or no value.
 */
ngx_int_t ngx_etcd_json_scalar(json_t *value, u_char *buf, ngx_str_t *text);

/* Reads a decimal number in any form of JSON.  NGX_DECLINED: it is none. */
ngx_int_t ngx_etcd_json_number(ngx_str_t *text, double *number);


/*
 * JSON pointers (RFC 6901), as text: "/metadata/weight", "/a~1b", "/nodes/0".
 */

#define NGX_ETCD_JSON_POINTER_MAX  255    /* bytes */


/* Returns NULL, or what is wrong with the pointer. */
char *ngx_etcd_json_pointer_check(ngx_str_t *pointer);

/*
 * Returns the value that a valid pointer refers to, or NULL.  The empty
 * pointer refers to the value itself.  The value is borrowed.
 */
json_t *ngx_etcd_json_pointer_get(json_t *value, const ngx_str_t *pointer);

ngx_uint_t ngx_etcd_json_pointer_first(const ngx_str_t *pointer, u_char *name,
    size_t len, ngx_str_t *rest);


/*
 * Returns 1 if the first step of a non-empty pointer is that name; rest is
 * the remaining pointer.
 */

static ngx_inline ngx_uint_t
ngx_etcd_json_pointer_begins(const ngx_str_t *pointer, u_char *name, size_t len,
    ngx_str_t *rest)
{
    u_char  c;

    /* most names and pointers differ in their first character */

    if (len != 0 && pointer->len > 1) {
        c = pointer->data[1];

        if (c != name[0] && c != '~') {
            return 0;
        }
    }

    return ngx_etcd_json_pointer_first(pointer, name, len, rest);
}


/* Returns the pointer as shown in a reason: a single step as a field name. */
char *ngx_etcd_json_pointer_name(const ngx_str_t *pointer);


#endif /* _NGX_ETCD_JSON_H_INCLUDED_ */
