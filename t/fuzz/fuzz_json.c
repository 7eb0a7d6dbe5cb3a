
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Parsing of JSON: in one block of memory jansson finds what it finds with
 * malloc(), and the block is large enough.  The input is the text.
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
        other = json_loadb((char *) text->data, text->len,
                           JSON_REJECT_DUPLICATES | flags, NULL);

        fuzz_check((other != NULL) == (rc == NGX_OK));
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
