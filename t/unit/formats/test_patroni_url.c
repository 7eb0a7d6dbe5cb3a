
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_format_url.h>
#include "test_formats.h"


/* Decodes a value; the address of its member, or what is wrong with it. */

static ngx_str_t *
test_patroni_url_member(ngx_pool_t *pool, const ngx_etcd_format_t *format,
    char *value)
{
    ngx_int_t                rc;
    ngx_array_t              members;
    ngx_etcd_reason_t        reason;
    ngx_etcd_member_t        member;
    ngx_etcd_member_conf_t   conf;

    ngx_memzero(&conf, sizeof(ngx_etcd_member_conf_t));

    conf.format = format;
    conf.defaults.weight = 1;

    members.elts = &member;
    members.nelts = 0;
    members.size = sizeof(ngx_etcd_member_t);
    members.nalloc = 1;
    members.pool = pool;

    rc = ngx_etcd_decode(&conf, tap_string(pool, "/service/a/members/pg1"),
                         tap_string(pool, value), pool, &members, &reason);

    return (rc == NGX_OK) ? tap_bytes(pool, (char *) member.name,
                                      member.name_len)
                          : tap_bytes(pool, (char *) reason.text.data,
                                      reason.text.len);
}


static void
test_patroni_url_members(ngx_pool_t *pool)
{
    ngx_str_t   *text;
    ngx_uint_t   i;

    static struct {
        ngx_uint_t   proxy;
        char        *value;
        char        *wanted;
    } cases[] = {
        { 0, "{\"conn_url\":\"postgres://10.0.0.1:5433/db?a=b\"}",
          "10.0.0.1:5433" },
        { 0, " {\"conn_url\":\"postgresql://me:it@10.0.0.1/\"} ",
          "10.0.0.1:5432" },
        { 0, "{\"conn_url\":\"postgres://[2001:db8::1]:1\"}",
          "[2001:db8::1]:1" },
        { 1, "{\"conn_url\":\"postgres://10.0.0.1\","
             "\"proxy_url\":\"postgres://10.0.0.2:6432\"}", "10.0.0.2:6432" },
        { 1, "{\"conn_url\":\"postgres://10.0.0.1\"}",
          "proxy_url is missing" },
        { 0, "{}", "conn_url is missing" },
        { 0, "{\"conn_url\":1}", "conn_url 1 is not a string" },
        { 0, "{\"conn_url\":\"http://10.0.0.1\"}",
          "conn_url \"http://10.0.0.1\" does not begin with "
          "postgres://HOST" },
        { 0, "{\"conn_url\":\"postgres:///db\"}",
          "conn_url \"postgres:///db\" does not begin with "
          "postgres://HOST" },
        { 0, "x", "value \"x\" is not a JSON object" },
    };

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        text = test_patroni_url_member(pool,
                                       cases[i].proxy
                                       ? &ngx_etcd_patroni_proxy_format
                                       : &ngx_etcd_patroni_format,
                                       cases[i].value);

        if (test_alloc_failed()) {
            tap_text(text, "no memory");
            return;
        }

        tap_text(text, cases[i].wanted);
    }
}


/* The URL of a member's API, which is not decoded. */

static void
test_patroni_url_read(ngx_pool_t *pool)
{
    ngx_int_t                rc;
    ngx_str_t                text, reason;
    ngx_etcd_decode_t        d;
    ngx_etcd_member_conf_t   conf;

    ngx_memzero(&conf, sizeof(ngx_etcd_member_conf_t));
    conf.format = &ngx_etcd_patroni_format;

    ngx_etcd_decode_init(&d, &conf, tap_string(pool, "/a"), pool, NULL,
                         &reason);
    d.value = *tap_string(pool, " {\"api_url\":\"http://10.0.0.1:8008/x\"}\n");

    rc = ngx_etcd_patroni_url_read(&d, &ngx_etcd_patroni_api_url, &text);

    if (test_alloc_failed()) {
        tap_check(rc == NGX_ERROR);
        tap_text(&reason, "no memory");
        return;
    }

    tap_check(rc == NGX_OK);
    tap_text(&text, "http://10.0.0.1:8008/x");

    d.value = *tap_string(pool, "{\"api_url\":null}");
    rc = ngx_etcd_patroni_url_read(&d, &ngx_etcd_patroni_api_url, &text);
    tap_check(rc == NGX_ERROR);

    if (!test_alloc_failed()) {
        tap_text(&reason, "api_url null is not a string");
    }
}


static void
test_patroni_url_scheme(ngx_pool_t *pool)
{
    ngx_str_t    host;
    ngx_int_t    rc;
    ngx_uint_t   i, scheme;

    static struct {
        char        *url;
        ngx_uint_t   https;
        char        *host;                  /* NULL: declined */
    } cases[] = {
        { "http://10.0.0.1:8008/patroni", 0, "10.0.0.1" },
        { "https://pg1.example.com", NGX_ETCD_PATRONI_HTTPS,
          "pg1.example.com" },
        { "http://[::1]:8008", 0, "::1" },
        { "http://[::1]", 0, "::1" },
        { "http://[::1", 0, "[::1" },
        { "http://[]", 0, "[]" },
        { "http://me@h:1:2", 0, "h" },
        { "HTTP://10.0.0.1", 0, NULL },
        { "postgres://10.0.0.1", 0, NULL },
        { "http://", 0, NULL },
        { "10.0.0.1:8008", 0, NULL },
        { "", 0, NULL },
    };

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        rc = ngx_etcd_patroni_url_scheme(&ngx_etcd_patroni_api_url,
                                         tap_string(pool, cases[i].url),
                                         &scheme, &host);

        tap_check(rc == (cases[i].host ? NGX_OK : NGX_DECLINED));

        if (rc == NGX_OK) {
            tap_check(scheme == cases[i].https);
            tap_text(&host, cases[i].host);
        }
    }
}


ngx_etcd_tap_test_t  test_patroni_url[] = {
    { "Patroni URL: members", test_patroni_url_members },
    { "Patroni URL: read", test_patroni_url_read },
    { "Patroni URL: scheme and host", test_patroni_url_scheme },
    { NULL, NULL }
};
