
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_url.h>
#include "ngx_etcd_tap.h"


static void
test_uri_parse(ngx_pool_t *pool)
{
    char            *err;
    ngx_uint_t       i;
    ngx_etcd_url_t   uri;

    static char  *cases[][4] = {
        { "http://a:1/b?c=d#e", "http", "a:1", "c=d" },
        { "x://me:it@you@a?c?d", "x", "a", "c?d" },
        { "x://a#b?c", "x", "a", "" },
        { "x://[::1]:80", "x", "[::1]:80", "" },
        { "x:a://b", NULL, "is not a URL", NULL },
        { "://a", NULL, "is not a URL", NULL },
        { "x:/a", NULL, "is not a URL", NULL },
        { "a", NULL, "is not a URL", NULL },
        { "", NULL, "is not a URL", NULL },
        { "x://", NULL, "has no host", NULL },
        { "x:///a", NULL, "has no host", NULL },
        { "x://me@/a", NULL, "has no host", NULL },
        { NULL, NULL, NULL, NULL }
    };

    for (i = 0; cases[i][0] != NULL; i++) {
        err = ngx_etcd_url_parse(&uri, tap_string(pool, cases[i][0]));

        if (cases[i][1] == NULL) {
            tap_check(err != NULL);
            tap_text(tap_string(pool, err), cases[i][2]);
            continue;
        }

        tap_check(err == NULL);
        tap_text(&uri.scheme, cases[i][1]);
        tap_text(&uri.authority, cases[i][2]);
        tap_text(&uri.query, cases[i][3]);
    }
}


static void
test_uri_arguments(ngx_pool_t *pool)
{
    ngx_str_t  query, name, value;

    query = *tap_string(pool, "a=b=c&&d&=e");

    tap_check(ngx_etcd_url_argument(&query, &name, &value) == NGX_OK);
    tap_text(&name, "a");
    tap_text(&value, "b=c");

    tap_check(ngx_etcd_url_argument(&query, &name, &value) == NGX_OK);
    tap_text(&name, "");
    tap_text(&value, "");

    tap_check(ngx_etcd_url_argument(&query, &name, &value) == NGX_OK);
    tap_text(&name, "d");
    tap_text(&value, "");

    tap_check(ngx_etcd_url_argument(&query, &name, &value) == NGX_OK);
    tap_text(&name, "");
    tap_text(&value, "e");

    tap_check(ngx_etcd_url_argument(&query, &name, &value) == NGX_DONE);
}


static void
test_uri_decode(ngx_pool_t *pool)
{
    ngx_str_t  *text;

    text = tap_string(pool, "%41+%2f%C3");

    tap_check(ngx_etcd_url_decode(text, text, 0) == NGX_OK);
    tap_text(text, "A+/\xc3");

    text = tap_string(pool, "a+b");

    tap_check(ngx_etcd_url_decode(text, text, 1) == NGX_OK);
    tap_text(text, "a b");

    text = tap_string(pool, "a%4");
    tap_check(ngx_etcd_url_decode(text, text, 0) == NGX_ERROR);

    text = tap_string(pool, "%4g");
    tap_check(ngx_etcd_url_decode(text, text, 0) == NGX_ERROR);
}


static void
test_uri_segments(ngx_pool_t *pool)
{
    ngx_str_t   parent, segment;
    ngx_uint_t  i;

    static char  *cases[][3] = {
        { "/a/b/c", "b", "c" }, { "b/c", "b", "c" }, { "c", "", "c" },
        { "/c", "", "c" }, { "/a//", "", "" }, { "", "", "" },
        { NULL, NULL, NULL }
    };

    for (i = 0; cases[i][0] != NULL; i++) {
        ngx_etcd_url_segments(tap_string(pool, cases[i][0]), &parent,
                              &segment);
        tap_text(&parent, cases[i][1]);
        tap_text(&segment, cases[i][2]);
    }
}


static void
test_uri_ports(ngx_pool_t *pool)
{
    tap_check(ngx_etcd_url_port(tap_string(pool, "HTTPS")) == 443);
    tap_check(ngx_etcd_url_port(tap_string(pool, "h2c")) == 80);
    tap_check(ngx_etcd_url_port(tap_string(pool, "http2")) == 0);
    tap_check(ngx_etcd_url_port(tap_string(pool, "")) == 0);
}


ngx_etcd_tap_test_t  test_uri[] = {
    { "URI: parts", test_uri_parse },
    { "URI: arguments", test_uri_arguments },
    { "URI: escapes", test_uri_decode },
    { "URI: segments of a path", test_uri_segments },
    { "URI: default ports", test_uri_ports },
    { NULL, NULL }
};
