
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_pattern.h>
#include "ngx_etcd_tap.h"


#define TEST_MIXES  "a segment mixes text and a variable"
#define TEST_NAME   "a variable has no name"


static ngx_str_t *
test_letters(ngx_pool_t *pool, size_t len)
{
    static char  letters[NGX_ETCD_PATTERN_PREFIX + 16];

    ngx_memset(letters, 'a', sizeof(letters));

    return tap_bytes(pool, letters, len);
}


static void
test_pattern_refused(ngx_pool_t *pool)
{
    char                *err;
    ngx_int_t            rc;
    ngx_str_t           *text;
    ngx_uint_t           i;
    ngx_etcd_pattern_t   pattern;

    static char  *cases[][2] = {
        { "/a/b/", "it has no variable" },
        { "", "it has no variable" },
        { "$a/", "it begins with a variable, all keys of etcd would be "
                 "watched" },
        { "/$a/", "it has only \"/\" before the first variable, all keys of "
                  "etcd would be watched" },
        { "/svc$a/", TEST_MIXES },
        { "/a/$b.c/", TEST_MIXES },
        { "/a/${b}c", TEST_MIXES },
        { "/a/${b}c}", TEST_MIXES },
        { "/a/$b/c$d", TEST_MIXES },
        { "/a/$b$c/", TEST_MIXES },
        { "/a/$b//c", "it has \"//\" after a variable" },
        { "/a/$b/c//", "it has \"//\" after a variable" },
        { "/a/$", TEST_NAME },
        { "/a/$/b", TEST_NAME },
        { "/a/${}", TEST_NAME },
        { "/a/$-b", TEST_NAME },
        { "/a/${b", "a variable has no closing bracket" },
        { "/a/${/b", "a variable has no closing bracket" },
        { "/a/$1/$2/$3/$4/$5/$6/$7/$8/$9", "it has more than 8 variables" },
        { NULL, NULL }
    };

    for (i = 0; cases[i][0] != NULL; i++) {
        text = tap_string(pool, cases[i][0]);

        err = NULL;
        rc = ngx_etcd_pattern_parse(&pattern, text, 0, pool, &err);

        tap_expect(rc != NGX_ERROR);
        tap_check(rc == NGX_DECLINED);
        tap_text(tap_string(pool, err), cases[i][1]);
    }

    text = test_letters(pool, NGX_ETCD_PATTERN_PREFIX + 1);
    ngx_memcpy(text->data, "/$", 2);

    tap_check(ngx_etcd_pattern_parse(&pattern, text, 0, pool, &err)
              == NGX_DECLINED);
    tap_text(tap_string(pool, err), "it is longer than 4096 bytes");
}


static void
test_pattern_match(ngx_pool_t *pool)
{
    char                *err;
    size_t               len;
    ngx_str_t            text, name;
    ngx_uint_t           i;
    ngx_etcd_pattern_t   pattern;

    static struct {
        char            *text;
        char            *key;
        size_t           len;
        char            *name;
    } cases[] = {
        { "/s/$a/", "/s/x/1", 5, "x" },
        { "/s/$a/", "/s/x//1", 5, "x" },
        { "/s/${a}/", "/s/.../1", 7, "..." },
        { "/s/$a/", "/s/x/", 0, NULL },
        { "/s/$a/", "/s/x", 0, NULL },
        { "/s/$a/", "/s/", 0, NULL },
        { "/s/$a/", "/s", 0, NULL },
        { "/s/$a/", "/t/x/1", 0, NULL },
        { "/s/$a/", "/s//1", 0, NULL },
        { "/s/$a/", "/s/./1", 0, NULL },
        { "/s/$a/", "/s/../1", 0, NULL },
        { "/s/$a/$b/", "/s/x/y/1", 7, "x/y" },
        { "/s/$a/$b/", "/s/x/y", 0, NULL },
        { "/s/$a", "/s/x", 4, "x" },
        { "/s/$a", "/s/x/1", 4, "x" },
        { "/s/$a/crt", "/s/x/crt", 8, "x/crt" },
        { "/s/$a/crt", "/s/x/crt/1", 8, "x/crt" },
        { "/s/$a/crt", "/s/x/crt1", 0, NULL },
        { "/s/$a/crt", "/s/x/key", 0, NULL },
        { "/s/$a/b/$c/", "/s/x/b/y/1", 9, "x/b/y" },
        { "$a/", "x/1", 2, "x" },
        { "/$a/", "/x/1", 3, "x" },
        { NULL, NULL, 0, NULL }
    };

    for (i = 0; cases[i].text != NULL; i++) {
        text = *tap_string(pool, cases[i].text);

        tap_expect(ngx_etcd_pattern_parse(&pattern, &text, 1, pool, &err)
                   == NGX_OK);

        text = *tap_string(pool, cases[i].key);
        len = ngx_etcd_pattern_match(&pattern, &text);

        tap_check(len == cases[i].len);

        if (len != 0) {
            text.len = len;
            ngx_etcd_pattern_name(&pattern, &text, &name);
            tap_text(&name, cases[i].name);
        }
    }

    tap_check(ngx_etcd_pattern_match(&pattern, tap_bytes(pool, "/\0/1", 4))
              == 0);
}


static void
test_pattern_prefix(ngx_pool_t *pool)
{
    char                *err;
    u_char              *buf;
    ngx_str_t            values[2], prefix;
    ngx_uint_t           i;
    ngx_etcd_pattern_t   pattern;

    static ngx_str_t  bad[] = {
        ngx_string(""), ngx_string("."), ngx_string(".."),
        ngx_string("a/b"), ngx_string("/"), ngx_string("a\0"),
        ngx_string(".drain")
    };

    tap_expect(ngx_etcd_pattern_parse(&pattern,
                                      tap_string(pool, "/s/$a/b/${c}/"), 0,
                                      pool, &err)
               == NGX_OK);

    buf = test_letters(pool, NGX_ETCD_PATTERN_PREFIX)->data;

    ngx_str_set(&values[0], "x");
    ngx_str_set(&values[1], "%2f");

    tap_check(ngx_etcd_pattern_prefix(&pattern, values, buf, &prefix)
              == NGX_OK);
    tap_text(&prefix, "/s/x/b/%2f/");

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        values[1] = bad[i];

        tap_check(ngx_etcd_pattern_prefix(&pattern, values, buf, &prefix)
                  == NGX_DECLINED);
    }

    values[1] = *test_letters(pool, NGX_ETCD_PATTERN_SEGMENT + 1);

    tap_check(ngx_etcd_pattern_prefix(&pattern, values, buf, &prefix)
              == NGX_DECLINED);

    values[1].len--;

    tap_check(ngx_etcd_pattern_prefix(&pattern, values, buf, &prefix)
              == NGX_OK);
    tap_check(ngx_etcd_pattern_match(&pattern, &prefix) == 0);
}


/* A prefix of the greatest length is built and found, and no longer one. */

static void
test_pattern_length(ngx_pool_t *pool)
{
    char                *err, **end;
    size_t               len;
    u_char              *buf;
    ngx_str_t            text, key, value, prefix;
    ngx_uint_t           fits;
    ngx_etcd_pattern_t   pattern;

    static char  *ends[] = { "/$a", "/$a/", NULL };

    buf = test_letters(pool, NGX_ETCD_PATTERN_PREFIX)->data;

    for (end = ends; *end != NULL; end++) {
        len = NGX_ETCD_PATTERN_PREFIX - 10;

        text = *test_letters(pool, NGX_ETCD_PATTERN_PREFIX);
        text.len = ngx_sprintf(text.data + len, "%s", *end) - text.data;

        tap_expect(ngx_etcd_pattern_parse(&pattern, &text, 0, pool, &err)
                   == NGX_OK);

        for (value.len = 7; value.len < 12; value.len++) {
            value.data = (u_char *) "0123456789ab";

            key = *test_letters(pool, NGX_ETCD_PATTERN_PREFIX + 10);
            key.len = ngx_sprintf(key.data + len, "/%V/1", &value) - key.data;

            fits = (len + 1 + value.len + pattern.below
                    <= NGX_ETCD_PATTERN_PREFIX);

            tap_check((ngx_etcd_pattern_match(&pattern, &key) != 0) == fits);
            tap_check((ngx_etcd_pattern_prefix(&pattern, &value, buf, &prefix)
                       == NGX_OK) == fits);
        }
    }
}


ngx_etcd_tap_test_t  test_pattern[] = {
    { "patterns that are refused", test_pattern_refused },
    { "keys that match a pattern", test_pattern_match },
    { "prefixes of values", test_pattern_prefix },
    { "the greatest length of a prefix", test_pattern_length },
    { NULL, NULL }
};
