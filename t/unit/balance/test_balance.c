
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_etcd_tap.h"


extern ngx_etcd_tap_test_t  test_eevdf[];
extern ngx_etcd_tap_test_t  test_check[];
extern ngx_etcd_tap_test_t  test_eject_table[];
extern ngx_etcd_tap_test_t  test_ewma[];
extern ngx_etcd_tap_test_t  test_hash[];
extern ngx_etcd_tap_test_t  test_health[];
extern ngx_etcd_tap_test_t  test_least_conn[];
extern ngx_etcd_tap_test_t  test_near[];
extern ngx_etcd_tap_test_t  test_pick[];
extern ngx_etcd_tap_test_t  test_random[];
extern ngx_etcd_tap_test_t  test_ring[];
extern ngx_etcd_tap_test_t  test_round_robin[];
extern ngx_etcd_tap_test_t  test_sid[];
extern ngx_etcd_tap_test_t  test_table[];
extern ngx_etcd_tap_test_t  test_weighted_tree[];


ngx_etcd_tap_test_t  *ngx_etcd_tap_tables[] = {
    test_eevdf,
    test_check,
    test_eject_table,
    test_ewma,
    test_hash,
    test_health,
    test_least_conn,
    test_near,
    test_pick,
    test_random,
    test_ring,
    test_round_robin,
    test_sid,
    test_table,
    test_weighted_tree,
    NULL
};
