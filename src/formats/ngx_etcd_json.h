
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A JSON parser (RFC 8259) into an array of nodes: an array or object is
 * followed by its elements.  The module uses jansson to write the status and
 * the state file, but not to read values: jansson allocates and hashes every
 * node and reads less than half a million values a second on a core
 * (t/bench/decode.pl).  Both parsers accept the same texts, except that this
 * one refuses zero bytes; t/fuzz/fuzz_json.c compares them.
 */


#ifndef _NGX_ETCD_JSON_H_INCLUDED_
#define _NGX_ETCD_JSON_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_ETCD_JSON_MAX_TEXT   65536    /* bytes */
#define NGX_ETCD_JSON_MAX_DEPTH  2048     /* the root has depth 1 */

/* nodes stored in the reader itself */

#define NGX_ETCD_JSON_FEW        64

/* length of an error message, and of the text cited in it */

#define NGX_ETCD_JSON_NEAR       20
#define NGX_ETCD_JSON_ERROR      (64 + NGX_ETCD_JSON_NEAR)

/* maximum length of a number from ngx_etcd_json_scalar() */

#define NGX_ETCD_JSON_NUMBER     32


typedef enum {
    NGX_ETCD_JSON_NULL = 0,
    NGX_ETCD_JSON_FALSE,
    NGX_ETCD_JSON_TRUE,
    NGX_ETCD_JSON_INTEGER,                /* fits in int64_t */
    NGX_ETCD_JSON_REAL,
    NGX_ETCD_JSON_STRING,
    NGX_ETCD_JSON_ARRAY,
    NGX_ETCD_JSON_OBJECT
} ngx_etcd_json_type_e;


typedef struct {
    ngx_str_t              name;          /* in its object */
    ngx_str_t              text;          /* string: decoded, without zeros;
                                             number: as written; array and
                                             object: len is the number of
                                             elements */
    uint32_t               type;          /* ngx_etcd_json_type_e */
    uint32_t               nodes;         /* 1 and all nodes in it */
} ngx_etcd_json_t;


/* A reader may be on the stack.  Nodes point into the reader and the text. */

typedef struct {
    ngx_etcd_json_t       *nodes;         /* the root is first */
    ngx_uint_t             n;
    ngx_uint_t             max;
    ngx_uint_t             open;          /* the innermost array or object */
    ngx_uint_t             depth;         /* number of open values */

    u_char                *start;
    u_char                *p;
    u_char                *last;

    u_char                *decoded;       /* buffer for strings with escapes */
    u_char                *end;           /* of decoded */

    ngx_str_t              error;         /* may contain any bytes */
    ngx_uint_t             line;          /* of the error, from 1 */
    ngx_uint_t             column;        /* in characters, from 1 */
    u_char                 buf[NGX_ETCD_JSON_ERROR];

    ngx_etcd_json_t        few[NGX_ETCD_JSON_FEW];
} ngx_etcd_json_reader_t;


/*
 * Parses a text, which is not modified; the root must be an array or an
 * object.
 *
 *     NGX_OK     success: reader->nodes,
 *     NGX_DONE   the root is followed by more than white space; the nodes and
 *                the error are set,
 *     NGX_ERROR  invalid, or no memory: the error is set.
 *
 * ngx_etcd_json_done() must follow in each case; it frees the nodes, the
 * error stays valid.
 */
ngx_int_t ngx_etcd_json_read(ngx_etcd_json_reader_t *reader, ngx_str_t *text);
void ngx_etcd_json_done(ngx_etcd_json_reader_t *reader);

/*
 * The first element of an array or object, and the node after a value.  The
 * nodes before ngx_etcd_json_next() of the array or object are its elements.
 */
#define ngx_etcd_json_first(json)  ((json) + 1)
#define ngx_etcd_json_next(json)   ((json) + (json)->nodes)

/*
 * Returns the member of that name; NULL: none, not an object, or json is
 * NULL.
 */
ngx_etcd_json_t *ngx_etcd_json_get(ngx_etcd_json_t *json, u_char *name,
    size_t len);
#define ngx_etcd_json_field(json, name)                                       \
    ngx_etcd_json_get(json, (u_char *) name, sizeof(name) - 1)

/* Returns element n; NULL: there is none, or the value is not an array. */
ngx_etcd_json_t *ngx_etcd_json_element(ngx_etcd_json_t *json, ngx_uint_t n);

/* json may be NULL */
#define ngx_etcd_json_is(json, t)  ((json) != NULL && (json)->type == (t))

/* Returns 1 if json is a string equal to text; json may be NULL. */
ngx_uint_t ngx_etcd_json_equals(ngx_etcd_json_t *json, u_char *text,
    size_t len);
#define ngx_etcd_json_says(json, s)                                           \
    ngx_etcd_json_equals(json, (u_char *) s, sizeof(s) - 1)

/* Returns the value of an integer; 0: not an integer, or json is NULL. */
int64_t ngx_etcd_json_integer(ngx_etcd_json_t *json);

/*
 * Returns a string, number, true, false or null as text; buf has
 * NGX_ETCD_JSON_NUMBER bytes.  A number has the form that jansson writes:
 * "1e3" is "1000.0".  NGX_DECLINED: an array or an object.
 */
ngx_int_t ngx_etcd_json_scalar(ngx_etcd_json_t *json, u_char *buf,
    ngx_str_t *text);


#endif /* _NGX_ETCD_JSON_H_INCLUDED_ */
