
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_etcd_tap.h"


extern ngx_etcd_tap_test_t  test_auth[];
extern ngx_etcd_tap_test_t  test_auto_sync[];
extern ngx_etcd_tap_test_t  test_backoff[];
extern ngx_etcd_tap_test_t  test_channel[];
extern ngx_etcd_tap_test_t  test_cluster[];
extern ngx_etcd_tap_test_t  test_endpoints[];
extern ngx_etcd_tap_test_t  test_history[];
extern ngx_etcd_tap_test_t  test_latency[];
extern ngx_etcd_tap_test_t  test_list[];
extern ngx_etcd_tap_test_t  test_range[];
extern ngx_etcd_tap_test_t  test_server_version[];
extern ngx_etcd_tap_test_t  test_status[];
extern ngx_etcd_tap_test_t  test_stream_range[];
extern ngx_etcd_tap_test_t  test_txn[];
extern ngx_etcd_tap_test_t  test_unary[];
extern ngx_etcd_tap_test_t  test_vote[];


ngx_etcd_tap_test_t  *ngx_etcd_tap_tables[] = {
    test_auth,
    test_auto_sync,
    test_backoff,
    test_channel,
    test_cluster,
    test_endpoints,
    test_history,
    test_latency,
    test_list,
    test_range,
    test_server_version,
    test_status,
    test_stream_range,
    test_txn,
    test_unary,
    test_vote,
    NULL
};
