
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_etcd_tap.h"


extern ngx_etcd_tap_test_t  test_grpc[];
extern ngx_etcd_tap_test_t  test_grpc_response[];
extern ngx_etcd_tap_test_t  test_http2[];
extern ngx_etcd_tap_test_t  test_lookup[];
extern ngx_etcd_tap_test_t  test_message[];
extern ngx_etcd_tap_test_t  test_password[];
extern ngx_etcd_tap_test_t  test_resolver[];
extern ngx_etcd_tap_test_t  test_secret[];


ngx_etcd_tap_test_t  *ngx_etcd_tap_tables[] = {
    test_grpc,
    test_grpc_response,
    test_http2,
    test_lookup,
    test_message,
    test_password,
    test_resolver,
    test_secret,
    NULL
};
