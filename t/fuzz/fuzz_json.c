
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Parsing of JSON: in one block of memory jansson finds what it finds with
 * malloc(), but for numbers that no double has and a mark before the text, and
 * the block is large enough.  The input is the text.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_json.h>
#include "fuzz.h"


static void fuzz_compare(ngx_str_t *text, ngx_uint_t zero, size_t flags);
static void fuzz_broken(ngx_etcd_json_t *json, ngx_str_t *text);


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ngx_str_t   text;
    ngx_uint_t  zero;

    text = fuzz_bytes(&data, &size, size);
    zero = (ngx_strlchr(text.data, text.data + text.len, '\0') != NULL);

    fuzz_compare(&text, zero, 0);
    fuzz_compare(&text, zero, JSON_DISABLE_EOF_CHECK);

    ngx_free(text.data);

    return 0;
}


static void
fuzz_compare(ngx_str_t *text, ngx_uint_t zero, size_t flags)
{
    json_t           *other;
    ngx_int_t         rc;
    ngx_str_t         part;
    ngx_uint_t        overflow;
    json_error_t      error;
    ngx_etcd_json_t   json;

    ngx_memset(&json, 0xa5, sizeof(ngx_etcd_json_t));

    rc = ngx_etcd_json_read(&json, text, flags);

    fuzz_check(rc == NGX_OK || rc == NGX_DECLINED);

    if (rc == NGX_OK) {
        fuzz_check(json_is_array(json.root) || json_is_object(json.root));

    } else {
        fuzz_check(json.root == NULL);
        fuzz_broken(&json, text);
    }

    if (!zero) {
        part = *text;
        ngx_etcd_utf8_skip_mark(&part);

        other = json_loadb((char *) part.data, part.len,
                           JSON_REJECT_DUPLICATES | flags, &error);
        overflow = (other == NULL && json_error_code(&error)
                                     == json_error_numeric_overflow);

        fuzz_check(overflow || (other != NULL) == (rc == NGX_OK));
        fuzz_check(other == NULL || json_equal(json.root, other));

        json_decref(other);

    } else if (flags == 0) {
        fuzz_check(rc == NGX_DECLINED);
    }

    ngx_etcd_json_done(&json);
}


static void
fuzz_broken(ngx_etcd_json_t *json, ngx_str_t *text)
{
    fuzz_check(json->error.text[0] != '\0');
    fuzz_check(json->error.line >= 1);
    fuzz_check(json->error.line <= (int) text->len + 1);
    fuzz_check(json->error.column >= 0);
    fuzz_check(json->error.column <= (int) text->len + 1);
}
