
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_attribute.h>
#include "test_formats.h"


#define AT  "\"address\":\"10.0.0.7:1\""


static void
test_attribute_all(ngx_pool_t *pool)
{
    test_decodes(pool, "json", "/k",
                 "{" AT ",\"weight\":2,\"max_fails\":3,\"max_conns\":4,"
                 "\"fail_timeout\":\"1m\",\"slow_start\":5,\"priority\":6,"
                 "\"down\":true,\"backup\":1,\"drain\":0}",
                 "10.0.0.7:1 w2 f3 c4 t60 s5000 p6 down backup");
    test_decodes(pool, "json", "/k", "{" AT ",\"weight\":0}",
                 "10.0.0.7:1 w1 drain");
}


static void
test_attribute_invalid(ngx_pool_t *pool)
{
    test_decodes(pool, "json", "/k", "{" AT ",\"weight\":65536}",
                 "invalid: weight 65536 is not an integer from 0 to 65535");
    test_decodes(pool, "json", "/k", "{" AT ",\"weight\":\"2\"}",
                 "invalid: weight \"2\" is not an integer from 0 to 65535");
    test_decodes(pool, "json", "/k", "{" AT ",\"max_fails\":1e0}",
                 "invalid: max_fails 1.0 is not an integer from 0 to "
                 "2147483647");
    test_decodes(pool, "json", "/k", "{" AT ",\"down\":2}",
                 "invalid: down 2 is not true, false, 1 or 0");
    test_decodes(pool, "json", "/k", "{" AT ",\"slow_start\":\"-1s\"}",
                 "invalid: slow_start \"-1s\" is not a time like \"10s\" or "
                 "an integer of seconds from 0 to 2147483");
}


static void
test_attribute_fields(ngx_pool_t *pool)
{
    char  *format = "json address=/address weight=/w/x drain=!/on";

    test_decodes(pool, format, "/k", "{" AT ",\"w\":{\"x\":\"3\"}}",
                 "10.0.0.7:1 w3");
    test_decodes(pool, format, "/k", "{" AT ",\"on\":false}",
                 "10.0.0.7:1 w1 drain");
    test_decodes(pool, format, "/k", "{" AT ",\"on\":\"true\",\"w\":4}",
                 "10.0.0.7:1 w1");

    /* 0 is unset, what an application has written is ignored, and words */

    test_decodes(pool, "skydns", "/k",
                 "{\"host\":\"10.0.0.7\",\"port\":1,\"weight\":0}",
                 "10.0.0.7:1 w1 p10");
    test_decodes(pool, "kratos", "/k",
                 "{\"endpoints\":[\"grpc://10.0.0.7:1\"],"
                 "\"metadata\":{\"weight\":\"much\"}}", "10.0.0.7:1 w1");
    test_decodes(pool, "dolphinscheduler", "/10.0.0.7:1",
                 "{\"serverStatus\":\"BUSY\"}", "10.0.0.7:1 w1 drain");
    test_decodes(pool, "dolphinscheduler", "/10.0.0.7:1",
                 "{\"serverStatus\":2}", "10.0.0.7:1 w1 drain");
    test_decodes(pool, "dolphinscheduler", "/10.0.0.7:1",
                 "{\"serverStatus\":null}", "10.0.0.7:1 w1");
}


static void
test_attribute_parameters(ngx_pool_t *pool)
{
    ngx_uint_t               i;
    ngx_etcd_member_attr_t   attr;

    static struct {
        char       *parameter;
        ngx_int_t   rc;
    } cases[] = {
        { "weight=2", NGX_OK },
        { "slow_start=5ms", NGX_OK },
        { "weight=0", NGX_ERROR },
        { "weight=", NGX_ERROR },
        { "max_fails=-1", NGX_ERROR },
        { "priority=1", NGX_DECLINED },
        { "down=1", NGX_DECLINED },
        { "weight", NGX_DECLINED },
        { NULL, NGX_OK }
    };

    ngx_memzero(&attr, sizeof(ngx_etcd_member_attr_t));

    for (i = 0; cases[i].parameter != NULL; i++) {
        tap_check(ngx_etcd_attribute_parameter(
                      tap_string(pool, cases[i].parameter), &attr)
                  == cases[i].rc);
    }

    tap_check(attr.weight == 2);
    tap_check(attr.slow_start == 5);

    tap_check(ngx_etcd_attribute_find(tap_string(pool, "drain"))
              == NGX_ETCD_ATTR_DRAIN);
    tap_check(ngx_etcd_attribute_find(tap_string(pool, "drai"))
              == NGX_ETCD_ATTR_N);
    tap_check(ngx_etcd_attribute_is_flag(NGX_ETCD_ATTR_DOWN));
    tap_check(!ngx_etcd_attribute_is_flag(NGX_ETCD_ATTR_WEIGHT));
}


ngx_etcd_tap_test_t  test_attribute[] = {
    { "attribute: all of them", test_attribute_all },
    { "attribute: invalid ones", test_attribute_invalid },
    { "attribute: fields of formats", test_attribute_fields },
    { "attribute: parameters", test_attribute_parameters },
    { NULL, NULL }
};
