
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_split.h>
#include "ngx_etcd_tap.h"


static void
test_split_pick(ngx_pool_t *pool)
{
    char        *err;
    ngx_str_t    name, *value;
    ngx_uint_t   i;

    static struct {
        uint32_t  hash;
        char     *name;
    } cases[] = {
        { 0, "a" },
        { 0x3fffffff, "a" },
        { 0x40000000, "c" },
        { 0xffffffff, "c" },
        { 0, NULL }
    };

    value = tap_string(pool, "{\"a\": 1, \"b\": 0, \"c\": 3}");

    for (i = 0; cases[i].name != NULL; i++) {
        tap_expect(ngx_etcd_split_pick(value, cases[i].hash, pool, &name, &err)
                   == NGX_OK);
        tap_text(&name, cases[i].name);
    }

    value = tap_string(pool, "{\"\": 1000000}");

    tap_expect(ngx_etcd_split_pick(value, 7, pool, &name, &err) == NGX_OK);
    tap_text(&name, "");
}


static void
test_split_refused(ngx_pool_t *pool)
{
    char        *err;
    ngx_int_t    rc;
    ngx_str_t    name;
    ngx_uint_t   i;

    static char  *cases[][2] = {
        { "", "it is not JSON" },
        { "stable", "it is not JSON" },
        { "[1]", "it is not an object" },
        { "{}", "all weights are 0" },
        { "{\"a\":0}", "all weights are 0" },
        { "{\"a\":1,\"b\":-1}", "a weight is not a number from 0 to 1000000" },
        { "{\"a\":1.0}", "a weight is not a number from 0 to 1000000" },
        { "{\"a\":\"1\"}", "a weight is not a number from 0 to 1000000" },
        { "{\"a\":1000001}", "a weight is not a number from 0 to 1000000" },
        { "{\"a\\n\":1}", "a name has a control byte" },
        { NULL, NULL }
    };

    for (i = 0; cases[i][0] != NULL; i++) {
        rc = ngx_etcd_split_pick(tap_string(pool, cases[i][0]), 0, pool, &name,
                                 &err);

        tap_expect(rc != NGX_ERROR);
        tap_check(rc == NGX_DECLINED);
        tap_text(tap_string(pool, err), cases[i][1]);
    }
}


ngx_etcd_tap_test_t  test_split[] = {
    { "names by their weights", test_split_pick },
    { "weights that are refused", test_split_refused },
    { NULL, NULL }
};
