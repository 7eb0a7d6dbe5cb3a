
/*
 * Copyright (C) nginx-etcd contributors
 *
 * JSON (RFC 8259) as values have it, read into an array of nodes: what is in
 * an array or an object follows it there.  It is our own because jansson,
 * which writes the status and the state file, allocates and hashes every node
 * and keeps a core below half a million values a second (t/bench/decode.pl).
 * What it takes and refuses is the same, but for zero bytes, of which we take
 * none; t/fuzz/fuzz_json.c compares.
 */


#ifndef _NGX_ETCD_JSON_H_INCLUDED_
#define _NGX_ETCD_JSON_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_ETCD_JSON_MAX_TEXT   65536    /* bytes */
#define NGX_ETCD_JSON_MAX_DEPTH  2048     /* the outermost value is at 1 */

/* nodes that need no memory of their own */

#define NGX_ETCD_JSON_FEW        64

/* what is wrong, and the bytes of the text at which it is */

#define NGX_ETCD_JSON_NEAR       20
#define NGX_ETCD_JSON_ERROR      (64 + NGX_ETCD_JSON_NEAR)

/* the longest number as ngx_etcd_json_scalar() shows it */

#define NGX_ETCD_JSON_NUMBER     32


typedef enum {
    NGX_ETCD_JSON_NULL = 0,
    NGX_ETCD_JSON_FALSE,
    NGX_ETCD_JSON_TRUE,
    NGX_ETCD_JSON_INTEGER,                /* of 64 bits */
    NGX_ETCD_JSON_REAL,
    NGX_ETCD_JSON_STRING,
    NGX_ETCD_JSON_ARRAY,
    NGX_ETCD_JSON_OBJECT
} ngx_etcd_json_type_e;


typedef struct {
    ngx_str_t              name;          /* as a member of an object */
    ngx_str_t              text;          /* a string, decoded and without
                                             zeros; a number as it is written;
                                             len of what has values in it:
                                             their number */
    uint32_t               type;          /* ngx_etcd_json_type_e */
    uint32_t               nodes;         /* it and all that is in it */
} ngx_etcd_json_t;


/* may be on the stack; nodes point into it, and into the text that was read */

typedef struct {
    ngx_etcd_json_t       *nodes;         /* the first one is the root */
    ngx_uint_t             n;
    ngx_uint_t             max;
    ngx_uint_t             open;          /* the innermost array or object */
    ngx_uint_t             depth;         /* how many are open */

    u_char                *start;
    u_char                *p;
    u_char                *last;

    u_char                *decoded;       /* strings that had escapes */
    u_char                *end;           /* of those that are there */

    ngx_str_t              error;         /* may cite any bytes */
    ngx_uint_t             line;          /* where it is, from 1 */
    ngx_uint_t             column;        /* in characters, from 1 */
    u_char                 buf[NGX_ETCD_JSON_ERROR];

    ngx_etcd_json_t        few[NGX_ETCD_JSON_FEW];
} ngx_etcd_json_reader_t;


/*
 * Reads a text, which stays as it is, that has to be an array or an object.
 *
 *     NGX_OK     it is: reader->nodes,
 *     NGX_DONE   it begins with one, which is read, and goes on with more
 *                than white space: the error is set,
 *     NGX_ERROR  it is broken, or there is no memory: the error is set.
 *
 * ngx_etcd_json_done() has to follow in each case; nodes are gone then, the
 * error is not.
 */
ngx_int_t ngx_etcd_json_read(ngx_etcd_json_reader_t *reader, ngx_str_t *text);
void ngx_etcd_json_done(ngx_etcd_json_reader_t *reader);

/*
 * The first value in an array or object, and what follows a value.  They are
 * values as long as they are before what follows the array or object itself.
 */
#define ngx_etcd_json_first(json)  ((json) + 1)
#define ngx_etcd_json_next(json)   ((json) + (json)->nodes)

/* the member of that name; NULL: none, or no object, or json is NULL */
ngx_etcd_json_t *ngx_etcd_json_get(ngx_etcd_json_t *json, u_char *name,
    size_t len);
#define ngx_etcd_json_field(json, name)                                       \
    ngx_etcd_json_get(json, (u_char *) name, sizeof(name) - 1)

/* that element; NULL: there is none, or it is no array */
ngx_etcd_json_t *ngx_etcd_json_element(ngx_etcd_json_t *json, ngx_uint_t n);

/* json may be NULL */
#define ngx_etcd_json_is(json, t)  ((json) != NULL && (json)->type == (t))

/* 1 if it is that string; json may be NULL */
ngx_uint_t ngx_etcd_json_equals(ngx_etcd_json_t *json, u_char *text,
    size_t len);
#define ngx_etcd_json_says(json, s)                                           \
    ngx_etcd_json_equals(json, (u_char *) s, sizeof(s) - 1)

/* what it is worth; 0: it is no integer, or NULL */
int64_t ngx_etcd_json_integer(ngx_etcd_json_t *json);

/*
 * A string, a number, true, false or null as text; buf is of
 * NGX_ETCD_JSON_NUMBER bytes.  A number is as jansson writes it: "1e3" is
 * "1000.0".  NGX_DECLINED: it is an array or an object.
 */
ngx_int_t ngx_etcd_json_scalar(ngx_etcd_json_t *json, u_char *buf,
    ngx_str_t *text);


#endif /* _NGX_ETCD_JSON_H_INCLUDED_ */
