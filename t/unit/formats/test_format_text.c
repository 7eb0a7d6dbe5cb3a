
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "test_formats.h"


#define DUBBO  "/dubbo/a/providers/"


static void
test_format_text_dubbo(ngx_pool_t *pool)
{
    test_decodes(pool, "dubbo", DUBBO "tri%3A%2F%2F10.0.0.7%3A1%2Fa"
                 "%3Fweight%3D3%26disabled%3Dtrue", "",
                 "10.0.0.7:1 w3 drain");
    test_decodes(pool, "dubbo", "/dubbo/a/consumers/x", "", "nothing");
    test_decodes(pool, "dubbo", DUBBO "tri", "",
                 "invalid: last segment of the key \"tri\" is not a URL");
    test_decodes(pool, "dubbo", DUBBO "%", "", "invalid: last segment of the "
                 "key \"%\" has an invalid percent-encoding");
    test_decodes(pool, "dubbo", DUBBO "tri%3A%2F%2F10.0.0.7%3A1%3F"
                 "weight%3D%25", "", "10.0.0.7:1 w100 (weight \"%\" is too "
                 "long or has an invalid percent-encoding)");
    test_decodes(pool, "dubbo scheme=rest", DUBBO "tri%3A%2F%2F10.0.0.7%3A1",
                 "", "nothing");
}


static void
test_format_text_rpcx(ngx_pool_t *pool)
{
    test_decodes(pool, "rpcx", "/a/tcp@10.0.0.7:1", "weight=2&state=inactive",
                 "10.0.0.7:1 w2 drain");
    test_decodes(pool, "rpcx", "/a", "a", "nothing");
    test_decodes(pool, "rpcx tag=g:a+b", "/a/tcp@10.0.0.7:1", "g=a%2Bb",
                 "10.0.0.7:1 w1");
    test_decodes(pool, "rpcx tag=g:b", "/a/tcp@10.0.0.7:1", "g=a", "nothing");
    test_decodes(pool, "rpcx", "/a/tcp@10.0.0.7:1", "weight=x",
                 "10.0.0.7:1 w1 (weight \"x\" is not an integer from 0 on; "
                 "its default is used)");
}


static void
test_format_text_upsync(ngx_pool_t *pool)
{
    test_decodes(pool, "upsync", "/a/10.0.0.7:1", "", "10.0.0.7:1 w1");
    test_decodes(pool, "upsync", "/a/10.0.0.7:1",
                 "{\"weight\":5,\"backup\":1}", "10.0.0.7:1 w5 backup");
    test_decodes(pool, "upsync", "/a/10.0.0.7:1", "1",
                 "invalid: value \"1\" is not a JSON object");
}


ngx_etcd_tap_test_t  test_format_text[] = {
    { "format text: dubbo", test_format_text_dubbo },
    { "format text: rpcx", test_format_text_rpcx },
    { "format text: upsync", test_format_text_upsync },
    { NULL, NULL }
};
