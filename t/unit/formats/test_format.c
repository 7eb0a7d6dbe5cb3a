
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_format.h>
#include "test_formats.h"


static void
test_format_table(ngx_pool_t *pool)
{
    ngx_str_t                *names;
    const ngx_etcd_format_t  *format;

    format = ngx_etcd_format_find(tap_string(pool, "kratos"));

    tap_check(format != NULL);
    tap_text(ngx_etcd_format_name(format), "kratos");
    tap_check(ngx_etcd_format_find(tap_string(pool, "krato")) == NULL);
    tap_check(ngx_etcd_format_find(tap_string(pool, "")) == NULL);

    names = ngx_etcd_format_names(pool);

    if (test_alloc_failed()) {
        tap_check(names == NULL);
        return;
    }

    names->len = sizeof("auto, plain, key, json, ") - 1;
    tap_text(names, "auto, plain, key, json, ");
}


static void
test_format_groups(ngx_pool_t *pool)
{
    const ngx_etcd_format_t  *format;

    format = ngx_etcd_format_find(tap_string(pool, "json"));
    tap_check(!(format->takes & NGX_ETCD_TAKES_GROUPS));

    format = ngx_etcd_format_find(tap_string(pool, "traefik"));
    tap_check(format->takes & NGX_ETCD_TAKES_GROUPS);
    tap_check(ngx_etcd_format_part(format, tap_string(pool, "url")));
    tap_check(ngx_etcd_format_part(format, tap_string(pool, "weight")));
    tap_check(!ngx_etcd_format_part(format, tap_string(pool, "urls")));
    tap_check(!ngx_etcd_format_part(format, tap_string(pool, "")));
}


/* how "auto" tells formats apart */

static void
test_format_auto(ngx_pool_t *pool)
{
    test_decodes(pool, "auto", "/k", "10.0.0.7:1", "10.0.0.7:1 w1");
    test_decodes(pool, "auto", "/10.0.0.7:1", "", "10.0.0.7:1 w1");
    test_decodes(pool, "auto", "/10.0.0.7:1", "{\"weight\":2}",
                 "10.0.0.7:1 w2");
    test_decodes(pool, "auto", "/k", "{\"Addr\":\"10.0.0.7:1\"}",
                 "10.0.0.7:1 w1");
    test_decodes(pool, "auto", "/k",
                 "{\"network\":\"unix\",\"address\":\"/s\"}", "unix:/s w10");
    test_decodes(pool, "auto", "/k",
                 "{\"network\":\"a\",\"address\":\"10.0.0.7:1\"}",
                 "10.0.0.7:1 w1");
    test_decodes(pool, "auto", "/k", "{\"host\":\"::1\",\"port\":1}",
                 "[::1]:1 w1");
    test_decodes(pool, "auto", "/k", "{}", "invalid: value \"{}\" has no "
                 "address, host or Addr, and the last segment of the key is "
                 "no address");
}


static void
test_format_not_members(ngx_pool_t *pool)
{
    test_decodes(pool, "milvus", "/session/id", "7", "nothing");
    test_decodes(pool, "apisix", "/upstreams", "init_dir", "nothing");
    test_decodes(pool, "traefik", "/a", "{\"weight\":1}", "nothing");
    test_decodes(pool, "skydns", "/a", "{\"text\":\"v=spf1\"}", "nothing");
    test_decodes(pool, "skydns", "/a", "{\"host\":\"\",\"text\":\"a\"}",
                 "nothing");
    test_decodes(pool, "skydns", "/a", "{}", "invalid: host is missing");
}


static void
test_format_dubbo_app(ngx_pool_t *pool)
{
    test_decodes(pool, "dubbo-app scheme=tri", "/k",
                 "{\"Host\":\"10.0.0.7\",\"Port\":1,\"Metadata\":"
                 "{\"dubbo.endpoints\":\"[{\\\"protocol\\\":\\\"tri\\\","
                 "\\\"port\\\":2}]\"}}",
                 "10.0.0.7:2 w100");
    test_decodes(pool, "dubbo-app scheme=rest", "/k",
                 "{\"Host\":\"10.0.0.7\",\"Port\":1,\"Metadata\":"
                 "{\"dubbo.endpoints\":\"[{\\\"protocol\\\":\\\"tri\\\","
                 "\\\"port\\\":2}]\"}}",
                 "nothing");
    test_decodes(pool, "dubbo-app scheme=tri", "/k",
                 "{\"Host\":\"10.0.0.7\",\"Port\":1,\"Metadata\":"
                 "{\"dubbo.endpoints\":\"[7,\"}}",
                 "invalid: dubbo.endpoints \"[7,\" is not an array");
    test_decodes(pool, "dubbo-app scheme=tri", "/k",
                 "{\"Host\":\"10.0.0.7\",\"Port\":1,\"Metadata\":"
                 "{\"dubbo.endpoints\":\"[7]\"}}",
                 "nothing");
    test_decodes(pool, "dubbo-app", "/k",
                 "{\"Host\":\"10.0.0.7\",\"Port\":1,\"Metadata\":"
                 "{\"dubbo.metadata.revision\":\"0\"}}",
                 "nothing");
}


ngx_etcd_tap_test_t  test_format[] = {
    { "format: the table", test_format_table },
    { "format: groups", test_format_groups },
    { "format: auto", test_format_auto },
    { "format: keys that are not members", test_format_not_members },
    { "format: ports of dubbo-app", test_format_dubbo_app },
    { NULL, NULL }
};
