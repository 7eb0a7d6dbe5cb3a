
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_json_layout.h>
#include "test_formats.h"


static void
test_json_layout_nodes(ngx_pool_t *pool)
{
    test_decodes(pool, "apisix", "/k", "{\"nodes\":{\"10.0.0.7:1\":2}}",
                 "10.0.0.7:1 w2 p32768");
    test_decodes(pool, "apisix", "/k",
                 "{\"nodes\":[{\"host\":\"10.0.0.7\",\"port\":1,"
                 "\"weight\":0,\"priority\":-1}]}",
                 "10.0.0.7:1 w1 p32769 drain");
    test_decodes(pool, "apisix", "/k", "{\"nodes\":{\"10.0.0.7:1\":\"2\"}}",
                 "10.0.0.7:1 w2 p32768");
    test_decodes(pool, "apisix", "/k", "{\"nodes\":[1]}",
                 "invalid: nodes 1 is not an object");
    test_decodes(pool, "apisix", "/k", "{\"nodes\":1}",
                 "invalid: nodes 1 is not an array or an object");
    test_decodes(pool, "apisix", "/k", "{}", "invalid: nodes is missing");
}


/* a node without a port has that of the scheme */

static void
test_json_layout_ports(ngx_pool_t *pool)
{
    test_decodes(pool, "apisix", "/k",
                 "{\"scheme\":\"https\",\"nodes\":{\"10.0.0.7\":1,"
                 "\"[::1]\":2,\"10.0.0.7:1\":3}}",
                 "10.0.0.7:443 w1 p32768, [::1]:443 w2 p32768, "
                 "10.0.0.7:1 w3 p32768");
    test_decodes(pool, "apisix", "/k",
                 "{\"scheme\":\"grpcs\",\"nodes\":[{\"host\":\"10.0.0.7\","
                 "\"weight\":1},{\"host\":\"::1\",\"port\":null,"
                 "\"weight\":\"2\"}]}",
                 "10.0.0.7:443 w1 p32768, [::1]:443 w2 p32768");
    test_decodes(pool, "apisix", "/k", "{\"nodes\":{\"10.0.0.7\":1}}",
                 "10.0.0.7:80 w1 p32768");
    test_decodes(pool, "apisix", "/k",
                 "{\"scheme\":\"tcp\",\"nodes\":[{\"host\":\"10.0.0.7\"}]}",
                 "invalid: port is missing");
    test_decodes(pool, "apisix port=9", "/k",
                 "{\"scheme\":\"tcp\",\"nodes\":[{\"host\":\"10.0.0.7\"}]}",
                 "10.0.0.7:9 w1 p32768");
}


static void
test_json_layout_endpoints(ngx_pool_t *pool)
{
    test_decodes(pool, "kratos", "/k",
                 "{\"endpoints\":[\"grpc://10.0.0.7:1\",\"GRPC://[::1]:2\"]}",
                 "10.0.0.7:1 w100");
    test_decodes(pool, "kratos", "/k",
                 "{\"endpoints\":[\"grpc://10.0.0.7\",\"grpc://[::1]:2\"]}",
                 "[::1]:2 w100 (endpoints \"10.0.0.7\" has no port)");
    test_decodes(pool, "kratos", "/k",
                 "{\"endpoints\":[\"grpc://10.0.0.7:1\",\"http://[::1]\"]}",
                 "invalid: endpoints has URLs of several schemes; "
                 "\"scheme=\" chooses one");
    test_decodes(pool, "kratos scheme=http", "/k",
                 "{\"endpoints\":[\"grpc://10.0.0.7:1\",\"http://[::1]\"]}",
                 "[::1]:80 w100");
    test_decodes(pool, "kratos", "/k", "{\"endpoints\":{}}",
                 "invalid: endpoints {} is not an array");
    test_decodes(pool, "kratos", "/k", "{\"endpoints\":[true]}",
                 "invalid: endpoints true is not a string");
}


static void
test_json_layout_network(ngx_pool_t *pool)
{
    test_decodes(pool, "kitex", "/k",
                 "{\"network\":\"unix\",\"address\":\"/run/a\"}",
                 "unix:/run/a w10");
    test_decodes(pool, "kitex", "/k",
                 "{\"network\":\"unix\",\"address\":\"run\"}",
                 "invalid: address \"run\" has no absolute path");
    test_decodes(pool, "kitex", "/k",
                 "{\"network\":\"udp\",\"address\":\"/run/a\"}",
                 "invalid: network \"udp\" is not tcp or unix");
    test_decodes(pool, "kitex", "/k",
                 "{\"network\":\"tcp6\",\"address\":\"[::1]:1\"}",
                 "[::1]:1 w10");
}


static void
test_json_layout_tags(ngx_pool_t *pool)
{
    char  *format = "json address=/a tags=/t tag=zone:a tag=n:1";

    test_decodes(pool, format, "/k",
                 "{\"a\":\"10.0.0.7:1\",\"t\":{\"n\":1,\"zone\":\"a\"}}",
                 "10.0.0.7:1 w1");
    test_decodes(pool, format, "/k",
                 "{\"a\":\"10.0.0.7:1\",\"t\":{\"n\":1,\"zone\":null}}",
                 "nothing");
    test_decodes(pool, format, "/k", "{\"a\":\"10.0.0.7:1\",\"t\":[]}",
                 "nothing");

    /* of a node, and otherwise of the object */

    test_decodes(pool, "apisix tag=a:b", "/k",
                 "{\"metadata\":{\"a\":\"b\"},\"nodes\":["
                 "{\"host\":\"10.0.0.7\",\"port\":1},"
                 "{\"host\":\"10.0.0.8\",\"port\":1,"
                 "\"metadata\":{\"a\":\"c\"}}]}", "10.0.0.7:1 w1 p32768");
}


ngx_etcd_tap_test_t  test_json_layout[] = {
    { "JSON layout: nodes", test_json_layout_nodes },
    { "JSON layout: ports", test_json_layout_ports },
    { "JSON layout: endpoints", test_json_layout_endpoints },
    { "JSON layout: networks", test_json_layout_network },
    { "JSON layout: tags", test_json_layout_tags },
    { NULL, NULL }
};
