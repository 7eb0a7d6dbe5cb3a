
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_split.h>
#include "ngx_etcd_tap.h"


/* A table in memory of just its size. */

static ngx_int_t
test_split_read(ngx_pool_t *pool, char *text, ngx_str_t *table, char **err)
{
    u_char     *buf;
    ngx_int_t   rc;
    ngx_str_t  *value;

    value = tap_string(pool, text);
    buf = ngx_pnalloc(pool, NGX_ETCD_SPLIT_ROOM(value->len));

    if (buf == NULL) {
        return NGX_ERROR;
    }

    rc = ngx_etcd_split_read(value, buf, table, err);

    if (rc == NGX_OK) {
        if (table->len > NGX_ETCD_SPLIT_ROOM(value->len)) {
            ngx_etcd_tap_fail("a table beyond its room", __FILE__, __LINE__);
        }

        *table = *tap_bytes(pool, (char *) table->data, table->len);
    }

    return rc;
}


static void
test_split_pick(ngx_pool_t *pool)
{
    char        *err;
    ngx_str_t    name, table;
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

    tap_expect(test_split_read(pool, "{\"a\": 1, \"b\": 0, \"c\": 3}", &table,
                               &err)
               == NGX_OK);

    for (i = 0; cases[i].name != NULL; i++) {
        name = ngx_etcd_split_pick(&table, cases[i].hash);
        tap_text(&name, cases[i].name);
    }

    tap_expect(test_split_read(pool, "{\"\": 1000000}", &table, &err)
               == NGX_OK);

    name = ngx_etcd_split_pick(&table, 7);
    tap_text(&name, "");
}


/* Each of many names is picked, the last one by the last hash. */

static void
test_split_many(ngx_pool_t *pool)
{
    char        *p, *err, text[65536];
    uint64_t     hash;
    ngx_str_t    name, table;
    ngx_uint_t   i;

    text[0] = '{';
    p = text + 1;

    for (i = 0; i < 4294; i++) {
        p += sprintf(p, "\"%d\":%d,", (int) i, 1000000);
    }

    (void) strcpy(p, "\"z\":967295}");

    tap_expect(test_split_read(pool, text, &table, &err) == NGX_OK);

    for (i = 0; i < 4294; i++) {
        hash = (i * 1000000 + 500000) * 4294967296ULL / 4294967295ULL;
        name = ngx_etcd_split_pick(&table, (uint32_t) hash);

        tap_check(ngx_atoi(name.data, name.len) == (ngx_int_t) i);
    }

    name = ngx_etcd_split_pick(&table, 0xffffffff);
    tap_text(&name, "z");

    (void) strcpy(p, "\"z\":967296}");

    tap_expect(test_split_read(pool, text, &table, &err) == NGX_DECLINED);
    tap_text(tap_string(pool, err),
             "the sum of all weights is more than 4294967295");
}


static void
test_split_refused(ngx_pool_t *pool)
{
    char        *err;
    ngx_int_t    rc;
    ngx_str_t    table;
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
        rc = test_split_read(pool, cases[i][0], &table, &err);

        tap_expect(rc != NGX_ERROR);
        tap_check(rc == NGX_DECLINED);
        tap_text(tap_string(pool, err), cases[i][1]);
    }
}


ngx_etcd_tap_test_t  test_split[] = {
    { "names by their weights", test_split_pick },
    { "many names", test_split_many },
    { "weights that are refused", test_split_refused },
    { NULL, NULL }
};
