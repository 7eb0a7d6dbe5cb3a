
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The reader of JSON: what it takes and refuses, and what it finds, is what
 * jansson does.  The input is the text.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <jansson.h>
#include <ngx_etcd_json.h>
#include "fuzz.h"
#include "json_same.h"


static void fuzz_compare(ngx_etcd_json_reader_t *reader, ngx_str_t *text,
    ngx_uint_t valid, size_t flags);
static void fuzz_broken(ngx_etcd_json_reader_t *reader, ngx_str_t *text);


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ngx_int_t                rc;
    ngx_str_t                text;
    ngx_etcd_json_reader_t   reader;

    text = fuzz_bytes(&data, &size, size);

    ngx_memset(&reader, 0xa5, sizeof(ngx_etcd_json_reader_t));

    rc = ngx_etcd_json_read(&reader, &text);

    if (rc != NGX_OK) {
        fuzz_broken(&reader, &text);
    }

    /* jansson reads over a zero behind a number */

    if (ngx_strlchr(text.data, text.data + text.len, '\0') != NULL) {
        fuzz_check(rc != NGX_OK);

    } else {
        fuzz_compare(&reader, &text, rc != NGX_ERROR, JSON_DISABLE_EOF_CHECK);
        fuzz_compare(&reader, &text, rc == NGX_OK, 0);
    }

    ngx_etcd_json_done(&reader);
    ngx_free(text.data);

    return 0;
}


static void
fuzz_compare(ngx_etcd_json_reader_t *reader, ngx_str_t *text, ngx_uint_t valid,
    size_t flags)
{
    json_t  *json;

    json = json_loadb((char *) text->data, text->len,
                      JSON_REJECT_DUPLICATES | flags, NULL);

    fuzz_check((json != NULL) == valid);

    if (valid) {
        fuzz_check(json_same(reader->nodes, json));
        json_decref(json);
    }
}


static void
fuzz_broken(ngx_etcd_json_reader_t *reader, ngx_str_t *text)
{
    fuzz_check(reader->error.len > 0);
    fuzz_check(reader->error.len < NGX_ETCD_JSON_ERROR);
    fuzz_check(reader->line >= 1);
    fuzz_check(reader->line <= text->len + 1);
    fuzz_check(reader->column >= 1);
    fuzz_check(reader->column <= text->len + 1);
}
