
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_attribute.h>
#include "test_formats.h"


#define AT        "\"address\":\"10.0.0.7:1\""
#define NO_COUNT  "is not an integer from 0 on; its default is used"


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
    test_decodes(pool, "json weight=3", "/k", "{" AT ",\"weight\":-1}",
                 "10.0.0.7:1 w3 (weight -1 " NO_COUNT ")");
    test_decodes(pool, "json", "/k", "{" AT ",\"max_fails\":1.5,"
                 "\"max_conns\":[],\"weight\":true}",
                 "10.0.0.7:1 w1 (max_fails 1.5 " NO_COUNT "; and 2 more)");
    test_decodes(pool, "json", "/k", "{" AT ",\"down\":\"soon\"}",
                 "10.0.0.7:1 w1 down (down \"soon\" is not true or false; "
                 "it counts as set)");
    test_decodes(pool, "json", "/k", "{" AT ",\"slow_start\":\"-1s\"}",
                 "10.0.0.7:1 w1 (slow_start \"-1s\" is not a time like "
                 "\"10s\" or a number of seconds; its default is used)");
    test_decodes(pool, "json", "/k", "{" AT ",\"weight\":\"0x10\"}",
                 "10.0.0.7:1 w1 (weight \"0x10\" " NO_COUNT ")");
}


/* numbers, flags and nothing in each form that writers have */

static void
test_attribute_forms(ngx_pool_t *pool)
{
    u_char       value[128], wanted[128];
    ngx_uint_t   i;

    static char  *cases[][2] = {
        { "\"weight\":5.0", "w5" },
        { "\"weight\":1e1", "w10" },
        { "\"weight\":\"5\"", "w5" },
        { "\"weight\":\"1.0e1\"", "w10" },
        { "\"weight\":null", "w1" },
        { "\"weight\":\"\"", "w1" },
        { "\"weight\":-0.0", "w1 drain" },
        { "\"max_fails\":\"2\"", "w1 f2" },
        { "\"max_conns\":4e9", "w1 c2147483647" },
        { "\"fail_timeout\":\"5.0\"", "w1 t5" },
        { "\"slow_start\":0.5", "w1 s500" },
        { "\"priority\":100000", "w1 p65535" },
        { "\"down\":null", "w1" },
        { "\"down\":\"\"", "w1" },
        { "\"down\":\"True\"", "w1 down" },
        { "\"down\":\"off\"", "w1" },
        { "\"down\":\"0\"", "w1" },
        { "\"down\":0.0", "w1" },
        { "\"down\":2", "w1 down" },
        { "\"backup\":\"yes\"", "w1 backup" },
        { "\"drain\":1.0", "w1 drain" },
        { "\"big\":18446744073709551615,\"weight\":3", "w3" },
        { "\"big\":[1e999,-2e308,\"1e999\\\"\"],\"weight\":3", "w3" },
        { "\"weight\":1e999",
          "w65535 (weight 2147483647 is greater than 65535, which is used)" },
        { "\"weight\":-1e999", "w1 (weight -1e308 " NO_COUNT ")" },
        { "\"route\":\"a b\"",
          "w1 (route \"a b\" is not a route of up to 32 characters; its "
          "default is used)" },
        { "\"route\":7",
          "w1 (route 7 is not a route of up to 32 characters; its default is "
          "used)" },
        { NULL, NULL }
    };

    for (i = 0; cases[i][0] != NULL; i++) {
        *ngx_sprintf(value, "{" AT ",%s}", cases[i][0]) = '\0';
        *ngx_sprintf(wanted, "10.0.0.7:1 %s", cases[i][1]) = '\0';

        test_decodes(pool, "json", "/k", (char *) value, (char *) wanted);
    }
}


/* proportions within a value stay */

static void
test_attribute_weights(ngx_pool_t *pool)
{
    test_decodes(pool, "json", "/k", "{" AT ",\"weight\":65536}",
                 "10.0.0.7:1 w65535 (weight 65536 is greater than 65535, "
                 "which is used)");
    test_decodes(pool, "apisix", "/k", "{\"nodes\":{\"10.0.0.7:1\":100000,"
                 "\"10.0.0.8:1\":200000,\"10.0.0.9:1\":1,"
                 "\"10.0.0.10:1\":0}}",
                 "10.0.0.7:1 w32767 p32768, 10.0.0.8:1 w65535 p32768, "
                 "10.0.0.9:1 w1 p32768, 10.0.0.10:1 w1 p32768 drain");
}


/* a member without a weight weighs what the system that wrote it gives it */

static void
test_attribute_default_weights(ngx_pool_t *pool)
{
    test_decodes(pool, "kitex", "/k", "{" AT "}", "10.0.0.7:1 w10");
    test_decodes(pool, "kitex", "/k", "{" AT ",\"weight\":0}",
                 "10.0.0.7:1 w10");
    test_decodes(pool, "kitex", "/k", "{" AT ",\"weight\":-5}",
                 "10.0.0.7:1 w10");
    test_decodes(pool, "auto", "/k", "{" AT ",\"network\":\"tcp\"}",
                 "10.0.0.7:1 w10");
    test_decodes(pool, "auto", "/k", "{" AT "}", "10.0.0.7:1 w1");
    test_decodes(pool, "kitex weight=3", "/k", "{" AT "}", "10.0.0.7:1 w3");
    test_decodes(pool, "dubbo", "/providers/tri%3A%2F%2F10.0.0.7%3A1", "",
                 "10.0.0.7:1 w100");
    test_decodes(pool, "dubbo weight=2", "/providers/tri%3A%2F%2F10.0.0.7%3A1",
                 "", "10.0.0.7:1 w2");
    test_decodes(pool, "dubbo",
                 "/providers/tri%3A%2F%2F10.0.0.7%3A1%3Fweight%3D-1", "",
                 "10.0.0.7:1 w100 drain");
    test_decodes(pool, "dubbo-app", "/k",
                 "{\"Host\":\"10.0.0.7\",\"Port\":1,\"Weight\":-1}",
                 "10.0.0.7:1 w100");
    test_decodes(pool, "rpcx", "/a/tcp@10.0.0.7:1", "", "10.0.0.7:1 w1");
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

    /* 0 is unset; words */

    test_decodes(pool, "skydns", "/k",
                 "{\"host\":\"10.0.0.7\",\"port\":1,\"weight\":0}",
                 "10.0.0.7:1 w100 p10");
    test_decodes(pool, "kratos", "/k",
                 "{\"endpoints\":[\"grpc://10.0.0.7:1\"],"
                 "\"metadata\":{\"weight\":\"much\"}}",
                 "10.0.0.7:1 w100 (/metadata/weight \"much\" " NO_COUNT ")");
    test_decodes(pool, "dolphinscheduler", "/10.0.0.7:1",
                 "{\"serverStatus\":\"BUSY\"}", "10.0.0.7:1 w100 drain");
    test_decodes(pool, "dolphinscheduler", "/10.0.0.7:1",
                 "{\"serverStatus\":2}", "10.0.0.7:1 w100 drain");
    test_decodes(pool, "dolphinscheduler", "/10.0.0.7:1",
                 "{\"serverStatus\":null}", "10.0.0.7:1 w100");
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
        { "weight=65536", NGX_ERROR },
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
    { "attribute: forms", test_attribute_forms },
    { "attribute: great weights", test_attribute_weights },
    { "attribute: default weights", test_attribute_default_weights },
    { "attribute: fields of formats", test_attribute_fields },
    { "attribute: parameters", test_attribute_parameters },
    { NULL, NULL }
};
