
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_address.h>
#include "test_formats.h"


#define NOT_IP  "is not an IP address"


static void
test_address_families(ngx_pool_t *pool)
{
    test_decodes(pool, "plain", "/k", "10.0.0.7:80", "10.0.0.7:80 w1");
    test_decodes(pool, "plain", "/k", " [::1]:80\n", "[::1]:80 w1");
    test_decodes(pool, "plain", "/k", "[0:0:0::1]:65535", "[::1]:65535 w1");
    test_decodes(pool, "plain", "/k", "unix:/run/a", "unix:/run/a w1");
}


static void
test_address_invalid(ngx_pool_t *pool)
{
    ngx_uint_t  i;

    static char  *cases[][2] = {
        { "", "invalid: address \"\" is empty" },
        { "10.0.0.7", "invalid: address \"10.0.0.7\" has no port" },
        { "[::1]", "invalid: address \"[::1]\" has no port" },
        { "[::1:80", "invalid: address \"[::1:80\" has no closing bracket" },
        { "::1:80", "invalid: address \"::1:80\" has several colons; "
          "an IPv6 address needs brackets" },
        { "[::1]80",
          "invalid: address \"[::1]80\" is not an address and a port" },
        { "http://10.0.0.7", "invalid: address \"http://10.0.0.7\" "
          "is a URL, not an address and a port" },
        { "10.0.0.7:0", "invalid: address \"10.0.0.7:0\" "
          "has a port that is not an integer from 1 to 65535" },
        { "10.0.0.7:65536", "invalid: address \"10.0.0.7:65536\" "
          "has a port that is not an integer from 1 to 65535" },
        { "10.0.0.256:1", "invalid: address \"10.0.0.256:1\" " NOT_IP },
        { "10..0.1:1", "invalid: address \"10..0.1:1\" " NOT_IP },
        { "[10.0.0.1]:1", "invalid: address \"[10.0.0.1]:1\" " NOT_IP },
        { "0.0.0.0:1",
          "invalid: address \"0.0.0.0:1\" is the unspecified address" },
        { "[::ffff:0.0.0.0]:1", "invalid: address \"[::ffff:0.0.0.0]:1\" "
          "is the unspecified address" },
        { "a.example:1", "invalid: address \"a.example:1\" is a host name, "
          "and there is no \"resolver\" in the \"etcd\" block" },
        { "10.0.0.7 :1", "invalid: address \"10.0.0.7 :1\" "
          "has a byte not allowed in an address" },
        { "unix:run", "invalid: address \"unix:run\" has no absolute path" },
        { NULL, NULL }
    };

    for (i = 0; cases[i][0] != NULL; i++) {
        test_decodes(pool, "plain", "/k", cases[i][0], cases[i][1]);
    }
}


static void
test_address_names(ngx_pool_t *pool)
{
    ngx_int_t                rc;
    ngx_str_t                reason;
    ngx_array_t              members;
    ngx_etcd_member_t        first, *member;
    ngx_etcd_decode_t        d;
    ngx_etcd_member_conf_t   conf;

    ngx_memzero(&conf, sizeof(ngx_etcd_member_conf_t));
    ngx_memzero(&members, sizeof(ngx_array_t));

    conf.format = &(const ngx_etcd_format_t) { .takes = 0 };
    conf.resolver = (ngx_resolver_t *) 1;

    members.elts = &first;
    members.size = sizeof(ngx_etcd_member_t);
    members.nalloc = 1;
    members.pool = pool;

    ngx_etcd_decode_init(&d, &conf, tap_string(pool, "/k"), pool, &members,
                         &reason);

    member = ngx_etcd_decode_add(&d);
    rc = NGX_ERROR;

    if (member != NULL) {
        rc = ngx_etcd_address_set(&d, member, "host",
                                  tap_string(pool, "A.Example.:81"), 0);
    }

    if (test_alloc_failed()) {
        tap_check(rc == NGX_ERROR);
        tap_text(&reason, "no memory");
        return;
    }

    tap_check(rc == NGX_OK);
    tap_text(&member->host, "a.example");
    tap_check(member->port == 81);
    tap_check(member->name_len == 0);
    tap_check(member->sockaddr.sockaddr.sa_family == AF_UNSPEC);

    rc = ngx_etcd_address_set(&d, member, "host", tap_string(pool, "b"), 80);

    tap_check(rc == (test_alloc_failed() ? NGX_ERROR : NGX_OK));

    if (rc != NGX_OK) {
        tap_text(&reason, "no memory");
        return;
    }

    tap_text(&member->host, "b");
    tap_check(member->port == 80);
}


static void
test_address_urls(ngx_pool_t *pool)
{
    char  *format = "json url=/u";

    test_decodes(pool, format, "/k", "{\"u\":\"http://10.0.0.7\"}",
                 "10.0.0.7:80 w1");
    test_decodes(pool, format, "/k", "{\"u\":\"https://me@[::1]/?a\"}",
                 "[::1]:443 w1");
    test_decodes(pool, format, "/k", "{\"u\":\"grpc://10.0.0.7:9\"}",
                 "10.0.0.7:9 w1");
    test_decodes(pool, format, "/k", "{\"u\":\"grpc://10.0.0.7\"}",
                 "invalid: u \"10.0.0.7\" has no port");
    test_decodes(pool, "json url=/u scheme=grpc", "/k",
                 "{\"u\":\"http://10.0.0.7\"}", "nothing");
}


static void
test_address_host_and_port(ngx_pool_t *pool)
{
    test_decodes(pool, "json", "/k", "{\"host\":\"[::1]\",\"port\":\"8\"}",
                 "[::1]:8 w1");
    test_decodes(pool, "json", "/k", "{\"host\":\"::1\",\"port\":8}",
                 "[::1]:8 w1");
    test_decodes(pool, "json", "/k", "{\"host\":\"10.0.0.7\"}",
                 "invalid: port is missing");
    test_decodes(pool, "json", "/k", "{\"host\":\"10.0.0.7\",\"port\":8.5}",
                 "invalid: port 8.5 is not an integer from 1 to 65535");
    test_decodes(pool, "json", "/k",
                 "{\"host\":\"10.0.0.7\",\"port\":\"8.0\"}",
                 "10.0.0.7:8 w1");
    test_decodes(pool, "json", "/k", "{\"address\":null,"
                 "\"host\":\"10.0.0.7\",\"port\":8e1}", "10.0.0.7:80 w1");
    test_decodes(pool, "json", "/k", "{\"host\":\"10.0.0.7\",\"port\":0}",
                 "invalid: port 0 is not an integer from 1 to 65535");
    test_decodes(pool, "json", "/k", "{\"host\":[1],\"port\":8}",
                 "invalid: host [...] is not a string");
}


/* the port of addresses without one */

static void
test_address_port(ngx_pool_t *pool)
{
    test_decodes(pool, "skydns port=8080", "/k", "{\"host\":\"10.0.0.7\"}",
                 "10.0.0.7:8080 w100 p10");
    test_decodes(pool, "skydns port=8080", "/k",
                 "{\"host\":\"::1\",\"port\":0}", "[::1]:8080 w100 p10");
    test_decodes(pool, "skydns port=8080", "/k",
                 "{\"host\":\"10.0.0.7\",\"port\":null}",
                 "10.0.0.7:8080 w100 p10");
    test_decodes(pool, "skydns port=8080", "/k",
                 "{\"host\":\"10.0.0.7\",\"port\":81}",
                 "10.0.0.7:81 w100 p10");
    test_decodes(pool, "plain port=8080", "/k", "[::1]", "[::1]:8080 w1");
    test_decodes(pool, "key port=8080", "/a/10.0.0.7", "", "10.0.0.7:8080 w1");
    test_decodes(pool, "json host=/h port=/p port=8080", "/k",
                 "{\"h\":\"10.0.0.7\"}", "10.0.0.7:8080 w1");
    test_decodes(pool, "json host=/h port=8080", "/k",
                 "{\"h\":\"10.0.0.7\",\"p\":1}", "10.0.0.7:8080 w1");
    test_decodes(pool, "skydns port=8080", "/k",
                 "{\"host\":\"10.0.0.7\",\"port\":65536}",
                 "invalid: port 65536 is not an integer from 1 to 65535");
}


static void
test_address_shown(ngx_pool_t *pool)
{
    ngx_uint_t          i;
    ngx_etcd_member_t   member;

    static char  *good[] = {
        "10.0.0.7:80", "[fd00::1]:80", "unix:/run/s"
    };
    static char  *bad[] = {
        "", "10.0.0.7", "10.0.0.7:080", "[fd00:0::1]:80", "[FD00::1]:80",
        "fd00::1:80", "host:80", "README"
    };

    for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        tap_check(ngx_etcd_address_shown(&member, tap_string(pool, good[i]))
                  == NGX_OK);
    }

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        tap_check(ngx_etcd_address_shown(&member, tap_string(pool, bad[i]))
                  == NGX_DECLINED);
    }
}


static void
test_address_in_key(ngx_pool_t *pool)
{
    tap_check(ngx_etcd_address_in_key(tap_string(pool, "/a/10.0.0.7:1")));
    tap_check(ngx_etcd_address_in_key(tap_string(pool, "%5B::1%5D%3A1")));
    tap_check(!ngx_etcd_address_in_key(tap_string(pool, "/a/10.0.0.7")));
    tap_check(!ngx_etcd_address_in_key(tap_string(pool, "/10.0.0.7:1%")));

    test_decodes(pool, "key", "/a/unix%3A%2Fs", "x", "unix:/s w1");
    test_decodes(pool, "key", "/a/b%zz", "x", "invalid: last segment of the "
                 "key \"b%zz\" has an invalid percent-encoding");
}


ngx_etcd_tap_test_t  test_address[] = {
    { "address: families", test_address_families },
    { "address: invalid ones", test_address_invalid },
    { "address: host names", test_address_names },
    { "address: URLs", test_address_urls },
    { "address: host and port", test_address_host_and_port },
    { "address: the port of those without one", test_address_port },
    { "address: as it is shown", test_address_shown },
    { "address: in the key", test_address_in_key },
    { NULL, NULL }
};
