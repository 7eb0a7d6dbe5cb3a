
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_etcd_tap.h"


extern ngx_etcd_tap_test_t  test_eevdf[];
extern ngx_etcd_tap_test_t  test_ring[];
extern ngx_etcd_tap_test_t  test_sid[];
extern ngx_etcd_tap_test_t  test_table[];
extern ngx_etcd_tap_test_t  test_weighted_tree[];


ngx_etcd_tap_test_t  *ngx_etcd_tap_tables[] = {
    test_eevdf,
    test_ring,
    test_sid,
    test_table,
    test_weighted_tree,
    NULL
};
