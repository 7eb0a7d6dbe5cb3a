
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_str.h>
#include "ngx_etcd_tap.h"


static void
test_str_compare(ngx_pool_t *pool)
{
    ngx_str_t  none, *text;

    ngx_str_null(&none);
    text = tap_string(pool, "Text");

    tap_check(ngx_etcd_str_equal(text, tap_string(pool, "Text")));
    tap_check(!ngx_etcd_str_equal(text, tap_string(pool, "text")));
    tap_check(!ngx_etcd_str_equal(text, tap_string(pool, "Text2")));
    tap_check(!ngx_etcd_str_equal(text, &none));
    tap_check(ngx_etcd_str_equal(tap_string(pool, ""), &none));

    tap_check(ngx_etcd_str_alike(text, tap_string(pool, "tEXT")));
    tap_check(!ngx_etcd_str_alike(text, tap_string(pool, "tEXT2")));
    tap_check(!ngx_etcd_str_alike(text, &none));
    tap_check(ngx_etcd_str_alike(tap_string(pool, ""), &none));

    tap_check(ngx_etcd_str_is(text, "Text"));
    tap_check(!ngx_etcd_str_is(text, "Texts"));
    tap_check(!ngx_etcd_str_is(text, "Tex"));
    tap_check(ngx_etcd_str_is(&none, ""));
}


static void
test_str_split(ngx_pool_t *pool)
{
    ngx_str_t  name, value;

    tap_check(ngx_etcd_str_cut(tap_string(pool, "a=b=c"), '=', &name, &value));
    tap_text(&name, "a");
    tap_text(&value, "b=c");

    tap_check(ngx_etcd_str_cut(tap_string(pool, "="), '=', &name, &value));
    tap_check(name.len == 0 && value.len == 0);

    tap_check(!ngx_etcd_str_cut(tap_string(pool, "a"), '=', &name, &value));
    tap_check(!ngx_etcd_str_cut(tap_string(pool, ""), '=', &name, &value));
}


ngx_etcd_tap_test_t  test_str[] = {
    { "texts that are compared", test_str_compare },
    { "texts that are split", test_str_split },
    { NULL, NULL }
};
