
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_json_scan.h>


static ngx_int_t ngx_etcd_json_step(ngx_etcd_json_reader_t *reader);
static ngx_int_t ngx_etcd_json_name(ngx_etcd_json_reader_t *reader,
    ngx_etcd_json_t *object, ngx_str_t *name);
static ngx_int_t ngx_etcd_json_value(ngx_etcd_json_reader_t *reader,
    ngx_str_t *name);
static ngx_etcd_json_t *ngx_etcd_json_add(ngx_etcd_json_reader_t *reader,
    ngx_str_t *name);
static ngx_int_t ngx_etcd_json_grow(ngx_etcd_json_reader_t *reader);
static ngx_int_t ngx_etcd_json_open(ngx_etcd_json_reader_t *reader,
    ngx_etcd_json_t *node, ngx_etcd_json_type_e type);
static ngx_int_t ngx_etcd_json_close(ngx_etcd_json_reader_t *reader);
static ngx_inline u_char ngx_etcd_json_peek(ngx_etcd_json_reader_t *reader);


ngx_int_t
ngx_etcd_json_read(ngx_etcd_json_reader_t *reader, ngx_str_t *text)
{
    u_char     c;
    ngx_str_t  name;

    reader->nodes = reader->few;
    reader->n = 0;
    reader->max = NGX_ETCD_JSON_FEW;
    reader->open = 0;
    reader->depth = 0;

    reader->start = text->data;
    reader->p = text->data;
    reader->last = text->data + text->len;

    reader->decoded = NULL;
    reader->end = NULL;

    if (text->len > NGX_ETCD_JSON_MAX_TEXT) {
        return ngx_etcd_json_fail(reader, reader->p, "text too long");
    }

    c = ngx_etcd_json_peek(reader);

    if (c != '{' && c != '[') {
        return ngx_etcd_json_fail(reader, reader->p, "'[' or '{' expected");
    }

    ngx_str_null(&name);

    if (ngx_etcd_json_value(reader, &name) != NGX_OK) {
        return NGX_ERROR;
    }

    while (reader->depth != 0) {
        if (ngx_etcd_json_step(reader) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    (void) ngx_etcd_json_peek(reader);

    if (reader->p < reader->last) {
        (void) ngx_etcd_json_fail(reader, reader->p, "end expected");
        return NGX_DONE;
    }

    return NGX_OK;
}


void
ngx_etcd_json_done(ngx_etcd_json_reader_t *reader)
{
    if (reader->nodes != reader->few) {
        ngx_free(reader->nodes);
        reader->nodes = reader->few;
    }

    if (reader->decoded != NULL) {
        ngx_free(reader->decoded);
        reader->decoded = NULL;
    }
}


/* Reads one more value of the innermost array or object, or its end. */

static ngx_int_t
ngx_etcd_json_step(ngx_etcd_json_reader_t *reader)
{
    u_char            c;
    ngx_str_t         name;
    ngx_uint_t        object;
    ngx_etcd_json_t  *node;

    node = &reader->nodes[reader->open];
    object = (node->type == NGX_ETCD_JSON_OBJECT);

    c = ngx_etcd_json_peek(reader);

    if (c == (object ? '}' : ']')) {
        return ngx_etcd_json_close(reader);
    }

    if (node->text.len != 0) {

        if (c != ',') {
            return ngx_etcd_json_fail(reader, reader->p,
                                      object ? "',' or '}' expected"
                                             : "',' or ']' expected");
        }

        reader->p++;
    }

    ngx_str_null(&name);

    if (object && ngx_etcd_json_name(reader, node, &name) != NGX_OK) {
        return NGX_ERROR;
    }

    node->text.len++;

    return ngx_etcd_json_value(reader, &name);
}


static ngx_int_t
ngx_etcd_json_name(ngx_etcd_json_reader_t *reader, ngx_etcd_json_t *object,
    ngx_str_t *name)
{
    if (ngx_etcd_json_peek(reader) != '"') {
        return ngx_etcd_json_fail(reader, reader->p,
                                  object->text.len ? "string expected"
                                                  : "string or '}' expected");
    }

    if (ngx_etcd_json_string(reader, name) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_etcd_json_peek(reader) != ':') {
        return ngx_etcd_json_fail(reader, reader->p, "':' expected");
    }

    reader->p++;

    return NGX_OK;
}


/* Reads a scalar, or the start of an array or object. */

static ngx_int_t
ngx_etcd_json_value(ngx_etcd_json_reader_t *reader, ngx_str_t *name)
{
    u_char            c;
    ngx_etcd_json_t  *node;

    c = ngx_etcd_json_peek(reader);

    if (reader->p == reader->last) {
        return ngx_etcd_json_fail(reader, reader->p, "value expected");
    }

    if (reader->depth == NGX_ETCD_JSON_MAX_DEPTH) {
        return ngx_etcd_json_fail(reader, reader->p,
                                  "maximum parsing depth reached");
    }

    node = ngx_etcd_json_add(reader, name);
    if (node == NULL) {
        return NGX_ERROR;
    }

    switch (c) {

    case '{':
        return ngx_etcd_json_open(reader, node, NGX_ETCD_JSON_OBJECT);

    case '[':
        return ngx_etcd_json_open(reader, node, NGX_ETCD_JSON_ARRAY);

    case '"':
        node->type = NGX_ETCD_JSON_STRING;
        return ngx_etcd_json_string(reader, &node->text);

    default:
        return ngx_etcd_json_word(reader, node);
    }
}


static ngx_etcd_json_t *
ngx_etcd_json_add(ngx_etcd_json_reader_t *reader, ngx_str_t *name)
{
    ngx_etcd_json_t  *node;

    if (reader->n == reader->max && ngx_etcd_json_grow(reader) != NGX_OK) {
        return NULL;
    }

    node = &reader->nodes[reader->n++];

    node->name = *name;
    ngx_str_null(&node->text);
    node->type = NGX_ETCD_JSON_NULL;
    node->nodes = 1;

    return node;
}


/*
 * Allocates for the worst case: a value takes at least one byte, and a second
 * one before the next value, except for open arrays and objects, at most
 * NGX_ETCD_JSON_MAX_DEPTH of them.
 */

static ngx_int_t
ngx_etcd_json_grow(ngx_etcd_json_reader_t *reader)
{
    ngx_uint_t        max;
    ngx_etcd_json_t  *nodes;

    max = (reader->last - reader->start + NGX_ETCD_JSON_MAX_DEPTH) / 2 + 1;

    /*
     * the first limit cannot be reached; the check prevents an overflow
     * anyway
     */

    if (reader->nodes != reader->few || max <= reader->n) {
        return ngx_etcd_json_fail(reader, reader->p, "too many values");
    }

    nodes = ngx_alloc(max * sizeof(ngx_etcd_json_t), ngx_cycle->log);
    if (nodes == NULL) {
        return ngx_etcd_json_fail(reader, reader->p, "no memory");
    }

    ngx_memcpy(nodes, reader->few, sizeof(reader->few));

    reader->nodes = nodes;
    reader->max = max;

    return NGX_OK;
}


/* While a node is open, "nodes" is the distance to the enclosing node. */

static ngx_int_t
ngx_etcd_json_open(ngx_etcd_json_reader_t *reader, ngx_etcd_json_t *node,
    ngx_etcd_json_type_e type)
{
    ngx_uint_t  n;

    n = node - reader->nodes;

    node->type = type;
    node->nodes = n - reader->open;

    reader->open = n;
    reader->depth++;
    reader->p++;

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_json_close(ngx_etcd_json_reader_t *reader)
{
    ngx_uint_t        back;
    ngx_etcd_json_t  *node;

    node = &reader->nodes[reader->open];
    back = node->nodes;

    node->nodes = reader->n - reader->open;

    if (node->type == NGX_ETCD_JSON_OBJECT
        && ngx_etcd_json_names(reader, node) != NGX_OK)
    {
        return NGX_ERROR;
    }

    reader->open -= back;
    reader->depth--;
    reader->p++;

    return NGX_OK;
}


/* Skips white space and returns the next byte; 0: a zero byte, or the end. */

static ngx_inline u_char
ngx_etcd_json_peek(ngx_etcd_json_reader_t *reader)
{
    u_char  c;

    while (reader->p < reader->last) {
        c = *reader->p;

        if (c != ' ' && c != LF && c != CR && c != '\t') {
            return c;
        }

        reader->p++;
    }

    return '\0';
}


ngx_int_t
ngx_etcd_json_fail(ngx_etcd_json_reader_t *reader, u_char *place, char *what)
{
    size_t   n;
    u_char  *p, *last;

    reader->line = 1;
    reader->column = 1;

    for (p = reader->start; p < place; p++) {

        if (*p == LF) {
            reader->line++;
            reader->column = 1;

        } else if ((*p & 0xc0) != 0x80) {
            reader->column++;
        }
    }

    n = ngx_min(reader->last - place, NGX_ETCD_JSON_NEAR);
    last = reader->buf + sizeof(reader->buf);

    if (n != 0) {
        p = ngx_slprintf(reader->buf, last, "%s near '%*s'", what, n, place);

    } else {
        p = ngx_slprintf(reader->buf, last, "%s at the end", what);
    }

    reader->error.data = reader->buf;
    reader->error.len = p - reader->buf;

    return NGX_ERROR;
}


ngx_etcd_json_t *
ngx_etcd_json_get(ngx_etcd_json_t *json, u_char *name, size_t len)
{
    ngx_etcd_json_t  *member, *last;

    if (!ngx_etcd_json_is(json, NGX_ETCD_JSON_OBJECT)) {
        return NULL;
    }

    last = ngx_etcd_json_next(json);

    for (member = ngx_etcd_json_first(json);
         member < last;
         member = ngx_etcd_json_next(member))
    {
        if (member->name.len == len
            && ngx_memcmp(member->name.data, name, len) == 0)
        {
            return member;
        }
    }

    return NULL;
}


ngx_etcd_json_t *
ngx_etcd_json_element(ngx_etcd_json_t *json, ngx_uint_t n)
{
    ngx_etcd_json_t  *element;

    if (!ngx_etcd_json_is(json, NGX_ETCD_JSON_ARRAY) || n >= json->text.len) {
        return NULL;
    }

    for (element = ngx_etcd_json_first(json); n != 0; n--) {
        element = ngx_etcd_json_next(element);
    }

    return element;
}


ngx_uint_t
ngx_etcd_json_equals(ngx_etcd_json_t *json, u_char *text, size_t len)
{
    return ngx_etcd_json_is(json, NGX_ETCD_JSON_STRING)
           && json->text.len == len
           && ngx_memcmp(json->text.data, text, len) == 0;
}
