
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_json.h>
#include "ngx_etcd_tap.h"


static void test_json_repeated(ngx_pool_t *pool, char *begin, char *element,
    char *end);


static void
test_json_valid(ngx_pool_t *pool)
{
    ngx_int_t         rc;
    ngx_uint_t        i;
    ngx_etcd_json_t   json;

    static char  *texts[] = {
        "{}", " [] \n", "[null,true,false,-0,1.5e-3,\"\"]",
        "[9223372036854775807,-9223372036854775808,1e308]",
        "[18446744073709551615]", "\xef\xbb\xbf[1]\n",
        "[\"\\u0001\\ud83d\\ude00\xc3\xa9\"]",
        "{\"\":1,\"a\":{\"a\":{\"a\":1}},\"\\u0061b\":2}",
        "[\"a text that is longer than sixteen bytes, and than any other\"]",
        NULL
    };

    for (i = 0; texts[i] != NULL; i++) {
        rc = ngx_etcd_json_read(&json, tap_string(pool, texts[i]), 0);

        if (test_alloc_failed()) {
            tap_check(rc == NGX_ERROR && json.root == NULL);
            return;
        }

        tap_check(rc == NGX_OK && json.root != NULL);
        ngx_etcd_json_done(&json);
        tap_check(json.root == NULL);
    }
}


static void
test_json_broken(ngx_pool_t *pool)
{
    ngx_int_t         rc;
    ngx_uint_t        i;
    ngx_etcd_json_t   json;

    static struct {
        char    *text;
        size_t   len;
        char    *error;
    } cases[] = {
        { "", 0, "'[' or '{' expected near end of file" },
        { "1", 1, "'[' or '{' expected near '1'" },
        { "{}x", 3, "end of file expected near 'x'" },
        { "{\"a\":1,\"a\":2}", 13, "duplicate object key near '\"a\"'" },
        { "[1\0]", 4, "zero byte" },
        { "[]\0", 3, "zero byte" },
        { "[\"\\u0000\"]", 10,
          "\\u0000 is not allowed without JSON_ALLOW_NUL near "
          "'\"\\u0000\"'" },
        { "[\"\xff\"]", 5, "unable to decode byte 0xff near '\"'" },
        { "[\"\\ud800\"]", 10, "invalid Unicode '\\uD800' near '\"\\ud800\"'" },
        { "[01]", 4, "invalid token near '0'" },
        { "[", 1, "']' expected near end of file" },
        { NULL, 0, NULL }
    };

    for (i = 0; cases[i].text != NULL; i++) {
        rc = ngx_etcd_json_read(&json,
                                tap_bytes(pool, cases[i].text,
                                          cases[i].len),
                                0);

        if (test_alloc_failed()) {
            tap_check(rc == NGX_ERROR);
            return;
        }

        tap_check(rc == NGX_DECLINED && json.root == NULL);
        tap_text(tap_string(pool, json.error.text), cases[i].error);
        tap_check(json.error.line == 1);
    }
}


static void
test_json_tail(ngx_pool_t *pool)
{
    ngx_int_t         rc;
    ngx_etcd_json_t   json;

    rc = ngx_etcd_json_read(&json, tap_bytes(pool, "{\"a\":1} x\0", 10),
                            JSON_DISABLE_EOF_CHECK);

    if (test_alloc_failed()) {
        tap_check(rc == NGX_ERROR);
        return;
    }

    tap_check(rc == NGX_OK);
    tap_check(json_integer_value(json_object_get(json.root, "a")) == 1);

    ngx_etcd_json_done(&json);

    /* the tail begins with the zero: the object is not complete */

    rc = ngx_etcd_json_read(&json, tap_bytes(pool, "{\"a\":1\0}", 8),
                            JSON_DISABLE_EOF_CHECK);

    tap_check(rc == NGX_DECLINED || test_alloc_failed());
}


static void
test_json_limits(ngx_pool_t *pool)
{
    ngx_int_t         rc;
    ngx_str_t        *text;
    ngx_uint_t        depth;
    ngx_etcd_json_t   json;

    for (depth = 2048; depth < 2050; depth++) {
        text = tap_bytes(pool, "", 0);
        text->len = 2 * depth;
        text->data = ngx_palloc(pool, text->len);

        rc = NGX_ERROR;

        if (text->data != NULL) {
            ngx_memset(text->data, '[', depth);
            ngx_memset(text->data + depth, ']', depth);

            rc = ngx_etcd_json_read(&json, text, 0);
        }

        if (test_alloc_failed()) {
            tap_check(rc == NGX_ERROR);
            return;
        }

        tap_check(rc == (depth == 2048 ? NGX_OK : NGX_DECLINED));
        ngx_etcd_json_done(&json);
    }

    text->len = NGX_ETCD_JSON_MAX_TEXT + 1;

    tap_check(ngx_etcd_json_read(&json, text, 0) == NGX_DECLINED);
    tap_text(tap_string(pool, json.error.text), "text too long");
}


static void
test_json_long(ngx_pool_t *pool)
{
    ngx_int_t         rc;
    ngx_str_t         text;
    ngx_etcd_json_t   json;

    static u_char  buf[4 * NGX_ETCD_JSON_MAX_TEXT];

    ngx_memset(buf + 2, 'a', sizeof(buf) - 4);

    buf[0] = '[';
    buf[1] = '"';
    buf[sizeof(buf) - 2] = '"';
    buf[sizeof(buf) - 1] = ']';

    text.data = buf;
    text.len = sizeof(buf);

    rc = ngx_etcd_json_parse(&json, &text, 0);

    if (test_alloc_failed()) {
        tap_check(rc == NGX_ERROR);
        return;
    }

    tap_check(rc == NGX_OK);
    tap_check(json_string_length(json_array_get(json.root, 0))
              == sizeof(buf) - 4);

    ngx_etcd_json_done(&json);

    buf[sizeof(buf) - 1] = ' ';

    rc = ngx_etcd_json_parse(&json, &text, 0);

    tap_check(rc == NGX_DECLINED || (rc == NGX_ERROR && test_alloc_failed()));
}


/* the texts whose values take the most memory for a byte */

static void
test_json_memory(ngx_pool_t *pool)
{
    test_json_repeated(pool, "[", "{},", "{}]");
    test_json_repeated(pool, "[", "[],", "[]]");
    test_json_repeated(pool, "[", "1,", "1]");
    test_json_repeated(pool, "[", "\"\",", "\"\"]");
    test_json_repeated(pool, "[\"", "a", "\"]");
    test_json_repeated(pool, "[\"", "\\n", "\"]");
    test_json_repeated(pool, "[", "{\"\":{\"\":1}},", "1]");
    test_json_repeated(pool, "{", "\"%05ui\":{},", "\"\":1}");
}


static void
test_json_repeated(ngx_pool_t *pool, char *begin, char *element, char *end)
{
    u_char           *p, *last;
    ngx_int_t         rc;
    ngx_str_t        *text;
    ngx_uint_t        i;
    ngx_etcd_json_t   json;

    static u_char  buf[NGX_ETCD_JSON_MAX_TEXT];

    last = buf + sizeof(buf) - 32;
    p = ngx_slprintf(buf, last, begin);

    for (i = 0; p < last; i++) {
        p = ngx_sprintf(p, element, i);
    }

    p = ngx_sprintf(p, end);

    text = tap_bytes(pool, (char *) buf, p - buf);

    rc = ngx_etcd_json_read(&json, text, 0);

    if (test_alloc_failed()) {
        tap_check(rc == NGX_OK || rc == NGX_ERROR);

    } else {
        tap_check(rc == NGX_OK);

        /* a third is left for what another jansson takes */

        tap_check(json.end - json.free > (json.end - json.start) / 3);
    }

    ngx_etcd_json_done(&json);
}


static void
test_json_words(ngx_pool_t *pool)
{
    u_char            buf[NGX_ETCD_JSON_NUMBER];
    size_t            i;
    json_t           *value;
    ngx_int_t         rc;
    ngx_str_t         text;
    ngx_etcd_json_t   json;

    static char  *words[] = {
        "null", "true", "false", "-7", "0", "1000", "a", NULL
    };

    rc = ngx_etcd_json_read(&json, tap_string(pool,
                            "[null,true,false,-7,-0,1e3,\"a\",[],{}]"), 0);

    if (test_alloc_failed()) {
        tap_check(rc == NGX_ERROR);
        return;
    }

    for (i = 0; words[i] != NULL; i++) {
        value = json_array_get(json.root, i);

        tap_check(ngx_etcd_json_scalar(value, buf, &text) == NGX_OK);
        tap_text(&text, words[i]);
        tap_check(ngx_etcd_json_says(value, words[i]) == (i == 6));
        tap_check(ngx_etcd_json_equals(value, &text) == (i == 6));
    }

    for ( /* void */ ; i < 10; i++) {
        value = json_array_get(json.root, i);

        tap_check(ngx_etcd_json_scalar(value, buf, &text) == NGX_DECLINED);
        tap_check(ngx_etcd_json_string(value, &text) == NGX_DECLINED);
    }

    ngx_etcd_json_done(&json);
}


/* The number of blocks that jansson has from the functions below. */

static ngx_uint_t  test_json_kept;


static void *
test_json_malloc(size_t size)
{
    test_json_kept++;

    return malloc(size);
}


static void
test_json_free(void *p)
{
    test_json_kept--;
    free(p);
}


/* values of other modules are not in a block, before and after ours */

static void
test_json_functions(ngx_pool_t *pool)
{
    json_t           *other;
    ngx_int_t         rc;
    ngx_uint_t        kept;
    json_free_t       release;
    json_malloc_t     alloc;
    ngx_etcd_json_t   json;

    rc = ngx_etcd_json_read(&json, tap_string(pool, "[\"a\",{\"b\":1}]"), 0);

    if (test_alloc_failed()) {
        tap_check(rc == NGX_ERROR);
        return;
    }

    tap_check((u_char *) json.root >= json.start
              && (u_char *) json.root < json.end);

    other = json_string("other");
    tap_check((u_char *) other < json.start || (u_char *) other >= json.end);

    ngx_etcd_json_done(&json);

    tap_check(ngx_etcd_json_says(other, "other"));
    json_decref(other);

    json_get_alloc_funcs(&alloc, &release);
    json_set_alloc_funcs(test_json_malloc, test_json_free);

    kept = test_json_kept;

    test_alloc_pause();

    rc = ngx_etcd_json_read(&json, tap_string(pool, "[\"a\",{\"b\":1}]"), 0);

    tap_check(rc == NGX_OK);
    tap_check(test_json_kept > kept);

    ngx_etcd_json_done(&json);

    tap_check(test_json_kept == kept);

    test_alloc_resume();

    json_set_alloc_funcs(alloc, release);
}


ngx_etcd_tap_test_t  test_json[] = {
    { "JSON: valid", test_json_valid },
    { "JSON: broken", test_json_broken },
    { "JSON: with a tail", test_json_tail },
    { "JSON: limits", test_json_limits },
    { "JSON: longer than a value", test_json_long },
    { "JSON: memory", test_json_memory },
    { "JSON: words", test_json_words },
    { "JSON: jansson's functions", test_json_functions },
    { NULL, NULL }
};
