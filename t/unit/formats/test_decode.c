
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "test_formats.h"


static void
test_decode_limits(ngx_pool_t *pool)
{
    char        key[NGX_ETCD_DECODE_MAX_KEY + 2];
    ngx_str_t  *value;

    ngx_memset(key, 'k', sizeof(key));
    key[sizeof(key) - 1] = '\0';

    test_decodes(pool, "plain", key, "10.0.0.7:1", "invalid: key \""
                 "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
                 "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
                 "...\" is longer than 32768 bytes");

    key[sizeof(key) - 2] = '\0';

    test_decodes(pool, "plain", key, "10.0.0.7:1", "10.0.0.7:1 w1");

    value = tap_bytes(pool, "10.0.0.7:1", 10);
    value->len = NGX_ETCD_DECODE_MAX_VALUE + 1;

    test_decodes_bytes(pool, "key", "/10.0.0.7:1", value, "10.0.0.7:1 w1");

    test_decodes_bytes(pool, "plain", "/k",
                       tap_bytes(pool, "a\0b", 3),
                       "invalid: value \"a\\x00b\" has a NUL byte");
    test_decodes(pool, "plain", "/k", "\xef\xbb\xbf" "10.0.0.7:1\n",
                 "10.0.0.7:1 w1");
    test_decodes(pool, "json", "/k",
                 "\xef\xbb\xbf{\"address\":\"10.0.0.7:1\"}\r\n",
                 "10.0.0.7:1 w1");
    test_decodes(pool, "plain", "\xff", "10.0.0.7:1",
                 "invalid: key \"\\xff\" is not valid UTF-8");
}


static void
test_decode_nodes(ngx_pool_t *pool)
{
    test_decodes(pool, "go-micro", "/k", "{\"nodes\":[]}", "nothing");
    test_decodes(pool, "go-micro", "/k",
                 "{\"nodes\":[{\"address\":\"10.0.0.7:1\"},"
                 "{\"address\":\"10.0.0.8:1\"},{\"address\":\"10.0.0.7:1\"}]}",
                 "10.0.0.7:1 w1, 10.0.0.8:1 w1");

    /* a node is valid by itself */

    test_decodes(pool, "go-micro", "/k",
                 "{\"nodes\":[{\"address\":\"10.0.0.7:1\"},{}]}",
                 "10.0.0.7:1 w1 (address is missing)");
    test_decodes(pool, "json", "/k/", "", "nothing");
}


static void
test_decode_broken(ngx_pool_t *pool)
{
    test_decodes(pool, "json", "/k", "[]",
                 "invalid: value \"[]\" is not a JSON object");
    test_decodes(pool, "json", "/k", "{\"a\":1,\n\"a\":2}",
                 "invalid: value is broken JSON at line 2, column 3: "
                 "\"duplicate object key near '\\\"a\\\"'\"");
}


static void
test_decode_given(ngx_pool_t *pool)
{
    json_t                  *object;
    ngx_int_t                rc;
    ngx_etcd_reason_t        reason;
    ngx_array_t              members;
    ngx_etcd_decode_t        d;
    ngx_etcd_member_t        first;
    ngx_etcd_member_conf_t   conf;

    ngx_memzero(&reason, sizeof(ngx_etcd_reason_t));
    ngx_memzero(&members, sizeof(ngx_array_t));

    members.elts = &first;
    members.size = sizeof(ngx_etcd_member_t);
    members.nalloc = 1;
    members.pool = pool;

    tap_check(test_conf(pool, "traefik", "/", &conf) == NULL);

    object = json_pack("{s:s, s:s}", "url", "http://10.0.0.7/",
                       "weight", "4");

    ngx_etcd_decode_init(&d, &conf, tap_string(pool, "/k"), pool, &members,
                         &reason.text);
    d.object = object;

    rc = ngx_etcd_decode_members(&d, &reason);
    json_decref(object);

    if (test_alloc_failed()) {
        tap_check(rc == NGX_ERROR && members.nelts == 0);
        tap_text(&reason.text, "no memory");
        return;
    }

    tap_check(rc == NGX_OK && members.nelts == 1);
    tap_check(first.attr.weight == 4);
    tap_check(first.name_len == 11);
}


static void
test_decode_reasons(ngx_pool_t *pool)
{
    json_t             *value;
    ngx_int_t           rc;
    ngx_str_t           reason;
    ngx_uint_t          i;
    ngx_etcd_decode_t   d;

    static char  *cases[][2] = {
        { "[]", "f [] is bad" }, { "[1]", "f [...] is bad" },
        { "{}", "f {} is bad" }, { "{\"a\":1}", "f {...} is bad" },
        { "null", "f null is bad" }, { "1e3", "f 1000 is bad" },
        { "-0", "f 0 is bad" }, { "true", "f true is bad" },
        { "\"\\n\"", "f \"\\x0a\" is bad" }, { NULL, NULL }
    };

    ngx_memzero(&d, sizeof(ngx_etcd_decode_t));

    d.pool = pool;
    d.reason = &reason;

    for (i = 0; cases[i][0] != NULL; i++) {
        value = json_loads(cases[i][0], JSON_DECODE_ANY, NULL);
        rc = ngx_etcd_decode_invalid_json(&d, "f", value, "is bad");
        json_decref(value);

        tap_check(rc == NGX_ERROR);

        if (test_alloc_failed()) {
            tap_text(&reason, "no memory");
            return;
        }

        tap_text(&reason, cases[i][1]);
    }
}


ngx_etcd_tap_test_t  test_decoding[] = {
    { "decode: limits", test_decode_limits },
    { "decode: nodes", test_decode_nodes },
    { "decode: broken JSON", test_decode_broken },
    { "decode: an object that is given", test_decode_given },
    { "decode: reasons", test_decode_reasons },
    { NULL, NULL }
};
