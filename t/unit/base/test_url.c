
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_url.h>
#include "ngx_etcd_tap.h"


static char *test_url_parse(ngx_pool_t *pool, char *text,
    ngx_etcd_endpoint_t *endpoint);


static char *
test_url_parse(ngx_pool_t *pool, char *text, ngx_etcd_endpoint_t *endpoint)
{
    ngx_memzero(endpoint, sizeof(ngx_etcd_endpoint_t));
    endpoint->url = *tap_string(pool, text);

    return ngx_etcd_endpoint_parse(pool, endpoint);
}


static void
test_url_valid(ngx_pool_t *pool)
{
    char                 *err;
    ngx_uint_t            i;
    ngx_etcd_endpoint_t   endpoint;

    static struct {
        char        *url;
        char        *authority;
        char        *host;
        ngx_uint_t   port;
        ngx_uint_t   secure;
        ngx_uint_t   local;
        ngx_uint_t   address;
    } cases[] = {
        { "http://10.0.0.1:2379", "10.0.0.1:2379", "10.0.0.1", 2379, 0, 0, 1 },
        { "10.0.0.1", "10.0.0.1:2379", "10.0.0.1", 2379, 0, 0, 1 },
        { "HTTPS://10.0.0.1:1/", "10.0.0.1:1", "10.0.0.1", 1, 1, 0, 1 },
        { "https://etcd.Example_1.com:65535", "etcd.Example_1.com:65535",
          "etcd.Example_1.com", 65535, 1, 0, 0 },
        { "etcd-1", "etcd-1:2379", "etcd-1", 2379, 0, 0, 0 },
        { "http://127.9.9.9:80", "127.9.9.9:80", "127.9.9.9", 80, 0, 1, 1 },
        { "0.0.0.0:80", "0.0.0.0:80", "0.0.0.0", 80, 0, 1, 1 },
        { "128.0.0.1:80", "128.0.0.1:80", "128.0.0.1", 80, 0, 0, 1 },
        { "localhost", "localhost:2379", "localhost", 2379, 0, 1, 0 },
        { "a.LocalHost.", "a.LocalHost.:2379", "a.LocalHost.", 2379, 0, 1, 0 },
        { "notlocalhost", "notlocalhost:2379", "notlocalhost", 2379, 0, 0, 0 },
        { "localhost.com", "localhost.com:2379", "localhost.com", 2379, 0, 0,
          0 },

#if (NGX_HAVE_INET6)
        { "http://[2001:db8::1]:2379", "[2001:db8::1]:2379", "2001:db8::1",
          2379, 0, 0, 1 },
        { "[::1]", "[::1]:2379", "::1", 2379, 0, 1, 1 },
        { "[::]:80", "[::]:80", "::", 80, 0, 1, 1 },
        { "[::ffff:127.0.0.1]:80", "[::ffff:127.0.0.1]:80", "::ffff:127.0.0.1",
          80, 0, 1, 1 },
        { "[::ffff:10.0.0.1]:80", "[::ffff:10.0.0.1]:80", "::ffff:10.0.0.1",
          80, 0, 0, 1 },
#endif

        { NULL, NULL, NULL, 0, 0, 0, 0 }
    };

    for (i = 0; cases[i].url != NULL; i++) {
        err = test_url_parse(pool, cases[i].url, &endpoint);

        if (err != NULL) {
            tap_check(test_alloc_failed() && ngx_strcmp(err, "no memory") == 0);
            return;
        }

        tap_text(&endpoint.authority, cases[i].authority);
        tap_text(&endpoint.host, cases[i].host);
        tap_check(endpoint.host.data[endpoint.host.len] == '\0');
        tap_check(endpoint.port == cases[i].port);
        tap_check(endpoint.secure == cases[i].secure);
        tap_check(endpoint.local == cases[i].local);
        tap_check((endpoint.addr.sockaddr != NULL) == cases[i].address);
    }
}


static void
test_url_invalid(ngx_pool_t *pool)
{
    ngx_uint_t           i;
    ngx_etcd_endpoint_t  endpoint;
    char                 longest[NGX_ETCD_URL_MAX + 2];

    static char *cases[] = {
        "", "http://", "https:///", "/", "http:///path", "http://host/path",
        "http://user@host", "http://@host", "host?x", "host?", "host#x", "//",
        "://host", "ho st", "host\r\nx: y",
        "ho\xc3\xa4st", "host:0", "host:65536", "host:-1", "host:x", "host:",
        "ftp://host", "unix:", "unix:run/etcd.sock",
        "http://unix:/run/etcd.sock",
        "http://http://host", "[::1", "[::1]x", "[]", "host:1:2", "ho*st",
        "a%00b", "10.0.0.1\x7f", "[::1]\x80:80",
        "10.0.0.1:80\x7f", NULL
    };

    for (i = 0; cases[i] != NULL; i++) {
        if (test_url_parse(pool, cases[i], &endpoint) == NULL) {
            ngx_etcd_tap_fail(cases[i], __FILE__, __LINE__);
            return;
        }
    }

    ngx_memset(longest, 'x', sizeof(longest));
    longest[NGX_ETCD_URL_MAX + 1] = '\0';

    tap_check(test_url_parse(pool, longest, &endpoint) != NULL);

    longest[NGX_ETCD_URL_MAX] = '\0';
    tap_expect(test_url_parse(pool, longest, &endpoint) == NULL);
}


static void
test_url_equal(ngx_pool_t *pool)
{
    ngx_uint_t           i;
    ngx_etcd_endpoint_t  one, other;

    static struct {
        char        *one;
        char        *other;
        ngx_uint_t   equal;
    } cases[] = {
        { "http://10.0.0.1:2379", "10.0.0.1", 1 },
        { "http://10.0.0.1:2379/", "HTTP://10.0.0.1", 1 },
        { "http://etcd.example.com", "http://ETCD.example.com:2379", 1 },
        { "https://10.0.0.1", "http://10.0.0.1", 0 },
        { "http://10.0.0.1:1", "http://10.0.0.1:2", 0 },
        { "http://10.0.0.1:1", "http://10.0.0.1:11", 0 },
        { "http://a:1", "http://b:1", 0 },
        { "unix:/a", "unix:/a", 1 },
        { "unix:/a", "unix:/b", 0 },
        { "unix:/a", "http://localhost:2379", 0 },
        { NULL, NULL, 0 }
    };

    for (i = 0; cases[i].one != NULL; i++) {
        tap_expect(test_url_parse(pool, cases[i].one, &one) == NULL);
        tap_expect(test_url_parse(pool, cases[i].other, &other) == NULL);
        tap_check(ngx_etcd_endpoint_equal(&one, &other) == cases[i].equal);
        tap_check(ngx_etcd_endpoint_equal(&other, &one) == cases[i].equal);
    }
}


ngx_etcd_tap_test_t  test_url[] = {
    { "URL: valid", test_url_valid },
    { "URL: invalid", test_url_invalid },
    { "URL: equal", test_url_equal },
    { NULL, NULL }
};
