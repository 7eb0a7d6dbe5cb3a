
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "test_formats.h"


static void
test_parameter_invalid(ngx_pool_t *pool)
{
    char                    *err;
    ngx_uint_t               i;
    ngx_etcd_member_conf_t   conf;

    static char  *cases[][2] = {
        { "json tag=!",
          "it is not \"tag=NAME\", \"tag=NAME:VALUE\" or one with \"!\"" },
        { "json tag=:a",
          "it is not \"tag=NAME\", \"tag=NAME:VALUE\" or one with \"!\"" },
        { "kratos scheme=", "invalid value" },
        { "grpc address=/a", "only \"format=json\" takes pointers" },
        { "json address=/a address=/b", "it is duplicate" },
        { "json address=!/a", "\"!\" is for flags" },
        { "json weight=!/a", "\"!\" is for flags" },
        { "json address=/~", "has a \"~\" that is not \"~0\" or \"~1\"" },
        { "json other=/a", "no such parameter" },
        { "skydns port=0", "it is not a port from 1 to 65535" },
        { "skydns port=65536", "it is not a port from 1 to 65535" },
        { "skydns port=x", "it is not a port from 1 to 65535" },
        { "json weight", "no such parameter" },
        { "json weight=x", "invalid value" },
        { "json weight=/a", "has pointers, but none to an address: "
          "\"address=\", \"url=\", or \"host=\" and \"port=\"" },
        { "json host=/a", "has pointers, but none to an address: "
          "\"address=\", \"url=\", or \"host=\" and \"port=\"" },
        { "json address=/a scheme=b",
          "has \"scheme=\", but the format has no schemes" },
        { "json address=/a tag=b:c",
          "has \"tag=\", but the format has no tags" },
        { "plain tag=b:c", "has \"tag=\", but the format has no tags" },
        { NULL, NULL }
    };

    for (i = 0; cases[i][0] != NULL; i++) {
        err = test_conf(pool, cases[i][0], "/", &conf);

        tap_check(err != NULL);

        if (test_alloc_failed()) {
            tap_text(tap_string(pool, err), "no memory");
            return;
        }

        tap_text(tap_string(pool, err), cases[i][1]);
    }
}


static void
test_parameter_many(ngx_pool_t *pool)
{
    char                    *err;
    char                     line[1024];
    ngx_uint_t               i;
    ngx_etcd_member_conf_t   conf;

    ngx_memcpy(line, "json address=/a", sizeof("json address=/a"));

    for (i = 0; i < 32; i++) {
        strcat(line, " drain=/d");
    }

    err = test_conf(pool, line, "/", &conf);

    if (test_alloc_failed()) {
        tap_text(tap_string(pool, err), "no memory");
        return;
    }

    tap_check(err == NULL);

    strcat(line, " drain=/d");
    err = test_conf(pool, line, "/", &conf);

    tap_check(err != NULL);
    tap_text(tap_string(pool, err),
             test_alloc_failed() ? "no memory" : "too many pointers");
}


static void
test_parameter_hash(ngx_pool_t *pool)
{
    ngx_etcd_member_conf_t  one, two;

    if (test_conf(pool, "json tag=a:b tag=c:d", "/a/b", &one) != NULL
        || test_conf(pool, "json tag=c:d tag=a:b", "/a/", &two) != NULL)
    {
        tap_check(test_alloc_failed());
        return;
    }

    tap_check(one.hash != two.hash);
    tap_text(&one.name, "b");
    tap_text(&two.name, "");
    tap_check(one.tags->nelts == 2);
}


ngx_etcd_tap_test_t  test_parameter[] = {
    { "parameter: invalid ones", test_parameter_invalid },
    { "parameter: many pointers", test_parameter_many },
    { "parameter: what they make", test_parameter_hash },
    { NULL, NULL }
};
