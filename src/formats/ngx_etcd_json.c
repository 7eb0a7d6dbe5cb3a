
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <math.h>
#include <ngx_etcd_json.h>


/* Returns the length of the character at p, which is not ASCII; 0: invalid. */

static size_t
ngx_etcd_utf8_length(u_char *p, u_char *last)
{
    u_char  c, low, high;
    size_t  n, i;

    c = *p;

    if (c < 0xc2 || c > 0xf4) {
        return 0;
    }

    n = (c < 0xe0) ? 2 : (c < 0xf0) ? 3 : 4;

    if ((size_t) (last - p) < n) {
        return 0;
    }

    /* the second byte reveals overlong forms, surrogates and excess */

    low = (c == 0xe0) ? 0xa0 : (c == 0xf0) ? 0x90 : 0x80;
    high = (c == 0xed) ? 0x9f : (c == 0xf4) ? 0x8f : 0xbf;

    if (p[1] < low || p[1] > high) {
        return 0;
    }

    for (i = 2; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
    }

    return n;
}


ngx_uint_t
ngx_etcd_utf8_valid(u_char *p, u_char *last)
{
    size_t  n;

    while (p < last) {

        if (*p < 0x80) {
            p++;
            continue;
        }

        n = ngx_etcd_utf8_length(p, last);

        if (n == 0) {
            return 0;
        }

        p += n;
    }

    return 1;
}


void
ngx_etcd_utf8_skip_mark(ngx_str_t *text)
{
    if (text->len >= 3 && ngx_memcmp(text->data, "\xef\xbb\xbf", 3) == 0) {
        text->data += 3;
        text->len -= 3;
    }
}


/*
 * The bytes of a block for each byte of its text.  jansson 2.14 needs 80 at
 * most, for "[{},{},{}]": an object takes 72 bytes, 128 for its table, and 32
 * in the growing array.
 */

#define NGX_ETCD_JSON_FACTOR  128
#define NGX_ETCD_JSON_SPARE   1024

#define NGX_ETCD_JSON_MAX_EXACT  9007199254740992.0    /* 2^53 */


/* the text that this thread parses; other values are on jansson's heap */

static __thread ngx_etcd_json_t  *ngx_etcd_json_current;

/* jansson's functions before the first text of this process */

static json_malloc_t  ngx_etcd_json_heap_malloc;
static json_free_t    ngx_etcd_json_heap_free;


static ngx_int_t
ngx_etcd_json_refuse(ngx_etcd_json_t *json, char *what)
{
    json->error.line = 1;
    json->error.column = 0;

    (void) ngx_cpystrn((u_char *) json->error.text, (u_char *) what,
                       JSON_ERROR_TEXT_LENGTH);

    return NGX_DECLINED;
}


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


static void *
ngx_etcd_json_malloc(size_t size)
{
    void             *p;
    ngx_etcd_json_t  *json;

    json = ngx_etcd_json_current;

    if (json == NULL) {
        return ngx_etcd_json_heap_malloc(size);
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
        ngx_etcd_json_heap_free(p);
    }
}


/*
 * jansson has one pair of functions for a process, which is set once: only
 * workers read JSON, and they never unload this module.
 */

static void
ngx_etcd_json_load(ngx_etcd_json_t *json, ngx_str_t *text, size_t flags)
{
    if (ngx_etcd_json_heap_malloc == NULL) {
        json_get_alloc_funcs(&ngx_etcd_json_heap_malloc,
                             &ngx_etcd_json_heap_free);
        json_set_alloc_funcs(ngx_etcd_json_malloc, ngx_etcd_json_free);
    }

    json->free = json->start;

    ngx_etcd_json_current = json;

    json->root = json_loadb(text->len ? (char *) text->data : "", text->len,
                            JSON_REJECT_DUPLICATES | flags, &json->error);

    ngx_etcd_json_current = NULL;
}


static ngx_uint_t
ngx_etcd_json_overflow(ngx_etcd_json_t *json)
{
    return json->root == NULL
           && json_error_code(&json->error) == json_error_numeric_overflow;
}


/* Writes 1e308 in place of numbers beyond a double, which are not shorter. */

static void
ngx_etcd_json_limit(u_char *text)
{
    char    *end;
    u_char  *p;
    double   number;

    for (p = text; *p != '\0'; p++) {

        if (*p == '"') {

            while (*++p != '"') {

                if (*p == '\\') {
                    p++;
                }

                if (*p == '\0') {
                    return;
                }
            }

        } else if (*p >= '0' && *p <= '9') {
            number = strtod((char *) p, &end);

            if (number == HUGE_VAL) {
                ngx_memset(p, ' ', (u_char *) end - p);
                ngx_memcpy(p, "1e308", 5);
            }

            p = (u_char *) end - 1;
        }
    }
}


/*
 * Of a long text most of the block is never touched: it takes addresses, not
 * memory.
 */

ngx_int_t
ngx_etcd_json_parse(ngx_etcd_json_t *json, ngx_str_t *text, size_t flags)
{
    u_char     *zero;
    size_t      size;
    ngx_str_t   part;

    json->root = NULL;
    json->start = NULL;

    part = *text;
    ngx_etcd_utf8_skip_mark(&part);

    /* jansson reads over a zero byte behind a number */

    zero = (part.len != 0) ? memchr(part.data, '\0', part.len) : NULL;

    if (zero != NULL) {

        if (!(flags & JSON_DISABLE_EOF_CHECK)) {
            return ngx_etcd_json_refuse(json, "zero byte");
        }

        part.len = zero - part.data;
    }

    /* behind the block is room for a copy of the text */

    size = part.len * NGX_ETCD_JSON_FACTOR + NGX_ETCD_JSON_SPARE;

    json->start = ngx_alloc(size + part.len + 1, ngx_cycle->log);
    if (json->start == NULL) {
        return NGX_ERROR;
    }

    json->end = json->start + size;

    ngx_etcd_json_load(json, &part, flags);

    /* a number of too many bits, or beyond a double, must not cost all else */

    if (ngx_etcd_json_overflow(json)) {
        flags |= JSON_DECODE_INT_AS_REAL;
        ngx_etcd_json_load(json, &part, flags);
    }

    if (ngx_etcd_json_overflow(json)) {
        *ngx_cpymem(json->end, part.data, part.len) = '\0';
        part.data = json->end;

        ngx_etcd_json_limit(part.data);
        ngx_etcd_json_load(json, &part, flags);
    }

    if (json->root == NULL) {
        ngx_etcd_json_done(json);
        return NGX_DECLINED;
    }

    return NGX_OK;
}


/*
 * Values in the block are not freed one by one.  They are elsewhere if another
 * module has set jansson's functions since.
 */

void
ngx_etcd_json_done(ngx_etcd_json_t *json)
{
    u_char  *root;

    if (json->start == NULL) {
        return;
    }

    root = (u_char *) json->root;

    if (root != NULL && (root < json->start || root >= json->end)) {
        json_decref(json->root);
    }

    ngx_free(json->start);
    json->start = NULL;
    json->root = NULL;
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

    /* integers up to this one are exact */

    if (json_is_real(value)
        && json_real_value(value) >= -NGX_ETCD_JSON_MAX_EXACT
        && json_real_value(value) <= NGX_ETCD_JSON_MAX_EXACT
        && json_real_value(value) == (int64_t) json_real_value(value))
    {
        text->len = ngx_sprintf(buf, "%L", (int64_t) json_real_value(value))
                    - buf;
        return NGX_OK;
    }

    text->len = json_dumpb(value, (char *) buf, NGX_ETCD_JSON_NUMBER,
                           JSON_ENCODE_ANY);

    return NGX_OK;
}


ngx_int_t
ngx_etcd_json_number(ngx_str_t *text, double *number)
{
    char    buf[NGX_ETCD_JSON_NUMBER + 1], *end;
    size_t  i;

    if (text->len == 0 || text->len > NGX_ETCD_JSON_NUMBER) {
        return NGX_DECLINED;
    }

    /* strtod() reads "inf", "0x1" and white space, too */

    for (i = 0; i < text->len; i++) {
        if (memchr("0123456789+-.eE", text->data[i], 15) == NULL) {
            return NGX_DECLINED;
        }
    }

    *ngx_cpymem(buf, text->data, text->len) = '\0';
    *number = strtod(buf, &end);

    return (*end == '\0') ? NGX_OK : NGX_DECLINED;
}


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
ngx_etcd_json_pointer_step(json_t *value, u_char *p, size_t len)
{
    u_char     *dst, *last, buf[NGX_ETCD_JSON_POINTER_MAX];
    ngx_int_t   n;

    if (json_is_array(value)) {
        n = ngx_atoi(p, len);

        return (n == NGX_ERROR || (len > 1 && p[0] == '0'))
               ? NULL : json_array_get(value, n);
    }

    if (memchr(p, '~', len) != NULL) {
        dst = buf;

        for (last = p + len; p < last; p++) {

            if (*p == '~') {
                *dst++ = (*++p == '1') ? '/' : '~';
                continue;
            }

            *dst++ = *p;
        }

        p = buf;
        len = dst - buf;
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
ngx_etcd_json_pointer_first(const ngx_str_t *pointer, u_char *name, size_t len,
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
