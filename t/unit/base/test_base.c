
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_etcd_tap.h"


extern ngx_etcd_tap_test_t  test_siphash[];
extern ngx_etcd_tap_test_t  test_escape[];
extern ngx_etcd_tap_test_t  test_hash_table[];
extern ngx_etcd_tap_test_t  test_http_answer[];
extern ngx_etcd_tap_test_t  test_str[];
extern ngx_etcd_tap_test_t  test_treap[];
extern ngx_etcd_tap_test_t  test_uri[];
extern ngx_etcd_tap_test_t  test_url[];
extern ngx_etcd_tap_test_t  test_waiter[];


/* the key of SipHash is drawn once: its test is the first */

ngx_etcd_tap_test_t  *ngx_etcd_tap_tables[] = {
    test_siphash,
    test_escape,
    test_hash_table,
    test_http_answer,
    test_str,
    test_treap,
    test_uri,
    test_url,
    test_waiter,
    NULL
};
