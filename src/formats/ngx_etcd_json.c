
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_json.h>


/*
 * The bytes of a block for each byte of its text.  jansson 2.14 needs 80 at
 * most, for "[{},{},{}]": an object takes 72 bytes, 128 for its table, and 32
 * in the growing array.
 */

#define NGX_ETCD_JSON_FACTOR  128
#define NGX_ETCD_JSON_SPARE   1024


static ngx_int_t ngx_etcd_json_refuse(ngx_etcd_json_t *json, char *what);
static void *ngx_etcd_json_malloc(size_t size);
static void ngx_etcd_json_free(void *p);


/*
 * The text whose values are allocated or freed at the moment.  Threads that
 * write JSON meanwhile use the heap.
 */

static __thread ngx_etcd_json_t  *ngx_etcd_json_current;


ngx_int_t
ngx_etcd_json_read(ngx_etcd_json_t *json, ngx_str_t *text, size_t flags)
{
    if (text->len > NGX_ETCD_JSON_MAX_TEXT) {
        json->start = NULL;
        json->root = NULL;

        return ngx_etcd_json_refuse(json, "text too long");
    }

    return ngx_etcd_json_parse(json, text, flags);
}


/*
 * Of a long text most of the block is never touched: it takes addresses, not
 * memory.
 */

ngx_int_t
ngx_etcd_json_parse(ngx_etcd_json_t *json, ngx_str_t *text, size_t flags)
{
    u_char         *zero;
    size_t          len, size;
    json_free_t     release;
    json_malloc_t   alloc;

    json->root = NULL;
    json->start = NULL;

    len = text->len;

    /* jansson reads over a zero byte behind a number */

    zero = (len != 0) ? memchr(text->data, '\0', len) : NULL;

    if (zero != NULL) {

        if (!(flags & JSON_DISABLE_EOF_CHECK)) {
            return ngx_etcd_json_refuse(json, "zero byte");
        }

        len = zero - text->data;
    }

    size = len * NGX_ETCD_JSON_FACTOR + NGX_ETCD_JSON_SPARE;

    json->start = ngx_alloc(size, ngx_cycle->log);
    if (json->start == NULL) {
        return NGX_ERROR;
    }

    json->free = json->start;
    json->end = json->start + size;

    json_get_alloc_funcs(&alloc, &release);
    json_set_alloc_funcs(ngx_etcd_json_malloc, ngx_etcd_json_free);
    ngx_etcd_json_current = json;

    json->root = json_loadb(len ? (char *) text->data : "", len,
                            JSON_REJECT_DUPLICATES | flags, &json->error);

    ngx_etcd_json_current = NULL;
    json_set_alloc_funcs(alloc, release);

    if (json->root == NULL) {
        ngx_etcd_json_done(json);
        return NGX_DECLINED;
    }

    return NGX_OK;
}


/* All values are in the block: none is freed by itself. */

void
ngx_etcd_json_done(ngx_etcd_json_t *json)
{
    if (json->start != NULL) {
        ngx_free(json->start);
        json->start = NULL;
    }

    json->root = NULL;
}


static ngx_int_t
ngx_etcd_json_refuse(ngx_etcd_json_t *json, char *what)
{
    json->error.line = 1;
    json->error.column = 0;

    (void) ngx_cpystrn((u_char *) json->error.text, (u_char *) what,
                       JSON_ERROR_TEXT_LENGTH);

    return NGX_DECLINED;
}


static void *
ngx_etcd_json_malloc(size_t size)
{
    void             *p;
    ngx_etcd_json_t  *json;

    json = ngx_etcd_json_current;

    if (json == NULL) {
        return malloc(size);
    }

    size = ngx_align(size, NGX_ALIGNMENT);

    if (size > (size_t) (json->end - json->free)) {
        return NULL;
    }

    p = json->free;
    json->free += size;

    return p;
}


static void
ngx_etcd_json_free(void *p)
{
    if (ngx_etcd_json_current == NULL) {
        free(p);
    }
}


ngx_int_t
ngx_etcd_json_string(json_t *value, ngx_str_t *text)
{
    if (!json_is_string(value)) {
        return NGX_DECLINED;
    }

    text->data = (u_char *) json_string_value(value);
    text->len = json_string_length(value);

    return NGX_OK;
}


ngx_uint_t
ngx_etcd_json_equals(json_t *value, ngx_str_t *text)
{
    return json_is_string(value)
           && json_string_length(value) == text->len
           && ngx_memcmp(json_string_value(value), text->data, text->len) == 0;
}


ngx_uint_t
ngx_etcd_json_says(json_t *value, char *text)
{
    return json_is_string(value)
           && ngx_strcmp(json_string_value(value), text) == 0;
}


ngx_int_t
ngx_etcd_json_scalar(json_t *value, u_char *buf, ngx_str_t *text)
{
    if (value == NULL || json_is_array(value) || json_is_object(value)) {
        return NGX_DECLINED;
    }

    if (ngx_etcd_json_string(value, text) == NGX_OK) {
        return NGX_OK;
    }

    text->data = buf;
    text->len = json_dumpb(value, (char *) buf, NGX_ETCD_JSON_NUMBER,
                           JSON_ENCODE_ANY);

    return NGX_OK;
}
