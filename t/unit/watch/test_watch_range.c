
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_watch_request.h>
#include "ngx_etcd_tap.h"


static ngx_uint_t
test_watch_range_contains(ngx_etcd_watch_range_t *range, ngx_str_t *key)
{
    ProtobufCBinaryData  data;

    data.data = key->data;
    data.len = key->len;

    return ngx_etcd_watch_range_contains(range, &data);
}


static void
test_watch_range_keys(ngx_pool_t *pool)
{
    ngx_uint_t              i;
    ngx_etcd_watch_range_t  range;

    static struct {
        char        *space;
        char        *prefix;
        ngx_uint_t   exact;
        char        *inside;
        char        *outside;
        char        *end;
        size_t       len;
    } cases[] = {
        { "", "/s/", 0, "/s/1", "/s", "/s0", 3 },
        { "", "/s/", 0, "/s/", "/t/1", "/s0", 3 },
        { "ns/", "a", 0, "ns/ab", "a", "ns/b", 4 },
        { "ns/", "a", 1, "ns/a", "ns/ab", "ns/a\0", 5 },
        { "", "a", 1, "a", "", "a\0", 2 },
        { "", "\xff", 0, "\xff\xff", "\xfe", "\0", 1 }
    };

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        range.prefix = *tap_string(pool, cases[i].prefix);
        range.exact = cases[i].exact;

        tap_expect(ngx_etcd_watch_range_init(&range, pool,
                                             tap_string(pool, cases[i].space))
                   == NGX_OK);

        tap_check(test_watch_range_contains(&range,
                                         tap_string(pool, cases[i].inside)));
        tap_check(!test_watch_range_contains(&range,
                                         tap_string(pool, cases[i].outside)));

        tap_check(range.range_end.len == cases[i].len);
        tap_check(ngx_memcmp(range.range_end.data, cases[i].end, cases[i].len)
                  == 0);
    }
}


static void
test_watch_range_strip(ngx_pool_t *pool)
{
    ngx_str_t               *bytes, text;
    ProtobufCBinaryData      key;
    ngx_etcd_watch_range_t   range;

    ngx_str_set(&range.prefix, "/s/");
    range.exact = 0;

    tap_expect(ngx_etcd_watch_range_init(&range, pool, tap_string(pool, "ns/"))
               == NGX_OK);

    bytes = tap_string(pool, "ns//s/1");
    key.data = bytes->data;
    key.len = bytes->len;

    ngx_etcd_watch_range_strip(&range, &key);

    text.data = key.data;
    text.len = key.len;
    tap_text(&text, "/s/1");

    /* too short for a key of the range */

    bytes = tap_string(pool, "ns");
    key.data = bytes->data;
    key.len = bytes->len;

    ngx_etcd_watch_range_strip(&range, &key);
    tap_check(key.data == bytes->data && key.len == 2);

    tap_text(&range.key, "ns//s/");
    tap_text(&range.range_end, "ns//s0");
}


ngx_etcd_tap_test_t  test_watch_range[] = {
    { "watch range: keys", test_watch_range_keys },
    { "watch range: namespace", test_watch_range_strip },
    { NULL, NULL }
};
