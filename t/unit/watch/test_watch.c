
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_etcd_tap.h"


extern ngx_etcd_tap_test_t  test_fresh[];
extern ngx_etcd_tap_test_t  test_watch_events[];
extern ngx_etcd_tap_test_t  test_watch_range[];
extern ngx_etcd_tap_test_t  test_watch_request[];
extern ngx_etcd_tap_test_t  test_watch_quorum[];
extern ngx_etcd_tap_test_t  test_watch_stream[];


ngx_etcd_tap_test_t  *ngx_etcd_tap_tables[] = {
    test_fresh,
    test_watch_events,
    test_watch_range,
    test_watch_request,
    test_watch_quorum,
    test_watch_stream,
    NULL
};
